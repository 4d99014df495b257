// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {LeafLib} from "../libraries/LeafLib.sol";
import {EmptyLeaf, Receipt, StructHashes} from "../libraries/Types.sol";
import {IDemands} from "../interfaces/IDemands.sol";
import {ILedger} from "../interfaces/ILedger.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";
import {IStakeSource} from "../interfaces/IStakeSource.sol";

/// @title Reports: faults that need no committee cost stake, a share of it for who showed them, of what no dispute has locked
/// @dev A report takes less than its penalty where less stake is left; it can be repeated for the rest when more has come.
///      A stake source may bring slashed stake later: then it is shared by `collect`.
abstract contract Reports is IDemands {
    uint256 private constant BPS = 10_000;
    bytes32 private constant DOMAIN =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");

    /// @dev `waiting` wei of the `taken` are not shared yet; no dispute had locked `shareable` of these, and `shareBps` of
    ///      them are for `to`.
    struct Report {
        uint96 taken;
        uint96 waiting;
        uint16 shareBps;
        uint32 version; // with whose penalty and share it began
        address to;
        uint96 shareable;
    }

    /// @notice The network's parameters.
    IParams public immutable PARAMS;
    /// @notice Where stakes are.
    IStakeSource public immutable VAULT;
    /// @notice Where bonds and slashed stake go.
    ILedger public immutable LEDGER;
    /// @notice Where batches are, and for which operators sign.
    IReceiptAnchor public immutable ANCHOR;

    mapping(bytes32 ref => Report) private _reports;

    constructor(IParams params, IStakeSource vault, ILedger ledger, IReceiptAnchor anchor) {
        (PARAMS, VAULT, LEDGER, ANCHOR) = (params, vault, ledger, anchor);
    }

    /// @inheritdoc IDemands
    function equivocation(Receipt calldata r1, bytes calldata sig1, Receipt calldata r2, bytes calldata sig2) external {
        (address operator, uint64 seq) = (r1.operator, r1.seq);
        (bytes32 first, bytes32 second) = (_signed(r1, sig1), _signed(r2, sig2));
        if (operator != r2.operator || seq != r2.seq || first == second) revert NoEquivocation();
        bytes32 ref = equivocationRef(operator, seq);
        // One slash in all, whatever is voted between two reports of the same.
        uint32 version = _reports[ref].version;
        if (version == 0) version = PARAMS.version();
        (uint256 penalty,) = _reportTerms(version);
        uint256 taken = _punish(operator, seq, ref, penalty, version, msg.sender);
        if (taken == 0) revert NothingToSlash(operator, seq);
        emit Equivocation(operator, seq, first, second, msg.sender, taken);
    }

    /// @inheritdoc IDemands
    function reportSkipped(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof) external {
        // Whatever mode the receipt has: its operator signed it, and says in the batch that there is none.
        bytes32 id = _signed(r, sig);
        bytes32 none = StructHashes.emptyLeaf(EmptyLeaf(r.operator, r.seq, block.chainid));
        bytes32 empty = MessageHashUtils.toTypedDataHash(_domain(), none);
        uint32 version = ANCHOR.checkLeaf(empty, r.operator, r.seq, batchId, proof);
        uint256 taken = _punishUnanchored(r.operator, r.seq, version, msg.sender);
        if (taken == 0) revert NothingToSlash(r.operator, r.seq);
        emit Skipped(r.operator, r.seq, batchId, id, msg.sender, taken);
    }

    /// @inheritdoc IDemands
    function collect(bytes32 ref) external {
        Report storage r = _reports[ref];
        uint256 want = r.waiting;
        if (want == 0) revert NothingToCollect(ref);
        uint256 have = LEDGER.potOf(ref);
        if (have < want) revert NotArrived(ref, have, want);
        _share(ref, r);
    }

    /// @inheritdoc IDemands
    function equivocationRef(address operator, uint64 seq) public view returns (bytes32) {
        return keccak256(abi.encode("equivocation", block.chainid, address(this), operator, seq));
    }

    /// @inheritdoc IDemands
    function unanchoredRef(address operator, uint64 seq) public view returns (bytes32) {
        return keccak256(abi.encode("unanchored", block.chainid, address(this), operator, seq));
    }

    /// @dev One penalty for a number, by a demand or by a report, of the parameters under which it began.
    function _punishUnanchored(address operator, uint64 seq, uint32 version, address to) internal returns (uint256) {
        bytes32 ref = unanchoredRef(operator, seq);
        uint32 begun = _reports[ref].version;
        if (begun != 0) version = begun;
        (,, uint256 penalty) = _moneyOf(version);
        return _punish(operator, seq, ref, penalty, version, to);
    }

    /// @dev Take what is left of `penalty`; `taken` is what this call took. Who reported first keeps the share with which
    ///      the report began. What is left for disputes is shared with nobody: or an operator that they convict would
    ///      report itself by a friend before they end, and have a share of what is theirs.
    function _punish(address operator, uint64 seq, bytes32 ref, uint256 penalty, uint32 version, address to)
        internal
        returns (uint256 taken)
    {
        Report storage r = _reports[ref];
        uint256 before = r.taken;
        if (before >= penalty) revert AlreadyPunished(operator, seq);
        uint256 unlocked = VAULT.unlockedOf(operator);
        taken = VAULT.slash(operator, 0, penalty - before, ref);
        if (taken == 0) return 0;
        if (before == 0) {
            (r.to, r.version) = (to, version);
            (, r.shareBps) = _reportTerms(version);
        }
        r.taken = SafeCast.toUint96(before + taken);
        r.waiting += SafeCast.toUint96(taken);
        r.shareable += SafeCast.toUint96(Math.min(taken, unlocked));
        if (LEDGER.potOf(ref) >= r.waiting) _share(ref, r);
    }

    function _credit(bytes32 ref, address to, uint256 amount, ILedger.Reason reason) internal {
        LEDGER.credit(ref, to, amount, reason);
    }

    function _moneyOf(uint32 version)
        internal
        view
        returns (uint256 bond, uint256 withheldPenalty, uint256 unanchoredPenalty)
    {
        return PARAMS.demandMoney(version);
    }

    function _reportTerms(uint32 version) internal view returns (uint256 slashAmount, uint16 shareBps) {
        return PARAMS.reportTerms(version);
    }

    /// @dev The id of a receipt that its operator signed.
    function _signed(Receipt calldata r, bytes calldata sig) internal view returns (bytes32) {
        return LeafLib.signed(_domain(), StructHashes.receipt(r), sig, r.operator, r.chainId);
    }

    /// @dev The anchor's.
    function _domain() internal view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN, keccak256("Bytewise"), keccak256("1"), block.chainid, address(ANCHOR)));
    }

    function _share(bytes32 ref, Report storage r) private {
        uint256 amount = r.waiting;
        uint256 share = uint256(r.shareable) * r.shareBps / BPS;
        (r.waiting, r.shareable) = (0, 0);
        _credit(ref, r.to, share, ILedger.Reason.REPORT);
        LEDGER.burn(ref, amount - share, ILedger.BurnReason.REPORT);
        emit Collected(ref, r.to, share, amount - share);
    }
}
