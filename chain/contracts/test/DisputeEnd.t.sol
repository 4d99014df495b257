// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {ParamSet, Phase, Receipt, Standing, Status, Verdict, Vote} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";
import {ISettlement} from "../src/interfaces/ISettlement.sol";
import {Courthouse} from "./Courthouse.sol";

/// @title Verdicts, appeals, reruns, refunds, the breaker, and ends
/// forge-config: default.fuzz.runs = 4
contract DisputeEndTest is Courthouse {
    function decided(bytes32 id, Verdict want) private view {
        same(uint256(disputes.dispute(id).verdict), uint256(want), "verdict");
    }

    function appeals(bytes32 id) private {
        uint256 bond = disputes.appealBond(id);
        disputes.appeal{value: bond}(id);
    }

    function ends(bytes32 id) private {
        toFinalize(id);
        disputes.finalize(id);
        inPhase(id, Phase.FINAL);
    }

    function wrongPhase(bytes32 id, Phase want) private view returns (bytes memory) {
        return abi.encodeWithSelector(IDisputes.WrongPhase.selector, id, disputes.phaseOf(id), want);
    }

    /// @dev A key of what `choice` says.
    function keyOf(bytes32 id, uint256 choice) private view returns (bytes32) {
        IRounds.Member memory m;
        Vote memory v = voteOf(id, m, choice);
        bytes32 outHash = keccak256(abi.encode(v.tokensHash, v.traceRoot));
        return keccak256(abi.encode(v.outcome, v.code, v.outcome == 1 ? outHash : bytes32(0)));
    }

    /// @dev The running round, each member voting as `choices` say: ten votes, not to reveal, not to commit.
    function mixed(bytes32 id, uint256 choices) private {
        drawn(id, keccak256(abi.encode(id, choices)));
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (choiceOf(choices, i) < 11) committed(voteOf(id, list[i], choiceOf(choices, i) % 10));
        }
        toReveal(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (choiceOf(choices, i) < 10) rounds.reveal(voteOf(id, list[i], choiceOf(choices, i)), "");
        }
        toSettle(id);
        disputes.settle(id);
    }

    function choiceOf(uint256 choices, uint256 i) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(choices, i))) % 12;
    }

    // --- one round ---

    function test_a_round_that_agrees_decides(uint256 salt, uint8 choice) public {
        bytes32 id = opened(salt);
        uint256 c = choice % 8;
        judged(id, c);
        Verdict want = c % 4 == 0 ? Verdict.UPHELD : c < 4 ? Verdict.OVERTURNED : Verdict.INVALID;
        if (c == 7) want = Verdict.UNAVAILABLE;
        decided(id, want);
        inPhase(id, Phase.APPEAL);
        IDisputes.Dispute memory d = disputes.dispute(id);
        same(d.key, want == Verdict.UPHELD ? bytes32(0) : keyOf(id, c), "key");
        same(d.appealEnd, guardian.clock() + 2 hours, "appeal");
        same(d.airgapEnd, d.appealEnd + 1 days, "airgap");
        passes(2 hours);
        inPhase(id, Phase.APPEAL);
        passes(1);
        inPhase(id, Phase.AIRGAP);
        ends(id);
        same(docket.openDisputes(d.batchId), 0, "anchor told");
        that(settlement.accountOf(id).ended, "money moved");
        (,, Verdict said, bytes32 replacement) = disputes.receiptStatus(receiptIdOf[id]);
        that(said == want, "status");
        bytes32 other = keccak256(abi.encode(keccak256(abi.encode("other", c)), bytes32("trace")));
        same(replacement, want == Verdict.OVERTURNED ? other : bytes32(0), "replacement");
        vm.expectRevert(wrongPhase(id, Phase.AIRGAP));
        disputes.finalize(id);
    }

    /// @dev The operator signs both fields, so the true outHash beside other tokens is a lie: once it was upheld and final.
    function test_false_tokens_beside_the_true_outHash_are_convicted(uint256 salt, bytes32 tokens) public {
        vm.assume(tokens != "tokens");
        Receipt memory r = receiptOf(salt);
        r.tokensHash = tokens;
        bytes32 id = disputes.disputeId(keccak256(abi.encode(r)));
        openedFor(r, address(this), disputes.altCommitOf(id, address(this), keyOf(id, 0), SALT));
        judged(id, 0);
        decided(id, Verdict.OVERTURNED);
        IRounds.Tally memory t = rounds.tallyOf(id, 1);
        that(t.equal == 0 && t.lead == 5 && t.leadVerdict == Verdict.OVERTURNED, "not one seat is equal");
        IDisputes.Dispute memory d = disputes.dispute(id);
        same(d.key, keyOf(id, 0), "key");
        same(d.replacement, r.outHash, "the true output stands");
        disputes.openAlt(id, SALT);
        ends(id);
        for (uint16 seat = 0; seat < 5; ++seat) {
            (, Standing s) = standingOf(id, 1, seat);
            that(s == Standing.RIGHT, "who found it was right");
        }
        ISettlement.Account memory a = settlement.accountOf(id);
        same(a.slashed, params.money(1).slashAmount, "slashed");
        that(a.toChallenger > a.bond, "the challenger has its bond, and more");
    }

    function test_nothing_is_counted_or_ended_early(uint256 salt) public {
        bytes32 id = inCommit(salt);
        uint256 end = rounds.roundOf(id, 1).commitEnd;
        vm.expectRevert(abi.encodeWithSelector(IRounds.TooEarly.selector, guardian.clock(), end + 1));
        disputes.settle(id);
        IRounds.Member[] memory list = members(id);
        committed(voteOf(id, list[0], 0));
        toReveal(id);
        end = rounds.roundOf(id, 1).revealEnd;
        vm.expectRevert(abi.encodeWithSelector(IRounds.TooEarly.selector, guardian.clock(), end + 1));
        disputes.settle(id);
        vm.expectRevert(wrongPhase(id, Phase.AIRGAP));
        disputes.finalize(id);
        vm.expectRevert(wrongPhase(id, Phase.APPEAL));
        disputes.appeal(id);
    }

    function test_money_waits_for_the_airgap(uint256 salt, uint32 early) public {
        bytes32 id = opened(salt);
        judged(id, 0);
        uint256 end = disputes.dispute(id).airgapEnd;
        passes(2 hours + 1 + early % 1 days);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.TooEarly.selector, guardian.clock(), end + 1));
        disputes.finalize(id);
        guardian.pause(1 days);
        vm.expectRevert(abi.encodeWithSelector(IGuardian.NotNow.selector, true));
        disputes.finalize(id);
        passes(1 days);
        vm.expectPartialRevert(IDisputes.TooEarly.selector);
        disputes.finalize(id);
        ends(id);
    }

    /// @dev Every seat has one standing, and those that are right are those that `paidSeats` counts.
    function test_standings_are_what_is_paid(uint256 salt, uint256 choices) public {
        bytes32 id = opened(salt);
        for (uint256 level = 0; level < 3 && disputes.phaseOf(id) == Phase.SEED; ++level) {
            mixed(id, uint256(keccak256(abi.encode(choices, level))));
        }
        if (disputes.phaseOf(id) == Phase.SEED) return;
        ends(id);
        bool calm = disputes.dispute(id).verdict == Verdict.DRAW;
        for (uint16 round = 1; round <= disputes.dispute(id).round; ++round) {
            (uint256 right, uint256 worked) = standings(id, round, calm);
            (uint16 wantRight, uint16 wantWorked) = rounds.paidSeats(id, round);
            if (calm) same(worked, wantWorked, "worked");
            else same(right, wantRight, "right");
            settlement.settleSeats(id, round, 255);
        }
        same(ledger.potOf(id), 0, "the pot is empty");
    }

    function standings(bytes32 id, uint16 round, bool calm) private view returns (uint256 right, uint256 worked) {
        IRounds.Member[] memory list = rounds.membersOf(id, round);
        IRounds.Round memory r = rounds.roundOf(id, round);
        for (uint256 i = 0; i < list.length; ++i) {
            for (uint16 seat = 0; seat < r.seats; ++seat) {
                if (list[i].seatMask & (1 << seat) == 0) continue;
                (address holder, Standing s) = standingOf(id, round, seat);
                same(holder, list[i].voter, "holder");
                if (s == Standing.RIGHT) ++right;
                if (s == Standing.WORKED) ++worked;
                bool revealed = r.revealedMask & (1 << seat) != 0;
                bool committed_ = r.committedMask & (1 << seat) != 0;
                if (!calm && !committed_) that(s == Standing.ABSENT, "absent");
                if (!calm && committed_ && !revealed) that(s == Standing.NOT_REVEALED, "not revealed");
                if (calm) that(s == Standing.WORKED || s == Standing.NEUTRAL, "no penalties");
            }
        }
    }

    // --- more rounds ---

    function test_rounds_without_a_verdict_grow_and_end_in_a_draw(uint256 salt) public {
        bytes32 id = opened(salt);
        uint256 fund = ledger.treasury();
        for (uint256 level = 1; level <= 3; ++level) {
            IRounds.Round memory r = rounds.roundOf(id, disputes.dispute(id).round);
            same(r.level * 1_000 + r.seats, level * 1_000 + [uint256(5), 9, 15][level - 1], "level");
            judged(id, 9);
        }
        decided(id, Verdict.DRAW);
        inPhase(id, Phase.AIRGAP);
        same(fund - ledger.treasury(), 24 * 0.01 ether, "advanced for both larger rounds");
        vm.expectRevert(wrongPhase(id, Phase.APPEAL));
        disputes.appeal(id);
        ends(id);
        same(disputes.dispute(id).key, bytes32(0), "nothing was found");
    }

    function test_rounds_without_a_key_are_rerun(uint256 salt) public {
        bytes32 id = opened(salt);
        for (uint256 i = 0; i < 2; ++i) {
            judged(id, 8);
            same(disputes.dispute(id).level, 1, "same level");
        }
        IDisputes.Dispute memory d = disputes.dispute(id);
        that(d.round == 3 && d.reruns == 2, "reruns");
        judged(id, 8);
        same(disputes.dispute(id).level, 2, "no rerun left");
    }

    /// @dev Who stalls by a word that costs nothing is charged once a later committee has the key; what stays undecided charges nobody.
    function test_no_key_is_an_absence_where_a_later_committee_had_it(uint256 salt, uint8 choice) public {
        bytes32 id = opened(salt);
        judged(id, 8);
        uint256 c = choice % 8;
        judged(id, c);
        ends(id);
        Standing want = c == 7 ? Standing.NEUTRAL : Standing.ABSENT;
        for (uint16 seat = 0; seat < 5; ++seat) {
            (, Standing s) = standingOf(id, 1, seat);
            that(s == want, "no key");
            (, s) = standingOf(id, 2, seat);
            that(s == Standing.RIGHT, "the rerun was right");
        }
        settlement.settleSeats(id, 1, 255);
        uint256 each = params.money(1).absentPenalty;
        same(settlement.accountOf(id).penalties, c == 7 ? 0 : 5 * each, "charged as absent");
    }

    /// @dev In the very round that decided, who had no key is believed; and in a draw everybody is.
    function test_no_key_beside_a_verdict_costs_nothing(uint256 salt) public {
        bytes32 id = opened(salt);
        drawn(id, keccak256(abi.encode("beside", salt)));
        IRounds.Member[] memory list = members(id);
        // The others are a quorum.
        vm.assume(list[0].seats == 1);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter != address(0)) committed(voteOf(id, list[i], i == 0 ? 8 : 0));
        }
        toReveal(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter != address(0)) rounds.reveal(voteOf(id, list[i], i == 0 ? 8 : 0), "");
        }
        toSettle(id);
        disputes.settle(id);
        decided(id, Verdict.UPHELD);
        ends(id);
        (, Standing s) = standingOf(id, 1, 0);
        that(s == Standing.NEUTRAL, "neither paid nor charged");
    }

    function test_a_draw_pays_nobody_and_charges_next_to_nothing(uint256 salt) public {
        uint256 treasury = ledger.treasury();
        bytes32 id = opened(salt);
        for (uint256 level = 1; level <= 3; ++level) {
            judged(id, 9);
        }
        ends(id);
        for (uint16 round = 1; round <= 3; ++round) {
            settlement.settleSeats(id, round, 255);
        }
        ISettlement.Account memory a = settlement.accountOf(id);
        that(a.perSeat == 0 && a.toVerifiers == 0 && a.penalties == 0, "no seat is paid or charged");
        that(a.slashed == 0 && a.toOperator == 0 && vault.lockedOf(OPERATOR) == 0, "nor the operator");
        same(a.toChallenger, a.bond - params.money(1).feePerSeat, "the bond comes back, less the fee of a seat");
        same(a.burned, params.money(1).feePerSeat, "which is burned");
        same(ledger.treasury(), treasury, "the treasury has its advance back");
    }

    // --- appeals ---

    function test_a_verdict_is_appealed_once(uint256 salt, uint8 first, uint8 second) public {
        bytes32 id = opened(salt);
        judged(id, first % 8);
        IDisputes.Dispute memory before = disputes.dispute(id);
        uint256 bond = disputes.appealBond(id);
        same(bond, 2 * 9 * 0.01 ether, "bond");
        vm.expectRevert(abi.encodeWithSelector(IDisputes.BondMismatch.selector, bond + 1, bond));
        disputes.appeal{value: bond + 1}(id);
        appeals(id);
        inPhase(id, Phase.SEED);
        judged(id, second % 8);
        inPhase(id, Phase.AIRGAP);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.AlreadyAppealed.selector, id));
        disputes.appeal(id);
        ends(id);
        ISettlement.Account memory a = settlement.accountOf(id);
        bool won = disputes.dispute(id).verdict != before.verdict;
        same(a.toAppellant, won ? bond : 0, "appellant");
    }

    function test_an_appeal_that_finds_nothing_changes_nothing(uint256 salt, uint8 first) public {
        bytes32 id = opened(salt);
        judged(id, first % 8);
        IDisputes.Dispute memory before = disputes.dispute(id);
        appeals(id);
        judged(id, 9);
        judged(id, 9);
        inPhase(id, Phase.AIRGAP);
        IDisputes.Dispute memory d = disputes.dispute(id);
        that(d.verdict == before.verdict && d.key == before.key, "the earlier verdict stands");
        ends(id);
    }

    function test_appeals_come_in_time_and_below_the_last_level(uint256 salt, uint8 choice) public {
        bytes32 id = opened(salt);
        judged(id, choice % 8);
        uint256 end = disputes.dispute(id).appealEnd;
        passes(2 hours + 1);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.TooLate.selector, end + 1, end));
        disputes.appeal(id);
        bytes32 long = opened(~salt);
        judged(long, 9);
        judged(long, 9);
        judged(long, choice % 8);
        inPhase(long, Phase.AIRGAP);
        same(disputes.dispute(long).appealEnd, 0, "never");
        vm.expectRevert(abi.encodeWithSelector(IDisputes.LastLevel.selector, long));
        disputes.appealBond(long);
    }

    // --- who knew ---

    function test_alpha_is_for_who_knew_the_answer(uint256 salt, bytes32 secret_, uint8 choice) public {
        Receipt memory r = receiptOf(salt);
        bytes32 id = disputes.disputeId(keccak256(abi.encode(r)));
        uint256 c = 1 + choice % 3;
        bytes32 mine = disputes.altCommitOf(id, address(this), keyOf(id, c), secret_);
        openedBy(address(this), salt, mine);
        judged(id, c);
        // Other words open nothing; whoever knows the salt may bring it.
        bytes32 other = keccak256(abi.encode(secret_));
        bytes32 have = disputes.altCommitOf(id, address(this), keyOf(id, c), other);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.BadAlt.selector, have, mine));
        disputes.openAlt(id, other);
        vm.prank(address(0xB07));
        disputes.openAlt(id, secret_);
        (address who, bool knew) = disputes.challengerOf(id);
        that(who == address(this) && knew, "it knew");
        vm.expectRevert(abi.encodeWithSelector(IDisputes.NoProgress.selector, id));
        disputes.openAlt(id, secret_);
        ends(id);
        that(settlement.accountOf(id).toChallenger > settlement.accountOf(id).bond, "alpha");
    }

    function test_an_answer_is_shown_in_time_and_for_what_stands(uint256 salt, uint8 late) public {
        bytes32 id = disputes.disputeId(keccak256(abi.encode(receiptOf(salt))));
        openedBy(address(this), salt, disputes.altCommitOf(id, address(this), keyOf(id, 1), SALT));
        vm.expectRevert(wrongPhase(id, Phase.APPEAL));
        disputes.openAlt(id, SALT);
        judged(id, 1);
        disputes.openAlt(id, SALT);
        appeals(id);
        judged(id, 2);
        (, bool knew) = disputes.challengerOf(id);
        that(!knew, "another verdict, another answer");
        vm.expectPartialRevert(IDisputes.BadAlt.selector);
        disputes.openAlt(id, SALT);
        passes(1 days + 1 + late);
        uint256 end = disputes.dispute(id).airgapEnd;
        vm.expectRevert(abi.encodeWithSelector(IDisputes.TooLate.selector, guardian.clock(), end));
        disputes.openAlt(id, SALT);
    }

    // --- refunds ---

    function test_the_guardian_gives_everybody_its_own_back(uint256 salt, uint8 choice, bool late) public {
        bytes32 id = opened(salt);
        vm.expectRevert(wrongPhase(id, Phase.APPEAL));
        guardian.refund(disputes, id);
        judged(id, choice % 8);
        if (late) passes(10 hours);
        vm.expectRevert(abi.encodeWithSelector(bytes4(keccak256("NotAuthorised(address)")), address(this)));
        disputes.refund(id);
        guardian.refund(disputes, id);
        inPhase(id, Phase.FINAL);
        that(disputes.dispute(id).refunded, "refunded");
        same(ledger.creditOf(address(this)), params.requiredBond(1), "bond");
        same(vault.stakeOf(OPERATOR), 100 ether, "nobody is slashed");
        for (uint16 seat = 0; seat < 5; ++seat) {
            (, Standing s) = standingOf(id, 1, seat);
            that(s == Standing.WORKED, "worked");
        }
        vm.expectRevert(wrongPhase(id, Phase.APPEAL));
        guardian.refund(disputes, id);
    }

    // --- the breaker ---

    function convictedOf(uint256 i, uint256 choice) private returns (bytes32 id) {
        address operator = address(uint160(0x0BE70000 + i));
        staked(operator, 30 ether);
        Receipt memory r = receiptOf(i);
        r.operator = operator;
        uint64 batchId = docket.anchor(operator, ENVIRONMENT, 1);
        id = disputes.open{value: params.requiredBond(1)}(r, "", batchId, new bytes32[](0), "alt");
        judged(id, choice);
    }

    function test_convictions_of_many_operators_wait(uint256 salt) public {
        bytes32[3] memory ids;
        for (uint256 i = 0; i < 3; ++i) {
            that(!breaker.isHeld(ENVIRONMENT), "not yet");
            ids[i] = convictedOf(salt % 1_000 + i, 1);
        }
        that(breaker.isHeld(ENVIRONMENT), "held");
        bytes32 upheld = opened(salt);
        judged(upheld, 0);
        ends(upheld);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.Held.selector, ENVIRONMENT));
        disputes.finalize(ids[0]);
        guardian.refund(disputes, ids[1]);
        vm.prank(address(0xDEAD));
        vm.expectPartialRevert(bytes4(keccak256("AccessManagedUnauthorized(address)")));
        breaker.resetBreaker(ENVIRONMENT);
        breaker.resetBreaker(ENVIRONMENT);
        disputes.finalize(ids[0]);
        disputes.finalize(ids[2]);
    }

    /// @dev Each kind of conviction takes stake: in turn a lie, a defect, and what was withheld.
    function test_what_is_held_is_every_slash(uint256 salt, uint8 kind) public {
        for (uint256 i = 0; i < 3; ++i) {
            convictedOf(salt % 1_000 + i, 1);
        }
        uint256[3] memory choices = [uint256(1), 5, 7];
        Verdict[3] memory verdicts = [Verdict.OVERTURNED, Verdict.INVALID, Verdict.UNAVAILABLE];
        bytes32 id = convictedOf(salt % 1_000 + 3, choices[kind % 3]);
        decided(id, verdicts[kind % 3]);
        toFinalize(id);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.Held.selector, ENVIRONMENT));
        disputes.finalize(id);
        breaker.resetBreaker(ENVIRONMENT);
        disputes.finalize(id);
        inPhase(id, Phase.FINAL);
    }

    /// @dev What is held already counts nothing more: the hold ends once, and the count begins anew.
    function test_convictions_during_a_hold_are_not_counted(uint256 salt) public {
        for (uint256 i = 0; i < 5; ++i) {
            convictedOf(salt % 1_000 + i, 1);
        }
        breaker.resetBreaker(ENVIRONMENT);
        for (uint256 i = 5; i < 7; ++i) {
            convictedOf(salt % 1_000 + i, 1);
            that(!breaker.isHeld(ENVIRONMENT), "two of the new count");
        }
        convictedOf(salt % 1_000 + 7, 1);
        that(breaker.isHeld(ENVIRONMENT), "three");
    }

    /// @dev Neither lie nor silence has a quorum, together they do: nobody could judge, and both said what they saw.
    function test_a_mixed_verdict_pays_both_who_saw_a_fault_and_who_saw_nothing(uint256 salt) public {
        bytes32 id = inCommit(salt);
        IRounds.Member[] memory list = members(id);
        uint256[] memory says = new uint256[](list.length);
        uint256 faults = 0;
        for (uint256 i = 0; i < list.length; ++i) {
            that(list[i].voter != address(0), "seated");
            says[i] = faults + list[i].seats <= 2 ? 1 : 7;
            if (says[i] == 1) faults += list[i].seats;
            committed(voteOf(id, list[i], says[i]));
        }
        vm.assume(faults == 2);
        toReveal(id);
        for (uint256 i = 0; i < list.length; ++i) {
            rounds.reveal(voteOf(id, list[i], says[i]), "");
        }
        toSettle(id);
        disputes.settle(id);
        decided(id, Verdict.UNAVAILABLE);
        ends(id);
        for (uint16 seat = 0; seat < 5; ++seat) {
            (, Standing s) = standingOf(id, 1, seat);
            that(s == Standing.RIGHT, "right");
        }
        (, Standing none) = standingOf(id, 1, 5);
        (, Standing before) = standingOf(id, 2, 0);
        that(none == Standing.NONE && before == Standing.NONE, "no such seat, no such round");
    }

    /// @dev One operator many times, or many over a long time, are no fault of the environment.
    function test_the_breaker_counts_operators_within_its_time(uint256 salt, bool slow) public {
        for (uint256 i = 0; i < 4; ++i) {
            bytes32 id = slow ? convictedOf(salt % 1_000 + i, 1) : opened(salt % 1_000 + i);
            if (slow) passes(2 days);
            else judged(id, 1);
        }
        that(!breaker.isHeld(ENVIRONMENT), "not held");
    }

    /// @dev A conviction counts when it is said (ADR-049): two committees that disagree are a reason to look, too.
    function test_a_conviction_that_an_appeal_reversed_counts_until_it_is_old(uint256 salt, bool old) public {
        bytes32 id = convictedOf(salt % 1_000, 1);
        appeals(id);
        judged(id, 0);
        decided(id, Verdict.UPHELD);
        if (old) passes(3 days + 1);
        convictedOf(salt % 1_000 + 1, 1);
        that(!breaker.isHeld(ENVIRONMENT), "two operators");
        convictedOf(salt % 1_000 + 2, 1);
        that(breaker.isHeld(ENVIRONMENT) == !old, "three within the time");
        if (!old) toFinalize(id);
        disputes.finalize(id);
    }

    function drawnOf(uint256 i) private {
        bytes32 id = opened(i);
        for (uint256 level = 1; level <= 3; ++level) {
            judged(id, 9);
        }
        decided(id, Verdict.DRAW);
    }

    /// @dev With stallers of its own it would lie for nothing: not that the environment is at fault, but that nobody can judge it.
    function test_draws_of_one_operator_suspend_it(uint256 salt, bool slow) public {
        vm.prank(OPERATOR);
        registry.registerOperator("");
        for (uint256 i = 0; i < 3; ++i) {
            same(registry.operatorUntil(OPERATOR), type(uint64).max, "not yet");
            drawnOf(salt % 1_000 + i);
            if (slow) passes(2 days);
        }
        (uint256 delay,) = params.demandTimes(1);
        same(registry.operatorUntil(OPERATOR), slow ? type(uint64).max : guardian.clock() + delay, "suspended");
        that(registry.item(ENVIRONMENT).status == Status.ACTIVE, "one operator closes nothing");
        if (slow) return;
        drawnOf(salt % 1_000 + 3);
        registry.readmit(OPERATOR);
        drawnOf(salt % 1_000 + 4);
        same(registry.operatorUntil(OPERATOR), type(uint64).max, "two of the new count");
        drawnOf(salt % 1_000 + 5);
        that(registry.operatorUntil(OPERATOR) != type(uint64).max, "three");
    }

    function test_convictions_of_one_operator_suspend_nobody(uint256 salt) public {
        vm.prank(OPERATOR);
        registry.registerOperator("");
        for (uint256 i = 0; i < 4; ++i) {
            judged(opened(salt % 1_000 + i), 1);
        }
        same(registry.operatorUntil(OPERATOR), type(uint64).max, "its stake answers for that");
    }

    function test_draws_of_many_operators_close_the_environment(uint256 salt) public {
        for (uint256 i = 0; i < 3; ++i) {
            that(registry.item(ENVIRONMENT).status == Status.ACTIVE, "still open");
            bytes32 id = convictedOf(salt % 1_000 + i, 9);
            judged(id, 9);
            judged(id, 9);
            decided(id, Verdict.DRAW);
        }
        that(registry.item(ENVIRONMENT).status == Status.CLOSED, "closed");
        that(!breaker.isHeld(ENVIRONMENT), "convictions go on");
    }
}
