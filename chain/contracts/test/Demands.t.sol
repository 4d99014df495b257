// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Phase, Receipt, Verdict} from "../src/libraries/Types.sol";
import {ILedger} from "../src/interfaces/ILedger.sol";
import {IDemands} from "../src/interfaces/IDemands.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {AnchorBase} from "./AnchorBase.sol";

/// @title What several kinds of demands have in common
abstract contract DemandsBase is AnchorBase {
    uint256 internal constant BOND = 0.01 ether;
    address internal demander = address(0xDE3A);
    address internal helper = address(0x4E17);

    function setUp() public virtual override {
        super.setUp();
        vm.deal(demander, 1 ether);
    }

    function listDemanded(uint64 batchId) internal {
        vm.prank(demander);
        demands.demandList{value: BOND}(batchId);
    }

    function envelopeDemanded(Receipt memory r, uint64 batchId) internal {
        bytes memory sig = signature(r);
        vm.prank(demander);
        demands.demandEnvelope{value: BOND}(r, sig, batchId, none());
    }

    function anchorDemanded(Receipt memory r) internal {
        bytes memory sig = signature(r);
        vm.prank(demander);
        demands.demandAnchor{value: BOND}(r, sig);
    }

    function stateOf(bytes32 subject) internal view returns (IDemands.State) {
        return demands.demand(subject).state;
    }

    function isState(bytes32 subject, IDemands.State want) internal view {
        same(uint8(stateOf(subject)), uint8(want), "state");
    }

    function notFinal(Receipt memory r, bytes memory why) internal {
        bytes memory sig = signature(r);
        vm.expectRevert(why);
        anchor.isFinal(r, sig, 0, none());
    }

    function notDemanded(bytes32 subject, IDemands.State have) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(IDemands.NotDemanded.selector, subject, have);
    }
}

/// @title A pool that stands still makes windows stand still, and no stake leaves from under them
contract StoppedPoolTest is DemandsBase {
    /// @dev Windows wait for the pool for longer than any request to unbond takes.
    function test_stake_stays_while_windows_stand_still_with_their_pool(uint32 wait, uint96 asked) public {
        Receipt memory r = receipt(1);
        anchored(r);
        vm.prank(verifier(0));
        registry.quit();
        that(!registry.isSeatable(POOL), "nobody can dispute now");
        vm.prank(operator);
        vault.requestUnbond(bound(asked, 80 ether + 1, 100 ether));
        vm.warp(block.timestamp + 14 days + 1 hours + wait);
        vm.prank(operator);
        vault.finishUnbond();
        (uint256 leaving,,) = vault.unbondingOf(operator);
        same(vault.stakeOf(operator) + leaving, 20 ether, "a whole stake answers for the receipt");
        vm.prank(verifier(0));
        registry.join(POOL, keccak256(abi.encode("platform", 0)), MEASUREMENT);
        that(guardian.clock() <= anchor.windowEnd(0, 0), "the window goes on");
        same(vault.lock(operator, 10 ether, "dispute"), 10 ether, "a dispute finds its slash");
        vault.unlock(operator, 10 ether, "dispute");
        vm.warp(anchor.windowEnd(0, 0) + 1);
        anchor.release(0);
        if (leaving == 0) return;
        vm.prank(operator);
        same(vault.finishUnbond(), leaving, "then it may go");
    }
}

