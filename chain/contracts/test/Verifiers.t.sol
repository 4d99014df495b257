// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IAccessManaged} from "@openzeppelin/contracts/access/manager/IAccessManaged.sol";
import {StakeTree} from "../src/stake/StakeTree.sol";
import {Wired} from "../src/libraries/Wired.sol";
import {ParamSet} from "../src/libraries/Types.sol";
import {IRegistry} from "../src/interfaces/IRegistry.sol";
import {Defaults} from "./Defaults.sol";
import {Staking} from "./Staking.sol";

/// @title Who is in which pool, on which machine, with which weight, and when a pool cannot judge
contract VerifiersTest is Staking {
    function test_a_verifier_weighs_its_stake_from_the_next_epoch_on(uint96 amount, uint96 lost, uint96 more) public {
        uint256 a = bound(amount, LEAST, 2_000 ether);
        address who = joined(0, a);
        uint32 first = tree.epoch();
        same(tree.unitsAt(who, first), 0, "not yet");
        same(unitsNext(who), unitsOf(a), "next");
        nextEpoch();
        same(tree.unitsAt(who, first + 1), unitsOf(a), "now");
        uint256 left = a - slashes(who, 0, bound(lost, 0, a));
        same(unitsNext(who), unitsOf(left), "a slash in the same call");
        staked(who, bound(more, 1, 10 ether));
        same(unitsNext(who), unitsOf(vault.stakeOf(who)), "a deposit");
        unbonds(who, vault.stakeOf(who) / 2);
        same(unitsNext(who), unitsOf(vault.stakeOf(who)), "an exit");
        same(tree.unitsAt(who, first + 1), unitsOf(a), "nothing of this epoch");
    }

    function test_dust_is_no_verifier(uint96 amount, uint96 kept) public {
        address who = person(0);
        uint256 a = bound(amount, 1, LEAST - 1);
        staked(who, a);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.StakeTooSmall.selector, who, a, LEAST));
        joins(who, POOL, platform(0));
        staked(who, LEAST - a);
        joins(who, POOL, platform(0));
        same(unitsNext(who), LEAST / UNIT, "the least");
        slashes(who, 0, LEAST - bound(kept, 0, LEAST - 1));
        same(unitsNext(who), 0, "below the least: nothing");
        same(registry.weighing(POOL), 0, "nobody");
    }

    function test_less_than_a_unit_has_no_place(uint96 amount) public {
        StakeTree coarse = pooled("coarse", registry, 10 ether);
        address who = person(0);
        uint256 a = bound(amount, LEAST, 10 ether - 1);
        staked(who, a);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.NoUnit.selector, who, a));
        joins(who, "coarse", platform(0));
        staked(who, 10 ether);
        joins(who, "coarse", platform(0));
        same(coarse.unitsAt(who, coarse.epoch() + 1), 1, "one");
        slashes(who, 0, 10 ether);
        same(registry.weighing("coarse"), 0, "below a unit: nobody");
    }

    function test_joining_takes_a_pool_a_machine_and_an_allowed_enclave(bytes32 pool, bytes32 enclave, uint8 i) public {
        vm.assume(pool != POOL && enclave != ENCLAVE);
        address who = person(i);
        staked(who, LEAST);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.UnknownPool.selector, pool));
        joins(who, pool, platform(i));
        vm.expectRevert(abi.encodeWithSelector(IRegistry.NoPlatform.selector, who));
        joins(who, POOL, 0);
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.MeasurementNotAllowed.selector, enclave));
        registry.join(POOL, platform(i), enclave);
        joins(who, POOL, platform(i));
        IRegistry.Verifier memory v = registry.verifier(who);
        that(v.pool == POOL && v.platformId == platform(i) && v.measurement == ENCLAVE, "verifier");
        same(v.joinedAt, block.number, "block");
        vm.expectRevert(abi.encodeWithSelector(IRegistry.AlreadyVerifier.selector, who, POOL));
        joins(who, POOL, platform(i));
    }

    function test_a_machine_is_one_verifiers_until_its_seats_are_over(uint32 wait, uint32 stopped) public {
        address first = joined(0, LEAST);
        address second = person(1);
        staked(second, LEAST);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.PlatformTaken.selector, platform(0), first, 0));
        joins(second, POOL, platform(0));
        uint64 freeAt = guardian.clock() + uint64(DELAY);
        quits(first);
        uint256 stop = bound(stopped, 1, 1 days);
        guardian.pause(uint64(stop));
        passes(stop);
        passes(bound(wait, 0, 2 * DELAY));
        bool free = guardian.clock() >= freeAt;
        if (!free) {
            vm.expectRevert(abi.encodeWithSelector(IRegistry.PlatformTaken.selector, platform(0), first, freeAt));
        }
        joins(second, POOL, platform(0));
        // It comes back to its last holder at any time, unless somebody has it by then.
        if (free) vm.expectRevert(abi.encodeWithSelector(IRegistry.PlatformTaken.selector, platform(0), second, 0));
        joins(first, POOL, platform(0));
    }

    function announces(address who, bytes32 id) private {
        vm.prank(who);
        registry.announce(keccak256(abi.encode(who, id)));
    }

    /// @dev The id of a machine is a word in a transaction that anybody reads before it is in a block.
    function test_who_reads_the_id_of_a_machine_and_runs_ahead_has_nothing(uint16 wait, bool quits_, bool copies)
        public
    {
        address first = person(1);
        staked(first, LEAST);
        announces(first, platform(0));
        vm.roll(block.number + bound(wait, 1, 7_200));
        // In the same block, before the transaction that shows the id.
        staked(person(2), LEAST);
        if (copies) announces(person(2), platform(0));
        joins(person(2), POOL, platform(0));
        if (quits_) quits(person(2));
        joins(first, POOL, platform(0));
        same(registry.verifier(first).platformId, platform(0), "its machine");
        same(registry.verifier(person(2)).pool, bytes32(0), "who ran ahead is no verifier");
        same(unitsNext(person(2)), 0, "and weighs nothing");
        same(registry.weighing(POOL), 1, "one");
        vm.expectRevert(abi.encodeWithSelector(IRegistry.PlatformTaken.selector, platform(0), first, 0));
        joins(person(2), POOL, platform(0));
    }

    function test_an_announcement_takes_no_machine_from_who_had_it_before(uint16 late, uint8 how) public {
        address holder = person(0);
        staked(holder, LEAST);
        staked(person(1), LEAST);
        // Too old; too late; of another account; of a machine that its holder announced earlier.
        if (how % 4 == 0) announces(person(1), platform(0));
        if (how % 4 == 0) vm.roll(block.number + 7_201 + late);
        if (how % 4 == 3) announces(holder, platform(0));
        if (how % 4 == 3) vm.roll(block.number + 1 + late % 100);
        if (how % 4 == 3) announces(person(1), platform(0));
        vm.roll(block.number + 1);
        joins(holder, POOL, platform(0));
        if (how % 4 == 1) announces(person(1), platform(0));
        if (how % 4 == 2) announces(person(2), platform(0));
        vm.roll(block.number + 1);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.PlatformTaken.selector, platform(0), holder, 0));
        joins(person(1), POOL, platform(0));
    }

    function test_a_machine_that_was_left_for_another_stays_taken(uint32 wait) public {
        address first = joined(0, LEAST);
        quits(first);
        joins(first, POOL, platform(7));
        uint64 freeAt = guardian.clock() + uint64(DELAY);
        passes(bound(wait, 0, DELAY - 1));
        address second = person(1);
        staked(second, LEAST);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.PlatformTaken.selector, platform(0), first, freeAt));
        joins(second, POOL, platform(0));
    }

    /// @dev Whatever a verifier does inside an epoch, the epoch's draw does not see it, and the next sees the end of it only.
    function test_coming_and_going_inside_an_epoch_gains_nothing(bytes32 seed, uint8 steps) public {
        pooled("other", registry, UNIT);
        address who = joined(0, 20 ether);
        nextEpoch();
        uint32 now_ = tree.epoch();
        (uint256 total, uint256 own) = (tree.totalAt(now_), tree.unitsAt(who, now_));
        for (uint256 s = 0; s < steps % 16; ++s) {
            uint256 r = random(seed, s);
            bytes32 pool = registry.verifier(who).pool;
            if (r % 4 == 0 && pool == 0 && vault.stakeOf(who) >= LEAST) {
                joins(who, r & 16 == 0 ? POOL : bytes32("other"), platform(0));
            } else if (r % 4 == 1 && pool != 0) {
                quits(who);
            } else if (r % 4 == 2) {
                staked(who, 1 + (r >> 8) % 3 ether);
            } else if (vault.stakeOf(who) > 3 ether) {
                unbonds(who, 1 + (r >> 8) % 3 ether);
            }
            vm.roll(block.number + r % 5);
        }
        same(tree.totalAt(now_), total, "total of this epoch");
        same(tree.unitsAt(who, now_), own, "own weight of this epoch");
        bool here = registry.verifier(who).pool == POOL;
        same(unitsNext(who), here ? unitsOf(vault.stakeOf(who)) : 0, "of the next");
        same(tree.accountAt(0), who, "the place stays");
    }

    /// @dev Stops counted by the registry against stops counted second by second of the protocol clock.
    function test_the_windows_of_a_small_pool_stand_still(bytes32 seed, uint8 steps) public {
        same(registry.isSeatable(POOL) ? 1 : 0, 0, "an empty pool judges nothing");
        uint256 stood;
        bool[8] memory in_;
        uint256 count;
        for (uint256 s = 0; s < steps % 40; ++s) {
            uint256 r = random(seed, s);
            uint256 i = (r >> 8) % 8;
            if (in_[i]) {
                if (r % 2 == 0) quits(person(i));
                else slashes(person(i), 0, vault.stakeOf(person(i)));
                if (r % 2 == 1) quits(person(i));
                --count;
            } else {
                staked(person(i), LEAST);
                joins(person(i), POOL, platform(i));
                ++count;
            }
            in_[i] = !in_[i];
            same(registry.weighing(POOL), count, "verifiers with weight");
            uint256 gap = (r >> 16) % 2 days;
            if (count < MIN_POOL) stood += gap;
            that(registry.isSeatable(POOL) == (count >= MIN_POOL), "seatable");
            passes(gap);
            same(registry.stoppedSeconds(POOL), stood, "stood still");
        }
    }

    function test_a_pause_is_no_stop_of_a_pool_as_well(uint32 before, uint32 stopped, uint32 later) public {
        passes(before);
        guardian.pause(uint64(bound(stopped, 1, 1 days)));
        passes(bound(stopped, 1, 1 days));
        passes(later);
        same(registry.stoppedSeconds(POOL), uint256(before) + later, "seconds of the protocol clock");
    }

    /// @dev Windows stand still with their pool, and stake stays under them: a vote that could stop a pool could keep all stake for ever.
    function test_no_vote_stops_a_pool(uint96 least, uint16 minPool) public {
        for (uint256 i = 0; i < 6; ++i) {
            joined(i, LEAST + i * 1 ether);
        }
        that(registry.isSeatable(POOL), "six of five");
        ParamSet memory p = Defaults.parameters();
        p.money.minVerifierStake = uint96(bound(least, LEAST, p.money.minOperatorStake));
        p.committee.minPool = uint16(bound(minPool, 1, 10_000));
        changed(p);
        for (uint256 i = 0; i < 6; ++i) {
            registry.refresh(person(i));
            same(unitsNext(person(i)), unitsOf(vault.stakeOf(person(i))), "who joined with less still counts");
        }
        same(registry.weighing(POOL), 6, "verifiers with weight");
        that(registry.isSeatable(POOL), "seatable");
        // Verifiers who leave stop it: below what it was asked for when it began, or less since.
        for (uint256 left = 6; left > 0; --left) {
            quits(person(left - 1));
            uint256 want = p.committee.minPool < MIN_POOL ? p.committee.minPool : MIN_POOL;
            that(registry.isSeatable(POOL) == (left - 1 >= want), "too small");
        }
    }

    function test_a_larger_least_number_counts_once_there_are_twice_as_many(uint8 minPool) public {
        for (uint256 i = 0; i < 14; ++i) {
            joined(i, LEAST);
        }
        ParamSet memory p = Defaults.parameters();
        p.committee.minPool = uint16(bound(minPool, MIN_POOL + 1, 14));
        changed(p);
        registry.refresh(person(0));
        uint256 want = p.committee.minPool <= 7 ? p.committee.minPool : MIN_POOL;
        for (uint256 left = 14; left > 0; --left) {
            quits(person(left - 1));
            that(registry.isSeatable(POOL) == (left - 1 >= want), "too small");
        }
    }

    function test_who_joins_after_a_vote_needs_what_it_asks_for(uint96 least) public {
        ParamSet memory p = Defaults.parameters();
        p.money.minVerifierStake = uint96(bound(least, LEAST + 1, p.money.minOperatorStake));
        changed(p);
        staked(person(0), LEAST);
        vm.prank(person(0));
        vm.expectRevert(
            abi.encodeWithSelector(
                IRegistry.StakeTooSmall.selector, person(0), LEAST, uint256(p.money.minVerifierStake)
            )
        );
        registry.join(POOL, platform(0), ENCLAVE);
        // And who has less than both weighs nothing.
        address who = joined(1, p.money.minVerifierStake);
        p.money.minVerifierStake = uint96(LEAST);
        changed(p);
        unbonds(who, vault.stakeOf(who) - LEAST + 1);
        same(unitsNext(who), 0, "less than the least now");
    }

    function test_an_enclave_that_is_not_allowed_any_more_weighs_nothing(uint96 amount, bytes32 better) public {
        vm.assume(better != ENCLAVE);
        address who = joined(0, bound(amount, LEAST, 100 ether));
        registry.setMeasurement(ENCLAVE, false);
        registry.setMeasurement(better, true);
        registry.refresh(who);
        same(unitsNext(who), 0, "nothing");
        staked(who, 1 ether);
        same(unitsNext(who), 0, "nor by more stake");
        quits(who);
        vm.prank(who);
        registry.join(POOL, platform(0), better);
        same(unitsNext(who), unitsOf(vault.stakeOf(who)), "on the same machine, at once");
    }

    function test_who_left_is_no_verifier_and_keeps_its_seats(uint96 amount) public {
        address who = joined(0, bound(amount, LEAST, 100 ether));
        nextEpoch();
        quits(who);
        that(registry.verifier(who).pool == 0, "no verifier");
        same(tree.unitsAt(who, tree.epoch()), unitsOf(vault.stakeOf(who)), "weighs in this epoch");
        same(tree.accountAt(0), who, "a stored place names it");
        vm.expectRevert(abi.encodeWithSelector(IRegistry.NotVerifier.selector, who));
        quits(who);
        nextEpoch();
        same(tree.unitsAt(who, tree.epoch()), 0, "and no more");
        staked(who, 1 ether);
        same(unitsNext(who), 0, "nor by more stake");
    }

    function test_a_pool_has_a_tree_of_its_own(bytes32 pool) public {
        vm.assume(pool != POOL && pool != 0);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.UnknownPool.selector, bytes32(0)));
        registry.addPool(0, tree);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.PoolExists.selector, POOL));
        registry.addPool(pool, tree);
        vm.expectRevert(abi.encodeWithSelector(IRegistry.UnknownPool.selector, pool));
        registry.treeOf(pool);
        that(!registry.isSeatable(pool), "unknown");
        StakeTree foreign = new StakeTree(EPOCH, LOOKAHEAD, UNIT, MOST_UNITS);
        foreign.wire(address(this));
        vm.expectRevert(abi.encodeWithSelector(Wired.NotAuthorised.selector, address(registry)));
        registry.addPool(pool, foreign);
        StakeTree own = pooled(pool, registry, UNIT);
        same(address(registry.treeOf(pool)), address(own), "tree");
        vm.expectRevert(abi.encodeWithSelector(IRegistry.PoolExists.selector, pool));
        registry.addPool(pool, own);
    }

    /// @dev What walks through all of them fits a transaction: `BoundsGasTest`.
    /// forge-config: default.fuzz.runs = 2
    function test_there_are_no_more_pools_than_can_be_walked_through(bytes32 salt) public {
        for (uint256 i = 1; i < 128; ++i) {
            pooled(keccak256(abi.encode(salt, i)), registry, UNIT);
        }
        StakeTree more = new StakeTree(EPOCH, LOOKAHEAD, UNIT, MOST_UNITS);
        more.wire(address(registry));
        vm.expectRevert(abi.encodeWithSelector(IRegistry.TooManyPools.selector, 128));
        registry.addPool(salt, more);
    }

    function test_only_governance_governs(address who, uint8 what, bytes32 x) public {
        vm.assume(who != address(this) && who != COURT);
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(IAccessManaged.AccessManagedUnauthorized.selector, who));
        if (what % 6 == 0) registry.addPool(x, tree);
        else if (what % 6 == 1) registry.setMeasurement(x, true);
        else if (what % 6 == 2) registry.setPolicy(x, 1, "");
        else if (what % 6 == 3) registry.activate(x);
        else if (what % 6 == 4) registry.close(x);
        else registry.setCourt(who);
    }
}
