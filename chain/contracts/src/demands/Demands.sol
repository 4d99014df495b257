// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {LowLevelCall} from "@openzeppelin/contracts/utils/LowLevelCall.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Receipt} from "../libraries/Types.sol";
import {Windows} from "../anchor/Windows.sol";
import {IKeyEpochs} from "../interfaces/IKeyEpochs.sol";
import {ILedger} from "../interfaces/ILedger.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";

/// @title Demands: what an operator withholds is asked for; who does not answer in time pays, unless nobody could
/// @dev What is asked of other contracts at several places has a function of its own: each call takes about a hundred bytes of
///      code, of which EIP-170 leaves the anchor few.
abstract contract Demands is Windows {
    /// @notice Key epochs.
    IKeyEpochs public immutable EPOCHS;

    constructor(IKeyEpochs epochs) {
        EPOCHS = epochs;
    }

    // --- list ---

    /// @inheritdoc IReceiptAnchor
    function demandList(uint64 batchId) external payable running {
        Stored storage b = _known(batchId);
        _checkWindow(windowEnd(0, batchId));
        _open(Kind.LIST, listSubject(batchId), b.operator, batchId, b.paramsVersion);
        ++b.holds;
    }

    /// @inheritdoc IReceiptAnchor
    function answerList(uint64 batchId, bytes calldata list, Receipt[] calldata receipts, bytes[] calldata sigs)
        external
    {
        Stored storage b = _known(batchId);
        // Or a list of anything would do, and a root that nobody else can open would make its receipts final unseen.
        _asked(LEAVES);
        // List and leaves as they came, so that who answers through another contract shows them too.
        _answer(listSubject(batchId), Kind.LIST, msg.data[4:]);
        --b.holds;
    }

    // --- envelope ---

    /// @inheritdoc IReceiptAnchor
    function demandEnvelope(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        payable
        running
    {
        bytes32 id = checkMember(r, sig, batchId, proof);
        Stored storage b = _known(batchId);
        _checkWindow(windowEnd(id, batchId));
        _open(Kind.ENVELOPE, id, b.operator, batchId, b.paramsVersion);
        ++b.holds;
    }

    /// @inheritdoc IReceiptAnchor
    function answerEnvelope(bytes32 receiptId_, bytes calldata locator) external {
        StoredDemand storage d = _demands[receiptId_];
        // Anybody else could answer with nothing and take the bond.
        if (d.state == State.OPEN && msg.sender != d.operator) revert NotOperator(msg.sender);
        _answer(receiptId_, Kind.ENVELOPE, locator);
        _endHold(d);
    }

    // --- anchor ---

    /// @inheritdoc IReceiptAnchor
    function demandAnchor(Receipt calldata r, bytes calldata sig) external payable running {
        // What no batch could prove, no operator could answer.
        _checkModes(r);
        bytes32 id = _signedReceipt(r, sig);
        _checkOperator(r.operator);
        if (block.timestamp <= r.anchorBy) revert TooEarly(block.timestamp, uint256(r.anchorBy) + 1);
        uint64 last = lastSeq[r.operator];
        if (r.seq <= last) revert NumberAnchored(r.seq, last);
        // What the network itself closed meanwhile is no fault of the operator.
        bytes32 pool = _checkServable(r.environment, r.modelId, r.keyEpoch);
        bytes32 subject = anchorSubject(id);
        StoredDemand storage d = _demands[subject];
        // Before the deadline is computed of it.
        d.stoppedAtStart = SafeCast.toUint32(_stoppedSeconds(pool));
        d.service = _serviceOf(r.environment, r.modelId, r.keyEpoch, pool);
        uint32 version = PARAMS.version();
        d.lostAtIssue = SafeCast.toUint40(_lostUntil(r.environment, r.modelId, _issued(r, version)));
        _open(Kind.ANCHOR, subject, r.operator, r.seq, version);
        VAULT.oblige(r.operator, _penaltyOf(d), subject);
    }

    /// @inheritdoc IReceiptAnchor
    function answerAnchor(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof) external {
        bytes32 id = checkMember(r, sig, batchId, proof);
        _answer(anchorSubject(id), Kind.ANCHOR, "");
    }

    // --- end ---

    /// @inheritdoc IReceiptAnchor
    function expire(bytes32 subject) external {
        StoredDemand storage d = _demands[subject];
        if (d.state == State.OPEN) return _expireFirst(subject, d);
        if (d.state != State.EXPIRED) revert NotDemanded(subject, d.state);
        uint256 penalty = _penaltyOf(d);
        uint256 slashed = 0;
        if (penalty != 0) slashed = _punish(d.operator, d.number, subject, penalty, d.paramsVersion, d.by);
        if (slashed == 0) revert NothingToSlash(d.operator, d.number);
        emit Expired(subject, d.kind, slashed);
    }

    /// @inheritdoc IReceiptAnchor
    function anchorSubject(bytes32 receiptId_) public view returns (bytes32) {
        return keccak256(abi.encode("anchor", block.chainid, address(this), receiptId_));
    }

    /// @inheritdoc IReceiptAnchor
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
        (uint256 bond,,) = _moneyOf(d.paramsVersion);
        shown.bond = uint96(bond);
    }

    function _checkOperator(address who) internal view {
        if (!REGISTRY.isOperator(who)) revert NotOperator(who);
    }

    /// @dev Environment, model and epoch take batches, and the environment's pool can judge them.
    function _checkServable(bytes32 environment, bytes32 modelId, uint64 epoch) internal view returns (bytes32 pool) {
        bool environmentOpen;
        bool modelOpen;
        (pool, environmentOpen, modelOpen) = _offered(environment, modelId);
        if (!environmentOpen) revert EnvironmentNotActive(environment);
        if (!modelOpen) revert ModelNotActive(modelId);
        if (!EPOCHS.isOpenForInclusion(epoch)) revert EpochNotOpen(epoch);
        if (!REGISTRY.isSeatable(pool)) revert PoolTooSmall(pool);
    }

    /// @dev Pool of the environment; whether the environment takes batches; whether the model does.
    function _offered(bytes32 environment, bytes32 modelId) private view returns (bytes32, bool, bool) {
        return REGISTRY.service(environment, modelId);
    }

    function _open(Kind kind, bytes32 subject, address operator, uint64 number, uint32 version) private {
        StoredDemand storage d = _demands[subject];
        if (d.state != State.NONE) revert AlreadyDemanded(subject);
        (uint256 bond,,) = _moneyOf(version);
        if (msg.value != bond) revert BondMismatch(msg.value, bond);
        (d.by, d.openedAt) = (msg.sender, SafeCast.toUint40(_clock()));
        (d.kind, d.state) = (kind, State.OPEN);
        (d.operator, d.number, d.paramsVersion) = (operator, number, version);
        LEDGER.take{value: msg.value}(subject, msg.sender, ILedger.Source.DEMAND_BOND);
        emit Demanded(subject, kind, operator, msg.sender, SafeCast.toUint64(_deadline(d)), uint96(bond));
    }

    function _answer(bytes32 subject, Kind kind, bytes memory answer) private {
        StoredDemand storage d = _demands[subject];
        if (d.state != State.OPEN) revert NotDemanded(subject, d.state);
        // Or a locator would do for a list, which nobody checks.
        if (d.kind != kind) revert OtherKind(subject, d.kind);
        uint64 clock = _clock();
        uint256 deadline = _deadline(d);
        if (clock > deadline) revert TooLate(clock, deadline);
        (d.state, d.closedAt) = (State.ANSWERED, SafeCast.toUint40(clock));
        // Not to who brings the answer: the demander itself could copy it, run ahead, and ask for nothing.
        _settle(subject, d, d.operator, ILedger.Reason.DEMAND_ANSWERED);
        emit Answered(subject, kind, msg.sender, answer);
    }

    /// @dev Nobody answered: the bond goes back, the window goes on. Whether the operator could not is decided here, once and
    ///      for all: what is closed now may be open again tomorrow.
    function _close(bytes32 subject, StoredDemand storage d) private {
        uint64 clock = _clock();
        uint256 deadline = _deadline(d);
        (bool excused, bool forGood) = d.kind == Kind.ANCHOR ? _couldNotPost(d, clock, deadline) : (false, false);
        // Stake and bond wait for nothing once nobody can post any more: a pool that stands still may do so for ever.
        if (clock <= deadline && !forGood) revert TooEarly(clock, deadline + 1);
        (d.state, d.closedAt) = (excused ? State.EXCUSED : State.EXPIRED, SafeCast.toUint40(Math.min(clock, deadline)));
        _settle(subject, d, d.by, ILedger.Reason.BOND_BACK);
        if (d.kind == Kind.ENVELOPE) _endHold(d);
        if (d.kind != Kind.LIST) return;
        --_known(d.number).holds;
        emit BatchVoided(d.number);
    }

    /// @dev Ends the demand, whatever there is to slash. The penalty is a call of its own, of which nothing stays when it took
    ///      nothing: EigenLayer's stake remembers a slash that was refused, to take it later, and would take the next call's too.
    function _expireFirst(bytes32 subject, StoredDemand storage d) private {
        _close(subject, d);
        if (d.state == State.EXPIRED) {
            try this.expire(subject) {
                return;
            } catch (bytes memory why) {
                // Any other reason, no gas among them, undoes all.
                if (bytes4(why) != NothingToSlash.selector) LowLevelCall.bubbleRevert(why);
            }
        }
        emit Expired(subject, d.kind, 0);
    }

    /// @dev The collateral of the batch stays as long as the longest window of its receipts.
    function _endHold(StoredDemand storage d) private {
        --_known(d.number).holds;
        uint64 held;
        // No end lies before its beginning.
        unchecked {
            held = d.closedAt - d.openedAt;
        }
        if (held > _longestHeld[d.number]) _longestHeld[d.number] = held;
    }

    /// @dev The bond to `who`, and no stake waits for an answer any more: before the penalty, which takes it or not.
    function _settle(bytes32 subject, StoredDemand storage d, address who, ILedger.Reason reason) private {
        (uint256 bond,, uint256 unanchoredPenalty) = _moneyOf(d.paramsVersion);
        LEDGER.credit(subject, who, bond, reason);
        if (d.kind == Kind.ANCHOR) VAULT.discharge(d.operator, unanchoredPenalty, subject);
    }

    /// @dev The key is compromised; or, since the receipt was signed, more time was lost than a Request outlives its promise by
    ///      (docs/adr/108), so that anchoring it may convict; or the pool stood still for at least half of the time that the demand
    ///      gave, and what the receipt was made with was closed before the deadline, or is now, where nobody knows since when. Not:
    ///      the pool cannot judge now, for that operators can bring about; nor a stop of a second, which is cheap. For good, if
    ///      its key takes no receipts any more.
    function _couldNotPost(StoredDemand storage d, uint256 clock, uint256 deadline)
        private
        view
        returns (bool excused, bool forGood)
    {
        Service storage s = _service(d.service);
        // On one clock: that of keys may be another, which a court before this one went by.
        uint256 end = EPOCHS.inclusionEndAt(s.keyEpoch, clock);
        // It was open when this began, so it was compromised since, which nothing undoes.
        if (end == 0) return (true, true);
        (, bool environmentOpen, bool modelOpen) = _offered(s.environment, s.modelId);
        // Nothing overflows: the deadline is the beginning, the time, and what stood still.
        unchecked {
            uint256 stopped = _stoppedSeconds(s.pool) - d.stoppedAtStart;
            uint256 time = deadline - d.openedAt - stopped;
            uint256 lost = _lostUntil(s.environment, s.modelId, block.timestamp) - d.lostAtIssue;
            excused = lost > PARAMS.pauseLimit() && 2 * lost >= time;
            // A key that drains gave less.
            if (end < d.openedAt + time) time = end > d.openedAt ? end - d.openedAt : 0;
            if (end < deadline || !environmentOpen || !modelOpen) {
                excused = excused || (stopped != 0 && 2 * stopped >= time);
            }
            forGood = excused && end < clock;
        }
    }

    function _lostUntil(bytes32 environment, bytes32 modelId, uint256 time) private view returns (uint64) {
        // Safe: no moment is later than now.
        return REGISTRY.lostUntil(environment, modelId, uint64(time));
    }

    /// @dev Since when a receipt could be posted: what its operator signed, but no longer before `anchorBy` than a receipt has, nor
    ///      after it. Or a time long ago would bring stops that have nothing to do with it.
    function _issued(Receipt calldata r, uint32 version) private view returns (uint256) {
        (uint256 maxAnchorDelay,) = _demandTimes(version);
        return Math.max(Math.min(r.issuedAt, r.anchorBy), Math.saturatingSub(r.anchorBy, maxAnchorDelay));
    }

    /// @dev A void batch costs at least what one lie costs, so that no lie is hidden by withholding its list.
    function _penaltyOf(StoredDemand storage d) private view returns (uint256) {
        if (d.kind == Kind.ENVELOPE) return 0;
        (, uint256 withheldPenalty, uint256 unanchoredPenalty) = _moneyOf(d.paramsVersion);
        if (d.kind == Kind.ANCHOR) return unanchoredPenalty;
        (uint256 slashAmount,) = _reportTerms(d.paramsVersion);
        return Math.max(slashAmount, withheldPenalty * _known(d.number).count);
    }

    function _moneyOf(uint32 version)
        private
        view
        returns (uint256 bond, uint256 withheldPenalty, uint256 unanchoredPenalty)
    {
        return PARAMS.demandMoney(version);
    }
}