/// @title A list that is demanded
contract ListDemandTest is DemandsBase {
    function test_the_operator_has_the_bond_of_what_is_answered_and_the_window_goes_on(uint16 from, uint16 wait)
        public
    {
        Receipt memory r = receipt(1);
        anchored(r);
        uint256 end = guardian.clock() + 1 hours;
        uint256 wait_ = bound(wait, 0, 1 hours);
        vm.warp(block.timestamp + bound(from, 0, 1 hours));
        listDemanded(0);
        bytes32 subject = demands.listSubject(0);
        IDemands.Demand memory d = demands.demand(subject);
        same(uint8(d.kind), uint8(IDemands.Kind.LIST), "kind");
        same(d.by, demander, "by");
        same(d.operator, operator, "operator");
        same(d.openedAt, guardian.clock(), "opened");
        same(d.deadline, guardian.clock() + 1 hours, "deadline");
        same(d.bond, BOND, "bond");
        same(ledger.potOf(subject), BOND, "pot");
        vm.warp(block.timestamp + wait_);
        notFinal(r, err(IReceiptAnchor.DemandPending.selector, uint256(subject)));
        vm.prank(helper);
        answersList(0, "list");
        isState(subject, IDemands.State.ANSWERED);
        same(ledger.creditOf(helper), 0, "who ran ahead of the operator has nothing");
        same(ledger.creditOf(operator), BOND, "the bond");
        same(anchor.windowEnd(0, 0), end + wait_, "end");
        same(demands.longestHeld(0), wait_, "extended");
        vm.warp(end + wait_ + 1);
        that(anchor.isFinal(r, signature(r), 0, none()), "final");
        balanced();
    }

    function test_another_list_is_no_answer(bytes memory other) public {
        vm.assume(keccak256(other) != keccak256("list"));
        anchored(receipt(1));
        listDemanded(0);
        bytes32 have = listDigest(other);
        vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.BadAnswer.selector, have, listHash));
        answersList(0, other);
    }

    /// @dev Any list of any length hashes as the header says it.
    function test_the_list_that_was_posted_is_the_answer(bytes memory list) public {
        Receipt memory r = receipt(1);
        IReceiptAnchor.BatchHeader memory h = header(1, 1, leafOf(r));
        h.listHash = listDigest(list);
        anchored(r, h);
        listDemanded(0);
        answersList(0, list);
        isState(demands.listSubject(0), IDemands.State.ANSWERED);
    }

    function test_nothing_is_answered_late_twice_or_unasked(uint16 late) public {
        anchored(receipt(1));
        bytes32 subject = demands.listSubject(0);
        vm.expectRevert(notDemanded(subject, IDemands.State.NONE));
        answersList(0, "list");
        listDemanded(0);
        uint256 deadline = demands.demand(subject).deadline;
        vm.warp(deadline + late);
        if (late != 0) {
            vm.expectRevert(err(IDemands.TooLate.selector, deadline + late, deadline));
            answersList(0, "list");
            return;
        }
        answersList(0, "list");
        vm.expectRevert(notDemanded(subject, IDemands.State.ANSWERED));
        answersList(0, "list");
        vm.expectRevert(notDemanded(subject, IDemands.State.ANSWERED));
        demands.expire(subject);
    }

    function test_a_list_is_demanded_once_inside_the_window_for_the_bond(uint96 bond, uint16 late) public {
        anchored(receipt(1));
        uint256 end = anchor.windowEnd(0, 0);
        vm.deal(demander, uint256(bond) + 1 ether);
        vm.prank(demander);
        if (bond != BOND) vm.expectRevert(err(IDemands.BondMismatch.selector, bond, BOND));
        demands.demandList{value: bond}(0);
        if (bond != BOND) listDemanded(0);
        bytes memory why = err(IDemands.AlreadyDemanded.selector, uint256(demands.listSubject(0)));
        vm.prank(demander);
        vm.expectRevert(why);
        demands.demandList{value: BOND}(0);
        anchored(receipt(2));
        vm.warp(end + 1 + late);
        vm.prank(demander);
        vm.expectRevert(err(IDemands.WindowClosed.selector, end + 1 + late, end));
        demands.demandList{value: BOND}(1);
    }

    function test_nothing_is_demanded_in_a_pause(uint16 duration) public {
        Receipt memory r = receipt(1);
        anchored(r);
        bytes memory sig = signature(r);
        paused(uint64(bound(duration, 1, 1 days)));
        refusedWhilePaused();
        demands.demandList(0);
        refusedWhilePaused();
        demands.demandEnvelope(r, sig, 0, none());
        refusedWhilePaused();
        demands.demandAnchor(r, sig);
    }

    /// @dev Whoever stuffs blocks or pauses the network cannot make an answer late: the deadline is on the clock.
    function test_a_pause_moves_the_deadline(uint16 before, uint32 pause_) public {
        anchored(receipt(1));
        listDemanded(0);
        vm.warp(block.timestamp + bound(before, 0, 1 hours));
        pause_ = uint32(bound(pause_, 1, 1 days));
        paused(pause_);
        vm.warp(block.timestamp + pause_);
        answersList(0, "list");
        same(ledger.creditOf(operator), BOND, "in time");
    }

    function test_a_list_that_nobody_has_makes_the_batch_void(uint32 count, uint16 late) public {
        count = uint32(bound(count, 1, 64));
        posted(header(1, count, "root"));
        uint256 bond = BOND * count;
        vm.prank(demander);
        demands.demandList{value: bond}(0);
        bytes32 subject = demands.listSubject(0);
        uint256 deadline = demands.demand(subject).deadline;
        vm.warp(deadline);
        vm.expectRevert(err(IDemands.TooEarly.selector, deadline, deadline + 1));
        demands.expire(subject);
        vm.warp(deadline + 1 + late);
        demands.expire(subject);
        // 0.2 for each receipt, and never less than one lie costs.
        uint256 penalty = count * 0.2 ether < 10 ether ? 10 ether : count * 0.2 ether;
        same(vault.stakeOf(operator), 100 ether - penalty, "stake");
        same(ledger.creditOf(demander), bond + penalty * 3 / 10, "bond and share");
        same(ledger.potOf(subject), 0, "pot");
        that(anchor.batch(0).isVoid, "void");
        same(demands.longestHeld(0), 1 hours, "the window stood still up to the deadline");
        vm.expectRevert(abi.encodeWithSelector(IDemands.AlreadyPunished.selector, operator, uint64(0)));
        demands.expire(subject);
        balanced();
    }

    function test_no_receipt_of_a_void_batch_is_ever_final_and_each_can_be_disputed(uint32 wait, bool upheld) public {
        Receipt memory r = receipt(1);
        anchored(r);
        listDemanded(0);
        uint256 end = anchor.windowEnd(0, 0) + 1 hours;
        vm.warp(demands.demand(demands.listSubject(0)).deadline + 1);
        demands.expire(demands.listSubject(0));
        // A liar that lets its own list expire is open to challenge as long as if it had answered.
        same(anchor.checkMember(r, signature(r), 0, none()), anchor.receiptId(r), "a member");
        same(anchor.windowEnd(0, 0), end, "end");
        if (upheld) bench.put(anchor.receiptId(r), Phase.FINAL, Verdict.UPHELD);
        vm.warp(block.timestamp + wait);
        notFinal(r, err(IReceiptAnchor.BatchIsVoid.selector, 0));
        vm.warp(end + 1 + wait);
        anchor.release(0);
        same(vault.collateralOf(operator), 0, "collateral");
    }

    /// @dev Verdicts may have taken the stake already; what comes back later owes the rest.
    function test_a_penalty_that_finds_too_little_stake_is_taken_later(uint96 left) public {
        left = uint96(bound(left, 0, 12 ether));
        anchored(receipt(1));
        listDemanded(0);
        bytes32 subject = demands.listSubject(0);
        vault.slash(operator, 0, 100 ether - left, "dispute");
        vm.warp(demands.demand(subject).deadline + 1);
        demands.expire(subject);
        that(anchor.batch(0).isVoid, "void all the same");
        uint256 first = left < 10 ether ? left : 10 ether;
        same(vault.stakeOf(operator), left - first, "first");
        if (first == 10 ether) return;
        vm.expectRevert(abi.encodeWithSelector(IDemands.NothingToSlash.selector, operator, uint64(0)));
        demands.expire(subject);
        stake(operator, 100 ether);
        demands.expire(subject);
        same(vault.stakeOf(operator), 90 ether + first, "all");
        same(ledger.creditOf(demander), BOND + first * 3 / 10 + (10 ether - first) * 3 / 10, "share");
        balanced();
    }

    function test_locks_keep_no_stake_from_a_penalty(uint96 locked) public {
        anchored(receipt(1));
        listDemanded(0);
        vault.lock(operator, bound(locked, 0, 100 ether), "dispute");
        vm.warp(demands.demand(demands.listSubject(0)).deadline + 1);
        demands.expire(demands.listSubject(0));
        same(vault.stakeOf(operator), 90 ether, "taken");
    }

    function test_an_open_demand_holds_the_collateral(uint16 late, bool answers) public {
        anchored(receipt(1));
        listDemanded(0);
        bytes32 subject = demands.listSubject(0);
        uint256 deadline = demands.demand(subject).deadline;
        if (answers) {
            answersList(0, "list");
        } else {
            vm.warp(deadline + 2 hours + late);
            vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.BatchHeld.selector, uint64(0), uint32(1)));
            anchor.release(0);
            demands.expire(subject);
        }
        vm.warp(deadline + 2 hours + late);
        anchor.release(0);
        same(vault.collateralOf(operator), 0, "free");
    }

    /// @dev Demands of one batch say nothing about another, here or in another deployment.
    function test_subjects_are_of_one_batch_and_one_contract(uint64 a, uint64 b, uint64 chain) public {
        vm.assume(a != b && chain != block.chainid && chain != 0);
        bytes32 subject = demands.listSubject(a);
        that(subject != demands.listSubject(b), "batch");
        that(subject != demands.anchorSubject(bytes32(uint256(a))), "kind");
        vm.chainId(chain);
        that(subject != demands.listSubject(a), "chain");
    }
}

