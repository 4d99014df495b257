// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IDisputes} from "./interfaces/IDisputes.sol";
import {IKeyEpochs} from "./interfaces/IKeyEpochs.sol";
import {ILedger} from "./interfaces/ILedger.sol";
import {ILens} from "./interfaces/ILens.sol";
import {IParams} from "./interfaces/IParams.sol";
import {IReceiptAnchor} from "./interfaces/IReceiptAnchor.sol";
import {IRegistry} from "./interfaces/IRegistry.sol";
import {IStakeSource} from "./interfaces/IStakeSource.sol";
import {Phase, Verdict} from "./Types.sol";

/// @title Lens: joins for readers; no state, no power
contract Lens is ILens {
    /// @notice Contracts that the lens reads.
    struct Parts {
        IParams params;
        IRegistry registry;
        IStakeSource vault;
        ILedger ledger;
        IKeyEpochs epochs;
        IReceiptAnchor anchor;
        IDisputes disputes;
    }

    /// @notice The network's parameters.
    IParams public immutable PARAMS;
    /// @notice Operators, verifiers, policy.
    IRegistry public immutable REGISTRY;
    /// @notice Where stakes are.
    IStakeSource public immutable VAULT;
    /// @notice Where other money is.
    ILedger public immutable LEDGER;
    /// @notice Key epochs.
    IKeyEpochs public immutable EPOCHS;
    /// @notice Where receipts are anchored.
    IReceiptAnchor public immutable ANCHOR;
    /// @notice The dispute court.
    IDisputes public immutable DISPUTES;

    constructor(Parts memory parts) {
        PARAMS = parts.params;
        REGISTRY = parts.registry;
        VAULT = parts.vault;
        LEDGER = parts.ledger;
        EPOCHS = parts.epochs;
        ANCHOR = parts.anchor;
        DISPUTES = parts.disputes;
    }

    /// @inheritdoc ILens
    function snapshot(address who, uint256 fromDispute, uint256 maxDisputes) external view returns (Snapshot memory s) {
        s.number = uint64(block.number);
        s.timestamp = uint64(block.timestamp);
        s.params = PARAMS.get();
        s.requiredBond = PARAMS.requiredBond();
        s.disputeCount = DISPUTES.disputeCount();
        s.disputes = _disputes(fromDispute, maxDisputes, s.disputeCount);
        s.verifiers = verifiers();
        s.whoStake = VAULT.stakeOf(who);
        s.whoLocked = VAULT.lockedOf(who);
        s.whoCredit = LEDGER.creditOf(who);
        s.activeEpoch = EPOCHS.activeEpoch();
        s.policyDigest = REGISTRY.policyDigest();
        s.policySerial = REGISTRY.policySerial();
    }

    /// @inheritdoc ILens
    function disputeView(bytes32 id) public view returns (DisputeView memory v) {
        IDisputes.Dispute memory d = DISPUTES.dispute(id);
        IDisputes.Round memory r = DISPUTES.roundOf(id, d.round);
        v.id = id;
        v.receiptId = d.receiptId;
        v.batchId = d.batchId;
        v.operator = d.operator;
        v.challenger = d.challenger;
        v.claimedOutHash = d.claimedOutHash;
        v.keyEpoch = d.keyEpoch;
        v.phase = uint8(DISPUTES.phaseOf(id));
        v.round = d.round;
        v.seats = r.seats;
        v.seedBlock = r.seedBlock;
        v.roundSeed = r.roundSeed;
        v.openedAt = d.openedAt;
        v.commitEnd = r.commitEnd;
        v.revealEnd = r.revealEnd;
        v.bond = d.bond;
        v.verdict = uint8(d.verdict);
        v.replacement = d.replacement;
        v.members = _members(id, d.round);
    }

    /// @inheritdoc ILens
    function membersOf(bytes32 id, uint16 round) external view returns (IDisputes.Member[] memory) {
        return DISPUTES.membersOf(id, round);
    }

    /// @inheritdoc ILens
    function receiptStatus(bytes32 receiptId)
        external
        view
        returns (bytes32 id, Phase phase, Verdict verdict, bytes32 replacement)
    {
        return DISPUTES.receiptStatus(receiptId);
    }

    /// @inheritdoc ILens
    function batch(uint64 batchId) external view returns (IReceiptAnchor.Batch memory) {
        return ANCHOR.batch(batchId);
    }

    /// @inheritdoc ILens
    function verifiers() public view returns (VerifierView[] memory list) {
        address[] memory who = REGISTRY.verifiers();
        list = new VerifierView[](who.length);
        for (uint256 i = 0; i < who.length; ++i) {
            list[i] = VerifierView(who[i], VAULT.stakeOf(who[i]), VAULT.lockedOf(who[i]), REGISTRY.joinedAt(who[i]));
        }
    }

    /// @inheritdoc ILens
    function money() external view returns (Money memory m) {
        m.vaultBalance = address(VAULT).balance;
        m.ledgerBalance = address(LEDGER).balance;
        m.totalStake = VAULT.totalStake();
        m.totalUnbonding = VAULT.totalUnbonding();
        m.totalBonds = LEDGER.totalBonds();
        m.totalCredits = LEDGER.totalCredits();
        m.totalBurned = LEDGER.totalBurned();
    }

    function _disputes(uint256 from, uint256 max, uint256 count) private view returns (DisputeView[] memory list) {
        uint256 left = from < count ? count - from : 0;
        list = new DisputeView[](left < max ? left : max);
        for (uint256 i = 0; i < list.length; ++i) {
            list[i] = disputeView(DISPUTES.disputeAt(from + i));
        }
    }

    function _members(bytes32 id, uint16 round) private view returns (MemberView[] memory list) {
        IDisputes.Member[] memory members = DISPUTES.membersOf(id, round);
        list = new MemberView[](members.length);
        for (uint256 i = 0; i < members.length; ++i) {
            IDisputes.Member memory m = members[i];
            list[i] = MemberView(m.voter, m.seatMask, m.commitment, m.revealed, uint8(m.outcome), m.code, m.outHash);
        }
    }
}
