// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IAllocationManager, IDelegationManager, IStrategyManager} from "../../src/stake/eigenlayer/IEigenLayer.sol";
import {ParamSet} from "../../src/libraries/Types.sol";
import {IStakeSource} from "../../src/interfaces/IStakeSource.sol";
import {Defaults} from "../Defaults.sol";
import {EigenStaking} from "./EigenStaking.sol";

/// @title Stake that EigenLayer holds: what counts can be slashed, and what cannot be slashed any more does not count
contract EigenLayerTest is EigenStaking {
    /// @dev The selectors that EigenLayer publishes in the Go bindings of its contracts.
    function test_the_interface_is_eigenlayers() public pure {
        that(IAllocationManager.slashOperator.selector == 0x36352057, "slashOperator");
        that(IAllocationManager.DEALLOCATION_DELAY.selector == 0x2981eb77, "DEALLOCATION_DELAY");
        that(IAllocationManager.isOperatorSet.selector == 0x260dc758, "isOperatorSet");
        that(IAllocationManager.getStrategiesInOperatorSet.selector == 0x4177a87c, "getStrategiesInOperatorSet");
        that(IAllocationManager.getPendingSlasher.selector == 0xd7794857, "getPendingSlasher");
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

    function test_what_counts_can_be_slashed_whatever_its_owner_does(
        uint96 amount,
        uint64 magnitude,
        uint8[6] calldata acts,
        uint16[6] calldata waits
    ) public {
        uint256 staked_ = bound(amount, 1 ether, 1_000_000 ether);
        delegated(who, staked_, uint64(bound(magnitude, 1e15, ALL)));
        // Exits that the record must see, and exits that come after it.
        for (uint256 i = 0; i < acts.length; ++i) {
            if (i == 3) adapter.sync(who);
            exits(acts[i]);
            vm.roll(block.number + waits[i] % (i < 3 ? 1_000 : MAX_AGE / 3));
        }
        uint256 counts = adapter.stakeOf(who);
        if (counts == 0) return;
        // The last block of the longest dispute that could be opened now.
        vm.roll(block.number + HORIZON - MAX_AGE);
        near(slashed(who, 0, counts), counts, grain(staked_), "slashed");
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

    function test_an_old_record_counts_for_nothing(uint96 amount, uint16 age) public {
        uint256 staked_ = bound(amount, LEAST, 100 ether);
        delegated(who, staked_, ALL);
        joins(who, POOL, platform(0));
        uint256 first = block.number;
        // Every other time within a block of the end.
        uint256 waited = age % 2 == 0 ? MAX_AGE - 1 + age % 3 : age;
        vm.roll(first + waited);
        uint256 want = waited <= MAX_AGE ? staked_ : 0;
        same(adapter.stakeOf(who), want, "stake");
        same(adapter.stakeAt(who, block.number), want, "stake at");
        same(adapter.stakeAt(who, first - 1), 0, "before");
        registry.refresh(who);
        same(unitsNext(who), unitsOf(want), "units, once anybody says so");
        vm.roll(block.number + 1);
        delegated(who, 1 ether, ALL);
        same(adapter.stakeOf(who), staked_ + 1 ether, "again");
        same(adapter.stakeAt(who, first), staked_, "the past stays");
        same(unitsNext(who), unitsOf(staked_ + 1 ether), "units again");
    }

    function test_under_a_longer_dispute_nothing_counts(uint96 amount, uint32 more) public {
        delegated(who, bound(amount, 1 ether, 100 ether), ALL);
        ParamSet memory p = Defaults.parameters();
        uint256 longest = params.longestDispute(params.version());
        p.times.rerunTime += uint32(bound(more, LONGEST - longest - 1 hours, LONGEST - longest + 1 hours));
        changed(p);
        bool covered = params.longestDispute(params.version()) <= LONGEST;
        that((adapter.stakeOf(who) != 0) == covered, "counts only what can be slashed to the end");
    }

    function test_the_total_is_the_sum_of_the_records(uint96[3] calldata amounts, uint8[8] calldata acts) public {
        address[3] memory accounts = [person(1), person(2), person(3)];
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
        same(adapter.totalStake(), sum, "total");
    }

    function test_a_verifier_weighs_what_its_last_record_says(uint96 amount, uint96 want, uint8 leaving) public {
        uint256 staked_ = bound(amount, LEAST, 1_000 ether);
        delegated(who, staked_, ALL);
        joins(who, POOL, platform(0));
        same(unitsNext(who), unitsOf(staked_), "joined");
        slashed(who, 0, bound(want, 1, staked_));
        same(unitsNext(who), unitsOf(adapter.stakeOf(who)), "a slash in the same call");
        eigen.queueWithdrawal(who, eigen.sharesOf(who) * leaving / 256);
        adapter.sync(who);
        same(unitsNext(who), unitsOf(adapter.stakeOf(who)), "an exit, once anybody says so");
    }

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

    function test_locks_and_receipts_bind_what_is_there(uint96 first, uint96 second, uint96 want, uint96 receipts)
        public
    {
        delegated(who, 10 ether, ALL);
        uint256 c = bound(receipts, 0, 10 ether);
        vm.prank(ANCHOR);
        adapter.reserve(who, 1, c, 0);
        uint256 a = locked(who, first);
        uint256 b = locked(who, second);
        same(a, first < 10 ether ? first : 10 ether, "first");
        same(b, second < 10 ether ? second : 10 ether, "second, of the same stake");
        uint256 free = a + b + c < 10 ether ? 10 ether - a - b - c : 0;
        same(adapter.freeStakeOf(who), free, "free");
        vm.prank(ANCHOR);
        vm.expectRevert(abi.encodeWithSelector(IStakeSource.StakeTooSmall.selector, who, free, free + 1));
        adapter.reserve(who, 2, free + 1, 0);
        near(slashed(who, a, want), want < 10 ether ? want : 10 ether, grain(10 ether), "no lock shields");
        same(adapter.lockedOf(who), b, "locked");
        vm.prank(SETTLEMENT);
        adapter.unlock(who, b, REF);
        same(adapter.lockedOf(who), 0, "unlocked");
    }
}