/// @title An envelope that is demanded
contract EnvelopeDemandTest is DemandsBase {
    function test_only_the_operator_answers_with_a_locator(bytes memory locator, uint16 wait, address other) public {
        vm.assume(other != operator);
        Receipt memory r = receipt(1);
        anchored(r);
        bytes32 id = anchor.receiptId(r);
        uint256 end = anchor.windowEnd(id, 0);
        vm.prank(operator);
        vm.expectRevert(notDemanded(id, IDemands.State.NONE));
        demands.answerEnvelope(id, locator);
        envelopeDemanded(r, 0);
        uint256 wait_ = bound(wait, 0, 1 hours);
        vm.warp(block.timestamp + wait_);
        notFinal(r, err(IReceiptAnchor.DemandPending.selector, uint256(id)));
        vm.prank(other);
        vm.expectRevert(abi.encodeWithSelector(IDemands.NotOperator.selector, other));
        demands.answerEnvelope(id, locator);
        vm.prank(operator);
        demands.answerEnvelope(id, locator);
        same(ledger.creditOf(operator), BOND, "bond");
        same(anchor.windowEnd(id, 0), end + wait_, "its window stood still");
        same(anchor.windowEnd(0, 0), end, "no other did");
        vm.prank(operator);
        vm.expectRevert(notDemanded(id, IDemands.State.ANSWERED));
        demands.answerEnvelope(id, locator);
        balanced();
    }

    function test_an_expired_demand_costs_nobody_and_leaves_the_rest_to_a_dispute(uint16 late) public {
        Receipt memory r = receipt(1);
        anchored(r);
        bytes32 id = anchor.receiptId(r);
        uint256 end = anchor.windowEnd(id, 0);
        envelopeDemanded(r, 0);
        uint256 deadline = demands.demand(id).deadline;
        vm.warp(deadline + 1 + late);
        vm.prank(operator);
        vm.expectRevert(err(IDemands.TooLate.selector, deadline + 1 + late, deadline));
        demands.answerEnvelope(id, "late");
        demands.expire(id);
        isState(id, IDemands.State.EXPIRED);
        same(vault.stakeOf(operator), 100 ether, "stake");
        same(ledger.creditOf(demander), BOND, "bond back");
        same(anchor.windowEnd(id, 0), end + 1 hours, "a whole cure was added, not more");
        vm.expectRevert(abi.encodeWithSelector(IDemands.NothingToSlash.selector, operator, uint64(0)));
        demands.expire(id);
        balanced();
    }

    function test_an_envelope_is_demanded_once_by_who_shows_a_member_inside_its_window(uint16 late, bytes32 junk)
        public
    {
        Receipt memory r = receipt(1);
        anchored(r);
        bytes32 id = anchor.receiptId(r);
        uint256 end = anchor.windowEnd(id, 0);
        Receipt memory other = receipt(1);
        other.reqHash = junk;
        bytes memory sig = signature(other);
        vm.prank(demander);
        vm.expectPartialRevert(IReceiptAnchor.BadProof.selector);
        demands.demandEnvelope{value: BOND}(other, sig, 0, none());
        sig = signature(r);
        if (late % 2 == 0) {
            vm.warp(end + 1 + late);
            vm.prank(demander);
            vm.expectRevert(err(IDemands.WindowClosed.selector, end + 1 + late, end));
            demands.demandEnvelope{value: BOND}(r, sig, 0, none());
            return;
        }
        vm.expectRevert(err(IDemands.BondMismatch.selector, 0, BOND));
        demands.demandEnvelope(r, sig, 0, none());
        envelopeDemanded(r, 0);
        vm.prank(demander);
        vm.expectRevert(err(IDemands.AlreadyDemanded.selector, uint256(id)));
        demands.demandEnvelope{value: BOND}(r, sig, 0, none());
    }

    /// @dev A demand in the last second holds collateral for the window that it opened.
    function test_collateral_stays_as_long_as_the_longest_window(uint16 before, uint16 wait, bool answers) public {
        Receipt memory r = receipt(1);
        anchored(r);
        bytes32 id = anchor.receiptId(r);
        uint256 end = anchor.windowEnd(id, 0);
        vm.warp(end - bound(before, 0, 1 hours));
        envelopeDemanded(r, 0);
        uint256 held = bound(wait, 0, 1 hours);
        if (answers) {
            vm.warp(block.timestamp + held);
            vm.prank(operator);
            demands.answerEnvelope(id, "");
        } else {
            held = 1 hours;
            vm.warp(demands.demand(id).deadline + 1 + wait);
            vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.BatchHeld.selector, uint64(0), uint32(1)));
            anchor.release(0);
            demands.expire(id);
        }
        same(anchor.windowEnd(id, 0), end + held, "end");
        if (block.timestamp <= end + held) {
            vm.expectRevert(err(IReceiptAnchor.WindowOpen.selector, end + held));
            anchor.release(0);
        }
        vm.warp(end + held + 1);
        that(anchor.isFinal(r, signature(r), 0, none()), "final");
        anchor.release(0);
        same(vault.collateralOf(operator), 0, "free");
    }

    /// @dev Each stops the window for a cure at most, which is what the static law counts: twice.
    function test_both_demands_together_add_two_cures_at_most(uint16 first, uint16 second, uint32 late) public {
        Receipt memory r = receipt(1);
        anchored(r);
        bytes32 id = anchor.receiptId(r);
        uint256 end = anchor.windowEnd(id, 0);
        vm.warp(block.timestamp + bound(first, 0, 1 hours));
        listDemanded(0);
        vm.warp(block.timestamp + bound(second, 0, 1 hours));
        if (guardian.clock() <= anchor.windowEnd(id, 0)) envelopeDemanded(r, 0);
        vm.warp(block.timestamp + late);
        that(anchor.windowEnd(id, 0) <= end + 2 hours, "two cures");
        that(anchor.windowEnd(id, 0) >= anchor.windowEnd(0, 0), "not less than the batch's");
    }
}

