// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Receipt} from "../src/libraries/Types.sol";
import {IDemands} from "../src/interfaces/IDemands.sol";
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
        subject = demands.anchorSubject(anchor.receiptId(r));
    }

    /// @dev Environment, model or key epoch: as each of them is closed in an orderly way.
    function closed(uint8 what) internal {
        if (what % 3 == 0) return registry.close(ENVIRONMENT);
        if (what % 3 == 1) return registry.close(MODEL);
        putInForce(NEXT);
    }

    function overdue(bytes32 subject) internal {
        vm.warp(uint256(demands.demand(subject).deadline) + 1);
    }
}

/// @title Stake that an answer is owed of
contract ObligationTest is UnpostedBase {
    /// @dev No receipt of it is open, and its stake may leave while the pool stands still.
    function left(uint32 wait) private returns (bytes32 subject, uint256 paid) {
        vm.prank(operator);
        vault.requestUnbond(100 ether);
        vm.warp(block.timestamp + 14 days);
        (, subject) = demanded();
        quits();
        vm.warp(block.timestamp + bound(wait, 1 hours, 1 days));
        vm.prank(operator);
        paid = vault.finishUnbond();
    }

    function test_who_owes_an_answer_cannot_leave(uint32 wait) public {
        (bytes32 subject, uint256 paid) = left(wait);
        same(paid, 90 ether, "all but the penalty");
        joins();
        overdue(subject);
        demands.expire(subject);
        same(ledger.creditOf(demander), BOND + 3 ether, "bond and share");
        same(vault.obligedOf(operator), 0, "nothing is owed any more");
        balanced();
    }

    function test_who_answers_owes_nothing_any_more(uint16 wait) public {
        vm.prank(operator);
        vault.requestUnbond(79 ether);
        vm.warp(block.timestamp + 14 days);
        (Receipt memory r, bytes32 subject) = demanded();
        uint256 penalty = parameters().money.unanchoredPenalty;
        same(vault.keptOf(operator), penalty, "stays");
        vm.warp(block.timestamp + bound(wait, 0, 1 hours));
        uint64 batchId = anchored(r);
        bytes memory sig = signature(r);
        demands.answerAnchor(r, sig, batchId, none());
        isState(subject, IDemands.State.ANSWERED);
        vm.warp(anchor.windowEnd(0, batchId) + 1);
        anchor.release(batchId);
        same(vault.keptOf(operator), 0, "free");
        vm.prank(operator);
        same(vault.finishUnbond(), 79 ether, "all that it asked for");
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
