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

/// @title Demands: what an operator withholds is asked for; who does not answer in time pays
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
        bytes32 subject = anchorSubject(id);
        uint32 version = PARAMS.version();
        _open(Kind.ANCHOR, subject, r.operator, r.seq, version);
        (,, uint256 penalty) = _moneyOf(version);
        VAULT.oblige(r.operator, penalty, subject);
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
        uint256 slashed = _punishFor(subject, d);
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
        shown.bond = uint96(_bondOf(d.kind, d.number, d.paramsVersion));
    }

    function _checkOperator(address who) internal view {
        if (!REGISTRY.isOperator(who)) revert NotOperator(who);
    }

    /// @dev Environment, model, epoch and the environment's pool take batches, or did until lately: what was signed before a closure
    ///      can be anchored for `maxAnchorDelay`.
    function _checkServable(bytes32 environment, bytes32 modelId, uint64 epoch) internal view returns (bytes32) {
        (bytes32 pool, uint64 environmentUntil, uint64 modelUntil, uint64 poolUntil) =
            REGISTRY.anchorable(environment, modelId);
        uint64 clock = _clock();
        if (clock > environmentUntil) revert EnvironmentNotActive(environment);
        if (clock > modelUntil) revert ModelNotActive(modelId);
        if (!EPOCHS.isOpenForInclusion(epoch)) revert EpochNotOpen(epoch);
        if (clock > poolUntil) revert PoolTooSmall(pool);
        return pool;
    }

    function _open(Kind kind, bytes32 subject, address operator, uint64 number, uint32 version) private {
        StoredDemand storage d = _demands[subject];
        if (d.state != State.NONE) revert AlreadyDemanded(subject);
        uint256 bond = _bondOf(kind, number, version);
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

    /// @dev Nobody answered: the bond goes back, the window goes on.
    function _close(bytes32 subject, StoredDemand storage d) private {
        uint64 clock = _clock();
        uint256 deadline = _deadline(d);
        if (clock <= deadline) revert TooEarly(clock, deadline + 1);
        (d.state, d.closedAt) = (State.EXPIRED, SafeCast.toUint40(deadline));
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
        (,, uint256 unanchoredPenalty) = _moneyOf(d.paramsVersion);
        LEDGER.credit(subject, who, _bondOf(d.kind, d.number, d.paramsVersion), reason);
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
        uint256 penalty = Math.max(slashAmount, withheldPenalty * _known(number).count);
        return _punish(operator, number, subject, penalty, version, d.by);
    }

    /// @dev The answer to a demand for a list grows with its leaves, and so does what it costs to demand one in vain.
    function _bondOf(Kind kind, uint64 number, uint32 version) private view returns (uint256 bond) {
        (bond,,) = _moneyOf(version);
        if (kind == Kind.LIST) bond *= _known(number).count;
    }
}
