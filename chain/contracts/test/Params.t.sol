// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManager} from "@openzeppelin/contracts/access/manager/AccessManager.sol";
import {IAccessManaged} from "@openzeppelin/contracts/access/manager/IAccessManaged.sol";
import {Check} from "./Vm.sol";
import {Params} from "../src/governance/Params.sol";
import {Committee, Money, ParamSet, Shares, Times} from "../src/libraries/Types.sol";
import {IParams} from "../src/interfaces/IParams.sol";
import {Defaults} from "./Defaults.sol";

/// @title Bounds, the static law, and what versions owe to each other
contract ParamsTest is Check {
    AccessManager private manager;
    Params private params;

    function setUp() public {
        vm.warp(1_800_000_000);
        manager = new AccessManager(address(this));
        params = new Params(address(manager), Defaults.parameters());
    }

    function longest(ParamSet memory p) private pure returns (uint256 sum) {
        Times memory t = p.times;
        sum = uint256(t.maxAnchorDelay) + t.window + t.cure + t.cure + t.rerunTime + t.airgap + t.maxPause;
        for (uint256 i = 0; i < p.committee.rounds; ++i) {
            sum += uint256(t.seedTime) + t.drawTime + t.commitTime + t.revealTime + t.appealTime;
        }
    }

    /// @dev Chains on which nothing is at stake: anvil, geth's, Sepolia, Holesky, Hoodi; a third of the time one of them.
    function onChain(uint64 salt) private returns (bool isTest) {
        uint64[5] memory tests = [uint64(31337), 1337, 11155111, 17000, 560048];
        uint64 id = salt % 3 == 0 ? tests[(salt / 3) % 5] : uint64(bound(salt, 1, type(uint64).max - 1));
        vm.chainId(id);
        for (uint256 i = 0; i < 5; ++i) {
            isTest = isTest || id == tests[i];
        }
    }

    /// @dev Creates with `p`, expecting a refusal by name of the parameter unless `ok`.
    function create(ParamSet memory p, bool ok, bytes32 key) private {
        if (!ok) vm.expectRevert(abi.encodeWithSelector(IParams.ParamOutOfBounds.selector, key));
        new Params(address(manager), p);
    }

    function test_every_delay_outlasts_the_longest_dispute(uint8 which, uint32 delay) public {
        ParamSet memory p = Defaults.parameters();
        uint256 least = longest(p);
        uint32 d = uint32(bound(delay, 1, 2 * least));
        bytes32 name =
            which % 3 == 0 ? bytes32("unbondDelay") : which % 3 == 1 ? bytes32("daRetention") : bytes32("keyRetention");
        if (which % 3 == 0) p.times.unbondDelay = d;
        else if (which % 3 == 1) p.times.daRetention = d + p.times.daMargin;
        else p.times.keyRetention = d;
        if (d <= least) vm.expectRevert(abi.encodeWithSelector(IParams.StaticLawBroken.selector, name, d, least));
        new Params(address(manager), p);
    }

    function test_any_longer_step_counts_against_the_delays(uint8 step, uint32 extra) public {
        ParamSet memory p = Defaults.parameters();
        uint32 e = uint32(bound(extra, 1, 2 days));
        step %= 11;
        uint256 times = 1;
        if (step == 0) p.times.window += e;
        else if (step == 1) p.times.maxAnchorDelay += e;
        else if (step == 2) p.times.rerunTime += e;
        else if (step == 3) (p.times.airgap, p.times.breakerTime) = (p.times.airgap + e, 30 days);
        else if (step == 4) p.times.maxPause += e;
        else if (step == 5) (p.times.cure, times) = (p.times.cure + e, 2);
        else times = 3;
        if (step == 6) p.times.seedTime += e;
        else if (step == 7) p.times.drawTime += e;
        else if (step == 8) p.times.commitTime += e;
        else if (step == 9) p.times.revealTime += e;
        else if (step == 10) (p.times.appealTime, p.times.breakerTime) = (p.times.appealTime + e, 30 days);
        (p.times.rerunTime, p.committee.maxReruns) = (step == 2 ? p.times.rerunTime : 0, 0);
        uint256 want = longest(p);
        p.times.unbondDelay = uint32(want);
        vm.expectRevert(abi.encodeWithSelector(IParams.StaticLawBroken.selector, bytes32("unbondDelay"), want, want));
        new Params(address(manager), p);
        p.times.unbondDelay = uint32(want) + 1;
        (p.times.daRetention, p.times.keyRetention) = (60 days, 60 days);
        same(new Params(address(manager), p).longestDispute(1), want, "the sum of its steps");
    }

    function test_commit_time_is_twice_the_slowest_execution(uint16 execution) public {
        ParamSet memory p = Defaults.parameters();
        p.times.executionBound = execution;
        if (execution == 0) return create(p, false, "executionBound");
        if (2 * uint256(execution) > p.times.commitTime) vm.expectPartialRevert(IParams.StaticLawBroken.selector);
        new Params(address(manager), p);
    }

    function test_rerun_time_holds_all_reruns(uint8 reruns, uint16 time) public {
        ParamSet memory p = Defaults.parameters();
        (p.committee.maxReruns, p.times.rerunTime) = (uint8(reruns % 8), time);
        uint256 needed = uint256(p.committee.maxReruns) * 3 hours;
        bytes memory refusal =
            abi.encodeWithSelector(IParams.StaticLawBroken.selector, bytes32("rerunTime"), time, needed);
        if (time < needed) vm.expectRevert(refusal);
        new Params(address(manager), p);
    }

    function test_rewards_leave_a_fifth_of_the_slash(uint16 alpha, uint16 beta) public {
        ParamSet memory p = Defaults.parameters();
        (p.shares.alphaBps, p.shares.betaBps) = (alpha, beta);
        create(p, uint256(alpha) + beta <= 8_000, "alphaBps+betaBps");
    }

    function test_tau_is_from_two_thirds_to_four_fifths(uint16 num, uint16 den) public {
        ParamSet memory p = Defaults.parameters();
        (p.committee.tauNum, p.committee.tauDen) = (num, den);
        bool ok = den != 0 && uint256(num) * 3 >= uint256(den) * 2 && uint256(num) * 5 <= uint256(den) * 4;
        create(p, ok, "tau");
    }

    function test_committees_are_odd_and_grow(uint8[3] memory seats, uint8 rounds) public {
        ParamSet memory p = Defaults.parameters();
        (p.committee.rounds, p.money.minVerifierStake) = (uint8(1 + rounds % 3), 100 ether);
        (p.money.noRevealPenalty, p.money.wrongPenalty) = (0.02 ether, 0.02 ether);
        bool ok = true;
        for (uint256 i = 0; i < 3; ++i) {
            p.committee.seats[i] = i < p.committee.rounds ? uint16(seats[i]) : 0;
            if (i < p.committee.rounds) {
                ok = ok && seats[i] >= 3 && seats[i] % 2 == 1 && (i == 0 || seats[i] > seats[i - 1]);
            }
        }
        create(p, ok, "seats");
    }

    function test_a_committee_is_never_larger_than_a_mask(uint16 seats) public {
        ParamSet memory p = Defaults.parameters();
        (p.committee.seats[2], p.money.minVerifierStake) = (seats, 100 ether);
        (p.money.noRevealPenalty, p.money.wrongPenalty) = (0.02 ether, 0.02 ether);
        create(p, seats > 31 && seats <= 255 && seats % 2 == 1, "seats");
    }

    function test_there_are_no_seats_beyond_the_rounds(uint8 rounds, uint16 seats) public {
        ParamSet memory p = Defaults.parameters();
        p.committee.rounds = uint8(1 + rounds % 2);
        (p.committee.seats[1], p.committee.seats[2]) = (p.committee.rounds == 1 ? 0 : 31, seats);
        create(p, seats == 0, "seats");
    }

    function test_rounds_are_one_to_three(uint8 rounds) public {
        ParamSet memory p = Defaults.parameters();
        p.committee.rounds = rounds < 3 ? 0 : rounds;
        // Zero rounds have no largest one: refused before anything reads it.
        create(p, rounds == 3, "rounds");
    }

    function test_one_word_counts_every_committee(uint8 reruns) public {
        ParamSet memory p = Defaults.parameters();
        p.committee.maxReruns = reruns;
        (p.times.rerunTime, p.times.unbondDelay) = (uint32(uint256(reruns) * 3 hours), 30 days);
        if (reruns > 64) p.times.rerunTime = 3 days;
        (p.times.daRetention, p.times.keyRetention) = (100 days, 100 days);
        create(p, reruns <= 7, "maxReruns");
    }

    function test_penalties_fit_the_least_stake_in_every_seat(uint96 penalty, uint8 which) public {
        ParamSet memory p = Defaults.parameters();
        uint96 x = penalty % (p.money.minVerifierStake / 30);
        bytes32 key = which % 3 == 0
            ? bytes32("absentPenalty")
            : which % 3 == 1 ? bytes32("noRevealPenalty") : bytes32("wrongPenalty");
        penalties(p, which, x);
        create(p, uint256(x) * 63 <= p.money.minVerifierStake, key);
    }

    /// @dev One of the three, those of worse acts as large, those of better ones zero.
    function penalties(ParamSet memory p, uint8 which, uint96 x) private pure {
        p.money.absentPenalty = which % 3 == 0 ? x : 0;
        p.money.noRevealPenalty = which % 3 == 2 ? 0 : x;
        p.money.wrongPenalty = x;
    }

    /// @dev Or to vote for anything would cost less than silence, or to commit to nothing less than absence.
    function test_the_worse_act_of_a_seat_never_costs_less(uint96 absent, uint96 noReveal, uint96 wrong) public {
        ParamSet memory p = Defaults.parameters();
        uint96 most = p.money.minVerifierStake / 63;
        (p.money.absentPenalty, p.money.noRevealPenalty) = (absent % (most + 1), noReveal % (most + 1));
        p.money.wrongPenalty = wrong % (most + 1);
        bool first = p.money.absentPenalty <= p.money.noRevealPenalty;
        bool second = p.money.noRevealPenalty <= p.money.wrongPenalty;
        create(p, first && second, first ? bytes32("wrongPenalty") : bytes32("noRevealPenalty"));
    }

    /// @dev A number that is skipped, or whose receipt is never anchored, hides a false answer: it costs what that does.
    function test_a_withheld_receipt_costs_no_less_than_a_false_one(uint96 slash, uint96 unanchored) public {
        ParamSet memory p = Defaults.parameters();
        p.shares.maxBatch = 1;
        (p.money.feePerSeat, p.money.privacyPrice, p.money.demandBond, p.money.bounty) = (1, 0, 1, 0);
        penalties(p, 0, 0);
        p.money.slashAmount = uint96(bound(slash, 100, p.money.minOperatorStake));
        p.money.unanchoredPenalty = uint96(bound(unanchored, 0, p.money.minOperatorStake));
        create(p, p.money.unanchoredPenalty >= p.money.slashAmount, "unanchoredPenalty");
    }

    /// @dev Who joined before a vote asked for more stake has less: what its seats cost does not follow.
    function test_no_seat_of_a_round_costs_more_than_a_lie(uint96 least, uint96 penalty, uint8 which) public {
        ParamSet memory p = Defaults.parameters();
        p.money.minVerifierStake = uint96(bound(least, 10 ether, 1_000_000 ether));
        uint96 x = penalty % (p.money.minVerifierStake / 63);
        bytes32[3] memory keys = [bytes32("absentPenalty"), "noRevealPenalty", "wrongPenalty"];
        penalties(p, which, x);
        create(p, uint256(x) * 63 <= p.money.slashAmount, keys[which % 3]);
    }

    function test_a_verifier_is_not_asked_for_more_than_a_million(uint96 least) public {
        ParamSet memory p = Defaults.parameters();
        p.money.minVerifierStake = uint96(bound(least, 10 ether, 2_000_000 ether));
        create(p, p.money.minVerifierStake <= 1_000_000 ether, "minVerifierStake");
    }

    function test_what_an_operator_can_lose_it_has_staked(uint96 amount, uint8 which) public {
        ParamSet memory p = Defaults.parameters();
        p.shares.maxBatch = 1;
        (p.money.feePerSeat, p.money.privacyPrice, p.money.demandBond, p.money.bounty) = (1, 0, 1, 0);
        penalties(p, 0, 0);
        (p.money.slashAmount, p.money.unanchoredPenalty) = (100, p.money.minOperatorStake);
        uint96 x = amount % (2 * p.money.minOperatorStake);
        vm.assume(x == 0 || x >= 100);
        bytes32[4] memory keys = [bytes32("slashAmount"), "receiptCollateral", "withheldPenalty", "unanchoredPenalty"];
        if (which % 4 == 0) p.money.slashAmount = x;
        else if (which % 4 == 1) p.money.receiptCollateral = x;
        else if (which % 4 == 2) p.money.withheldPenalty = x;
        else p.money.unanchoredPenalty = x;
        create(p, x != 0 && x <= p.money.minOperatorStake, keys[which % 4]);
    }

    /// @dev What may be kept of anybody's stake is bounded, and fits the words of `StakeBook`.
    function test_an_operator_is_not_asked_for_more_than_a_million(uint96 least) public {
        ParamSet memory p = Defaults.parameters();
        p.money.minOperatorStake = uint96(bound(least, 10 ether, 2_000_000 ether));
        create(p, p.money.minOperatorStake <= 1_000_000 ether, "minOperatorStake");
    }

    function test_nothing_that_could_flood_is_free(uint8 which) public {
        ParamSet memory p = Defaults.parameters();
        which %= 4;
        if (which == 0) p.money.feePerSeat = 0;
        else if (which == 1) p.money.demandBond = 0;
        else if (which == 2) p.money.auditUnit = 0;
        else p.money.minVerifierStake = 0;
        bytes32[4] memory keys = [bytes32("feePerSeat"), "demandBond", "auditUnit", "minVerifierStake"];
        create(p, false, keys[which]);
    }

    function test_every_step_takes_time_and_not_too_much(uint8 which, uint32 value) public {
        ParamSet memory p = Defaults.parameters();
        uint32 x = value % 2 == 0 ? 0 : uint32(bound(value, 14 days + 1, type(uint32).max));
        bytes32[8] memory keys =
            [bytes32("window"), "cure", "seedTime", "drawTime", "commitTime", "revealTime", "appealTime", "airgap"];
        which %= 8;
        if (which == 0) p.times.window = x;
        else if (which == 1) p.times.cure = x;
        else if (which == 2) p.times.seedTime = x;
        else if (which == 3) p.times.drawTime = x;
        else if (which == 4) p.times.commitTime = x;
        else if (which == 5) p.times.revealTime = x;
        else if (which == 6) p.times.appealTime = x;
        else p.times.airgap = x;
        create(p, false, keys[which]);
    }

    /// @dev Or a vote could make new batches undisputable, unanswerable or final within seconds, where something is at stake.
    function test_whoever_must_act_in_time_is_given_some(uint8 which, uint32 value, uint64 chain) public {
        ParamSet memory p = Defaults.parameters();
        (p.committee.minPool, p.times.executionBound) = (63, 1);
        bytes32[7] memory keys =
            [bytes32("window"), "maxAnchorDelay", "cure", "commitTime", "revealTime", "appealTime", "airgap"];
        which %= 7;
        uint32 least = which == 0 ? 1 hours : 10 minutes;
        uint32 x = uint32(bound(value, 2, 2 * least));
        if (which == 0) p.times.window = x;
        else if (which == 1) p.times.maxAnchorDelay = x;
        else if (which == 2) p.times.cure = x;
        else if (which == 3) p.times.commitTime = x;
        else if (which == 4) p.times.revealTime = x;
        else if (which == 5) p.times.appealTime = x;
        else p.times.airgap = x;
        create(p, onChain(chain) || x >= least, keys[which]);
    }

    /// @dev A pool below its largest round takes no batches and its windows stand still, where something is at stake.
    function test_a_pool_that_judges_can_seat_its_largest_round(uint16 pool, uint8 rounds, uint64 chain) public {
        ParamSet memory p = Defaults.parameters();
        p.committee.rounds = uint8(1 + rounds % 3);
        uint16[3] memory seats = [uint16(15), 31, 63];
        for (uint256 i = p.committee.rounds; i < 3; ++i) {
            p.committee.seats[i] = 0;
        }
        p.committee.minPool = uint16(bound(pool, 1, 100));
        create(p, onChain(chain) || p.committee.minPool >= seats[p.committee.rounds - 1], "minPool");
    }

    /// @dev Everywhere: a bond for the largest committee is no more than a conviction takes, and a demand a tenth of that.
    function test_nobody_is_kept_from_asking_by_the_price(uint96 fee, uint96 privacy, uint96 demand, uint64 chain)
        public
    {
        ParamSet memory p = Defaults.parameters();
        p.committee.minPool = 63;
        onChain(chain);
        uint256 slash = p.money.slashAmount;
        p.money.feePerSeat = uint96(bound(fee, 1, 2 * slash / 63));
        p.money.privacyPrice = uint96(bound(privacy, 0, slash));
        p.money.demandBond = uint96(bound(demand, 1, slash / 300));
        bool asked = 63 * uint256(p.money.feePerSeat) + p.money.privacyPrice <= slash;
        bool demanded = uint256(p.money.demandBond) * p.shares.maxBatch <= slash / 10;
        create(p, asked && demanded, asked ? bytes32("demandBond") : bytes32("feePerSeat+privacyPrice"));
    }

    function test_bounties_empty_no_pot(uint96 bounty, uint16 hourly) public {
        ParamSet memory p = Defaults.parameters();
        (p.money.bounty, p.shares.auditsPerHour) = (bounty % (p.money.slashAmount / 50), hourly % 7_200);
        (bool cheap, bool rare) = (p.money.bounty <= p.money.slashAmount / 100, p.shares.auditsPerHour <= 3_600);
        create(p, cheap && rare, rare ? bytes32("bounty") : bytes32("auditsPerHour"));
    }

    function test_delays_that_keep_money_are_bounded(uint8 which, uint32 value) public {
        ParamSet memory p = Defaults.parameters();
        bytes32[4] memory keys = [bytes32("maxPause"), "unbondDelay", "withdrawDelay", "breakerTime"];
        uint32[4] memory most = [uint32(3 days), 30 days, 30 days, 90 days];
        uint32 x = uint32(bound(value, most[which % 4] + 1, type(uint32).max));
        if (which % 4 == 0) p.times.maxPause = x;
        else if (which % 4 == 1) p.times.unbondDelay = x;
        else if (which % 4 == 2) p.times.withdrawDelay = x;
        else p.times.breakerTime = x;
        create(p, false, keys[which % 4]);
    }

    function test_a_breaker_counts_for_as_long_as_a_conviction_waits(uint32 time) public {
        ParamSet memory p = Defaults.parameters();
        p.times.breakerTime = time % 2 days;
        create(p, p.times.breakerTime >= p.times.appealTime + p.times.airgap, "breakerTime");
    }

    function test_shares_and_counts_have_bounds(uint8 which, uint16 value) public {
        ParamSet memory p = Defaults.parameters();
        p.money.demandBond = 1;
        bytes32[6] memory keys =
            [bytes32("operatorShareBps"), "auditRateBps", "certifyBps", "minPool", "maxBatch", "breakerOperators"];
        which %= 6;
        bool ok = value <= 10_000;
        if (which == 0) (p.shares.operatorShareBps, ok) = (value, value <= 5_000);
        else if (which == 1) p.shares.auditRateBps = value;
        else if (which == 2) (p.committee.certifyBps, ok) = (value, ok && value != 0);
        else if (which == 3) (p.committee.minPool, ok) = (value, ok && value != 0);
        else if (which == 4) (p.shares.maxBatch, ok) = (value % 400, value % 400 != 0 && value % 400 <= 188);
        else (p.committee.breakerOperators, ok) = (uint8(value), uint8(value) != 0);
        create(p, ok, keys[which]);
    }

    function test_a_quorum_is_never_less_than_tau(uint16 num, uint16 den, uint8 seats) public {
        ParamSet memory p = Defaults.parameters();
        p.committee.tauDen = uint16(bound(den, 20, 1_000));
        uint256 least = (uint256(p.committee.tauDen) * 2 + 2) / 3;
        p.committee.tauNum = uint16(bound(num, least, uint256(p.committee.tauDen) * 4 / 5));
        uint256 q = new Params(address(manager), p).quorum(1, seats);
        that(q * p.committee.tauDen >= uint256(seats) * p.committee.tauNum, "enough");
        that(seats == 0 || (q - 1) * p.committee.tauDen < uint256(seats) * p.committee.tauNum, "and not one more");
    }

    function test_bonds_follow_from_prices(uint96 fee, uint96 privacy) public {
        ParamSet memory p = Defaults.parameters();
        p.money.feePerSeat = uint96(bound(fee, 1, p.money.slashAmount / 63));
        p.money.privacyPrice = uint96(bound(privacy, 0, p.money.slashAmount - 63 * p.money.feePerSeat));
        privacy = p.money.privacyPrice;
        Params made = new Params(address(manager), p);
        uint256 want = 15 * uint256(p.money.feePerSeat) + privacy;
        same(made.requiredBond(1), want, "first committee and privacy");
    }

    /// @dev Every field lies where it was put: what is read is what was set, whole and in parts.
    function test_versions_never_change(uint32 window, uint96 fee, uint16 alpha, uint8 reruns) public {
        bytes32 first = keccak256(abi.encode(params.get(1)));
        same(first, keccak256(abi.encode(Defaults.parameters())), "the first version");
        ParamSet memory p = Defaults.parameters();
        p.times.window = uint32(bound(window, 1, 1 days));
        p.money.feePerSeat = uint96(bound(fee, 1, p.money.slashAmount / 64));
        (p.shares.alphaBps, p.committee.maxReruns) = (uint16(alpha % 5_001), reruns % 3);
        same(params.set(p), 2, "its number");
        same(params.version(), 2, "in force");
        same(keccak256(abi.encode(params.get(1))), first, "the first is as it was");
        same(keccak256(abi.encode(params.get(2))), keccak256(abi.encode(p)), "the second as it was set");
        bytes memory parts = abi.encode(params.times(2), params.committee(2), params.money(2), params.shares(2));
        same(keccak256(parts), keccak256(abi.encode(p.times, p.committee, p.money, p.shares)), "in parts");
        (uint256 feePerSeat, uint256 slashAmount) = params.feeAndSlash(2);
        that(feePerSeat == p.money.feePerSeat && slashAmount == p.money.slashAmount, "and in short");
        same(params.withdrawDelay(), p.times.withdrawDelay, "of the version in force");
    }

    function test_only_who_governs_sets_a_version(address who) public {
        vm.assume(who != address(this));
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(IAccessManaged.AccessManagedUnauthorized.selector, who));
        params.set(Defaults.parameters());
    }

    function test_versions_that_are_not_there_have_no_numbers(uint32 v, uint8 which) public {
        vm.assume(v != 1);
        bytes[14] memory calls = [
            abi.encodeCall(IParams.get, (v)),
            abi.encodeCall(IParams.times, (v)),
            abi.encodeCall(IParams.committee, (v)),
            abi.encodeCall(IParams.money, (v)),
            abi.encodeCall(IParams.shares, (v)),
            abi.encodeCall(IParams.longestDispute, (v)),
            abi.encodeCall(IParams.requiredBond, (v)),
            abi.encodeCall(IParams.quorum, (v, 15)),
            abi.encodeCall(IParams.feeAndSlash, (v)),
            abi.encodeCall(IParams.penalties, (v)),
            abi.encodeCall(IParams.window, (v)),
            abi.encodeCall(IParams.demandTimes, (v)),
            abi.encodeCall(IParams.endTimes, (v)),
            abi.encodeCall(IParams.postTerms, (v))
        ];
        (bool ok, bytes memory why) = address(params).call(calls[which % 14]);
        that(!ok, "refused");
        same(keccak256(why), keccak256(abi.encodeWithSelector(IParams.UnknownVersion.selector, v)), "as unknown");
    }

    /// @dev Old disputes still need the stake, the data and the keys that a new version would let go.
    function test_new_delays_outlast_old_disputes(uint8 which, uint32 delay, uint32 passed) public {
        uint256 old = params.longestDispute(1);
        ParamSet memory p = shorter();
        params.set(p);
        same(params.longestLive(), old, "disputes of the first version still run");
        uint32 wait = passed % 30 days;
        vm.warp(block.timestamp + wait);
        uint32 d = uint32(bound(delay, longest(p) + 1, old + 1 days));
        bytes32[3] memory keys = [bytes32("unbondDelay"), "daRetention", "keyRetention"];
        if (which % 3 == 0) p.times.unbondDelay = d;
        else if (which % 3 == 1) p.times.daRetention = d + p.times.daMargin;
        else p.times.keyRetention = d;
        bool live = wait < 15 days;
        if (live && d <= old) {
            vm.expectRevert(abi.encodeWithSelector(IParams.StaticLawBroken.selector, keys[which % 3], d, old));
        }
        params.set(p);
        same(params.longestLive(), live ? old : longest(p), "forgotten when its last request has ended");
    }

    /// @dev Who asked for its stake under the old delay has it back before a longer dispute would end.
    function test_new_disputes_end_before_stake_asked_back_is_gone(uint32 more, uint32 passed) public {
        ParamSet memory p = Defaults.parameters();
        (p.times.unbondDelay, p.times.daRetention, p.times.keyRetention) = (30 days, 101 days, 100 days);
        params.set(p);
        vm.warp(block.timestamp + passed % 30 days);
        p.times.window += uint32(more % 13 days);
        uint256 want = longest(p);
        if (passed % 30 days < 15 days && want >= 14 days) {
            bytes32 key = "unbondDelay";
            vm.expectRevert(abi.encodeWithSelector(IParams.StaticLawBroken.selector, key, 14 days, want));
        }
        params.set(p);
    }

    function test_a_longer_pause_waits_for_the_old_disputes(uint32 pause, uint32 passed) public {
        ParamSet memory p = Defaults.parameters();
        p.times.maxPause = pause % 3 days;
        params.set(p);
        uint256 least = p.times.maxPause < 1 days ? p.times.maxPause : 1 days;
        same(params.pauseLimit(), least, "the shorter of the two");
        vm.warp(block.timestamp + passed);
        same(params.pauseLimit(), passed < 15 days ? least : p.times.maxPause, "until the old one is over");
    }

    /// @dev The strictest of all that are still owed, whatever came between.
    function test_a_version_between_hides_nothing(uint32 first, uint32 second) public {
        uint256 old = params.longestDispute(1);
        vm.warp(block.timestamp + first % 7 days);
        params.set(shorter());
        vm.warp(block.timestamp + second % 7 days);
        params.set(shorter());
        same(params.longestLive(), old, "the longest is remembered");
        vm.warp(block.timestamp + 15 days);
        same(params.longestLive(), longest(shorter()), "and ends");
    }

    /// @dev Of all that are still owed: the shortest pause, until the latest of them is over.
    function test_the_strictest_of_all_that_are_owed_counts(uint32[2] memory pauses, uint32 passed) public {
        ParamSet memory p = shorter();
        p.times.unbondDelay = uint32(params.longestDispute(1)) + 1 hours;
        (uint256 began, uint256 least) = (block.timestamp, 1 days);
        for (uint256 i = 0; i < 2; ++i) {
            p.times.maxPause = uint32(bound(pauses[i], 0, 36 hours));
            if (p.times.maxPause < least) least = p.times.maxPause;
            params.set(p);
        }
        // The first version is owed for longest: for its delay and its pause.
        vm.warp(block.timestamp + bound(passed, 0, 20 days));
        bool owed = block.timestamp < began + 15 days;
        same(params.pauseLimit(), owed ? least : p.times.maxPause, "pause");
    }

    function shorter() private pure returns (ParamSet memory p) {
        p = Defaults.parameters();
        (p.times.window, p.times.airgap, p.times.appealTime) = (10 minutes, 1 hours, 10 minutes);
    }
}
