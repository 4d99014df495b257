// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EmptyLeaf, ParamSet, Receipt} from "../src/libraries/Types.sol";
import {IDemands} from "../src/interfaces/IDemands.sol";
import {AnchorBase} from "./AnchorBase.sol";

/// @title Two leaves with one number
contract EquivocationTest is AnchorBase {
    address private reporter = address(0x4E90);

    function reported(Receipt memory a, Receipt memory b) private {
        (bytes memory x, bytes memory y) = (signature(a), signature(b));
        vm.prank(reporter);
        demands.equivocation(a, x, b, y);
    }

    function twins(uint64 seq) private view returns (Receipt memory a, Receipt memory b) {
        (a, b) = (receipt(seq), receipt(seq));
        b.reqHash = keccak256("another");
    }

    function test_two_leaves_with_one_number_cost_a_slash_once(uint64 seq, bool reversed) public {
        (Receipt memory a, Receipt memory b) = twins(seq);
        if (reversed) (a, b) = (b, a);
        reported(a, b);
        same(vault.stakeOf(operator), 90 ether, "stake");
        same(ledger.creditOf(reporter), 3 ether, "alpha");
        same(ledger.totalBurned(), 7 ether, "burned");
        same(ledger.potOf(demands.equivocationRef(operator, seq)), 0, "pot");
        (bytes memory x, bytes memory y) = (signature(a), signature(b));
        vm.expectRevert(abi.encodeWithSelector(IDemands.AlreadyPunished.selector, operator, seq));
        demands.equivocation(b, y, a, x);
        balanced();
    }

    /// @dev Nobody takes the difference after a vote for a larger slash, nor keeps the rest after one for a smaller.
    function test_the_parameters_of_the_first_report_stay(uint64 seq, uint96 amount, uint96 left) public {
        left = uint96(bound(left, 1, 10 ether));
        vault.slash(operator, 0, 100 ether - left, "dispute");
        (Receipt memory a, Receipt memory b) = twins(seq);
        reported(a, b);
        ParamSet memory p = parameters();
        p.money.slashAmount = uint96(bound(amount, 1 ether, p.money.minOperatorStake));
        (p.money.absentPenalty, p.money.noRevealPenalty, p.money.wrongPenalty) = (0, 0, 0);
        (p.money.feePerSeat, p.money.privacyPrice, p.money.bounty, p.money.demandBond) = (1, 0, 0, 1);
        p.money.unanchoredPenalty = p.money.minOperatorStake;
        params.set(p);
        stake(operator, 50 ether);
        (bytes memory x, bytes memory y) = (signature(a), signature(b));
        if (left == 10 ether) {
            vm.expectRevert(abi.encodeWithSelector(IDemands.AlreadyPunished.selector, operator, seq));
        }
        demands.equivocation(a, x, b, y);
        same(vault.stakeOf(operator), 40 ether + left, "one slash in all");
        vm.expectRevert(abi.encodeWithSelector(IDemands.AlreadyPunished.selector, operator, seq));
        demands.equivocation(a, x, b, y);
        balanced();
    }

    function test_one_leaf_twice_or_two_numbers_or_operators_are_no_equivocation(uint64 seq, uint64 next) public {
        vm.assume(next != seq);
        (Receipt memory a, Receipt memory b) = twins(seq);
        bytes memory x = signature(a);
        vm.expectRevert(IDemands.NoEquivocation.selector);
        demands.equivocation(a, x, a, x);
        b.seq = next;
        bytes memory y = signature(b);
        vm.expectRevert(IDemands.NoEquivocation.selector);
        demands.equivocation(a, x, b, y);
        (b.seq, b.operator) = (seq, vm.addr(77));
        y = signed(77, anchor.receiptId(b));
        vm.expectRevert(IDemands.NoEquivocation.selector);
        demands.equivocation(a, x, b, y);
    }

    /// @dev Verdicts may have taken the stake already; what comes back later owes the rest.
    function test_what_is_not_there_is_taken_when_it_comes(uint96 left, uint64 seq) public {
        left = uint96(bound(left, 0, 12 ether));
        vault.slash(operator, 0, 100 ether - left, "dispute");
        (Receipt memory a, Receipt memory b) = twins(seq);
        if (left != 0) {
            reported(a, b);
            same(vault.stakeOf(operator), left < 10 ether ? 0 : left - 10 ether, "first");
        }
        if (left >= 10 ether) return;
        (bytes memory x, bytes memory y) = (signature(a), signature(b));
        vm.expectRevert(abi.encodeWithSelector(IDemands.NothingToSlash.selector, operator, seq));
        demands.equivocation(a, x, b, y);
        stake(operator, 100 ether);
        reported(a, b);
        same(vault.stakeOf(operator), 90 ether + left, "all");
        same(ledger.creditOf(reporter), uint256(left) * 3 / 10 + (10 ether - uint256(left)) * 3 / 10, "alpha");
        balanced();
    }

    function test_what_is_unbonding_is_taken_too(uint64 seq, uint32 wait) public {
        (Receipt memory a, Receipt memory b) = twins(seq);
        vm.prank(operator);
        vault.requestUnbond(100 ether);
        vm.warp(block.timestamp + wait);
        reported(a, b);
        same(vault.totalUnbonding(), 90 ether, "left");
    }
}
