// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {StakeVault} from "../src/stake/StakeVault.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";
import {IStakeSource} from "../src/interfaces/IStakeSource.sol";
import {Staking} from "./Staking.sol";

/// @title An account that refuses its stake, or asks again while it is paid
contract Receiver {
    StakeVault private immutable VAULT;
    bool public refuses;
    bytes public why;

    constructor(StakeVault vault) payable {
        VAULT = vault;
        vault.deposit{value: msg.value}();
    }

    receive() external payable {
        require(!refuses, "no");
        (bool ok, bytes memory data) = address(VAULT).call(abi.encodeCall(IStakeSource.finishUnbond, ()));
        if (!ok) why = data;
    }

    function request(uint256 amount) external {
        VAULT.requestUnbond(amount);
    }

    function finish(bool refuses_) external {
        refuses = refuses_;
        VAULT.finishUnbond();
    }
}

/// @title Native stake: nobody leaves in time, nobody is kept without reason, and the wei always add up
contract StakeVaultTest is Staking {
    function held() private view {
        same(address(vault).balance, vault.totalStake() + vault.totalUnbonding(), "held == staked + unbonding");
    }

    function all(address who) private view returns (uint256) {
        (uint256 leaving,,) = vault.unbondingOf(who);
        return vault.stakeOf(who) + leaving;
    }

    function boundOf(address who) private view returns (uint256) {
        return vault.lockedOf(who) + vault.collateralOf(who);
    }

    /// @dev Three verifiers and an operator do everything in any order; after each step every sum is counted again.
    function test_whatever_happens_the_sums_hold(bytes32 seed, uint8 steps) public {
        for (uint256 i = 0; i < 3; ++i) {
            joined(i, LEAST);
        }
        for (uint256 s = 0; s < steps % 64; ++s) {
            uint256 r = random(seed, s);
            address who = person((r >> 8) % 4);
            uint256 amount = (r >> 16) % 8 ether + 1;
            if (r % 8 == 0) staked(who, amount);
            else if (r % 8 == 1) leaves(who, amount);
            else if (r % 8 == 2) returns_(who);
            else if (r % 8 == 3) locks(who, amount);
            else if (r % 8 == 4) punished(who, amount);
            else if (r % 8 == 5) binds(who, amount);
            else if (r % 8 == 6) frees(who, amount);
            else passes(amount % 10 days);
            vm.roll(block.number + r % 60);
            held();
            for (uint256 i = 0; i < 4; ++i) {
                same(
                    unitsNext(person(i)), i == 3 ? 0 : unitsOf(vault.stakeOf(person(i))), "leaf == floor(stake / unit)"
                );
            }
        }
    }

    function leaves(address who, uint256 amount) private {
        vm.prank(who);
        try vault.requestUnbond(amount) {} catch {}
    }

    function returns_(address who) private {
        uint256 before = all(who);
        vm.prank(who);
        try vault.finishUnbond() returns (uint256 paid) {
            that(paid != 0, "progress or nothing");
            same(all(who), before - paid, "paid once");
            that(boundOf(who) <= all(who), "what is bound stays");
        } catch {}
    }

    function punished(address who, uint256 amount) private {
        uint256 part = vault.lockedOf(who) / 2;
        uint256 before = all(who);
        uint256 taken = slashes(who, part, amount);
        same(taken, amount < before ? amount : before, "as much as was asked or all");
        same(all(who), before - taken, "taken once");
    }

    function binds(address who, uint256 amount) private {
        if (vault.freeStakeOf(who) < (amount < 20 ether ? 20 ether : amount)) return;
        reserves(who, amount);
        uint256 locked = vault.lockedOf(who);
        uint256 kept = vault.collateralOf(who) + (locked < 10 ether ? locked : 10 ether);
        that(kept <= vault.stakeOf(who), "bound by what counts, beside a slash");
    }

    function frees(address who, uint256 amount) private {
        uint256 most = vault.collateralOf(who);
        vm.prank(ANCHOR);
        vault.release(who, 1, amount < most ? amount : most);
        uint256 part = vault.lockedOf(who) / 3;
        vm.prank(SETTLEMENT);
        vault.unlock(who, part, REF);
    }

    function test_stake_leaves_after_the_delay_of_the_protocol_clock(uint96 amount, uint32 wait, uint32 stopped)
        public
    {
        uint256 a = bound(amount, 1, 100 ether);
        address who = person(0);
        staked(who, 100 ether);
        unbonds(who, a);
        (,, uint64 finishAt) = vault.unbondingOf(who);
        that(finishAt >= block.timestamp + DELAY && finishAt < block.timestamp + DELAY + 1 hours, "delay, full hour");
        same(vault.stakeOf(who), 100 ether - a, "counts no more");
        uint256 stop = bound(stopped, 1, 1 days);
        guardian.pause(uint64(stop));
        passes(stop);
        passes(bound(wait, 0, 2 * DELAY));
        uint256 clock = block.timestamp - stop;
        if (clock < finishAt) {
            vm.expectRevert(abi.encodeWithSelector(IStakeSource.NothingUnbonded.selector, who, finishAt));
        }
        finishes(who);
        same(who.balance, clock < finishAt ? 0 : a, "paid");
        held();
    }

    function test_nothing_is_paid_while_the_clock_stands_still(uint96 amount, uint32 stopped) public {
        address who = person(0);
        staked(who, 100 ether);
        unbonds(who, bound(amount, 1, 100 ether));
        passes(DELAY + 1 hours);
        guardian.pause(uint64(bound(stopped, 1, 1 days)));
        (, uint256 due,) = vault.unbondingOf(who);
        same(due, 0, "due");
        vm.expectRevert(abi.encodeWithSelector(IGuardian.NotNow.selector, true));
        finishes(who);
        guardian.unpause();
        finishes(who);
    }

    function test_unbonding_stake_is_slashed_to_its_last_second(uint96 amount, uint96 want, uint8 requests) public {
        address who = person(0);
        staked(who, 100 ether);
        uint256 n = bound(requests, 1, 8);
        uint256 first = bound(amount, 1, 50 ether);
        unbonds(who, first);
        for (uint256 i = 1; i < n; ++i) {
            passes(1 hours);
            unbonds(who, (100 ether - first) / n);
        }
        (uint256 leaving,, uint64 firstAt) = vault.unbondingOf(who);
        vm.warp(firstAt - 1);
        uint256 asked = bound(want, 1, 200 ether);
        uint256 active = vault.stakeOf(who);
        uint256 taken = slashes(who, 0, asked);
        same(taken, asked < 100 ether ? asked : 100 ether, "taken");
        same(vault.stakeOf(who), taken < active ? active - taken : 0, "what counts goes first");
        same(all(who), 100 ether - taken, "then what is leaving");
        same(ledger.potOf(REF), taken, "brought to the pot at once");
        vm.warp(firstAt + 30 days);
        (uint256 rest,,) = vault.unbondingOf(who);
        if (rest != 0) finishes(who);
        same(who.balance, taken < active ? leaving : 100 ether - taken, "only the rest leaves");
        held();
    }

    function test_a_queue_has_an_end_and_is_its_owners(uint16 gap, uint8 more) public {
        address who = person(0);
        staked(who, 100 ether);
        for (uint256 i = 0; i < 8; ++i) {
            unbonds(who, 1 ether);
            passes(1 hours + uint256(gap));
        }
        vm.expectRevert(abi.encodeWithSelector(IStakeSource.QueueFull.selector, 8));
        unbonds(who, 1 ether);
        // Others do what they like.
        address other = person(1);
        staked(other, 100 ether);
        for (uint256 i = 0; i < more % 8; ++i) {
            unbonds(other, 1);
            passes(1 hours);
        }
        passes(DELAY);
        same(finishes(who), 8 ether, "paid");
        unbonds(who, 1 ether);
    }

    function test_requests_of_one_hour_are_one(uint8 many) public {
        address who = person(0);
        staked(who, 300);
        for (uint256 i = 0; i <= many; ++i) {
            unbonds(who, 1);
        }
        passes(DELAY + 1 hours);
        same(finishes(who), uint256(many) + 1, "together");
    }

    function test_history_remembers_every_block(uint8[8] memory deposits) public {
        address who = person(0);
        uint256[8] memory want;
        uint256 first = block.number;
        for (uint256 i = 0; i < 8; ++i) {
            if (deposits[i] % 2 == 0 && vault.stakeOf(who) > deposits[i]) slashes(who, 0, deposits[i]);
            else if (deposits[i] != 0) staked(who, deposits[i]);
            want[i] = vault.stakeOf(who);
            vm.roll(block.number + 1);
        }
        for (uint256 i = 0; i < 8; ++i) {
            same(vault.stakeAt(who, first + i), want[i], "stake at block");
        }
        same(vault.stakeAt(who, first - 1), 0, "before");
    }

    function test_nothing_in_nothing_out(uint96 have, uint96 more) public {
        address who = person(0);
        uint256 a = bound(have, 1, 100 ether);
        staked(who, a);
        vm.prank(who);
        vm.expectRevert(IStakeSource.ZeroAmount.selector);
        vault.deposit();
        vm.expectRevert(IStakeSource.ZeroAmount.selector);
        unbonds(who, 0);
        uint256 want = a + bound(more, 1, 100 ether);
        vm.expectRevert(abi.encodeWithSelector(IStakeSource.StakeTooSmall.selector, who, a, want));
        unbonds(who, want);
        vm.expectRevert(abi.encodeWithSelector(IStakeSource.NothingUnbonded.selector, who, 0));
        finishes(who);
    }

    function test_a_receiver_that_refuses_or_asks_again_harms_itself_only(uint96 amount, uint88 left) public {
        uint256 a = bound(amount, 1, 100 ether);
        vm.deal(address(this), a + left);
        Receiver receiver = new Receiver{value: a + left}(vault);
        receiver.request(a);
        passes(DELAY + 1 hours);
        vm.expectRevert(abi.encodeWithSelector(IStakeSource.PaymentRefused.selector, address(receiver)));
        receiver.finish(true);
        held();
        receiver.finish(false);
        same(address(receiver).balance, a, "paid once");
        bytes4 guarded = ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector;
        that(keccak256(receiver.why()) == keccak256(abi.encodeWithSelector(guarded)), "guarded");
        held();
    }
}
