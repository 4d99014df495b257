// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";
import {ILedger} from "./interfaces/ILedger.sol";
import {IParams} from "./interfaces/IParams.sol";
import {IRandomness} from "./interfaces/IRandomness.sol";
import {IReceiptAnchor} from "./interfaces/IReceiptAnchor.sol";
import {IRegistry} from "./interfaces/IRegistry.sol";
import {IStakeSource} from "./interfaces/IStakeSource.sol";
import {AuditResult, Hashes, ParamSet, Phase, Verdict, Vote} from "./Types.sol";

/// @title DisputeStore: the storage of `Disputes` and everything that only reads it
abstract contract DisputeStore is IDisputes, EIP712 {
    /// @notice Contracts that the court works with.
    struct Parts {
        IParams params;
        IRegistry registry;
        IStakeSource vault;
        ILedger ledger;
        IReceiptAnchor anchor;
        IRandomness randomness;
    }

    /// @notice The network's parameters.
    IParams public immutable PARAMS;
    /// @notice The verifier pool.
    IRegistry public immutable REGISTRY;
    /// @notice Where stakes are.
    IStakeSource public immutable VAULT;
    /// @notice Where bonds and rewards are.
    ILedger public immutable LEDGER;
    /// @notice Where receipts are anchored.
    IReceiptAnchor public immutable ANCHOR;
    /// @notice Where seeds come from.
    IRandomness public immutable RANDOMNESS;

    bytes32[] internal _ids;
    mapping(bytes32 id => Dispute) internal _disputes;
    mapping(bytes32 id => mapping(uint16 round => Round)) internal _rounds;
    mapping(bytes32 id => mapping(uint16 round => Member[])) internal _members;
    /// @dev Position in `_members` plus one; 0 means no seat.
    mapping(bytes32 id => mapping(uint16 round => mapping(address voter => uint256))) internal _positions;
    mapping(bytes32 receipt => mapping(address verifier => bool)) internal _audited;

    constructor(Parts memory parts) EIP712("Bytewise", "1") {
        PARAMS = parts.params;
        REGISTRY = parts.registry;
        VAULT = parts.vault;
        LEDGER = parts.ledger;
        ANCHOR = parts.anchor;
        RANDOMNESS = parts.randomness;
    }

    /// @inheritdoc IDisputes
    function disputeId(bytes32 receipt) public view returns (bytes32) {
        return keccak256(abi.encode(block.chainid, address(this), receipt));
    }

    /// @inheritdoc IDisputes
    function hashVote(Vote calldata vote) public view returns (bytes32) {
        return _hashTypedDataV4(Hashes.vote(vote));
    }

    /// @inheritdoc IDisputes
    function hashAudit(AuditResult calldata a) public view returns (bytes32) {
        return _hashTypedDataV4(Hashes.audit(a));
    }

    /// @inheritdoc IDisputes
    function requiredBond() public view returns (uint256) {
        return PARAMS.requiredBond();
    }

    /// @inheritdoc IDisputes
    function disputeCount() external view returns (uint256) {
        return _ids.length;
    }

    /// @inheritdoc IDisputes
    function disputeAt(uint256 index) external view returns (bytes32) {
        return _ids[index];
    }

    /// @inheritdoc IDisputes
    function dispute(bytes32 id) external view returns (Dispute memory) {
        return _disputes[id];
    }

    /// @inheritdoc IDisputes
    function phaseOf(bytes32 id) public view returns (Phase) {
        Dispute storage d = _disputes[id];
        if (d.phase == Phase.COMMIT && _commitsClosed(_rounds[id][d.round])) return Phase.REVEAL;
        return d.phase;
    }

    /// @inheritdoc IDisputes
    function roundOf(bytes32 id, uint16 round) external view returns (Round memory) {
        return _rounds[id][round];
    }

    /// @inheritdoc IDisputes
    function membersOf(bytes32 id, uint16 round) external view returns (Member[] memory) {
        return _members[id][round];
    }

    /// @inheritdoc IDisputes
    function isSettleable(bytes32 id) external view returns (bool) {
        return phaseOf(id) == Phase.REVEAL && _revealsClosed(_rounds[id][_disputes[id].round]);
    }

    /// @inheritdoc IDisputes
    function receiptStatus(bytes32 receipt)
        external
        view
        returns (bytes32 id, Phase phase, Verdict verdict, bytes32 replacement)
    {
        id = disputeId(receipt);
        Dispute storage d = _disputes[id];
        return (id, phaseOf(id), d.verdict, d.replacement);
    }

    /// @dev One copy of the call and its decoder: this contract is near the size limit of EIP-170.
    function _params() internal view returns (ParamSet memory) {
        return PARAMS.get();
    }

    function _commitsClosed(Round storage r) internal view returns (bool) {
        return r.committedSeats == r.seats || block.timestamp > r.commitEnd;
    }

    function _revealsClosed(Round storage r) internal view returns (bool) {
        return r.revealedSeats == r.committedSeats || block.timestamp > r.revealEnd;
    }
}
