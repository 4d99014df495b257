// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EmptyLeaf, Receipt, StructHashes} from "../src/libraries/Types.sol";
import {IDemands} from "../src/interfaces/IDemands.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {Trees} from "./Trees.sol";
import {UnpostedBase} from "./Unposted.t.sol";

/// @title Closures drain: what was signed before one can be anchored for `maxAnchorDelay` of the protocol clock
contract DrainTest is UnpostedBase {
    uint256 private constant DELAY = 1 hours;

    /// @dev Environment, model, key epoch in order, compromised key, pool.
    function shut(uint256 what) private {
        if (what < 3) closed(uint8(what));
        else if (what == 3) epochs.compromise(EPOCH);
        else quits();
    }

    function refusal(uint256 what) private pure returns (bytes memory) {
        if (what == 0) return abi.encodeWithSelector(IReceiptAnchor.EnvironmentNotActive.selector, ENVIRONMENT);
        if (what == 1) return abi.encodeWithSelector(IReceiptAnchor.ModelNotActive.selector, MODEL);
        if (what < 4) return abi.encodeWithSelector(IReceiptAnchor.EpochNotOpen.selector, EPOCH);
        return abi.encodeWithSelector(IReceiptAnchor.PoolTooSmall.selector, POOL);
    }

    function test_batch_is_taken_until_delay_after_closure(uint8 which, uint16 after_, uint24 pause) public {
        uint256 what = which % 5;
        Receipt memory r = receipt(1);
        IReceiptAnchor.BatchHeader memory h = header(1, 1, leafOf(r));
        shut(what);
        uint256 time = bound(after_, 0, 2 * DELAY);
        vm.warp(block.timestamp + time);
        // A pause takes nothing of it.
        uint64 length = uint64(bound(pause, 0, 1 days));
        if (length != 0) {
            paused(length);
            vm.warp(block.timestamp + length);
        }
        vm.deal(operator, FEE * 10);
        if (time > DELAY) vm.expectRevert(refusal(what));
        vm.prank(operator);
        anchor.post{value: FEE}(h);
        if (time <= DELAY) same(anchor.checkMember(r, signature(r), 0, none()), anchor.receiptId(r), "a member");
    }

    function test_batch_is_taken_again_once_all_is_open(uint8 which, uint24 wait) public {
        uint256 what = which % 2 == 0 ? which % 4 / 2 : 4;
        shut(what);
        vm.warp(block.timestamp + DELAY + 1 + wait);
        if (what == 4) joins();
        else registry.activate(what == 0 ? ENVIRONMENT : MODEL);
        anchored(receipt(1));
    }

    function test_batch_of_a_stopped_pool_waits_with_its_window(uint24 wait) public {
        Receipt memory r = receipt(1);
        quits();
        anchored(r);
        uint256 left = anchor.windowEnd(0, 0) - guardian.clock();
        vm.warp(block.timestamp + wait);
        same(anchor.windowEnd(0, 0) - guardian.clock(), left, "the window stands still");
        bytes memory why = err(IReceiptAnchor.WindowOpen.selector, anchor.windowEnd(0, 0));
        notFinal(r, why);
        vm.expectRevert(why);
        anchor.release(0);
    }

    /// @dev Nobody was told that it could be used.
    function test_batch_is_refused_of_what_was_never_open(uint8 which) public {
        bytes32 next = keccak256("next");
        IReceiptAnchor.BatchHeader memory h = header(1, 1, "root");
        bytes memory why;
        if (which % 4 == 0) {
            registry.propose(next, POOL, VECTORS, "");
            h.environment = next;
            why = abi.encodeWithSelector(IReceiptAnchor.EnvironmentNotActive.selector, next);
        } else if (which % 4 == 1) {
            registry.propose(next, 0, VECTORS, "");
            h.modelId = next;
            why = abi.encodeWithSelector(IReceiptAnchor.ModelNotActive.selector, next);
        } else if (which % 4 == 2) {
            // A model has no pool: it is no environment.
            h.environment = MODEL;
            why = abi.encodeWithSelector(IReceiptAnchor.EnvironmentNotActive.selector, MODEL);
        } else {
            openEpoch(NEXT);
            epochs.compromise(NEXT);
            h.keyEpoch = NEXT;
            why = abi.encodeWithSelector(IReceiptAnchor.EpochNotOpen.selector, NEXT);
        }
        vm.deal(operator, FEE);
        vm.expectRevert(why);
        vm.prank(operator);
        anchor.post{value: FEE}(h);
    }

    /// @dev Whatever closes, and whenever: the operator could post for as long as a demand gives, or had its time before.
    function test_nothing_excuses_a_demand(uint8 which, uint24 before, uint24 after_) public {
        Receipt memory r = receipt(1);
        vm.warp(uint256(r.anchorBy) + 1);
        shut(which % 5);
        vm.warp(block.timestamp + before);
        anchorDemanded(r);
        bytes32 subject = demands.anchorSubject(anchor.receiptId(r));
        vm.expectPartialRevert(IDemands.TooEarly.selector);
        demands.expire(subject);
        overdue(subject);
        vm.warp(block.timestamp + after_);
        demands.expire(subject);
        isState(subject, IDemands.State.EXPIRED);
        same(100 ether - vault.stakeOf(operator), parameters().money.unanchoredPenalty, "the penalty");
        same(vault.obligedOf(operator), 0, "nothing is owed any more");
        balanced();
    }
}

