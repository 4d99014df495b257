// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IAllocationManager, IDelegationManager, IStrategyManager, OperatorSet} from "../src/interfaces/IEigenLayer.sol";
import {IEigenLayerStake} from "../src/interfaces/IEigenLayerStake.sol";
import {EigenNetwork} from "./EigenNetwork.sol";

/// @title Stake that EigenLayer holds: what counts can be slashed, and no refusal of EigenLayer stops a verdict
/// @dev The mutant that each invariant was tried with, and that fails it, stands beside it.
contract EigenLayerTest is EigenNetwork {
    /// @dev The selectors that EigenLayer publishes in the Go bindings of its contracts.
    function test_the_interface_is_eigenlayers() public pure {
        that(IAllocationManager.slashOperator.selector == 0x36352057, "slashOperator");
        that(IAllocationManager.DEALLOCATION_DELAY.selector == 0x2981eb77, "DEALLOCATION_DELAY");
        that(IAllocationManager.getSlasher.selector == 0xd4a3fcce, "getSlasher");
        that(IAllocationManager.getRedistributionRecipient.selector == 0x0f3df50e, "getRedistributionRecipient");
        that(IAllocationManager.isMemberOfOperatorSet.selector == 0x670d3ba2, "isMemberOfOperatorSet");
        that(IAllocationManager.isOperatorSlashable.selector == 0x1352c3e6, "isOperatorSlashable");
        that(IAllocationManager.getMinimumSlashableStake.selector == 0x2bab2c4a, "getMinimumSlashableStake");
        that(IAllocationManager.getAllocation.selector == 0x10e1b9b8, "getAllocation");
        that(IAllocationManager.getMaxMagnitude.selector == 0xa9333ec8, "getMaxMagnitude");
        that(IDelegationManager.getSlashableSharesInQueue.selector == 0x6e174448, "getSlashableSharesInQueue");
        that(IDelegationManager.minWithdrawalDelayBlocks.selector == 0xc448feb8, "minWithdrawalDelayBlocks");
        that(IStrategyManager.clearBurnOrRedistributableSharesByStrategy.selector == 0x2d44def6, "clear");
    }

    /// @dev Mutants: a record that looks at the present block only, one that ignores membership.
    function test_what_counts_can_be_slashed_whatever_its_owner_does(
        uint96 amount,
        uint64 magnitude,
        uint8[6] calldata acts,
        uint16[6] calldata waits
    ) public {
        uint256 staked = bound(amount, 1 ether, 1_000_000 ether);
        delegated(who, staked, uint64(bound(magnitude, 1e15, ALL)));
        // Exits that the record must see, and exits that come after it.
        for (uint256 i = 0; i < acts.length; ++i) {
            if (i == 3) adapter.sync(who);
            exits(acts[i]);
            vm.roll(block.number + waits[i] % (i < 3 ? 1_000 : MAX_AGE / 3));
        }
        uint256 counts = adapter.stakeOf(who);
        if (counts == 0) return;
        // The last block of the longest dispute that could be opened now.
        vm.roll(block.number + adapter.HORIZON() - MAX_AGE);
        near(slashed(who, 0, counts), counts, grain(staked), "slashed");
    }

    function exits(uint8 act) private {
        if (act % 5 == 0) {
            eigen.register(who, false);
        } else if (act % 5 == 1) {
            eigen.queueWithdrawal(who, eigen.sharesOf(who) * act / 256);
        } else if (act % 5 == 2) {
            try eigen.allocate(who, ALL / (1 + uint64(act))) {} catch {}
        } else if (act % 5 == 3) {
            try eigen.allocate(who, 0) {} catch {}
        }
    }

    /// @dev Mutants: `<` for `<=` in `_young`; no age at all.
    function test_an_old_record_counts_for_nothing(uint96 amount, uint16 age) public {
        uint256 staked = bound(amount, 1, 100 ether);
        delegated(who, staked, ALL);
        uint256 first = block.number;
        // Every other time within a block of the end.
        uint256 waited = age % 2 == 0 ? MAX_AGE - 1 + age % 3 : age;
        vm.roll(first + waited);
        uint256 want = waited <= MAX_AGE ? staked : 0;
        same(adapter.stakeOf(who), want, "stake");
        same(adapter.stakeAt(who, block.number), want, "stake at");
        same(adapter.stakeAt(who, first - 1), 0, "before");
        vm.roll(block.number + 1);
        delegated(who, 1 ether, ALL);
        same(adapter.stakeOf(who), staked + 1 ether, "again");
        same(adapter.stakeAt(who, first), staked, "the past stays");
    }

    /// @dev Mutants: `totalStake` without subtracting the last record; a slash that does not record the loss.
    function test_the_total_is_the_sum_of_the_records(uint96[3] calldata amounts, uint8[8] calldata acts) public {
        uint256 others = adapter.totalStake();
        address[3] memory accounts = [vm.addr(0xE1), vm.addr(0xE2), vm.addr(0xE3)];
        for (uint256 i = 0; i < 3; ++i) {
            delegated(accounts[i], bound(amounts[i], 1 ether, 100 ether), ALL);
        }
        for (uint256 i = 0; i < acts.length; ++i) {
            address account = accounts[acts[i] % 3];
            if (acts[i] < 100) eigen.queueWithdrawal(account, eigen.sharesOf(account) / 3);
            if (acts[i] > 50) slashed(account, 0, uint256(acts[i]) * 0.01 ether);
            else adapter.sync(account);
            if (acts[i] > 50) same(adapter.stakeOf(account), adapter.sync(account), "recorded at once");
            vm.roll(block.number + 1);
        }
        uint256 sum;
        for (uint256 i = 0; i < 3; ++i) {
            sum += adapter.stakeOf(accounts[i]);
        }
        same(adapter.totalStake(), others + sum, "total");
    }

    /// @dev Mutants: a base without the queue; more returned than asked; the money in another pot.
    function test_a_slash_takes_what_was_asked_or_all_there_is(
        uint96 amount,
        uint64 magnitude,
        uint96 want,
        uint8 queued,
        uint96 earned
    ) public {
        uint256 staked = bound(amount, 1 ether, 1_000_000 ether);
        delegated(who, staked, uint64(bound(magnitude, 1e9, ALL)));
        eigen.queueWithdrawal(who, staked * queued / 512);
        vm.deal(address(this), earned);
        eigen.earn{value: earned}();
        uint256 all = adapter.slashableOf(who);
        uint256 asked = bound(want, 1, 2 * staked);
        uint256 taken = slashed(who, 0, asked);
        that(taken <= asked, "never more");
        near(taken, asked < all ? asked : all, grain(staked + earned), "taken");
        that(ledger.potOf(REF) >= taken, "paid");
        near(ledger.potOf(REF), taken, grain(staked + earned), "no more than rounding");
        near(all - adapter.slashableOf(who), taken, grain(staked + earned), "gone");
        same(token.balanceOf(address(adapter)) + address(adapter).balance, 0, "nothing stays");
    }

    /// @dev Mutant: without `isOperatorSlashable`, the slash is deferred for ever.
    function test_nothing_left_is_nothing_taken(uint96 want, uint16 late, bool leaves) public {
        delegated(who, 10 ether, ALL);
        if (leaves) eigen.register(who, false);
        else eigen.allocate(who, 0);
        vm.roll(block.number + DEALLOCATION_DELAY + 1 + late);
        same(slashed(who, 0, want), 0, "taken");
        same(locked(who, want), 0, "locked");
        same(adapter.dueOf(who, REF), 0, "due");
        same(adapter.stakeOf(who), 0, "stake");
    }

    /// @dev Mutants: a slash that takes what other locks need; one that does not free what was bound.
    function test_locks_bind_what_is_there_and_slashes_leave_it(uint96 first, uint96 second, uint96 want) public {
        delegated(who, 10 ether, ALL);
        uint256 a = locked(who, first);
        uint256 b = locked(who, second);
        same(a, first < 10 ether ? first : 10 ether, "first");
        that(b <= second && a + b <= 10 ether, "second");
        same(adapter.freeStakeOf(who), 10 ether - a - b, "free");
        uint256 taken = slashed(who, a, want);
        that(taken <= 10 ether - b + grain(10 ether), "the other lock");
        same(adapter.lockedOf(who), b, "locked");
        that(adapter.slashableOf(who) + grain(10 ether) >= b, "still there");
        vm.prank(address(disputes));
        adapter.unlock(who, b, REF);
        same(adapter.lockedOf(who), 0, "unlocked");
    }

    /// @dev Mutants: forgetting what is due; a `retry` that does not clear it; rounding the part down.
    function test_a_pause_defers_a_slash_and_is_no_amnesty(uint96 amount, uint96 want) public {
        uint256 staked = bound(amount, 1 ether, 1_000 ether);
        delegated(who, staked, ALL);
        uint256 asked = bound(want, 1, staked);
        eigen.pause(true, false, 0);
        same(slashed(who, 0, asked), 0, "taken");
        same(adapter.dueOf(who, REF), asked, "due");
        same(adapter.retry(who, REF), 0, "still paused");
        same(adapter.dueOf(who, REF), asked, "still due");
        eigen.pause(false, false, 0);
        near(adapter.retry(who, REF), asked, grain(staked), "late");
        near(ledger.potOf(adapter.LATE()), asked, grain(staked), "pot");
        vm.expectRevert(abi.encodeWithSelector(IEigenLayerStake.NothingDue.selector, who, REF));
        adapter.retry(who, REF);
    }

    /// @dev Mutant: `collect` that counts its own fetch only.
    function test_a_payment_that_waits_is_fetched_once_by_anybody(uint96 want, uint8 delay, bool stranger, uint96 gift)
        public
    {
        delegated(who, 10 ether, ALL);
        vm.deal(address(this), gift);
        token.deposit{value: gift}();
        token.transfer(address(adapter), gift);
        eigen.pause(false, delay == 0, delay);
        same(slashed(who, 0, bound(want, 1e6, 10 ether)), 0, "nothing arrived");
        eigen.pause(false, false, delay);
        vm.roll(block.number + delay);
        if (stranger) {
            eigen.clearBurnOrRedistributableSharesByStrategy(OperatorSet(address(eigen), 7), 1, address(eigen));
        }
        near(adapter.collect(1), bound(want, 1e6, 10 ether) + gift, grain(10 ether), "collected");
        same(adapter.collect(1), 0, "once");
        near(ledger.potOf(adapter.LATE()), bound(want, 1e6, 10 ether) + gift, grain(10 ether), "pot");
        same(ledger.potOf(REF), 0, "not the dispute's");
    }

    /// @dev A gift is no part of a slash. Mutant: the balance in place of its difference.
    function test_tokens_that_lie_there_are_not_counted(uint96 gift) public {
        delegated(who, 10 ether, ALL);
        vm.deal(address(this), gift);
        token.deposit{value: gift}();
        token.transfer(address(adapter), gift);
        near(slashed(who, 0, 1 ether), 1 ether, grain(10 ether), "taken");
        near(ledger.potOf(REF), 1 ether, grain(10 ether), "pot");
    }

    /// @dev A call that is starved leaves 1/64 of the gas, which is enough for the rest where a slash takes very much.
    ///      Mutant: without `_notStarved`, some amounts of gas make the slash fail and the verdict stand.
    /// forge-config: default.fuzz.runs = 16
    function test_nobody_can_starve_a_slash(uint24 limit) public {
        delegated(who, 10 ether, ALL);
        eigen.labour(16_000_000);
        uint256 given = bound(limit, 12_000_000, 18_000_000);
        vm.prank(address(disputes));
        try adapter.slash{gas: given}(who, 0, 1 ether, REF) returns (uint256 taken) {
            near(taken, 1 ether, grain(10 ether), "taken");
        } catch {
            same(eigen.slashes(), 0, "nothing happened");
        }
        same(adapter.dueOf(who, REF), 0, "not deferred");
    }
}