/// @title A receipt that was given out and not anchored
contract AnchorDemandTest is DemandsBase {
    /// @dev Its promise is broken.
    function late(uint64 seq) private returns (Receipt memory r) {
        r = receipt(seq);
        vm.warp(uint256(r.anchorBy) + 1);
    }

    function test_the_operator_has_the_bond_of_what_it_anchored_whoever_shows_it(uint16 wait, bool byOther) public {
        Receipt memory r = late(1);
        anchorDemanded(r);
        bytes32 subject = demands.anchorSubject(anchor.receiptId(r));
        IDemands.Demand memory d = demands.demand(subject);
        same(d.seq, 1, "seq");
        same(d.deadline, guardian.clock() + 1 hours, "deadline");
        vm.warp(block.timestamp + bound(wait, 0, 1 hours));
        uint64 batchId = anchored(r);
        bytes memory sig = signature(r);
        vm.prank(byOther ? helper : operator);
        demands.answerAnchor(r, sig, batchId, none());
        same(ledger.creditOf(operator), BOND, "bond");
        same(ledger.creditOf(helper), 0, "who ran ahead has nothing");
        isState(subject, IDemands.State.ANSWERED);
        vm.expectRevert(notDemanded(subject, IDemands.State.ANSWERED));
        demands.answerAnchor(r, sig, batchId, none());
        // Its envelope can still be demanded: that is another subject.
        envelopeDemanded(r, batchId);
        balanced();
    }

    function test_a_receipt_that_is_never_anchored_costs_the_penalty(uint16 wait) public {
        Receipt memory r = late(1);
        anchorDemanded(r);
        bytes32 subject = demands.anchorSubject(anchor.receiptId(r));
        uint256 deadline = demands.demand(subject).deadline;
        vm.warp(deadline);
        vm.expectRevert(err(IDemands.TooEarly.selector, deadline, deadline + 1));
        demands.expire(subject);
        vm.warp(deadline + 1 + wait);
        anchored(r);
        bytes memory sig = signature(r);
        vm.expectRevert(err(IDemands.TooLate.selector, deadline + 1 + wait, deadline));
        demands.answerAnchor(r, sig, 0, none());
        demands.expire(subject);
        same(vault.stakeOf(operator), 90 ether, "stake");
        same(ledger.creditOf(demander), BOND + 3 ether, "bond and share");
        vm.expectRevert(abi.encodeWithSelector(IDemands.AlreadyPunished.selector, operator, uint64(1)));
        demands.expire(subject);
        balanced();
    }

    /// @dev With another content under the demanded number: no answer, and equivocation besides.
    function test_another_receipt_with_the_number_is_no_answer(bytes32 junk, bool afterwards) public {
        Receipt memory r = late(1);
        Receipt memory other = receipt(1);
        other.reqHash = junk;
        if (!afterwards) anchored(other);
        bytes memory sig = signature(r);
        if (!afterwards) {
            vm.prank(demander);
            vm.expectRevert(abi.encodeWithSelector(IDemands.NumberAnchored.selector, uint64(1), uint64(1)));
            demands.demandAnchor{value: BOND}(r, sig);
        } else {
            anchorDemanded(r);
            anchored(other);
            vm.expectPartialRevert(IReceiptAnchor.BadProof.selector);
            demands.answerAnchor(r, sig, 0, none());
            bytes memory otherSig = signature(other);
            bytes32 unasked = demands.anchorSubject(anchor.receiptId(other));
            vm.expectRevert(notDemanded(unasked, IDemands.State.NONE));
            demands.answerAnchor(other, otherSig, 0, none());
            bytes32 subject = demands.anchorSubject(anchor.receiptId(r));
            vm.warp(demands.demand(subject).deadline + 1);
            demands.expire(subject);
            same(vault.stakeOf(operator), 90 ether, "not anchored");
        }
        uint256 before = vault.stakeOf(operator);
        bytes memory second = signature(other);
        demands.equivocation(r, sig, other, second);
        same(vault.stakeOf(operator), before - 10 ether, "and equivocation");
        balanced();
    }

    /// @dev No batch has number 0, so who signs it owes what can never be shown.
    function test_a_receipt_with_number_zero_is_owed_like_any_other(bool before) public {
        if (!before) anchored(receipt(1));
        Receipt memory r = late(0);
        anchorDemanded(r);
        bytes32 subject = demands.anchorSubject(anchor.receiptId(r));
        vm.warp(demands.demand(subject).deadline + 1);
        demands.expire(subject);
        same(vault.stakeOf(operator), 90 ether, "not anchored");
        balanced();
    }

    function test_nothing_is_demanded_before_the_promise_is_broken_or_twice(uint64 wait, uint96 bond) public {
        Receipt memory r = receipt(1);
        bytes memory sig = signature(r);
        vm.warp(block.timestamp + bound(wait, 0, 600));
        vm.prank(demander);
        vm.expectRevert(err(IDemands.TooEarly.selector, block.timestamp, uint256(r.anchorBy) + 1));
        demands.demandAnchor{value: BOND}(r, sig);
        vm.warp(uint256(r.anchorBy) + 1);
        vm.assume(bond != BOND);
        vm.deal(demander, uint256(bond) + 1 ether);
        vm.prank(demander);
        vm.expectRevert(err(IDemands.BondMismatch.selector, bond, BOND));
        demands.demandAnchor{value: bond}(r, sig);
        anchorDemanded(r);
        bytes memory why = err(IDemands.AlreadyDemanded.selector, uint256(demands.anchorSubject(anchor.receiptId(r))));
        vm.prank(demander);
        vm.expectRevert(why);
        demands.demandAnchor{value: BOND}(r, sig);
    }

    function test_only_what_an_operator_signed_for_this_chain_is_demanded(uint64 chain, uint128 key) public {
        vm.assume(chain != block.chainid);
        uint256 other = bound(key, 1, type(uint128).max);
        vm.assume(other != OPERATOR_KEY);
        Receipt memory r = late(1);
        bytes memory sig = signed(other, anchor.receiptId(r));
        vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.BadSignature.selector, vm.addr(other), operator));
        demands.demandAnchor(r, sig);
        r.chainId = chain;
        sig = signature(r);
        vm.expectRevert(err(IReceiptAnchor.ForeignChain.selector, chain, block.chainid));
        demands.demandAnchor(r, sig);
        (r.chainId, r.operator) = (block.chainid, vm.addr(other));
        sig = signed(other, anchor.receiptId(r));
        vm.expectRevert(abi.encodeWithSelector(IDemands.NotOperator.selector, vm.addr(other)));
        demands.demandAnchor(r, sig);
    }

    /// @dev An operator could put such a receipt into a batch, and could not show it there: its stake would answer for nothing.
    function test_nothing_is_demanded_that_no_batch_can_prove(uint8 mode, address enclave, uint8 client) public {
        Receipt memory r = receipt(1);
        (r.mode, r.enclaveKey, r.clientMode) = (mode, enclave, client);
        vm.warp(uint256(r.anchorBy) + 1);
        bool plain = mode == 2 && enclave == address(0);
        bool refused = !plain || (client != 1 && client != 2);
        bytes memory sig = signature(r);
        vm.prank(demander);
        if (!plain) vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.UnsupportedMode.selector, mode, enclave));
        else if (refused) vm.expectRevert(err(IReceiptAnchor.UnknownClientMode.selector, client));
        demands.demandAnchor{value: BOND}(r, sig);
        same(vault.obligedOf(operator), refused ? 0 : 10 ether, "obliged");
    }

    function test_nothing_is_shared_that_was_not_slashed(bytes32 ref) public {
        vm.expectRevert(err(IDemands.NothingToCollect.selector, uint256(ref)));
        demands.collect(ref);
        vm.expectRevert(notDemanded(ref, IDemands.State.NONE));
        demands.expire(ref);
    }
}

