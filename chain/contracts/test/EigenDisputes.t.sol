// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EigenLayerStake} from "../src/EigenLayerStake.sol";
import {Wired} from "../src/Wired.sol";
import {Verdict} from "../src/Types.sol";
import {IEigenLayerStake} from "../src/interfaces/IEigenLayerStake.sol";
import {OperatorSet} from "../src/interfaces/IEigenLayer.sol";
import {EigenNetwork} from "./EigenNetwork.sol";
import {FakeEigenLayer, WrappedEther} from "./FakeEigenLayer.sol";

/// @title Whole disputes on EigenLayer's stake; who may do what; what a slash costs
contract EigenDisputesTest is EigenNetwork {
    event GasOf(string what, uint256 gas_);

    /// forge-config: default.fuzz.runs = 24
    function test_a_conviction_is_paid_from_eigenlayer(uint64 salt, bytes32 tokens) public {
        vm.assume(tokens != TOKENS);
        vm.roll(block.number + salt % 500);
        uint256 before = adapter.slashableOf(operator);
        bytes32 id = opened(challenger, 1);
        drawn(id);
        unanimous(id, other(tokens));
        same(uint8(disputes.dispute(id).verdict), uint8(Verdict.OVERTURNED), "verdict");
        near(before - adapter.slashableOf(operator), 10 ether, grain(100 ether), "slashed");
        near(ledger.creditOf(challenger), params.requiredBond() + 3 ether, grain(100 ether), "bond and alpha");
        same(address(ledger).balance, ledger.totalBonds() + ledger.totalCredits() + ledger.totalBurned(), "ledger");
        same(ledger.potOf(id), 0, "pot");
        same(adapter.lockedOf(operator), 0, "unlocked");
    }

    /// forge-config: default.fuzz.runs = 24
    function test_a_pause_does_not_stop_the_verdict(uint64 salt) public {
        vm.roll(block.number + salt % 500);
        bytes32 id = opened(challenger, 1);
        drawn(id);
        eigen.pause(true, true, 0);
        unanimous(id, other("true"));
        same(uint8(disputes.dispute(id).verdict), uint8(Verdict.OVERTURNED), "verdict");
        same(ledger.creditOf(challenger), params.requiredBond(), "the bond is back");
        same(adapter.dueOf(operator, id), 10 ether, "due");
        eigen.pause(false, false, 0);
        adapter.retry(operator, id);
        near(ledger.potOf(adapter.LATE()), 10 ether, grain(100 ether), "late");
        same(address(ledger).balance, ledger.totalBonds() + ledger.totalCredits() + ledger.totalBurned(), "ledger");
    }

    /// @dev As of EigenLayer's release 1.13: a slash is paid 50,400 blocks later, when its dispute is long settled.
    /// forge-config: default.fuzz.runs = 24
    function test_a_slash_that_is_paid_days_later_punishes_and_pays_nobody(uint64 salt) public {
        vm.roll(block.number + salt % 500);
        uint256 before = adapter.slashableOf(operator);
        bytes32 id = opened(challenger, 1);
        drawn(id);
        eigen.pause(false, false, 50_400);
        unanimous(id, other("true"));
        near(before - adapter.slashableOf(operator), 10 ether, grain(100 ether), "slashed");
        same(ledger.creditOf(challenger), params.requiredBond(), "the bond is back");
        vm.roll(block.number + 50_400);
        near(adapter.collect(1), 10 ether, grain(100 ether), "late");
        same(address(ledger).balance, ledger.totalBonds() + ledger.totalCredits() + ledger.totalBurned(), "ledger");
    }

    /// forge-config: default.fuzz.runs = 24
    function test_who_leaves_while_disputed_pays(uint64 salt, bool withdraws) public {
        vm.roll(block.number + salt % 500);
        bytes32 id = opened(challenger, 1);
        if (withdraws) eigen.queueWithdrawal(operator, 100 ether);
        else eigen.register(operator, false);
        drawn(id);
        unanimous(id, other("true"));
        near(ledger.creditOf(challenger), params.requiredBond() + 3 ether, grain(100 ether), "bond and alpha");
    }

    function test_only_the_court_and_the_anchor_lock_and_slash(address caller, uint96 amount, uint8 what) public {
        vm.assume(caller != address(disputes) && caller != address(anchor));
        vm.prank(caller);
        vm.expectRevert(abi.encodeWithSelector(Wired.NotAuthorised.selector, caller));
        if (what % 3 == 0) adapter.lock(operator, amount, REF);
        else if (what % 3 == 1) adapter.unlock(operator, amount, REF);
        else adapter.slash(operator, 0, amount, REF);
    }

    function test_stake_enters_and_leaves_elsewhere(address caller, uint96 amount, uint8 what) public {
        vm.assume(caller != address(token));
        vm.deal(caller, amount);
        vm.prank(caller);
        if (what % 4 == 3) {
            vm.expectRevert(abi.encodeWithSelector(IEigenLayerStake.UnexpectedPayment.selector, caller));
            (bool ok,) = address(adapter).call{value: amount}("");
            that(ok, "expectRevert turns the failure into a success");
        } else {
            vm.expectRevert(IEigenLayerStake.StakedElsewhere.selector);
            if (what % 4 == 0) adapter.deposit{value: amount}();
            else if (what % 4 == 1) adapter.requestUnbond(amount);
            else adapter.finishUnbond();
        }
    }

    /// @dev The longest dispute of these parameters is 1,700 blocks.
    function test_delays_must_outlast_the_longest_dispute(uint16 deallocation, uint16 withdrawal, uint16 maxAge)
        public
    {
        uint256 needs = 1_700 + uint256(maxAge);
        eigen = new FakeEigenLayer(token, deallocation, withdrawal);
        if (deallocation < needs) expectShort("deallocation", deallocation, needs);
        else if (withdrawal < needs) expectShort("withdrawal", withdrawal, needs);
        EigenLayerStake made = fresh(maxAge);
        if (deallocation >= needs && withdrawal >= needs) same(made.HORIZON(), needs, "horizon");
    }

    function expectShort(bytes32 what, uint256 have, uint256 needs) private {
        vm.expectRevert(abi.encodeWithSelector(IEigenLayerStake.DelayTooShort.selector, what, have, needs));
    }

    function test_the_set_must_name_this_contract_twice(address slasher, address recipient) public {
        EigenLayerStake made = fresh(MAX_AGE);
        eigen.create(slasher, recipient);
        vm.expectRevert(abi.encodeWithSelector(IEigenLayerStake.WrongRole.selector, bytes32("slasher"), slasher));
        made.wire(address(disputes), address(anchor));
        eigen.create(address(made), recipient);
        vm.expectRevert(abi.encodeWithSelector(IEigenLayerStake.WrongRole.selector, bytes32("recipient"), recipient));
        made.wire(address(disputes), address(anchor));
        eigen.create(address(made), address(made));
        made.wire(address(disputes), address(anchor));
    }

    function test_the_strategy_must_hold_wrapped_ether() public {
        WrappedEther another = new WrappedEther();
        EigenLayerStake.Core memory core = EigenLayerStake.Core(eigen, eigen, eigen, eigen, another);
        vm.expectRevert(abi.encodeWithSelector(IEigenLayerStake.WrongToken.selector, address(token)));
        new EigenLayerStake(params, ledger, core, OperatorSet(address(eigen), 7), MAX_AGE);
    }

    /// @dev What the adapter adds to EigenLayer's own two calls; the fake stands for those.
    /// forge-config: default.isolate = true
    /// forge-config: default.fuzz.runs = 4
    function test_gas(uint96 amount) public {
        delegated(who, bound(amount, 1 ether, 1_000 ether), ALL);
        vm.roll(block.number + 1);
        measured("sync", abi.encodeCall(adapter.sync, (who)), 120_000);
        measured("lock", abi.encodeCall(adapter.lock, (who, 0.1 ether, REF)), 130_000);
        measured("slash", abi.encodeCall(adapter.slash, (who, 0.1 ether, 0.5 ether, REF)), 400_000);
    }

    function measured(string memory what, bytes memory call, uint256 most) private {
        vm.prank(address(disputes));
        uint256 before = gasleft();
        (bool ok,) = address(adapter).call(call);
        uint256 used = before - gasleft();
        that(ok, what);
        emit GasOf(what, used);
        if (used > most) revert Differ(what, used, most);
    }
}
