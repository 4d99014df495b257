// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {KeyShares, Shares} from "../src/keys/KeyShares.sol";
import {IKeyEpochs} from "../src/interfaces/IKeyEpochs.sol";
import {AnchorBase} from "./AnchorBase.sol";

/// @title Who must sign for shares before an epoch is in force, or dealt again
contract KeySharesTest is AnchorBase {
    uint64 private constant NEW = 2;

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

    function signatures(uint256 n, uint256 first, uint256 mask, Shares memory what)
        private
        view
        returns (bytes[] memory)
    {
        return words(n, first, mask, epochs.hashShares(what));
    }

    /// @dev Of `n` holders from the `first` key on.
    function shares(uint32 version, bytes memory commitments, uint256 n, uint256 first)
        private
        pure
        returns (Shares memory)
    {
        bytes memory packed;
        for (uint256 i = 0; i < n; ++i) {
            packed = bytes.concat(packed, bytes32(uint256(uint160(vm.addr(HOLDER_KEY + first + i)))));
        }
        return Shares(NEW, version, keccak256(commitments), keccak256(packed), "log");
    }

    function pending(uint256 n, uint256 t, IKeyEpochs.Assurance assurance) private {
        epochs.openEpoch(NEW, point(0x77), points(t, 0x77), holders(n, 0), uint8(t), assurance, "policy");
    }

    function assured(bool hardware) private pure returns (IKeyEpochs.Assurance) {
        return hardware ? IKeyEpochs.Assurance.HARDWARE : IKeyEpochs.Assurance.SIMULATED;
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

    function inForce(uint256 n, uint256 t) private {
        pending(n, t, IKeyEpochs.Assurance.SIMULATED);
        vouch(epochs, NEW, n);
        epochs.activate(NEW);
    }

    /// @dev As many as half way between the threshold and all, each at its own place; whatever the epoch's assurance.
    function test_shares_are_confirmed_by_enough_of_those_who_hold_them(uint8 n, uint8 t, uint8 mask, bool hardware)
        public
    {
        (uint256 count, uint256 threshold) = shape(n, t);
        pending(count, threshold, assured(hardware));
        vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.NotConfirmed.selector, NEW));
        epochs.activate(NEW);
        uint256 who = uint256(mask) & ((1 << count) - 1);
        bytes[] memory list = signatures(count, 0, who, shares(0, points(threshold, 0x77), count, 0));
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
        Shares memory what = shares(0, points(2, 0x77), 3, 0);
        kind = kind % 7;
        if (kind == 0) what.epoch = 3;
        if (kind == 1) what.version = 1;
        if (kind == 2) what.commitments = keccak256(points(2, 0x78));
        if (kind == 3) what.transcript = "other log";
        if (kind == 6) what.holders = shares(0, "", 3, 1).holders;
        bytes[] memory list = signatures(3, 0, 7, what);
        uint256 have = 0;
        if (kind == 4) ((list[0], list[1]), have) = ((list[1], list[0]), 1);
        if (kind == 5) (list[1], list[2], have) = (list[0], list[0], 1);
        vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.TooFewSigned.selector, NEW, have, 2));
        epochs.confirm(NEW, "log", list);
    }

    function test_a_transcript_of_zero_confirms_nothing() public {
        pending(2, 2, IKeyEpochs.Assurance.SIMULATED);
        Shares memory what = shares(0, points(2, 0x77), 2, 0);
        what.transcript = 0;
        bytes[] memory list = signatures(2, 0, 3, what);
        vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.TooFewSigned.selector, NEW, 2, 2));
        epochs.confirm(NEW, 0, list);
    }

    /// @dev Neither a label nor time nor the word of too few puts it in force; afterwards nobody confirms it again.
    function test_a_key_that_nobody_vouched_for_is_never_in_force(bool hardware, bool dealt, uint32 wait) public {
        pending(2, 2, assured(hardware));
        bytes memory why = abi.encodeWithSelector(IKeyEpochs.NotConfirmed.selector, NEW);
        vm.warp(block.timestamp + wait);
        vm.expectRevert(why);
        epochs.activate(NEW);
        bytes[] memory list = signatures(2, 0, 1, shares(0, points(2, 0x77), 2, 0));
        vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.TooFewSigned.selector, NEW, 1, 2));
        epochs.confirm(NEW, "log", list);
        vm.expectRevert(why);
        epochs.activate(NEW);
        same(epochs.activeEpoch(), EPOCH, "the key before stays");
        if (dealt) {
            list = signatures(2, 0, 3, shares(1, points(2, 0x77), 2, 0));
            deals(2, 2, 0, list, list);
        } else {
            vouch(epochs, NEW, 2);
        }
        epochs.activate(NEW);
        same(epochs.activeEpoch(), NEW, "active");
        refusesWord(IKeyEpochs.EpochState.ACTIVE);
    }

    /// @dev What has ended says so, and not that it wants a signature.
    function test_no_word_brings_back_a_key_that_leaked(bool vouched) public {
        pending(2, 2, IKeyEpochs.Assurance.SIMULATED);
        if (vouched) vouch(epochs, NEW, 2);
        epochs.compromise(NEW);
        vm.expectRevert(
            abi.encodeWithSelector(
                IKeyEpochs.BadTransition.selector, NEW, IKeyEpochs.EpochState.COMPROMISED, IKeyEpochs.EpochState.ACTIVE
            )
        );
        epochs.activate(NEW);
        refusesWord(IKeyEpochs.EpochState.COMPROMISED);
    }

    function refusesWord(IKeyEpochs.EpochState state) private {
        bytes[] memory list = words(2, 0, 3, wordOf(epochs, NEW));
        vm.expectRevert(
            abi.encodeWithSelector(IKeyEpochs.BadTransition.selector, NEW, state, IKeyEpochs.EpochState.PENDING)
        );
        epochs.confirm(NEW, TRANSCRIPT, list);
    }

    /// @dev The key stays; who opens, how many, and the version change, and only with the word of the new holders.
    function test_other_shards_get_shares_of_the_same_key(uint8 n, uint8 t, uint8 mask, uint8 times) public {
        (uint256 count, uint256 threshold) = shape(n, t);
        if (times % 2 == 0) inForce(3, 2);
        else pending(3, 2, IKeyEpochs.Assurance.SIMULATED);
        uint256 need = threshold + (count - threshold) / 2;
        for (uint32 v = 1; v <= 1 + times % 3; ++v) {
            uint256 who = v == 1 ? uint256(mask) & ((1 << count) - 1) : (1 << count) - 1;
            bool ok = ones(who) >= need;
            IKeyEpochs.Epoch memory old = epochs.epochInfo(NEW);
            Shares memory what = shares(old.version + 1, points(threshold, 0x77), count, 100);
            bytes[] memory consents = signatures(old.shards.length, old.version == 0 ? 0 : 100, 255, what);
            bytes[] memory list = signatures(count, 100, who, what);
            if (!ok) vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.TooFewSigned.selector, NEW, ones(who), need));
            deals(count, threshold, 100, list, consents);
            IKeyEpochs.Epoch memory e = epochs.epochInfo(NEW);
            same(e.version, ok ? old.version + 1 : old.version, "version");
            if (ok) same(e.shards.length, count, "shards");
            same(uint256(keccak256(e.publicKey)), uint256(keccak256(point(0x77))), "the key stays");
        }
    }

    function deals(uint256 n, uint256 t, uint256 first, bytes[] memory list, bytes[] memory consents) private {
        epochs.reshare(NEW, points(t, 0x77), holders(n, first), uint8(t), "log", list, consents);
    }

    /// @dev Whoever stole the curator's role has the signatures of as many new shards as it likes: its own. The old ones have
    ///      to agree, as many as could open; the others may be gone.
    function test_nobody_moves_a_key_without_those_who_have_its_shares(uint8 n, uint8 t, uint8 mask) public {
        (uint256 count, uint256 threshold) = shape(n, t);
        inForce(count, threshold);
        uint256 who = uint256(mask) & ((1 << count) - 1);
        Shares memory what = shares(1, points(2, 0x77), 4, 100);
        bytes[] memory consents = signatures(count, 0, who, what);
        bytes[] memory list = signatures(4, 100, 15, what);
        bool ok = ones(who) >= threshold;
        if (!ok) {
            vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.TooFewAgreed.selector, NEW, ones(who), threshold));
        }
        deals(4, 2, 100, list, consents);
        same(epochs.epochInfo(NEW).version, ok ? 1 : 0, "version");
        same(uint160(epochs.epochInfo(NEW).shards[0]), uint160(vm.addr(HOLDER_KEY + (ok ? 100 : 0))), "who has them");
    }

    /// @dev A true ceremony's log is public: what its dealers signed names for whom.
    function test_the_word_for_some_holders_is_none_for_others(uint8 n) public {
        n = uint8(bound(n, 2, 8));
        pending(3, 2, IKeyEpochs.Assurance.SIMULATED);
        bytes[] memory consents = signatures(3, 0, 7, shares(1, points(2, 0x77), 3, 0));
        bytes[] memory list = signatures(n, 100, 255, shares(1, points(2, 0x77), n, 100));
        vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.TooFewAgreed.selector, NEW, 0, 2));
        deals(n, 2, 100, list, consents);
        // Nor are those of the shards before the ones that have them now.
        Shares memory what = shares(1, points(2, 0x77), n, 100);
        deals(n, 2, 100, signatures(n, 100, 255, what), signatures(3, 0, 7, what));
        what = shares(2, points(2, 0x77), 3, 0);
        (list, consents) = (signatures(3, 0, 7, what), signatures(3, 0, 7, what));
        vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.TooFewAgreed.selector, NEW, 0, 2));
        deals(3, 2, 0, list, consents);
    }

    function test_commitments_of_another_key_or_number_are_refused(uint8 count, bytes1 key) public {
        pending(3, 2, IKeyEpochs.Assurance.SIMULATED);
        count = uint8(bound(count, 0, 5));
        bytes memory commitments = points(count, key);
        bytes[] memory list = signatures(3, 0, 7, shares(1, commitments, 3, 0));
        bool ok = count == 2 && key == 0x77;
        if (!ok) {
            vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.BadCommitments.selector, NEW, commitments.length));
        }
        epochs.reshare(NEW, commitments, holders(3, 0), 2, "log", list, list);
        same(epochs.epochInfo(NEW).version, ok ? 1 : 0, "version");
    }

    function test_an_epoch_that_ended_is_not_dealt_again(bool leaked) public {
        inForce(3, 2);
        if (leaked) epochs.compromise(NEW);
        else epochs.drain(NEW);
        bytes[] memory list = signatures(3, 0, 7, shares(1, points(2, 0x77), 3, 0));
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
        deals(3, 2, 0, list, list);
        same(epochs.epochInfo(NEW).version, leaked ? 0 : 1, "version");
    }
}
