// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IAccessManaged} from "@openzeppelin/contracts/access/manager/IAccessManaged.sol";
import {StakeTree} from "../src/stake/StakeTree.sol";
import {ParamSet} from "../src/libraries/Types.sol";
import {IKeyEpochs} from "../src/interfaces/IKeyEpochs.sol";
import {AnchorBase} from "./AnchorBase.sol";

/// @title The life of encryption keys
contract KeyEpochsTest is AnchorBase {
    IKeyEpochs.EpochState private constant NONE = IKeyEpochs.EpochState.NONE;
    IKeyEpochs.EpochState private constant ACTIVE = IKeyEpochs.EpochState.ACTIVE;
    IKeyEpochs.EpochState private constant RETIRED = IKeyEpochs.EpochState.RETIRED;
    IKeyEpochs.EpochState private constant COMPROMISED = IKeyEpochs.EpochState.COMPROMISED;

    function isState(uint64 epoch, IKeyEpochs.EpochState want) private view {
        same(uint8(epochs.epochInfo(epoch).state), uint8(want), "state");
    }

    /// @dev One random walk: what the table allows happens, all else is refused and changes nothing.
    function test_epochs_move_only_along_their_table(uint8[8] memory moves) public {
        uint8[6] memory allowed;
        // From state to states, one bit each: PENDING 1, ACTIVE 2, DRAINING 3, RETIRED 4, COMPROMISED 5.
        (allowed[1], allowed[2], allowed[3], allowed[4]) = (0x24, 0x28, 0x30, 0x20);
        openEpoch(2);
        vouch(epochs, 2, 3);
        uint8 have = 1;
        for (uint256 i = 0; i < moves.length; ++i) {
            uint8 to = uint8(bound(moves[i], 2, 5));
            vm.warp(block.timestamp + 16 days);
            bool ok = (allowed[have] >> to) & 1 == 1;
            if (!ok) {
                vm.expectRevert(
                    abi.encodeWithSelector(
                        IKeyEpochs.BadTransition.selector, 2, IKeyEpochs.EpochState(have), IKeyEpochs.EpochState(to)
                    )
                );
            }
            if (to == 2) epochs.activate(2);
            else if (to == 3) epochs.drain(2);
            else if (to == 4) epochs.retire(2);
            else epochs.compromise(2);
            if (ok) have = to;
            isState(2, IKeyEpochs.EpochState(have));
            same(epochs.activeEpoch() == 2 ? 1 : 0, have == 2 ? 1 : 0, "active");
        }
    }

    function test_a_new_active_epoch_drains_the_one_before(uint32 wait) public {
        vm.warp(block.timestamp + wait);
        putInForce(2);
        same(epochs.activeEpoch(), 2, "active");
        IKeyEpochs.Epoch memory e = epochs.epochInfo(EPOCH);
        same(uint8(e.state), uint8(IKeyEpochs.EpochState.DRAINING), "state");
        same(e.drainedAt, guardian.clock(), "when");
        same(e.paramsVersion, 1, "under which version");
        that(epochs.isOpenForAudits(EPOCH) && epochs.isOpenForDisputes(EPOCH), "what was issued is still served");
    }

    /// @dev By the version of its end, on the protocol clock.
    function test_a_draining_epoch_takes_batches_for_the_anchoring_delay(uint32 wait, uint32 pause_, uint16 delay)
        public
    {
        epochs.drain(EPOCH);
        ParamSet memory p = params.get(1);
        p.times.maxAnchorDelay = uint32(bound(delay, 1, 12 hours));
        params.set(p);
        wait = uint32(bound(wait, 0, 2 hours));
        pause_ = uint32(bound(pause_, 0, 1 days));
        if (pause_ != 0) paused(pause_);
        vm.warp(block.timestamp + pause_ + wait);
        same(epochs.isOpenForInclusion(EPOCH) ? 1 : 0, wait <= 1 hours ? 1 : 0, "open");
    }

    function test_an_epoch_retires_after_its_retention_on_the_clock(uint32 wait, uint32 pause_) public {
        wait = uint32(bound(wait, 14 days, 16 days));
        pause_ = uint32(bound(pause_, 0, 1 days));
        uint256 until = guardian.clock() + 15 days;
        epochs.drain(EPOCH);
        if (pause_ != 0) paused(pause_);
        vm.warp(block.timestamp + pause_ + wait);
        if (wait < 15 days) {
            vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.RetentionNotOver.selector, EPOCH, until));
        }
        epochs.retire(EPOCH);
        if (wait < 15 days) return;
        isState(EPOCH, RETIRED);
        that(!epochs.isOpenForDisputes(EPOCH) && !epochs.isOpenForAudits(EPOCH), "nothing is served");
    }

    /// @dev A window that stands still with its pool is open for so much longer, and so are its disputes.
    function test_keys_are_kept_for_as_long_more_as_pools_stood_still(
        uint32 early,
        uint32 stop,
        bool leaked,
        bool resumes
    ) public {
        stops(bound(early, 0, 60 days), true);
        if (leaked) epochs.compromise(EPOCH);
        else epochs.drain(EPOCH);
        uint256 ended = guardian.clock();
        uint256 stopped = bound(stop, 0, 60 days);
        stops(stopped, resumes);
        uint256 rest = stopped < 15 days ? 15 days - stopped : 0;
        vm.warp(block.timestamp + rest);
        // While a pool stands still, so does the retention.
        if (!resumes) stopped += rest;
        uint256 until = ended + 15 days + stopped;
        that(epochs.isOpenForDisputes(EPOCH) == (!leaked || guardian.clock() < until), "served");
        if (leaked) return;
        if (guardian.clock() < until) {
            vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.RetentionNotOver.selector, EPOCH, until));
            epochs.retire(EPOCH);
            if (!resumes) return;
            vm.warp(block.timestamp + until - guardian.clock());
        }
        epochs.retire(EPOCH);
        isState(EPOCH, RETIRED);
    }

    /// @dev Before a pool judges for the first time it has no windows: one that waits for its verifiers keeps nobody's keys.
    function test_a_new_pool_keeps_no_keys(uint32 early, uint32 later, bool begins) public {
        StakeTree fresh = new StakeTree(300, 8, 1 ether, 100_000);
        fresh.wire(address(registry));
        registry.addPool("fresh", fresh);
        vm.warp(block.timestamp + bound(early, 0, 60 days));
        epochs.drain(EPOCH);
        uint256 wait = bound(later, 0, 15 days);
        vm.warp(block.timestamp + wait);
        that(!registry.isSeatable("fresh"), "it waits");
        if (begins) {
            for (uint256 i = 0; i < VERIFIERS; ++i) {
                address who = address(uint160(0xF4E54000 + i));
                stake(who, 20 ether);
                vm.prank(who);
                registry.join("fresh", keccak256(abi.encode("fresh", i)), MEASUREMENT);
            }
            that(registry.isSeatable("fresh"), "it judges");
        }
        same(registry.stoppedInAll(), 0, "no window stood still");
        vm.warp(block.timestamp + 15 days - wait);
        epochs.retire(EPOCH);
        isState(EPOCH, RETIRED);
    }

    /// @dev The pool is one verifier too small for so long, or from now on.
    function stops(uint256 duration, bool resumes) private {
        vm.prank(verifier(0));
        registry.quit();
        vm.warp(block.timestamp + duration);
        if (!resumes) return;
        vm.prank(verifier(0));
        registry.join(POOL, keccak256(abi.encode("platform", 0)), MEASUREMENT);
    }

    /// @dev The version in force now outlasts what older ones still owe: that is `Params`' own law.
    function test_retention_is_that_of_the_version_in_force(uint32 more) public {
        epochs.drain(EPOCH);
        uint256 drained = guardian.clock();
        ParamSet memory p = params.get(1);
        p.times.keyRetention += uint32(bound(more, 1, 30 days));
        params.set(p);
        vm.warp(block.timestamp + 15 days);
        uint256 until = drained + p.times.keyRetention;
        vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.RetentionNotOver.selector, EPOCH, until));
        epochs.retire(EPOCH);
        vm.warp(until);
        epochs.retire(EPOCH);
        isState(EPOCH, RETIRED);
    }

    function test_a_compromised_epoch_serves_disputes_and_nothing_else(uint8 from, uint32 wait) public {
        uint256 began = guardian.clock();
        if (from % 2 == 1) epochs.drain(EPOCH);
        epochs.compromise(EPOCH);
        isState(EPOCH, COMPROMISED);
        same(epochs.activeEpoch(), 0, "nothing is sealed to it");
        wait = uint32(bound(wait, 0, 20 days));
        vm.warp(block.timestamp + wait);
        bool drained = guardian.clock() > began + 1 hours;
        that(epochs.isOpenForInclusion(EPOCH) != drained, "what was signed before is anchored");
        that(!epochs.isOpenForAudits(EPOCH), "no audits");
        bool retained = guardian.clock() < began + 15 days;
        that(epochs.isOpenForDisputes(EPOCH) == retained, "disputes while keys are kept");
        vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.BadTransition.selector, EPOCH, COMPROMISED, COMPROMISED));
        epochs.compromise(EPOCH);
    }

    function test_an_epoch_that_is_only_announced_serves_nothing(uint64 epoch) public {
        vm.assume(epoch > 1);
        openEpoch(epoch);
        that(!epochs.isOpenForInclusion(epoch), "receipts");
        that(!epochs.isOpenForAudits(epoch) && !epochs.isOpenForDisputes(epoch), "audits and disputes");
        same(epochs.epochInfo(epoch).openedAt, guardian.clock(), "opened");
        vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.EpochExists.selector, epoch));
        openEpoch(epoch);
    }

    function test_there_is_nothing_to_do_with_no_epoch(uint64 epoch) public {
        vm.assume(epoch != EPOCH);
        bytes memory why = abi.encodeWithSelector(IKeyEpochs.UnknownKeyEpoch.selector, epoch);
        vm.expectRevert(why);
        epochs.activate(epoch);
        vm.expectRevert(why);
        epochs.drain(epoch);
        vm.expectRevert(why);
        epochs.retire(epoch);
        vm.expectRevert(why);
        epochs.compromise(epoch);
        isState(epoch, NONE);
        isState(EPOCH, ACTIVE);
    }

    function test_only_governance_moves_epochs(address who, uint64 epoch) public {
        vm.assume(who != address(this));
        bytes memory why = abi.encodeWithSelector(IAccessManaged.AccessManagedUnauthorized.selector, who);
        for (uint256 i = 0; i < 5; ++i) {
            vm.prank(who);
            vm.expectRevert(why);
            if (i == 0) epochs.activate(epoch);
            else if (i == 1) epochs.drain(epoch);
            else if (i == 2) epochs.retire(epoch);
            else if (i == 3) epochs.compromise(epoch);
            else opened(epoch, new bytes(65), shards(1), 1, IKeyEpochs.Assurance.SIMULATED);
        }
    }

    // --- what an epoch is made of ---

    function opened(uint64 epoch, bytes memory key, address[] memory who, uint8 t, IKeyEpochs.Assurance a) private {
        epochs.openEpoch(epoch, key, "points", who, t, a, "policy");
    }

    function shards(uint256 n) private pure returns (address[] memory list) {
        list = new address[](n);
        for (uint160 i = 0; i < n; ++i) {
            list[i] = address(0x5000 + i);
        }
    }

    function point() private pure returns (bytes memory key) {
        key = new bytes(65);
        key[0] = 0x04;
    }

    function test_shards_are_distinct_and_a_threshold_is_among_them(uint8 count, uint8 threshold, uint8 twin) public {
        uint256 n = bound(count, 0, 70);
        address[] memory list = shards(n);
        bool ok = n != 0 && n <= 64 && threshold != 0 && threshold <= n;
        if (n > 1 && twin % 4 == 0) (list[twin % n], ok) = (twin % 8 == 0 ? address(0) : list[(twin + 1) % n], false);
        if (!ok) vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.BadShards.selector, n, threshold));
        opened(2, point(), list, threshold, IKeyEpochs.Assurance.SIMULATED);
        isState(2, ok ? IKeyEpochs.EpochState.PENDING : NONE);
    }

    function test_a_public_key_is_an_uncompressed_point(uint8 length, bytes1 first) public {
        bytes memory key = new bytes(length);
        if (length != 0) key[0] = first;
        if (length != 65 || first != 0x04) vm.expectRevert(err(IKeyEpochs.BadPublicKey.selector, length));
        opened(2, key, shards(1), 1, IKeyEpochs.Assurance.SIMULATED);
    }

    function test_a_simulated_epoch_is_refused_on_a_production_chain(uint64 chain) public {
        chain = uint64(bound(chain, 1, type(uint64).max - 1));
        bool test = chain == 31337 || chain == 1337 || chain == 11155111 || chain == 17000 || chain == 560048;
        vm.chainId(chain);
        if (!test) vm.expectRevert(err(IKeyEpochs.SimulatedOnProductionChain.selector, chain));
        opened(2, point(), shards(1), 1, IKeyEpochs.Assurance.SIMULATED);
        opened(3, point(), shards(1), 1, IKeyEpochs.Assurance.HARDWARE);
        vm.expectRevert(IKeyEpochs.BadAssurance.selector);
        opened(4, point(), shards(1), 1, IKeyEpochs.Assurance.NONE);
    }

    function test_epoch_0_means_none(uint8 threshold) public {
        vm.expectRevert(err(IKeyEpochs.EpochExists.selector, 0));
        opened(0, point(), shards(threshold), threshold, IKeyEpochs.Assurance.SIMULATED);
    }
}
