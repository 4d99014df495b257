// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {KeyShares, Shares} from "../src/KeyShares.sol";
import {IKeyEpochs} from "../src/interfaces/IKeyEpochs.sol";
import {AnchorBase} from "./AnchorBase.sol";

/// @title Who must sign for shares before an epoch is in force, or dealt again
contract KeySharesTest is AnchorBase {
    uint64 private constant NEW = 2;
    uint256 private constant SHARD_KEY = 0x5EC4E7;

    function points(uint256 count, bytes1 key) private pure returns (bytes memory all) {
        for (uint256 i = 0; i < count; ++i) {
            all = bytes.concat(all, point(i == 0 ? key : bytes1(uint8(i))));
        }
    }

    function point(bytes1 fill) private pure returns (bytes memory p) {
        p = new bytes(65);
        p[0] = 0x04;
        for (uint256 i = 1; i < 65; ++i) {
            p[i] = fill;
        }
    }

    function holders(uint256 n, uint256 first) private pure returns (address[] memory list) {
        list = new address[](n);
        for (uint256 i = 0; i < n; ++i) {
            list[i] = vm.addr(SHARD_KEY + first + i);
        }
    }

    function signatures(uint256 n, uint256 first, uint256 mask, Shares memory what)
        private
        view
        returns (bytes[] memory list)
    {
        list = new bytes[](n);
        bytes32 digest = epochs.hashShares(what);
        for (uint256 i = 0; i < n; ++i) {
            if ((mask >> i) & 1 == 1) list[i] = signed(SHARD_KEY + first + i, digest);
        }
    }

    function shares(uint64 epoch, uint32 version, bytes memory commitments, bytes32 transcript)
        private
        pure
        returns (Shares memory)
    {
        return Shares(epoch, version, keccak256(commitments), transcript);
    }

    function pending(uint256 n, uint256 t, IKeyEpochs.Assurance assurance) private {
        epochs.openEpoch(NEW, point(0x77), points(t, 0x77), holders(n, 0), uint8(t), assurance, "policy");
    }

    function shape(uint8 n, uint8 t) private pure returns (uint256, uint256) {
        uint256 count = bound(n, 1, 8);
        return (count, bound(t, 1, count));
    }

    function ones(uint256 mask) private pure returns (uint256 count) {
        for (; mask != 0; mask &= mask - 1) {
            ++count;
        }
    }

    /// @dev As many as half way between the threshold and all, each at its own place.
    function test_shares_are_confirmed_by_enough_of_those_who_hold_them(uint8 n, uint8 t, uint8 mask) public {
        (uint256 count, uint256 threshold) = shape(n, t);
        pending(count, threshold, IKeyEpochs.Assurance.HARDWARE);
        vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.NotConfirmed.selector, NEW));
        epochs.activate(NEW);
        uint256 who = uint256(mask) & ((1 << count) - 1);
        bytes[] memory list = signatures(count, 0, who, shares(NEW, 0, points(threshold, 0x77), "log"));
        uint256 need = threshold + (count - threshold) / 2;
        bool ok = ones(who) >= need;
        if (!ok) vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.TooFewSigned.selector, NEW, ones(who), need));
        vm.prank(address(0xABCD));
        epochs.confirm(NEW, "log", list);
        same(uint256(epochs.epochInfo(NEW).transcript), ok ? uint256(bytes32("log")) : 0, "transcript");
        if (ok) epochs.activate(NEW);
        same(epochs.activeEpoch(), ok ? NEW : EPOCH, "active");
    }

    /// @dev A signature counts for one epoch, version, set of commitments, transcript, and at its own place.
    function test_a_signature_for_anything_else_is_none(uint8 kind) public {
        pending(3, 2, IKeyEpochs.Assurance.HARDWARE);
        Shares memory what = shares(NEW, 0, points(2, 0x77), "log");
        kind = kind % 6;
        if (kind == 0) what.epoch = 3;
        if (kind == 1) what.version = 1;
        if (kind == 2) what.commitments = keccak256(points(2, 0x78));
        if (kind == 3) what.transcript = "other log";
        bytes[] memory list = signatures(3, 0, 7, what);
        uint256 have = 0;
        if (kind == 4) ((list[0], list[1]), have) = ((list[1], list[0]), 1);
        if (kind == 5) (list[1], list[2], have) = (list[0], list[0], 1);
        vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.TooFewSigned.selector, NEW, have, 2));
        epochs.confirm(NEW, "log", list);
    }

    function test_a_transcript_of_zero_confirms_nothing() public {
        pending(2, 2, IKeyEpochs.Assurance.SIMULATED);
        bytes[] memory list = signatures(2, 0, 3, shares(NEW, 0, points(2, 0x77), 0));
        vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.TooFewSigned.selector, NEW, 2, 2));
        epochs.confirm(NEW, 0, list);
    }

    function test_a_dealt_key_may_be_in_force_only_where_it_is_simulated() public {
        pending(2, 2, IKeyEpochs.Assurance.SIMULATED);
        epochs.activate(NEW);
        same(epochs.activeEpoch(), NEW, "active");
        vm.expectRevert(
            abi.encodeWithSelector(
                IKeyEpochs.BadTransition.selector, NEW, IKeyEpochs.EpochState.ACTIVE, IKeyEpochs.EpochState.PENDING
            )
        );
        epochs.confirm(NEW, "log", new bytes[](2));
    }

    /// @dev The key stays; who opens, how many, and the version change, and only with the word of the new holders.
    function test_other_shards_get_shares_of_the_same_key(uint8 n, uint8 t, uint8 mask, uint8 times) public {
        (uint256 count, uint256 threshold) = shape(n, t);
        pending(3, 2, IKeyEpochs.Assurance.SIMULATED);
        if (times % 2 == 0) epochs.activate(NEW);
        uint256 need = threshold + (count - threshold) / 2;
        for (uint32 v = 1; v <= 1 + times % 3; ++v) {
            bytes memory commitments = points(threshold, 0x77);
            uint256 who = v == 1 ? uint256(mask) & ((1 << count) - 1) : (1 << count) - 1;
            bool ok = ones(who) >= need;
            uint32 next = epochs.epochInfo(NEW).version + 1;
            bytes[] memory list = signatures(count, 100, who, shares(NEW, next, commitments, "log"));
            if (!ok) vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.TooFewSigned.selector, NEW, ones(who), need));
            epochs.reshare(NEW, commitments, holders(count, 100), uint8(threshold), "log", list);
            IKeyEpochs.Epoch memory e = epochs.epochInfo(NEW);
            same(e.version, ok ? next : next - 1, "version");
            if (ok) same(e.shards.length, count, "shards");
            same(uint256(keccak256(e.publicKey)), uint256(keccak256(point(0x77))), "the key stays");
        }
    }

    function test_commitments_of_another_key_or_number_are_refused(uint8 count, bytes1 key) public {
        pending(3, 2, IKeyEpochs.Assurance.SIMULATED);
        count = uint8(bound(count, 0, 5));
        bytes memory commitments = points(count, key);
        bytes[] memory list = signatures(3, 0, 7, shares(NEW, 1, commitments, "log"));
        bool ok = count == 2 && key == 0x77;
        if (!ok) {
            vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.BadCommitments.selector, NEW, commitments.length));
        }
        epochs.reshare(NEW, commitments, holders(3, 0), 2, "log", list);
        same(epochs.epochInfo(NEW).version, ok ? 1 : 0, "version");
    }

    function test_an_epoch_that_ended_is_not_dealt_again(bool leaked) public {
        pending(3, 2, IKeyEpochs.Assurance.SIMULATED);
        epochs.activate(NEW);
        if (leaked) epochs.compromise(NEW);
        else epochs.drain(NEW);
        bytes[] memory list = signatures(3, 0, 7, shares(NEW, 1, points(2, 0x77), "log"));
        if (leaked) {
            vm.expectRevert(
                abi.encodeWithSelector(
                    IKeyEpochs.BadTransition.selector,
                    NEW,
                    IKeyEpochs.EpochState.COMPROMISED,
                    IKeyEpochs.EpochState.ACTIVE
                )
            );
        }
        epochs.reshare(NEW, points(2, 0x77), holders(3, 0), 2, "log", list);
        same(epochs.epochInfo(NEW).version, leaked ? 0 : 1, "version");
    }
}
