// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LowLevelCall} from "@openzeppelin/contracts/utils/LowLevelCall.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {LeafLib} from "../libraries/LeafLib.sol";
import {Receipt} from "../libraries/Types.sol";
import {Reports} from "./Reports.sol";
import {IDemands} from "../interfaces/IDemands.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {ILedger} from "../interfaces/ILedger.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";
import {IStakeSource} from "../interfaces/IStakeSource.sol";

/// @title Demands: what an operator withholds is asked for; who does not answer in time pays
/// @dev A demand for a list, an envelope, or the anchoring of a receipt; each subject once:
///
///      NONE -demandList|demandEnvelope|demandAnchor-> OPEN -answerList|answerEnvelope|answerAnchor, in time-> ANSWERED
///                                                     OPEN -expire, after its time-> EXPIRED (-expire-> EXPIRED, for the rest)
///
///      | transition         | who pays         | what                                           | to whom                  |
///      |--------------------|------------------|------------------------------------------------|--------------------------|
///      | NONE -> OPEN       | who demands      | `demandBond`, of a list for each leaf          | pot of the subject       |
///      | NONE -> OPEN       | operator's stake | ANCHOR: `unanchoredPenalty`                    | obliged: it cannot leave |
///      | OPEN -> ANSWERED   | pot              | the bond                                       | operator                 |
///      | OPEN -> EXPIRED    | pot              | the bond                                       | who demanded             |
///      | OPEN -> EXPIRED    | operator's stake | LIST: `withheldPenalty` each, at least a slash | who demanded, and burned |
///      | OPEN -> EXPIRED    | operator's stake | ANCHOR: `unanchoredPenalty`                    | who demanded, and burned |
///      | EXPIRED -> EXPIRED | operator's stake | what the first could not take                  | who demanded, and burned |
///      | `equivocation`     | operator's stake | a slash                                        | who reported, and burned |
///      | `reportSkipped`    | operator's stake | `unanchoredPenalty`                            | who reported, and burned |
///
///      The end of a demand to anchor ends what is obliged. An envelope that is missing costs what a dispute finds. Who demanded or
///      reported has alpha of what no dispute had locked; stake that arrives late is shared by `collect`. Invariants (docs/reference/contracts.md, section 6):
///
///      I4 SHARES: No report shares what disputes lock, and what it takes is shared in full, once.
///      I10 BOUND: What is obliged of an operator's stake is the penalty of each open demand to anchor.
///      I14 ENDS: An open demand can be ended after its time by anybody, whatever there is to slash.
///      I28 HELD: An open demand for a list or an envelope holds its batch once.
///      I29 ONE PENALTY: A number that was not anchored costs one penalty, by demands and reports together.
contract Demands is Reports {
    /// @notice What this contract works with.
    struct Parts {
        IParams params;
        IGuardian guardian;
        IRegistry registry;
        IStakeSource vault;
        ILedger ledger;
        IReceiptAnchor anchor;
    }

    /// @dev Bond and deadline follow from the version.
    struct StoredDemand {
        address by;
        uint40 openedAt;
        uint40 closedAt; // when the window went on; 0 while open
        Kind kind;
        State state;
        address operator;
        uint64 number; // batch, or sequence number of a receipt that is not anchored
        uint32 paramsVersion;
    }

    /// @notice The protocol clock.
    IGuardian public immutable GUARDIAN;
    /// @notice Who is an operator.
    IRegistry public immutable REGISTRY;

    mapping(bytes32 subject => StoredDemand) private _demands;
    /// @dev The longest that a demand for an envelope has held the window of one receipt of a batch.
    mapping(uint64 batchId => uint64) private _longestHeld;

    /// @dev A pause stops what the clock alone would not.
    modifier running() {
        _checkRunning();
        _;
    }

    constructor(Parts memory p) Reports(p.params, p.vault, p.ledger, p.anchor) {
        (GUARDIAN, REGISTRY) = (p.guardian, p.registry);
    }

    // --- list ---

    /// @inheritdoc IDemands
    function demandList(uint64 batchId) external payable running {
        IReceiptAnchor.Question memory q = ANCHOR.questionBatch(batchId);
        _checkWindow(q.windowEnd);
        _open(Kind.LIST, listSubject(batchId), q.operator, batchId, q.paramsVersion, q.count);
    }

    /// @inheritdoc IDemands
    function answerList(uint64 batchId, bytes calldata list, Receipt[] calldata receipts, bytes[] calldata sigs)
        external
    {
        // Or a list of anything would do, and a root that nobody else can open would make its receipts final unseen.
        ANCHOR.checkList(batchId, list, receipts, sigs);
        // List and leaves, so that who answers through another contract shows them too.
        bytes memory answer = abi.encode(batchId, list, receipts, sigs);
        _answer(listSubject(batchId), Kind.LIST, answer, receipts.length);
        _unhold(batchId);
    }

    // --- envelope ---

    /// @inheritdoc IDemands
    function demandEnvelope(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        payable
        running
    {
        IReceiptAnchor.Question memory q = ANCHOR.question(r, sig, batchId, proof);
        _checkWindow(q.windowEnd);
        _open(Kind.ENVELOPE, q.receiptId, q.operator, batchId, q.paramsVersion, 1);
    }

    /// @inheritdoc IDemands
    function answerEnvelope(bytes32 receiptId, bytes calldata locator) external {
        StoredDemand storage d = _demands[receiptId];
        // Anybody else could answer with nothing and take the bond.
        if (d.state == State.OPEN && msg.sender != d.operator) revert NotOperator(msg.sender);
        _answer(receiptId, Kind.ENVELOPE, locator, 1);
        _endHold(d);
    }

    // --- anchor ---

    /// @inheritdoc IDemands
    function demandAnchor(Receipt calldata r, bytes calldata sig) external payable running {
        // What no batch could prove, no operator could answer.
        LeafLib.checkModes(r);
        bytes32 subject = anchorSubject(_signed(r, sig));
        if (REGISTRY.operatorUntil(r.operator) == 0) revert NotOperator(r.operator);
        if (block.timestamp <= r.anchorBy) revert TooEarly(block.timestamp, uint256(r.anchorBy) + 1);
        uint64 last = ANCHOR.lastSeq(r.operator);
        // No batch has number 0: who signs it owes what can never be shown.
        if (r.seq != 0 && r.seq <= last) revert NumberAnchored(r.seq, last);
        uint32 version = PARAMS.version();
        _open(Kind.ANCHOR, subject, r.operator, r.seq, version, 1);
        (,, uint256 penalty) = _moneyOf(version);
        VAULT.oblige(r.operator, penalty, subject);
    }

    /// @inheritdoc IDemands
    function answerAnchor(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof) external {
        _answer(anchorSubject(ANCHOR.checkMember(r, sig, batchId, proof)), Kind.ANCHOR, "", 1);
    }

    // --- end ---

    /// @inheritdoc IDemands
    function expire(bytes32 subject) external {
        StoredDemand storage d = _demands[subject];
        if (d.state == State.OPEN) return _expireFirst(subject, d);
        if (d.state != State.EXPIRED) revert NotDemanded(subject, d.state);
        uint256 slashed = _punishFor(subject, d);
        if (slashed == 0) revert NothingToSlash(d.operator, d.number);
        emit Expired(subject, d.kind, slashed);
    }

    // --- views ---

    /// @inheritdoc IDemands
    function demand(bytes32 subject) external view returns (Demand memory shown) {
        StoredDemand storage d = _demands[subject];
        if (d.state == State.NONE) return shown;
        shown.kind = d.kind;
        shown.state = d.state;
        shown.by = d.by;
        shown.operator = d.operator;
        if (d.kind == Kind.ANCHOR) shown.seq = d.number;
        else shown.batchId = d.number;
        shown.openedAt = d.openedAt;
        shown.deadline = d.state >= State.EXPIRED ? d.closedAt : SafeCast.toUint64(_deadline(d));
        shown.paramsVersion = d.paramsVersion;
        shown.bond = uint96(_bond(d.paramsVersion, _leavesOf(d)));
    }

    /// @inheritdoc IDemands
    function heldFor(uint64 batchId, bytes32 receiptId) external view returns (uint256 held, bytes32 pending) {
        bytes32 list = listSubject(batchId);
        held = _held(list) + _held(receiptId);
        if (_demands[list].state == State.OPEN) pending = list;
        else if (_demands[receiptId].state == State.OPEN) pending = receiptId;
    }

    /// @inheritdoc IDemands
    function longestHeld(uint64 batchId) external view returns (uint256) {
        return _held(listSubject(batchId)) + _longestHeld[batchId];
    }

    /// @inheritdoc IDemands
    function listSubject(uint64 batchId) public view returns (bytes32) {
        return keccak256(abi.encode("list", block.chainid, address(this), batchId));
    }

    /// @inheritdoc IDemands
    function anchorSubject(bytes32 receiptId) public view returns (bytes32) {
        return keccak256(abi.encode("anchor", block.chainid, address(this), receiptId));
    }

    // --- parts of the steps ---

    function _open(Kind kind, bytes32 subject, address operator, uint64 number, uint32 version, uint256 leaves)
        private
    {
        StoredDemand storage d = _demands[subject];
        if (d.state != State.NONE) revert AlreadyDemanded(subject);
        uint256 bond = _bond(version, leaves);
        if (msg.value != bond) revert BondMismatch(msg.value, bond);
        (d.by, d.openedAt) = (msg.sender, SafeCast.toUint40(_clock()));
        (d.kind, d.state) = (kind, State.OPEN);
        (d.operator, d.number, d.paramsVersion) = (operator, number, version);
        LEDGER.take{value: msg.value}(subject, msg.sender, ILedger.Source.DEMAND_BOND);
        emit Demanded(subject, kind, operator, msg.sender, SafeCast.toUint64(_deadline(d)), uint96(bond));
    }

    function _answer(bytes32 subject, Kind kind, bytes memory answer, uint256 leaves) private {
        StoredDemand storage d = _demands[subject];
        if (d.state != State.OPEN) revert NotDemanded(subject, d.state);
        // Or a locator would do for a list, which nobody checks.
        if (d.kind != kind) revert OtherKind(subject, d.kind);
        uint64 clock = _clock();
        uint256 deadline = _deadline(d);
        if (clock > deadline) revert TooLate(clock, deadline);
        (d.state, d.closedAt) = (State.ANSWERED, SafeCast.toUint40(clock));
        // Not to who brings the answer: the demander itself could copy it, run ahead, and ask for nothing.
        _settle(subject, d, d.operator, leaves, ILedger.Reason.DEMAND_ANSWERED);
        emit Answered(subject, kind, msg.sender, answer);
    }

    /// @dev Ends the demand, whatever there is to slash. The penalty is a call of its own, of which nothing stays when it took
    ///      nothing: EigenLayer's stake remembers a slash that was refused, to take it later, and would take the next call's too.
    function _expireFirst(bytes32 subject, StoredDemand storage d) private {
        _close(subject, d);
        try this.expire(subject) {
            return;
        } catch (bytes memory why) {
            // Nothing is left, or a report or another demand has taken the penalty of this number. Any other reason, no gas among them,
            // undoes all.
            bool ends = bytes4(why) == NothingToSlash.selector || bytes4(why) == AlreadyPunished.selector;
            if (!ends) LowLevelCall.bubbleRevert(why);
        }
        emit Expired(subject, d.kind, 0);
    }

    /// @dev Nobody answered: the bond goes back, the window goes on.
    function _close(bytes32 subject, StoredDemand storage d) private {
        uint64 clock = _clock();
        uint256 deadline = _deadline(d);
        if (clock <= deadline) revert TooEarly(clock, deadline + 1);
        (d.state, d.closedAt) = (State.EXPIRED, SafeCast.toUint40(deadline));
        _settle(subject, d, d.by, _leavesOf(d), ILedger.Reason.BOND_BACK);
        if (d.kind == Kind.ENVELOPE) _endHold(d);
        if (d.kind == Kind.LIST) ANCHOR.voidBatch(d.number);
    }

    /// @dev The collateral of the batch stays as long as the longest window of its receipts.
    function _endHold(StoredDemand storage d) private {
        _unhold(d.number);
        uint64 held;
        // No end lies before its beginning.
        unchecked {
            held = d.closedAt - d.openedAt;
        }
        if (held > _longestHeld[d.number]) _longestHeld[d.number] = held;
    }

    /// @dev The bond to `who`, and no stake waits for an answer any more: before the penalty, which takes it or not.
    function _settle(bytes32 subject, StoredDemand storage d, address who, uint256 leaves, ILedger.Reason reason)
        private
    {
        (uint256 bond,, uint256 unanchoredPenalty) = _moneyOf(d.paramsVersion);
        _credit(subject, who, bond * leaves, reason);
        if (d.kind == Kind.ANCHOR) VAULT.discharge(d.operator, unanchoredPenalty, subject);
    }

    /// @dev A void batch costs at least what one lie costs, so that no lie is hidden by withholding its list. An envelope that is missing
    ///      costs what a dispute finds.
    function _punishFor(bytes32 subject, StoredDemand storage d) private returns (uint256) {
        (address operator, uint64 number, uint32 version) = (d.operator, d.number, d.paramsVersion);
        if (d.kind == Kind.ENVELOPE) return 0;
        if (d.kind == Kind.ANCHOR) return _punishUnanchored(operator, number, version, d.by);
        (uint256 slashAmount,) = _reportTerms(version);
        (, uint256 withheldPenalty,) = _moneyOf(version);
        uint256 penalty = Math.max(slashAmount, withheldPenalty * _countOf(number));
        return _punish(operator, number, subject, penalty, version, d.by);
    }

    /// @dev Seconds for which a demand made a window stand still: at most up to its deadline.
    function _held(bytes32 subject) private view returns (uint256) {
        StoredDemand storage d = _demands[subject];
        if (d.state == State.NONE) return 0;
        uint256 end = d.state == State.OPEN ? Math.min(_clock(), _deadline(d)) : d.closedAt;
        // Neither clock nor end lie before the beginning.
        unchecked {
            return end - d.openedAt;
        }
    }

    function _deadline(StoredDemand storage d) private view returns (uint256) {
        (uint256 maxAnchorDelay, uint256 cure) = PARAMS.demandTimes(d.paramsVersion);
        return uint256(d.openedAt) + (d.kind == Kind.ANCHOR ? maxAnchorDelay : cure);
    }

    function _countOf(uint64 batchId) private view returns (uint256) {
        return ANCHOR.countOf(batchId);
    }

    function _unhold(uint64 batchId) private {
        ANCHOR.unhold(batchId);
    }

    function _clock() private view returns (uint64) {
        return GUARDIAN.clock();
    }

    function _checkRunning() private view {
        if (GUARDIAN.pausedUntil() != 0) revert IGuardian.NotNow(true);
    }

    function _checkWindow(uint64 end) private view {
        uint256 clock = _clock();
        if (clock > end) revert WindowClosed(clock, end);
    }

    /// @dev The answer to a demand for a list grows with its leaves, and so does what it costs to demand one in vain.
    function _bond(uint32 version, uint256 leaves) private view returns (uint256 bond) {
        (bond,,) = _moneyOf(version);
        return bond * leaves;
    }

    function _leavesOf(StoredDemand storage d) private view returns (uint256) {
        return d.kind == Kind.LIST ? _countOf(d.number) : 1;
    }
}