/// @title A demand is answered by what it asks for, or an operator ends it by any words of its own
contract OtherKindTest is DemandsBase {
    function refused(bytes32 subject, IDemands.Kind kind, bytes memory locator) private {
        vm.prank(operator);
        vm.expectRevert(abi.encodeWithSelector(IDemands.OtherKind.selector, subject, kind));
        demands.answerEnvelope(subject, locator);
        isState(subject, IDemands.State.OPEN);
        same(ledger.creditOf(operator), 0, "the bond waits");
    }

    function test_a_locator_is_no_list(bytes calldata locator) public {
        anchored(receipt(1));
        listDemanded(0);
        refused(demands.listSubject(0), IDemands.Kind.LIST, locator);
        vm.warp(uint256(demands.demand(demands.listSubject(0)).deadline) + 1);
        demands.expire(demands.listSubject(0));
        that(anchor.batch(0).isVoid, "a withheld list voids its batch");
    }

    /// @dev The number of such a demand is a receipt's: taken for a batch's, it would free a hold of somebody else's batch.
    function test_a_locator_is_no_batch(bytes calldata locator) public {
        anchored(receipt(1));
        anchored(receipt(2));
        Receipt memory late = receipt(3);
        vm.warp(uint256(late.anchorBy) + 1);
        anchorDemanded(late);
        Receipt memory instead = receipt(3);
        instead.tokensHash = "another";
        anchored(instead);
        anchored(receipt(4));
        listDemanded(3);
        refused(demands.anchorSubject(anchor.receiptId(late)), IDemands.Kind.ANCHOR, locator);
        same(vault.obligedOf(operator), 10 ether, "obliged");
        vm.warp(uint256(demands.demand(demands.listSubject(3)).deadline) + 1);
        demands.expire(demands.listSubject(3));
    }
}