/// @title A number that is skipped keeps nothing out, and is no escape
contract SkipTest is UnpostedBase {
    address private reporter = address(0x4E9047);

    /// @dev Number 1 is skipped, number 2 anchored under a header of its own.
    function skipped() private returns (Receipt memory first, Receipt memory second, bytes32[] memory leaves) {
        (first, second) = (receipt(1), receipt(2));
        bytes32 later = keccak256("later");
        activate(later, POOL);
        second.environment = later;
        leaves = new bytes32[](2);
        leaves[0] = StructHashes.batchLeaf(anchor.emptyLeafId(EmptyLeaf(operator, 1, block.chainid)), 1);
        leaves[1] = leafOf(second);
        IReceiptAnchor.BatchHeader memory h = header(1, 2, Trees.rootOf(leaves));
        h.environment = later;
        posted(h);
    }

    function path(bytes32 sibling) private pure returns (bytes32[] memory proof) {
        proof = new bytes32[](1);
        proof[0] = sibling;
    }

    function reports(Receipt memory r, bytes32 sibling) private returns (uint256 taken) {
        uint256 before = vault.stakeOf(operator);
        bytes memory sig = signature(r);
        vm.prank(reporter);
        demands.reportSkipped(r, sig, 0, path(sibling));
        return before - vault.stakeOf(operator);
    }

    function penalty() private pure returns (uint256) {
        return parameters().money.unanchoredPenalty;
    }

    /// @dev And only whoever shows the receipt of the skipped number has a penalty taken for it, once.
    function test_next_number_is_final_and_skip_costs_its_penalty_once(bool shown) public {
        (Receipt memory first, Receipt memory second, bytes32[] memory leaves) = skipped();
        if (shown) {
            same(reports(first, leaves[1]), penalty(), "the penalty, for that number alone");
            same(ledger.creditOf(reporter), penalty() * 3 / 10, "share");
        }
        vm.warp(anchor.windowEnd(0, 0) + 1);
        that(anchor.isFinal(second, signature(second), 0, path(leaves[0])), "the next is accepted");
        balanced();
        if (!shown) return;
        bytes memory sig = signature(first);
        vm.expectRevert(abi.encodeWithSelector(IDemands.AlreadyPunished.selector, operator, uint64(1)));
        demands.reportSkipped(first, sig, 0, path(leaves[1]));
    }

    /// @dev Whatever the receipt says: its operator signed it. Two of them are equivocation, which costs a slash beside it.
    function test_any_signed_receipt_of_the_number_is_a_proof(bytes32 other, uint8 mode) public {
        (Receipt memory first,, bytes32[] memory leaves) = skipped();
        (Receipt memory twin, bytes memory sig) = (first, signature(first));
        Receipt memory second = receipt(1);
        (second.outHash, second.mode) = (keccak256(abi.encode(other)), mode);
        same(reports(second, leaves[1]), penalty(), "skipped");
        demands.equivocation(twin, sig, second, signature(second));
        same(vault.stakeOf(operator), 100 ether - penalty() - parameters().money.slashAmount, "and signed twice");
        balanced();
    }

    /// @dev A demand that was open before, and a report: one number, one penalty. The demand ends, and the bond comes back.
    function test_demand_and_report_of_one_number_cost_one_penalty(bool reportedFirst) public {
        Receipt memory r = receipt(1);
        vm.warp(uint256(r.anchorBy) + 1);
        anchorDemanded(r);
        bytes32 subject = demands.anchorSubject(anchor.receiptId(r));
        (,, bytes32[] memory leaves) = skipped();
        if (reportedFirst) same(reports(r, leaves[1]), penalty(), "reported");
        overdue(subject);
        demands.expire(subject);
        isState(subject, IDemands.State.EXPIRED);
        same(100 ether - vault.stakeOf(operator), penalty(), "one penalty");
        same(
            ledger.creditOf(demander),
            reportedFirst ? BOND : BOND + penalty() * 3 / 10,
            "bond, and share of who was first"
        );
        same(vault.obligedOf(operator), 0, "nothing is owed any more");
        bytes memory sig = signature(r);
        vm.expectRevert(abi.encodeWithSelector(IDemands.AlreadyPunished.selector, operator, uint64(1)));
        demands.reportSkipped(r, sig, 0, path(leaves[1]));
        balanced();
    }

    function test_what_was_not_skipped_cannot_be_reported(uint64 other, bytes32 sibling) public {
        (Receipt memory first, Receipt memory second, bytes32[] memory leaves) = skipped();
        vm.assume(sibling != leaves[1]);
        bytes memory badProof = abi.encodeWithSelector(IReceiptAnchor.BadProof.selector, Trees.rootOf(leaves));
        bytes memory sig = signature(second);
        vm.expectRevert(badProof);
        demands.reportSkipped(second, sig, 0, path(leaves[0]));
        sig = signature(first);
        vm.expectRevert(badProof);
        demands.reportSkipped(first, sig, 0, path(sibling));
        first.seq = uint64(bound(other, 3, type(uint64).max));
        sig = signature(first);
        vm.expectRevert(
            abi.encodeWithSelector(IReceiptAnchor.SequenceOutsideBatch.selector, first.seq, uint64(1), uint32(2))
        );
        demands.reportSkipped(first, sig, 0, path(leaves[1]));
    }

    /// @dev Nobody pays for a number of another operator, nor for a receipt that it did not sign.
    function test_another_operators_leaf_or_signature_is_no_proof(uint128 key) public {
        (Receipt memory first,, bytes32[] memory leaves) = skipped();
        uint256 other = uint256(key) + 1;
        vm.assume(vm.addr(other) != operator);
        bytes memory sig = signed(other, anchor.receiptId(first));
        vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.BadSignature.selector, vm.addr(other), operator));
        demands.reportSkipped(first, sig, 0, path(leaves[1]));
        first.operator = vm.addr(other);
        sig = signed(other, anchor.receiptId(first));
        vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.HeaderMismatch.selector, bytes32("operator")));
        demands.reportSkipped(first, sig, 0, path(leaves[1]));
    }

    function test_report_takes_what_is_there_and_the_rest_when_it_comes(uint96 left) public {
        (Receipt memory first,, bytes32[] memory leaves) = skipped();
        left = uint96(bound(left, 0, penalty() - 1));
        vault.slash(operator, 0, 100 ether - left, "dispute");
        if (left == 0) {
            bytes memory sig = signature(first);
            vm.expectRevert(abi.encodeWithSelector(IDemands.NothingToSlash.selector, operator, uint64(1)));
            demands.reportSkipped(first, sig, 0, path(leaves[1]));
        } else {
            same(reports(first, leaves[1]), left, "what there was");
        }
        stake(operator, 100 ether);
        same(reports(first, leaves[1]), penalty() - left, "the rest");
        same(ledger.potOf(demands.unanchoredRef(operator, 1)), 0, "all is shared");
        balanced();
    }
}
