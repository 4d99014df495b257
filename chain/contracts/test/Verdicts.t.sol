// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Outcome, ParamSet, Phase, Verdict} from "../src/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {Hashes} from "../src/Types.sol";
import {Network} from "./Network.sol";

/// @title Every row of the verdict table, with its money
contract VerdictsTest is Network {
    uint256 private constant FEE = 0.01 ether;

    struct Before {
        uint256 operatorStake;
        uint256 stakes;
        uint256 bond;
    }

    function start(uint64 salt) private returns (bytes32 id, Before memory b) {
        vm.roll(block.number + salt % 1000);
        id = opened(challenger, 1);
        b = Before(vault.stakeOf(operator), vault.totalStake(), params.requiredBond());
        drawn(id);
    }

    function seatsCredit() private view returns (uint256 sum) {
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            sum += ledger.creditOf(verifier(i));
        }
    }

    function ended(bytes32 id, Verdict verdict) private view {
        same(uint8(disputes.dispute(id).verdict), uint8(verdict), "verdict");
        same(uint8(disputes.phaseOf(id)), uint8(Phase.FINAL), "phase");
        moneyBalances();
        nothingIsBound(id);
    }

    function test_an_honest_receipt_is_upheld_and_the_challenger_loses_its_bond(uint64 salt) public {
        (bytes32 id, Before memory b) = start(salt);
        unanimous(id, equal());
        ended(id, Verdict.UPHELD);
        uint256 rest = b.bond - 15 * FEE;
        same(seatsCredit(), 15 * FEE, "fees");
        same(ledger.creditOf(operator), rest / 2, "operator's share");
        same(ledger.creditOf(challenger), 0, "challenger");
        same(ledger.totalBurned(), rest - rest / 2, "burned");
        same(vault.totalStake(), b.stakes, "stakes");
    }

    function test_a_wrong_output_is_overturned_and_replaced(uint64 salt, bytes32 tokens) public {
        vm.assume(tokens != TOKENS);
        (bytes32 id, Before memory b) = start(salt);
        unanimous(id, other(tokens));
        ended(id, Verdict.OVERTURNED);
        same(disputes.dispute(id).replacement, Hashes.outHash(tokens, TRACE), "replacement");
        same(b.operatorStake - vault.stakeOf(operator), 10 ether, "slashed");
        same(ledger.creditOf(challenger), b.bond + 3 ether, "bond and alpha");
        uint256 perSeat = (3 ether + 15 * FEE) / 15;
        same(seatsCredit(), perSeat * 15, "beta and fees");
        same(ledger.totalBurned(), 7 ether - perSeat * 15, "burned");
        that(ledger.totalBurned() >= 2 ether, "a fifth burns");
    }

    function test_a_defective_record_is_invalid_and_nothing_replaces_it(uint64 salt, uint8 code) public {
        (bytes32 id, Before memory b) = start(salt);
        unanimous(id, defect(code));
        ended(id, Verdict.INVALID);
        same(disputes.dispute(id).replacement, bytes32(0), "replacement");
        same(b.operatorStake - vault.stakeOf(operator), 10 ether, "slashed");
        same(ledger.creditOf(challenger), b.bond + 3 ether, "bond and alpha");
    }

    function test_withheld_bytes_cost_as_much_but_earn_no_alpha(uint64 salt) public {
        (bytes32 id, Before memory b) = start(salt);
        unanimous(id, doubt(Outcome.UNAVAILABLE));
        ended(id, Verdict.UNAVAILABLE);
        same(b.operatorStake - vault.stakeOf(operator), 10 ether, "slashed");
        same(ledger.creditOf(challenger), b.bond, "bond only");
        same(seatsCredit(), (3 ether + 15 * FEE) / 15 * 15, "beta and fees");
    }

    function test_bytes_for_some_and_not_for_others_are_unavailable(uint64 salt, uint8 code, bool lies) public {
        (bytes32 id, Before memory b) = start(salt);
        Act[] memory acts = new Act[](members(id).length);
        vm.assume(acts.length > 1);
        uint256 missing = 0;
        for (uint256 i = 0; i < acts.length; ++i) {
            bool sees = i % 2 == 0;
            acts[i] = sees ? (lies ? other("x") : defect(code)) : doubt(Outcome.UNAVAILABLE);
            if (!sees) missing += members(id)[i].seats;
        }
        vm.assume(missing > 5 && missing < 10); // neither side reaches 10 of 15 alone
        played(id, acts);
        disputes.settle(id);
        ended(id, Verdict.UNAVAILABLE);
        same(seatsCredit(), (3 ether + 15 * FEE) / 15 * 15, "both groups are paid");
        same(vault.totalStake(), b.stakes - 10 ether, "nobody of the committee pays");
    }

    function test_doubt_never_slashes_and_ends_in_a_draw(uint64 salt, uint8 kind) public {
        Outcome outcome = kind % 2 == 0 ? Outcome.NO_KEY : Outcome.CANNOT_EXECUTE;
        (bytes32 id, Before memory b) = start(salt);
        unanimous(id, doubt(outcome));
        same(uint8(disputes.phaseOf(id)), uint8(Phase.SEED), "next round");
        same(disputes.dispute(id).round, 2, "round");
        drawn(id);
        unanimous(id, doubt(outcome));
        ended(id, Verdict.DRAW);
        same(seatsCredit(), 0, "nobody worked");
        same(vault.totalStake(), b.stakes, "nobody pays for it");
        same(ledger.creditOf(challenger), b.bond, "the whole bond");
        same(ledger.totalBurned(), 0, "burned");
    }

    function test_a_draw_pays_the_seats_that_did_work_and_no_other(uint64 salt, uint256 choices) public {
        (bytes32 id, Before memory b) = start(salt);
        uint256[VERIFIERS] memory due;
        uint256 worked = 0;
        for (uint16 round = 1; round <= 2; ++round) {
            IDisputes.Member[] memory list = members(id);
            Act[] memory acts = new Act[](list.length);
            for (uint256 i = 0; i < acts.length; ++i) {
                bool works;
                (acts[i], works) = alone(uint256(keccak256(abi.encode(choices, round, i))), i);
                // Nor do bytes that are missing for the first and a fault of another together reach a quorum.
                vm.assume((i == 0 ? 0 : list[0].seats) + list[i].seats < (round == 1 ? 10 : 21));
                if (!works) continue;
                worked += list[i].seats;
                due[indexOf(list[i].voter)] += list[i].seats * FEE;
            }
            played(id, acts);
            disputes.settle(id);
            if (round == 1) drawn(id);
        }
        ended(id, Verdict.DRAW);
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            same(ledger.creditOf(verifier(i)), due[i], "a fee for each seat that worked");
        }
        same(b.operatorStake - vault.stakeOf(operator), worked * FEE / 2, "operator's half");
        same(b.stakes - vault.totalStake(), worked * FEE / 2, "no verifier pays");
        same(ledger.creditOf(challenger), b.bond - worked * FEE / 2, "rest of the bond");
    }

    /// @dev Something that no other member says, unless it says that there is nothing to work on; and whether it is work.
    function alone(uint256 dice, uint256 i) private pure returns (Act memory act, bool works) {
        uint256 kind = dice % 6;
        if (kind == 0) return (other(bytes32(i + 1)), true);
        if (kind == 1) return (defect(uint8(i + 1)), true);
        if (kind == 2) return (i == 0 ? doubt(Outcome.UNAVAILABLE) : other(bytes32(i + 1)), true);
        if (kind == 3) return (doubt(Outcome.NO_KEY), false);
        if (kind == 4) return (doubt(Outcome.CANNOT_EXECUTE), false);
        return (dice % 7 == 0 ? absent() : silent(), false);
    }

    function indexOf(address voter) private pure returns (uint256 i) {
        while (verifier(i) != voter) ++i;
    }

    function test_silence_never_slashes(uint64 salt, bool commits) public {
        (bytes32 id, Before memory b) = start(salt);
        unanimous(id, commits ? silent() : absent());
        drawn(id);
        unanimous(id, commits ? silent() : absent());
        ended(id, Verdict.DRAW);
        same(vault.totalStake(), b.stakes, "stakes");
        same(ledger.creditOf(challenger), b.bond, "the whole bond");
    }

    function test_absent_silent_wrong_and_unable_seats_pay_each_their_penalty(uint64 salt, uint8 who, uint8 what)
        public
    {
        (bytes32 id,) = start(salt);
        IDisputes.Member[] memory list = members(id);
        uint256 odd = who % list.length;
        vm.assume(list[odd].seats <= 5);
        Act[] memory acts = new Act[](list.length);
        for (uint256 i = 0; i < acts.length; ++i) {
            acts[i] = equal();
        }
        uint256 rate;
        (acts[odd], rate) = misdeed(what);
        uint256 had = vault.stakeOf(list[odd].voter);
        played(id, acts);
        disputes.settle(id);
        ended(id, Verdict.UPHELD);
        same(had - vault.stakeOf(list[odd].voter), rate * list[odd].seats, "penalty");
        same(ledger.creditOf(list[odd].voter), 0, "no fee");
    }

    function misdeed(uint8 what) private pure returns (Act memory act, uint256 rate) {
        act = equal();
        what %= 6;
        if (what == 0) return (absent(), 0.02 ether);
        if (what == 1) return (silent(), 0.05 ether);
        if (what == 2) return (other("wrong"), 0.1 ether);
        if (what == 3) return (doubt(Outcome.CANNOT_EXECUTE), 0.02 ether);
        if (what == 4) return (doubt(Outcome.NO_KEY), 0);
        act.digest = keccak256("copied without the leaves");
        return (act, 0.1 ether);
    }

    function test_first_round_seats_answer_to_the_final_verdict(uint64 salt) public {
        (bytes32 id,) = start(salt);
        IDisputes.Member[] memory first = members(id);
        Act[] memory acts = new Act[](first.length);
        uint256 right = 0;
        for (uint256 i = 0; i < acts.length; ++i) {
            acts[i] = i % 2 == 0 ? equal() : other("wrong");
            if (i % 2 == 0) right += first[i].seats;
        }
        vm.assume(right > 5 && right < 10);
        played(id, acts);
        disputes.settle(id);
        drawn(id);
        unanimous(id, equal());
        ended(id, Verdict.UPHELD);
        same(seatsCredit(), (31 + right) * FEE, "right seats of both rounds");
        same(vault.totalStake(), 200 ether + 70 ether - (15 - right) * 0.1 ether, "wrong seats of the first round");
    }

    function test_rewards_never_exceed_four_fifths_of_a_slash(uint96 slashAmount, uint16 alpha, uint64 salt) public {
        ParamSet memory p = parameters();
        // A slash so small that alpha, beta and fees together would ask for more than it holds.
        p.slashAmount = uint96(bound(slashAmount, 1, 1 ether));
        p.alphaBps = uint16(bound(alpha, 0, 8_000));
        p.betaBps = 8_000 - p.alphaBps;
        deploy(p);
        populate();
        (bytes32 id, Before memory b) = start(salt);
        unanimous(id, other("true"));
        ended(id, Verdict.OVERTURNED);
        uint256 rewards = ledger.creditOf(challenger) - b.bond + seatsCredit();
        that(rewards <= uint256(p.slashAmount) * 8 / 10, "four fifths");
        same(ledger.totalBurned(), p.slashAmount - rewards, "the rest burns");
    }

    function test_two_disputes_never_slash_the_same_stake(uint96 slashAmount, uint64 salt, bool reversed) public {
        ParamSet memory p = parameters();
        p.slashAmount = uint96(bound(slashAmount, 50 ether + 1, 100 ether));
        p.minOperatorStake = p.slashAmount;
        deploy(p);
        populate();
        vm.roll(block.number + salt % 1000);
        uint64 first = anchored(receipt(1));
        uint64 second = anchored(receipt(2));
        bytes32 a = openedAs(challenger, receipt(1), first);
        bytes32 b = openedAs(challenger, receipt(2), second);
        same(vault.lockedOf(operator), 100 ether, "all that is there");
        // The first dispute bound a whole slash, the second only what was left: neither takes from the other.
        convicted(reversed ? b : a);
        same(vault.stakeOf(operator), reversed ? p.slashAmount : 100 ether - p.slashAmount, "one slash");
        convicted(reversed ? a : b);
        ended(b, Verdict.OVERTURNED);
        same(vault.stakeOf(operator), 0, "the other takes what it bound");
    }

    function convicted(bytes32 id) private {
        drawn(id);
        unanimous(id, other("true"));
    }

    function test_the_papers_rule_slashes_the_honest_where_ours_does_not(uint64 salt, bool ours) public {
        ParamSet memory p = parameters();
        p.paperRule = !ours;
        deploy(p);
        populate();
        (bytes32 id, Before memory b) = start(salt);
        Act[] memory acts = new Act[](members(id).length);
        uint256 liars = 0;
        // Just over a third of the seats stays away or lies; the rest confirms an honest receipt.
        for (uint256 i = 0; i < acts.length; ++i) {
            acts[i] = equal();
            if (liars < 6) {
                acts[i] = i % 2 == 0 ? absent() : other("lie");
                liars += members(id)[i].seats;
            }
        }
        vm.assume(liars < 10);
        played(id, acts);
        disputes.settle(id);
        if (ours) {
            same(vault.stakeOf(operator), b.operatorStake, "nobody is slashed");
            drawn(id);
            unanimous(id, equal());
            ended(id, Verdict.UPHELD);
        } else {
            ended(id, Verdict.OVERTURNED);
            same(vault.stakeOf(operator), b.operatorStake - 10 ether, "an honest operator is slashed");
        }
    }

    function test_any_votes_end_along_the_table_and_every_wei_is_accounted_for(uint64 salt, uint256 choices) public {
        (bytes32 id, Before memory b) = start(salt);
        bool over = false;
        for (uint256 round = 1; !over; ++round) {
            Act[] memory acts = new Act[](members(id).length);
            for (uint256 i = 0; i < acts.length; ++i) {
                acts[i] = chosen(uint256(keccak256(abi.encode(choices, round, i))), choices);
            }
            Verdict want = expected(members(id), acts, round == 1 ? 10 : 21);
            played(id, acts);
            disputes.settle(id);
            over = disputes.phaseOf(id) == Phase.FINAL;
            if (want == Verdict.NONE && round == 2) want = Verdict.DRAW;
            same(uint8(disputes.dispute(id).verdict), uint8(want), "verdict");
            that(over == (want != Verdict.NONE), "another round only where there is no verdict");
            moneyBalances();
            if (!over) drawn(id);
        }
        nothingIsBound(id);
        uint256 left = ledger.totalCredits() + ledger.totalBurned();
        same(left, b.bond + b.stakes - vault.totalStake(), "in == out");
        that(b.operatorStake - vault.stakeOf(operator) <= 10 ether, "at most one slash");
    }

    /// @dev Skewed, so that verdicts of every kind come up.
    function chosen(uint256 dice, uint256 choices) private pure returns (Act memory) {
        Act[8] memory all = [
            equal(),
            other("a"),
            other("b"),
            defect(3),
            doubt(Outcome.UNAVAILABLE),
            doubt(Outcome.CANNOT_EXECUTE),
            absent(),
            silent()
        ];
        return dice % 3 == 0 ? all[(dice >> 8) % 8] : all[choices % 8];
    }

    /// @dev The table of design section 9, written a second time and differently: seats per answer, then the rows.
    function expected(IDisputes.Member[] memory list, Act[] memory acts, uint256 quorum)
        private
        pure
        returns (Verdict)
    {
        uint256[5] memory n; // equal, a, b, defect, unavailable
        for (uint256 i = 0; i < acts.length; ++i) {
            if (!acts[i].commits || !acts[i].reveals) continue;
            if (acts[i].outcome == Outcome.EXECUTED && acts[i].tokens == TOKENS) n[0] += list[i].seats;
            else if (acts[i].tokens == "a") n[1] += list[i].seats;
            else if (acts[i].tokens == "b") n[2] += list[i].seats;
            else if (acts[i].outcome == Outcome.INVALID) n[3] += list[i].seats;
            else if (acts[i].outcome == Outcome.UNAVAILABLE) n[4] += list[i].seats;
        }
        if (n[0] >= quorum) return Verdict.UPHELD;
        if (n[1] >= quorum || n[2] >= quorum) return Verdict.OVERTURNED;
        if (n[3] >= quorum) return Verdict.INVALID;
        for (uint256 i = 1; i < 4; ++i) {
            if (n[i] + n[4] >= quorum) return Verdict.UNAVAILABLE;
        }
        return Verdict.NONE;
    }
}
