// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {FeeMarket} from "../src/anchor/FeeMarket.sol";
import {Guardian} from "../src/governance/Guardian.sol";
import {ReceiptAnchor} from "../src/anchor/ReceiptAnchor.sol";
import {Receipt} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {IStakeSource} from "../src/interfaces/IStakeSource.sol";
import {DemandsBase} from "./Demands.t.sol";

/// @title A demand to anchor while the pool stands still
abstract contract UnpostedBase is DemandsBase {
    uint64 internal constant NEXT = 2;

    function quits() internal {
        vm.prank(verifier(0));
        registry.quit();
    }

    function joins() internal {
        vm.prank(verifier(0));
        registry.join(POOL, keccak256(abi.encode("platform", uint256(0))), MEASUREMENT);
    }

    function demanded() internal returns (Receipt memory r, bytes32 subject) {
        r = receipt(1);
        vm.warp(uint256(r.anchorBy) + 1);
        anchorDemanded(r);
        subject = anchor.anchorSubject(anchor.receiptId(r));
    }

    /// @dev Environment, model or key epoch: as each of them is closed in an orderly way.
    function closed(uint8 what) internal {
        if (what % 3 == 0) return registry.close(ENVIRONMENT);
        if (what % 3 == 1) return registry.close(MODEL);
        putInForce(NEXT);
    }

    function overdue(bytes32 subject) internal {
        vm.warp(uint256(anchor.demand(subject).deadline) + 1);
    }
}

