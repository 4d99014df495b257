// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Keeper} from "../src/court/Keeper.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {ISettlement} from "../src/interfaces/ISettlement.sol";
import {Phase} from "../src/libraries/Types.sol";
import {Courthouse} from "./Courthouse.sol";

/// @title Steps of one moment in one transaction, against the court
contract KeeperTest is Courthouse {
    Keeper private keeper;

    function setUp() public override {
        super.setUp();
        keeper = new Keeper();
    }

    /// @dev The end of a dispute whose one round upheld the claim, and the payment of `seats` of its seats.
    function ending(bytes32 id, uint256 seats) private view returns (Keeper.Call[] memory calls) {
        calls = new Keeper.Call[](2);
        calls[0] = Keeper.Call(address(disputes), abi.encodeCall(disputes.finalize, (id)));
        calls[1] = Keeper.Call(address(settlement), abi.encodeCall(settlement.settleSeats, (id, 1, seats)));
    }

    function decided(uint256 salt) private returns (bytes32 id) {
        id = opened(salt);
        judged(id, 0);
    }

    function test_calls_are_made_in_order() public {
        bytes32 id = decided(1);
        toFinalize(id);
        keeper.run(ending(id, 255));
        inPhase(id, Phase.FINAL);
        same(settlement.settledSeats(id, 1), 5, "seats are paid after the end");
        same(address(keeper).balance, 0, "keeps nothing");
    }

    function test_first_call_that_reverts_is_named_with_its_reason() public {
        bytes32 id = decided(1);
        Keeper.Call[] memory calls = ending(id, 255);
        uint256 end = disputes.dispute(id).airgapEnd;
        // Before the airgap begins.
        bytes memory why = abi.encodeWithSelector(IDisputes.WrongPhase.selector, id, disputes.phaseOf(id), Phase.AIRGAP);
        vm.expectRevert(failed(0, address(disputes), IDisputes.finalize.selector, why));
        keeper.run(calls);
        vm.warp(block.timestamp + end + 1 - guardian.clock());
        (calls[0], calls[1]) = (calls[1], calls[0]);
        why = abi.encodeWithSelector(ISettlement.NotEnded.selector, id);
        vm.expectRevert(failed(0, address(settlement), ISettlement.settleSeats.selector, why));
        keeper.run(calls);
    }

    function test_one_call_that_reverts_undoes_all_before_it() public {
        bytes32 id = decided(1);
        toFinalize(id);
        Keeper.Call[] memory calls = ending(id, 0);
        bytes memory why = abi.encodeWithSelector(ISettlement.NoProgress.selector, id, uint16(1));
        vm.expectRevert(failed(1, address(settlement), ISettlement.settleSeats.selector, why));
        keeper.run(calls);
        inPhase(id, Phase.AIRGAP);
    }

    function test_what_is_no_function_of_a_contract_is_refused() public {
        Keeper.Call[] memory calls = new Keeper.Call[](1);
        calls[0] = Keeper.Call(OPERATOR, abi.encodeCall(disputes.finalize, ("id")));
        vm.expectRevert(abi.encodeWithSelector(Keeper.NoFunction.selector, 0, OPERATOR, 36));
        keeper.run(calls);
        calls[0] = Keeper.Call(address(disputes), hex"010203");
        vm.expectRevert(abi.encodeWithSelector(Keeper.NoFunction.selector, 0, address(disputes), 3));
        keeper.run(calls);
    }

    function failed(uint256 index, address target, bytes4 selector, bytes memory reason)
        private
        pure
        returns (bytes memory)
    {
        return abi.encodeWithSelector(Keeper.CallFailed.selector, index, target, selector, reason);
    }
}
