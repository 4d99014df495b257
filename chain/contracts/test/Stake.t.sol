// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ledger} from "../src/Ledger.sol";
import {Wired} from "../src/Wired.sol";
import {ILedger} from "../src/interfaces/ILedger.sol";
import {IRegistry} from "../src/interfaces/IRegistry.sol";
import {IStakeSource} from "../src/interfaces/IStakeSource.sol";
import {Network} from "./Network.sol";

/// @title An account that refuses money, or comes back for more while it is paid
contract Greedy {
    Ledger private immutable LEDGER;
    bool public refuses;
    bool public again;

    constructor(Ledger ledger) {
        LEDGER = ledger;
    }

    function set(bool refuses_, bool again_) external {
        (refuses, again) = (refuses_, again_);
    }

    function take() external {
        LEDGER.withdraw();
    }

    receive() external payable {
        require(!refuses, "no");
        if (again) LEDGER.withdraw();
    }
}

/// @title Stake, exits, locks, payments
contract StakeTest is Network {
    bytes32 private constant REF = "ref";

    function test_stake_leaves_only_after_the_delay(uint96 amount, uint32 wait) public {
        uint256 a = bound(amount, 1, 100 ether);
        vm.prank(operator);
        vault.requestUnbond(a);
        same(vault.stakeOf(operator), 100 ether - a, "stake");
        (, uint64 finishAt) = vault.unbondingOf(operator);
        vm.warp(block.timestamp + wait);
        vm.prank(operator);
        if (block.timestamp < finishAt) vm.expectPartialRevert(IStakeSource.TooEarly.selector);
        vault.finishUnbond();
        if (block.timestamp >= finishAt) same(operator.balance, a, "paid");
        moneyBalances();
    }

    function test_no_exit_while_a_dispute_needs_the_stake(uint64 late) public {
        bytes32 id = opened(challenger, 1);
        vm.prank(operator);
        vault.requestUnbond(100 ether);
        drawn(id);
        vm.warp(block.timestamp + 1 days + late % 1000 days);
        vm.prank(operator);
        vm.expectRevert(abi.encodeWithSelector(IStakeSource.StakeLocked.selector, operator, 10 ether, 0));
        vault.finishUnbond();
    }

    function test_unbonding_stake_is_slashed_to_its_last_second(uint64 salt, uint96 left) public {
        vm.roll(block.number + salt % 1000);
        bytes32 id = opened(challenger, 1);
        vm.prank(operator);
        vault.requestUnbond(bound(left, 1, 100 ether));
        drawn(id);
        unanimous(id, other("true"));
        (uint256 unbonding,) = vault.unbondingOf(operator);
        same(vault.stakeOf(operator) + unbonding, 90 ether, "slashed");
        moneyBalances();
    }

    function test_unbonding_stake_has_no_weight(uint8 who) public {
        address v = verifier(who % VERIFIERS);
        uint256 all = vault.stakeOf(v);
        vm.prank(v);
        vault.requestUnbond(all);
        same(vault.stakeAt(v, block.number - 1), all, "before");
        vm.roll(block.number + 1);
        (, uint256[] memory stakes, uint256 total) = registry.weights(block.number - 1, address(0));
        same(stakes[who % VERIFIERS], 0, "weight");
        same(total, 170 ether - all, "total");
    }

    function test_history_remembers_every_block(uint8[8] memory deposits) public {
        address who = vm.addr(0x5747E);
        uint256[8] memory want;
        uint256 first = block.number;
        for (uint256 i = 0; i < 8; ++i) {
            if (deposits[i] != 0) stake(who, deposits[i]);
            want[i] = vault.stakeOf(who);
            vm.roll(block.number + 1);
        }
        for (uint256 i = 0; i < 8; ++i) {
            same(vault.stakeAt(who, first + i), want[i], "stake at block");
        }
    }

    function test_only_the_court_and_the_anchor_lock_and_slash(address who, uint96 amount, uint8 what) public {
        vm.assume(who != address(disputes) && who != address(anchor));
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(Wired.NotAuthorised.selector, who));
        if (what % 3 == 0) vault.lock(operator, amount, REF);
        else if (what % 3 == 1) vault.unlock(operator, amount, REF);
        else vault.slash(operator, 0, amount, REF);
    }

    function test_only_the_network_moves_money(address who, uint96 amount, uint8 what) public {
        vm.assume(who != address(disputes) && who != address(anchor) && who != address(vault));
        vm.deal(who, amount);
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(Wired.NotAuthorised.selector, who));
        if (what % 5 == 0) ledger.takeBond{value: amount}(REF, who);
        else if (what % 5 == 1) ledger.takeSlash{value: amount}(REF, who);
        else if (what % 5 == 2) ledger.credit(REF, who, amount, ILedger.Reason.BOND_BACK);
        else if (what % 5 == 3) ledger.burn(REF, amount, ILedger.BurnReason.PENALTY);
        else ledger.close(REF, ILedger.BurnReason.PENALTY);
    }

    function test_wiring_happens_once_and_only_by_the_deployer(address who) public {
        vm.expectRevert(Wired.AlreadyWired.selector);
        ledger.wire(who, who, who);
        Ledger fresh = new Ledger();
        vm.assume(who != address(this));
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(Wired.NotDeployer.selector, who));
        fresh.wire(who, who, who);
    }

    function filled(uint256 amount) private {
        vm.deal(address(disputes), amount);
        vm.prank(address(disputes));
        ledger.takeBond{value: amount}(REF, challenger);
    }

    function test_a_pot_never_pays_more_than_it_holds(uint96 have, uint96 want) public {
        filled(have);
        vm.prank(address(disputes));
        if (want > have) vm.expectRevert(abi.encodeWithSelector(ILedger.PotTooSmall.selector, REF, have, want));
        ledger.credit(REF, challenger, want, ILedger.Reason.BOND_BACK);
        moneyBalances();
    }

    function test_nothing_is_credited_to_nobody(uint96 amount) public {
        filled(amount);
        vm.prank(address(disputes));
        vm.expectRevert(abi.encodeWithSelector(ILedger.CreditToZero.selector, REF));
        ledger.credit(REF, address(0), amount, ILedger.Reason.BOND_BACK);
    }

    function test_a_credit_is_paid_once(uint96 amount) public {
        vm.assume(amount != 0);
        filled(amount);
        vm.prank(address(disputes));
        ledger.credit(REF, challenger, amount, ILedger.Reason.BOND_BACK);
        vm.prank(challenger);
        ledger.withdraw();
        same(challenger.balance, amount, "paid");
        vm.prank(challenger);
        vm.expectRevert(abi.encodeWithSelector(ILedger.NothingDue.selector, challenger));
        ledger.withdraw();
        moneyBalances();
    }

    function test_a_receiver_that_refuses_or_reenters_blocks_only_itself(uint96 amount, bool again) public {
        vm.assume(amount != 0);
        filled(amount);
        Greedy greedy = new Greedy(ledger);
        vm.prank(address(disputes));
        ledger.credit(REF, address(greedy), amount, ILedger.Reason.BOND_BACK);
        greedy.set(!again, again);
        vm.expectRevert(abi.encodeWithSelector(ILedger.PaymentRefused.selector, address(greedy)));
        greedy.take();
        greedy.set(false, false);
        greedy.take();
        same(address(greedy).balance, amount, "paid");
        moneyBalances();
    }

    function test_the_pool_takes_staked_verifiers_once_and_has_an_end(uint96 amount) public {
        address poor = vm.addr(0x9009);
        uint256 little = bound(amount, 1, 5 ether - 1);
        stake(poor, little);
        vm.prank(poor);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.StakeTooSmall.selector, poor, little, 5 ether));
        registry.registerVerifier();
        vm.prank(verifier(0));
        vm.expectRevert(abi.encodeWithSelector(IRegistry.AlreadyRegistered.selector, verifier(0)));
        registry.registerVerifier();
        for (uint256 i = VERIFIERS; i < 64; ++i) {
            stake(verifier(i), 5 ether);
            vm.prank(verifier(i));
            registry.registerVerifier();
        }
        stake(verifier(64), 5 ether);
        vm.prank(verifier(64));
        vm.expectRevert(abi.encodeWithSelector(IRegistry.PoolFull.selector, 64));
        registry.registerVerifier();
    }
}