/// @title What was closed while the pool stood still is no fault of an operator, whoever made it stand still
/// @dev Stops are as short as a pause may be: what is longer excuses alone (`LostTimeTest`).
contract ExcuseTest is UnpostedBase {
    /// @dev Closed before the pool judges again: there was no time in which the operator could have posted.
    function excused(uint8 what, uint24 stopped) private returns (bytes32 subject) {
        (, subject) = demanded();
        quits();
        closed(what);
        vm.warp(block.timestamp + bound(stopped, 30 minutes, 1 days));
        joins();
        overdue(subject);
    }

    function test_who_could_not_post_pays_nothing(uint8 what, uint24 stopped) public {
        bytes32 subject = excused(what, stopped);
        anchor.expire(subject);
        same(vault.stakeOf(operator), 100 ether, "nothing was slashed");
        same(ledger.creditOf(demander), BOND, "the bond and no share");
        isState(subject, IReceiptAnchor.State.EXCUSED);
        balanced();
    }

    /// @dev Or who demanded waits until governance opens the item again, and has the share then.
    function test_who_was_excused_stays_so(uint8 what, uint24 stopped, uint24 later) public {
        bytes32 subject = excused(what % 2, stopped);
        anchor.expire(subject);
        uint256 deadline = anchor.demand(subject).deadline;
        registry.activate(what % 2 == 0 ? ENVIRONMENT : MODEL);
        vm.warp(block.timestamp + later);
        vm.expectRevert(notDemanded(subject, IReceiptAnchor.State.EXCUSED));
        anchor.expire(subject);
        same(anchor.demand(subject).deadline, deadline, "its end stays too");
        same(vault.stakeOf(operator), 100 ether, "nothing was slashed");
    }

    /// @dev A model's closure counts beside a stop of the pool: together they are as short as a pause may be (`LostTimeTest`).
    function test_who_could_post_again_in_time_pays(uint8 what, uint24 stopped) public {
        (, bytes32 subject) = demanded();
        quits();
        closed(what % 2);
        vm.warp(block.timestamp + bound(stopped, 30 minutes, what % 2 == 0 ? 1 days : 12 hours));
        joins();
        registry.activate(what % 2 == 0 ? ENVIRONMENT : MODEL);
        overdue(subject);
        anchor.expire(subject);
        same(vault.stakeOf(operator), 90 ether, "the penalty");
    }

    /// @dev An operator that waits for a closure has had its time.
    function test_a_closure_alone_is_no_excuse(uint8 what, uint16 wait) public {
        (, bytes32 subject) = demanded();
        vm.warp(block.timestamp + bound(wait, 0, 1 hours));
        closed(what);
        overdue(subject);
        anchor.expire(subject);
        same(vault.stakeOf(operator), 90 ether, "the penalty");
    }

    /// @dev Nor is a pool alone, which an operator's own verifiers may be able to stop.
    function test_a_pool_that_stood_still_alone_is_no_excuse(uint24 stopped) public {
        (, bytes32 subject) = demanded();
        quits();
        vm.warp(block.timestamp + bound(stopped, 1, 1 days));
        joins();
        overdue(subject);
        anchor.expire(subject);
        same(vault.stakeOf(operator), 90 ether, "the penalty");
    }

    /// @dev A second costs its accomplice a step out and in again. Half of the time, or what the key left of it.
    function test_a_stop_is_an_excuse_from_half_of_the_time_on(uint16 stopped, uint16 left, bool after_) public {
        Receipt memory r = receipt(1);
        vm.warp(uint256(r.anchorBy) + 1);
        closed(2);
        uint256 had = bound(left, 1, 1 hours);
        vm.warp(block.timestamp + 1 hours - had);
        anchorDemanded(r);
        bytes32 subject = anchor.anchorSubject(anchor.receiptId(r));
        if (after_) overdue(subject);
        quits();
        uint256 time = bound(stopped, 1, 1 hours);
        vm.warp(block.timestamp + time);
        if (!after_ && 2 * time < had) vm.expectPartialRevert(IReceiptAnchor.TooEarly.selector);
        if (!after_ && 2 * time < had) anchor.expire(subject);
        joins();
        overdue(subject);
        anchor.expire(subject);
        same(vault.stakeOf(operator), 2 * time >= had ? 100 ether : 90 ether, "half of what it had");
    }

    /// @dev The deadline runs along with a pool that may stand still for ever; what the key decided waits for nothing.
    function test_nothing_waits_for_a_pool_when_the_key_is_gone(uint32 more) public {
        (, bytes32 subject) = demanded();
        quits();
        closed(2);
        vm.warp(block.timestamp + 1 hours);
        vm.expectPartialRevert(IReceiptAnchor.TooEarly.selector);
        anchor.expire(subject);
        vm.warp(block.timestamp + 1 + more);
        anchor.expire(subject);
        isState(subject, IReceiptAnchor.State.EXCUSED);
        same(vault.keptOf(operator), 0, "stake is free");
        same(ledger.creditOf(demander), BOND, "and the bond");
        balanced();
    }

    /// @dev Keys change all the time. One that drains takes receipts for as long as a demand gives time, and who ends the demand late
    ///      excuses nobody.
    function test_a_key_that_drained_later_is_no_excuse(uint24 stopped, uint16 more, uint32 late) public {
        (, bytes32 subject) = demanded();
        quits();
        vm.warp(block.timestamp + bound(stopped, 1, 1 days));
        joins();
        vm.warp(block.timestamp + bound(more, 0, 1 hours));
        closed(2);
        overdue(subject);
        vm.warp(block.timestamp + late);
        anchor.expire(subject);
        same(vault.stakeOf(operator), 90 ether, "the penalty");
    }
}

