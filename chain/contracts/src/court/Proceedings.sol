// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Wired} from "../libraries/Wired.sol";
import {BreakerLib} from "../libraries/BreakerLib.sol";
import {DisputeDraw} from "./DisputeDraw.sol";
import {DisputeStore} from "./DisputeStore.sol";
import {IProceedings} from "../interfaces/IProceedings.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";
import {TallyLib} from "../libraries/TallyLib.sol";
import {Committee, Phase, Status, Verdict} from "../libraries/Types.sol";

/// @title Proceedings: verdicts and ends; how a committee is drawn is in `DisputeDraw`, the rule in `TallyLib`
/// @dev `Disputes` runs this code on its own storage. Alone it can do nothing: no other contract knows it.
///      No function calls an account that is not a contract of this deployment: payments are pulled from the ledger.
contract Proceedings is DisputeDraw {
    using BreakerLib for BreakerLib.Entry[];

    constructor(Parts memory parts) DisputeStore(parts) {}

    /// @inheritdoc IProceedings
    function settle(bytes32 id) external running {
        Case storage d = _inPhase(id, Phase.COMMIT);
        uint16 round = d.round;
        RoundData storage r = _rounds[id][round];
        uint40 now_ = _clock();
        if (now_ <= r.commitEnd) revert TooEarly(now_, uint256(r.commitEnd) + 1);
        if (!_revealsClosed(r, now_)) revert TooEarly(now_, uint256(r.revealEnd) + 1);
        r.settled = true;
        Committee memory c = PARAMS.committee(d.paramsVersion);
        uint256 quorum = PARAMS.quorum(d.paramsVersion, r.seats);
        Tally memory t = _tallyOf(r);
        TallyLib.Judgement memory j = TallyLib.judge(t, quorum);
        emit Settled(id, round, j.verdict, t);
        if (j.verdict != Verdict.NONE) {
            d.decidedIn = round;
            (d.mixed, d.knew) = (j.mixed, false);
            _decide(id, d, j.verdict, d.level < c.rounds && d.appealed == Verdict.NONE);
        } else if (t.noKey > r.seats - quorum && d.reruns < c.maxReruns) {
            d.reruns += 1;
            _startRound(id, d, d.level);
        } else if (d.level < c.rounds) {
            SETTLEMENT.advance(id, c.seats[d.level]);
            _startRound(id, d, d.level + 1);
        } else {
            _endUndecided(id, d);
            if (d.verdict == Verdict.DRAW) _countDraw(d);
        }
    }

    /// @inheritdoc IProceedings
    function appeal(bytes32 id) external payable {
        Case storage d = _cases[id];
        if (d.appealed != Verdict.NONE) revert AlreadyAppealed(id);
        _inPhase(id, Phase.APPEAL);
        uint40 now_ = _clock();
        if (now_ > d.appealEnd) revert TooLate(now_, d.appealEnd);
        uint256 bond = appealBond(id);
        if (msg.value != bond) revert BondMismatch(msg.value, bond);
        d.appealed = d.verdict;
        emit Appealed(id, msg.sender, bond);
        _startRound(id, d, d.level + 1);
        SETTLEMENT.appealed{value: bond}(id, msg.sender);
    }

    /// @inheritdoc IProceedings
    function openAlt(bytes32 id, bytes32 salt) external {
        Case storage d = _cases[id];
        if (d.phase != Phase.AIRGAP) d = _inPhase(id, Phase.APPEAL);
        uint40 now_ = _clock();
        if (now_ > d.airgapEnd) revert TooLate(now_, d.airgapEnd);
        if (d.knew) revert NoProgress(id);
        (bytes32 key,) = _keysOf(id, d);
        bytes32 have = altCommitOf(id, d.challenger, key, salt);
        // A draw says nothing that anybody could have known.
        if (key == bytes32(0) || have != d.altCommit) revert BadAlt(have, d.altCommit);
        d.knew = true;
        emit AltOpened(id, d.challenger);
    }

    /// @inheritdoc IProceedings
    function finalize(bytes32 id) external running {
        Case storage d = _cases[id];
        if (_phaseOf(id) != Phase.AIRGAP) revert WrongPhase(id, _phaseOf(id), Phase.AIRGAP);
        uint40 now_ = _clock();
        if (now_ <= d.airgapEnd) revert TooEarly(now_, uint256(d.airgapEnd) + 1);
        if (_convicts(d.verdict)) {
            bytes32 environment = ANCHOR.batch(d.batchId).environment;
            if (_held[environment]) revert Held(environment);
        }
        _end(id, d, d.appealed != Verdict.NONE && d.appealed != d.verdict);
    }

    /// @inheritdoc IProceedings
    function refund(bytes32 id) external {
        if (msg.sender != address(GUARDIAN)) revert Wired.NotAuthorised(msg.sender);
        Case storage d = _cases[id];
        if (d.phase != Phase.AIRGAP) d = _inPhase(id, Phase.APPEAL);
        d.verdict = Verdict.REFUNDED;
        _end(id, d, false);
    }

    /// @inheritdoc IProceedings
    function resetBreaker(bytes32 environment) external restricted {
        _held[environment] = false;
        emit BreakerReset(environment);
    }

    /// @inheritdoc IProceedings
    function appealBond(bytes32 id) public view returns (uint256) {
        Case storage d = _cases[id];
        Committee memory c = PARAMS.committee(d.paramsVersion);
        if (d.level >= c.rounds) revert LastLevel(id);
        return 2 * uint256(c.seats[d.level]) * PARAMS.money(d.paramsVersion).feePerSeat;
    }

    /// @inheritdoc IProceedings
    function altCommitOf(bytes32 id, address challenger, bytes32 key, bytes32 salt) public view returns (bytes32) {
        return keccak256(abi.encode(block.chainid, address(this), id, challenger, key, salt));
    }

    /// @dev What stands from now on, and until when.
    function _decide(bytes32 id, Case storage d, Verdict verdict, bool appealable) private {
        d.verdict = verdict;
        (uint32 appealTime, uint32 airgap) = PARAMS.endTimes(d.paramsVersion);
        uint40 now_ = _clock();
        uint40 appealEnd = appealable ? now_ + appealTime : 0;
        uint40 airgapEnd = (appealable ? appealEnd : now_) + airgap;
        d.phase = appealable ? Phase.APPEAL : Phase.AIRGAP;
        (d.appealEnd, d.airgapEnd) = (appealEnd, airgapEnd);
        emit Decided(id, verdict, appealEnd, airgapEnd);
        if (verdict == Verdict.OVERTURNED) _countConviction(d);
    }

    function _endUndecided(bytes32 id, Case storage d) internal override {
        _decide(id, d, d.verdict == Verdict.NONE ? Verdict.DRAW : d.verdict, false);
    }

    /// @dev Money moves. Nobody who is paid is called, so nobody can stop it.
    function _end(bytes32 id, Case storage d, bool appellantWon) private {
        d.phase = Phase.FINAL;
        bytes32 receiptId = _receipts[d.index];
        bytes32 replacement = _replacementOf(id, d);
        if (replacement != bytes32(0)) emit OutputReplaced(receiptId, d.claimed, replacement);
        emit Finalized(id, receiptId, d.verdict, d.verdict == Verdict.UPHELD ? d.claimed : replacement);
        SETTLEMENT.end(id, d.verdict, appellantWon);
        ANCHOR.onDispute(d.batchId, false);
    }

    /// @dev Verdicts that take a whole slash. Lies trip the breaker, and what it holds is every slash: an environment that is
    ///      at fault lets honest operators be found withholding and malformed, too.
    function _convicts(Verdict v) private pure returns (bool) {
        return v == Verdict.OVERTURNED || v == Verdict.INVALID || v == Verdict.UNAVAILABLE;
    }

    /// @dev Convictions of many operators at once look like a fault of the environment: they wait for a look at it.
    function _countConviction(Case storage d) private {
        IReceiptAnchor.Batch memory batch = ANCHOR.batch(d.batchId);
        bytes32 environment = batch.environment;
        if (_held[environment]) return;
        if (_trips(_convicted[environment], d, batch.operator, environment, false)) _held[environment] = true;
    }

    /// @dev Rounds that agree on nothing, for many operators: no new batches there. What is anchored is judged as before.
    function _countDraw(Case storage d) private {
        IReceiptAnchor.Batch memory batch = ANCHOR.batch(d.batchId);
        bytes32 environment = batch.environment;
        if (!_trips(_drawn[environment], d, batch.operator, environment, true)) return;
        // A court that another has replaced ends its disputes and closes nothing any more.
        bool named = REGISTRY.court() == address(this);
        if (named && REGISTRY.item(environment).status == Status.ACTIVE) REGISTRY.close(environment);
    }

    function _trips(BreakerLib.Entry[] storage list, Case storage d, address operator, bytes32 environment, bool closes)
        private
        returns (bool)
    {
        uint256 span = PARAMS.times(d.paramsVersion).breakerTime;
        uint256 operators = list.note(operator, _clock(), span);
        if (operators <= PARAMS.committee(d.paramsVersion).breakerOperators) return false;
        list.clear();
        emit BreakerTripped(environment, operators, closes);
        return true;
    }
}
