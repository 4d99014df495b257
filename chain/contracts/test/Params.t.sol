// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Params} from "../src/Params.sol";
import {ParamSet} from "../src/Types.sol";
import {IParams} from "../src/interfaces/IParams.sol";
import {Network} from "./Network.sol";

/// @title Bounds and the static law
contract ParamsTest is Network {
    function longest(ParamSet memory p) private pure returns (uint256) {
        uint256 round = uint256(p.seedTime) + p.drawTime + p.commitTime + p.revealTime + p.appealTime;
        return uint256(p.maxAnchorDelay) + p.window + p.cure + p.rounds * round + p.rerunTime + p.airgap + p.maxPause;
    }

    function test_every_delay_outlasts_the_longest_dispute(uint8 which, uint32 delay) public {
        ParamSet memory p = parameters();
        uint256 least = longest(p);
        uint64 d = uint64(bound(delay, 1, 2 * least));
        bytes32 name =
            which % 3 == 0 ? bytes32("unbondDelay") : which % 3 == 1 ? bytes32("daRetention") : bytes32("keyRetention");
        if (which % 3 == 0) p.unbondDelay = d;
        else if (which % 3 == 1) p.daRetention = d + p.daMargin;
        else p.keyRetention = d;
        if (d <= least) vm.expectRevert(abi.encodeWithSelector(IParams.StaticLawBroken.selector, name, d, least));
        new Params(p);
    }

    function test_any_longer_step_counts_against_the_delays(uint8 step, uint32 extra) public {
        ParamSet memory p = parameters();
        uint64 e = uint64(bound(extra, 1 days, 10 days));
        step %= 8;
        if (step == 0) p.window += e;
        else if (step == 1) p.maxAnchorDelay += e;
        else if (step == 2) p.cure += e;
        else if (step == 3) p.revealTime += e;
        else if (step == 4) p.appealTime += e;
        else if (step == 5) p.rerunTime += e;
        else if (step == 6) p.airgap += e;
        else p.maxPause += e;
        vm.expectPartialRevert(IParams.StaticLawBroken.selector);
        new Params(p);
    }

    function test_commit_time_is_twice_the_slowest_execution(uint16 execution) public {
        ParamSet memory p = parameters();
        p.executionBound = execution;
        if (2 * uint256(execution) > p.commitTime) vm.expectPartialRevert(IParams.StaticLawBroken.selector);
        new Params(p);
    }

    function test_rewards_leave_a_fifth_of_the_slash(uint16 alpha, uint16 beta) public {
        ParamSet memory p = parameters();
        (p.alphaBps, p.betaBps) = (alpha, beta);
        if (uint256(alpha) + beta > 8_000) vm.expectPartialRevert(IParams.ParamOutOfBounds.selector);
        new Params(p);
    }

    function test_tau_is_more_than_a_half_and_at_most_four_fifths(uint16 num, uint16 den) public {
        ParamSet memory p = parameters();
        (p.tauNum, p.tauDen) = (num, den);
        bool ok = den != 0 && uint256(num) * 2 > den && uint256(num) * 5 <= uint256(den) * 4;
        if (!ok) vm.expectRevert(abi.encodeWithSelector(IParams.ParamOutOfBounds.selector, bytes32("tau")));
        new Params(p);
    }

    function test_committees_are_odd_and_grow(uint16 first, uint16 second, uint8 rounds) public {
        ParamSet memory p = parameters();
        rounds = uint8(rounds % 4);
        (p.seats[0], p.seats[1], p.rounds) = (first, second, rounds);
        p.unbondDelay = p.daRetention = p.keyRetention = 100 days;
        bool ok = first % 2 == 1 && first >= 3 && first <= 255 && (rounds == 1 || rounds == 2);
        if (rounds == 2) ok = ok && second % 2 == 1 && second <= 255 && second > first;
        if (!ok) vm.expectPartialRevert(IParams.ParamOutOfBounds.selector);
        new Params(p);
    }

    function test_penalties_and_slash_fit_the_stakes(uint96 penalty, uint96 slash, uint8 which) public {
        ParamSet memory p = parameters();
        which %= 3;
        if (which == 0) p.absentPenalty = penalty;
        else if (which == 1) p.noRevealPenalty = penalty;
        else p.wrongPenalty = penalty;
        p.slashAmount = slash;
        bool ok = penalty <= p.seatStake && slash > 0 && slash <= p.minOperatorStake;
        if (!ok) vm.expectPartialRevert(IParams.ParamOutOfBounds.selector);
        new Params(p);
    }

    function test_a_quorum_is_never_less_than_tau(uint16 num, uint16 den, uint8 seats) public {
        ParamSet memory p = parameters();
        p.tauDen = uint16(bound(den, 10, 1_000));
        p.tauNum = uint16(bound(num, p.tauDen / 2 + 1, uint256(p.tauDen) * 4 / 5));
        uint256 q = new Params(p).quorum(seats);
        that(q * p.tauDen >= uint256(seats) * p.tauNum, "enough");
        that(seats == 0 || (q - 1) * p.tauDen < uint256(seats) * p.tauNum, "and not one more");
    }

    function test_ten_of_fifteen_and_the_exact_bond() public view {
        same(params.quorum(15), 10, "two thirds of 15");
        same(params.quorum(31), 21, "two thirds of 31");
        same(params.requiredBond(), 46 * 0.01 ether + 0.05 ether, "bond");
    }
}