/// @title Stake that an answer is owed of
contract ObligationTest is UnpostedBase {
    /// @dev No receipt of it is open, and its stake may leave while the pool stands still.
    function left(uint32 wait) private returns (Receipt memory r, bytes32 subject, uint256 paid) {
        vm.prank(operator);
        vault.requestUnbond(100 ether);
        vm.warp(block.timestamp + 14 days);
        (r, subject) = demanded();
        quits();
        vm.warp(block.timestamp + bound(wait, 1 hours, 1 days));
        vm.prank(operator);
        paid = vault.finishUnbond();
    }

    function test_who_owes_an_answer_cannot_leave(uint32 wait) public {
        (, bytes32 subject, uint256 paid) = left(wait);
        same(paid, 90 ether, "all but the penalty");
        joins();
        overdue(subject);
        anchor.expire(subject);
        same(ledger.creditOf(demander), BOND + 3 ether, "bond and share");
        same(vault.obligedOf(operator), 0, "nothing is owed any more");
        balanced();
    }

    /// @dev However it ends.
    function test_who_owes_nothing_any_more_leaves(uint32 wait, bool excused) public {
        (Receipt memory r, bytes32 subject,) = left(wait);
        same(vault.keptOf(operator), 10 ether, "stays");
        if (excused) registry.close(ENVIRONMENT);
        joins();
        if (excused) {
            overdue(subject);
            anchor.expire(subject);
        } else {
            stake(operator, 21 ether);
            uint64 batchId = anchored(r);
            bytes memory sig = signature(r);
            anchor.answerAnchor(r, sig, batchId, none());
            vm.warp(anchor.windowEnd(0, batchId) + 1);
            anchor.release(batchId);
        }
        same(vault.keptOf(operator), 0, "free");
        vm.prank(operator);
        same(vault.finishUnbond(), 10 ether, "the rest");
        balanced();
    }

    /// @dev Each binds its own, and none of them what receipts need or what a reporter has a share of.
    function test_obligations_stop_exits_and_nothing_else(uint8 demands) public {
        uint256 count = bound(demands, 1, 50);
        vm.deal(demander, count * BOND);
        vm.prank(operator);
        vault.requestUnbond(80 ether);
        vm.warp(block.timestamp + 601);
        for (uint64 seq = 1; seq <= count; ++seq) {
            Receipt memory r = receipt(seq);
            (r.issuedAt, r.anchorBy) = (r.issuedAt - 601, r.issuedAt - 1);
            anchorDemanded(r);
        }
        same(vault.obligedOf(operator), count * 10 ether, "each");
        same(vault.keptOf(operator), count * 10 ether, "stays");
        same(vault.freeStakeOf(operator), 20 ether, "to post an answer");
        same(vault.unlockedOf(operator), 100 ether, "to share");
        anchored(receipt(1));
    }

    function test_only_movers_oblige_and_discharge(address who, uint96 amount) public {
        vm.assume(!vault.isMover(who));
        bytes memory why = abi.encodeWithSelector(bytes4(keccak256("NotAuthorised(address)")), who);
        vm.prank(who);
        vm.expectRevert(why);
        vault.oblige(operator, amount, "demand");
        vm.prank(who);
        vm.expectRevert(why);
        vault.discharge(operator, amount, "demand");
        vault.oblige(operator, amount, "demand");
        same(IStakeSource(vault).obligedOf(operator), amount, "this contract is one");
        vault.discharge(operator, amount, "demand");
        same(vault.obligedOf(operator), 0, "and again");
    }
}

/// @title A court that came later goes by another clock than keys and pools do (docs/contracts.md, section 5)
contract TwoClocksTest is UnpostedBase {
    ReceiptAnchor private other;

    /// @dev The old clock has stood still for a while; the new one has not.
    function _later(uint64 lost) private {
        paused(lost);
        vm.warp(block.timestamp + lost + 1);
        Guardian second = new Guardian(address(manager), params);
        FeeMarket market_ = new FeeMarket(address(manager), second, uint96(FEE), 1 ether, 1_000, 1 hours);
        other = new ReceiptAnchor(ReceiptAnchor.Parts(params, second, registry, vault, ledger, epochs, market_));
        second.wire(IDisputes(address(bench)));
        other.wire(IDisputes(address(bench)));
        market_.wire(address(other), audits);
        ledger.setMover(address(other), true);
        vault.setMover(address(other), true);
        same(second.clock() - guardian.clock(), lost, "two clocks");
    }

    /// @dev What is left of a key's time is the same on both: a stop of a second excuses nobody who can post for an hour.
    function test_what_is_left_of_a_key_is_counted_on_one_clock(uint64 lost) public {
        _later(uint64(bound(lost, 1, 1 days)));
        Receipt memory r = receipt(1);
        bytes memory sig = signed(OPERATOR_KEY, other.receiptId(r));
        vm.warp(uint256(r.anchorBy) + 1);
        putInForce(NEXT);
        vm.prank(demander);
        other.demandAnchor{value: BOND}(r, sig);
        quits();
        vm.warp(block.timestamp + 1);
        joins();
        bytes32 subject = other.anchorSubject(other.receiptId(r));
        that(epochs.isOpenForInclusion(EPOCH), "it can still post");
        vm.expectPartialRevert(IReceiptAnchor.TooEarly.selector);
        other.expire(subject);
        vm.warp(uint256(other.demand(subject).deadline) + 1);
        that(!epochs.isOpenForInclusion(EPOCH), "now it cannot");
        other.expire(subject);
        same(uint8(other.demand(subject).state), uint8(IReceiptAnchor.State.EXPIRED), "and is not excused");
    }
}
