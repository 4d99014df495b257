// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Committee, Money, ParamSet, Shares, Times} from "../libraries/Types.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {TestChains} from "../libraries/TestChains.sol";
import {IParams} from "../interfaces/IParams.sol";

/// @title ParamLaw: hard bounds of every parameter, and the static law of design section 9
/// @notice No governance can leave these bounds. A version that does is refused by name of the parameter.
library ParamLaw {
    uint256 private constant BPS = 10_000;
    /// @dev alpha + beta may take 80 % of a slash: an operator that challenges itself always loses the other 20 %.
    uint256 private constant MAX_REWARD_BPS = 8_000;
    uint256 private constant MAX_OPERATOR_SHARE_BPS = 5_000;
    uint256 private constant MAX_WINDOW = 14 days;
    /// @dev Where something is at stake: to question what was anchored, and to take any other step that a party must take.
    uint256 private constant MIN_WINDOW = 1 hours;
    uint256 private constant MIN_STEP = 10 minutes;
    uint256 private constant MAX_PAUSE = 3 days;
    /// @dev Nobody's stake or credit can be kept for longer by a vote.
    uint256 private constant MAX_UNBOND_DELAY = 30 days;
    /// @notice Longest way out for stake, whatever is voted meanwhile: with one pause, and the full hour of its queue.
    uint256 internal constant LONGEST_EXIT = MAX_UNBOND_DELAY + MAX_PAUSE + 1 hours;
    uint256 private constant MAX_WITHDRAW_DELAY = 30 days;
    uint256 private constant MAX_BREAKER_TIME = 90 days;
    uint256 private constant MAX_ROUNDS = 3;
    /// @dev With the rounds at most ten committees in a dispute: what one word of `Settlement` counts.
    uint256 private constant MAX_RERUNS = 7;
    uint256 private constant MIN_SEATS = 3;
    uint256 private constant MAX_SEATS = 255;
    uint256 private constant MAX_POOL = 10_000;
    /// @dev Parts of a slash: a demand is lost also by who is right, and a match must never pay like a fraud that is found.
    uint256 private constant DEMANDS_IN_A_SLASH = 10;
    uint256 private constant BOUNTIES_IN_A_SLASH = 100;
    uint256 private constant MAX_AUDITS_PER_HOUR = 3_600;
    /// @dev Nobody's stake is kept back, locked or slashed by more at one time; `StakeBook` counts both in one word.
    uint256 private constant MAX_OPERATOR_STAKE = 1_000_000 ether;
    /// @dev A demanded list is answered by one transaction, which nodes pass on up to 128 KiB: 21 words for each leaf, 4 KiB for
    ///      the rest. The list itself takes its part; how much, no contract knows (ADR-025).
    uint256 private constant MAX_BATCH = 188;

    /// @notice Revert with `ParamOutOfBounds` or `StaticLawBroken` unless `p` may come into force.
    function check(ParamSet memory p) internal view {
        _checkTimes(p.times);
        _checkCommittee(p.committee);
        _checkShares(p.shares);
        uint256 mostSeats = p.committee.seats[p.committee.rounds - 1];
        _checkStakes(p.money, mostSeats);
        _checkPrices(p.money, mostSeats, p.shares.maxBatch);
        if (!TestChains.isOne(block.chainid)) _checkAtStake(p.times, p.committee.minPool, mostSeats);
        checkDelays(p.times, longest(p));
        _checkRounds(p.times, p.committee.maxReruns);
    }

    /// @notice Seconds from the issue of a receipt to the end of its last possible dispute. `cure` counts twice: a demand for
    ///         the list can be followed by one for the envelope.
    function longest(ParamSet memory p) internal pure returns (uint256) {
        Times memory t = p.times;
        uint256 rounds = p.committee.rounds * (_round(t) + t.appealTime);
        return uint256(t.maxAnchorDelay) + t.window + 2 * uint256(t.cure) + rounds + t.rerunTime + t.airgap + t.maxPause;
    }

    /// @notice Stake, data and keys stay for longer than `longest_` seconds.
    function checkDelays(Times memory t, uint256 longest_) internal pure {
        _outlasts("unbondDelay", t.unbondDelay, longest_);
        _outlasts("daRetention", t.daRetention > t.daMargin ? t.daRetention - t.daMargin : 0, longest_);
        _outlasts("keyRetention", t.keyRetention, longest_);
    }

    function _checkRounds(Times memory t, uint256 maxReruns) private pure {
        uint256 needed = 2 * uint256(t.executionBound);
        if (t.commitTime < needed) revert IParams.StaticLawBroken("commitTime", t.commitTime, needed);
        needed = maxReruns * _round(t);
        if (t.rerunTime < needed) revert IParams.StaticLawBroken("rerunTime", t.rerunTime, needed);
    }

    function _round(Times memory t) private pure returns (uint256) {
        return uint256(t.seedTime) + t.drawTime + t.commitTime + t.revealTime;
    }

    function _checkTimes(Times memory t) private pure {
        _within(t.window, 1, MAX_WINDOW, "window");
        _within(t.cure, 1, MAX_WINDOW, "cure");
        _within(t.seedTime, 1, MAX_WINDOW, "seedTime");
        _within(t.drawTime, 1, MAX_WINDOW, "drawTime");
        _within(t.commitTime, 1, MAX_WINDOW, "commitTime");
        _within(t.revealTime, 1, MAX_WINDOW, "revealTime");
        _within(t.appealTime, 1, MAX_WINDOW, "appealTime");
        _within(t.airgap, 1, MAX_WINDOW, "airgap");
        _within(t.maxPause, 0, MAX_PAUSE, "maxPause");
        _within(t.executionBound, 1, MAX_WINDOW, "executionBound");
        _within(t.unbondDelay, 1, MAX_UNBOND_DELAY, "unbondDelay");
        _within(t.withdrawDelay, 0, MAX_WITHDRAW_DELAY, "withdrawDelay");
        // Convictions that wait unpaid at the same time are counted together at least.
        _within(t.breakerTime, uint256(t.appealTime) + t.airgap, MAX_BREAKER_TIME, "breakerTime");
    }

    /// @dev What a test may shorten: else a vote could make new batches undisputable, unanswerable or final within seconds,
    ///      or let a pool judge that cannot seat its largest round.
    function _checkAtStake(Times memory t, uint256 minPool, uint256 mostSeats) private pure {
        _within(t.window, MIN_WINDOW, MAX_WINDOW, "window");
        _within(t.maxAnchorDelay, MIN_STEP, type(uint32).max, "maxAnchorDelay");
        _within(t.cure, MIN_STEP, MAX_WINDOW, "cure");
        _within(t.commitTime, MIN_STEP, MAX_WINDOW, "commitTime");
        _within(t.revealTime, MIN_STEP, MAX_WINDOW, "revealTime");
        _within(t.appealTime, MIN_STEP, MAX_WINDOW, "appealTime");
        _within(t.airgap, MIN_STEP, MAX_WINDOW, "airgap");
        _within(minPool, mostSeats, MAX_POOL, "minPool");
    }

    function _checkCommittee(Committee memory c) private pure {
        _within(c.rounds, 1, MAX_ROUNDS, "rounds");
        uint256 before = MIN_SEATS - 1;
        for (uint256 i = 0; i < MAX_ROUNDS; ++i) {
            if (i >= c.rounds) {
                _within(c.seats[i], 0, 0, "seats");
                continue;
            }
            _within(c.seats[i], before + 1, MAX_SEATS, "seats");
            _require(c.seats[i] % 2 == 1, "seats");
            before = c.seats[i];
        }
        _within(c.maxReruns, 0, MAX_RERUNS, "maxReruns");
        // With 0 the first conviction would be held already.
        _within(c.breakerOperators, 1, type(uint8).max, "breakerOperators");
        // Two thirds, so that more than a third must lie for a wrong verdict to need more than silence; four fifths, so that
        // a few absent ones do not prevent every verdict.
        _require(c.tauDen != 0 && uint256(c.tauNum) * 3 >= uint256(c.tauDen) * 2, "tau");
        _require(uint256(c.tauNum) * 5 <= uint256(c.tauDen) * 4, "tau");
        _within(c.minPool, 1, MAX_POOL, "minPool");
        _within(c.certifyBps, 1, BPS, "certifyBps");
    }

    function _checkShares(Shares memory s) private pure {
        _require(uint256(s.alphaBps) + s.betaBps <= MAX_REWARD_BPS, "alphaBps+betaBps");
        _within(s.operatorShareBps, 0, MAX_OPERATOR_SHARE_BPS, "operatorShareBps");
        _within(s.auditRateBps, 0, BPS, "auditRateBps");
        _within(s.auditsPerHour, 0, MAX_AUDITS_PER_HOUR, "auditsPerHour");
        _within(s.maxBatch, 1, MAX_BATCH, "maxBatch");
    }

    /// @dev Whatever an account may lose in one round, its least stake holds: a verifier may hold every seat. And it is no more
    ///      than a lie costs an operator: who joined with less than a vote asks later still holds its seats.
    function _checkStakes(Money memory m, uint256 mostSeats) private pure {
        _within(m.minOperatorStake, 1, MAX_OPERATOR_STAKE, "minOperatorStake");
        _within(m.slashAmount, 1, m.minOperatorStake, "slashAmount");
        _within(m.minVerifierStake, 1, MAX_OPERATOR_STAKE, "minVerifierStake");
        uint256 most = Math.min(m.minVerifierStake, m.slashAmount) / mostSeats;
        _within(m.absentPenalty, 0, most, "absentPenalty");
        // A worse act never costs less: else a random vote would be cheaper than silence, and silence than absence.
        _within(m.noRevealPenalty, m.absentPenalty, most, "noRevealPenalty");
        _within(m.wrongPenalty, m.noRevealPenalty, most, "wrongPenalty");
        _within(m.receiptCollateral, 1, m.minOperatorStake, "receiptCollateral");
        _within(m.withheldPenalty, 1, m.minOperatorStake, "withheldPenalty");
        // A receipt that is never anchored hides a false answer: it costs no less than that.
        _within(m.unanchoredPenalty, m.slashAmount, m.minOperatorStake, "unanchoredPenalty");
    }

    /// @dev What would be free could be flooded with; what is dear could not be asked. Whoever opens or appeals puts in at
    ///      most two slashes: the fees of the largest round, twice for an appeal, and the privacy price are within one.
    function _checkPrices(Money memory m, uint256 mostSeats, uint256 maxBatch) private pure {
        _require(m.feePerSeat != 0, "feePerSeat");
        _within(mostSeats * m.feePerSeat + m.privacyPrice, 0, m.slashAmount, "feePerSeat+privacyPrice");
        // The bond of the largest list.
        _within(m.demandBond * maxBatch, maxBatch, m.slashAmount / DEMANDS_IN_A_SLASH, "demandBond");
        _require(m.auditUnit != 0, "auditUnit");
        _within(m.bounty, 0, m.slashAmount / BOUNTIES_IN_A_SLASH, "bounty");
    }

    function _outlasts(bytes32 limit, uint256 have, uint256 longest_) private pure {
        if (have <= longest_) revert IParams.StaticLawBroken(limit, have, longest_);
    }

    function _within(uint256 x, uint256 least, uint256 most, bytes32 key) private pure {
        _require(x >= least && x <= most, key);
    }

    function _require(bool ok, bytes32 key) private pure {
        if (!ok) revert IParams.ParamOutOfBounds(key);
    }
}
