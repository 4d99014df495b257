// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../../src/interfaces/IRounds.sol";
import {BreakerLib} from "../../src/libraries/BreakerLib.sol";
import {StakeTree} from "../../src/stake/StakeTree.sol";
import {Commit, ParamSet, Receipt} from "../../src/libraries/Types.sol";
import {KeyShares, Shares} from "../../src/keys/KeyShares.sol";
import {IKeyEpochs} from "../../src/interfaces/IKeyEpochs.sol";
import {GasBase} from "./GasBase.sol";

/// @title The breaker's list of convicted operators, alone
contract Convicted {
    using BreakerLib for BreakerLib.Entry[];

    BreakerLib.Entry[] private _list;

    function fill(uint160 operators, uint40 since) external {
        for (uint160 i = 1; i <= operators; ++i) {
            _list.push(BreakerLib.Entry(address(i), since));
        }
    }

    /// @notice As `Breaker._note` does.
    function trips(address operator, uint40 now_, uint256 span, uint256 limit) external returns (bool) {
        if (_list.note(operator, now_, span) <= limit) return false;
        _list.clear();
        return true;
    }
}

/// @title What grows with shards, pools, operators and relayed commitments, at the most that there may be
/// forge-config: default.isolate = true
contract BoundsGasTest is GasBase {
    uint64 private constant EPOCH = 7;
    uint256 private constant SHARDS = 64;
    uint256 private constant THRESHOLD = 43;
    uint256 private constant OLD = 0x5EC4E7;
    uint256 private constant NEW = 0x5EC4E7 + SHARDS;
    uint256 private constant POOLS = 128;
    uint256 private constant RELAYED = 200;

    function parameters() internal pure override returns (ParamSet memory p) {
        p = super.parameters();
        (p.committee.seats, p.committee.rounds) = ([uint16(255), 0, 0], 1);
        (p.money.absentPenalty, p.money.noRevealPenalty, p.money.wrongPenalty) = (0.002 ether, 0.003 ether, 0.004 ether);
    }

    // --- shards ---

    function holders(uint256 first) private pure returns (address[] memory list) {
        list = new address[](SHARDS);
        for (uint256 i = 0; i < SHARDS; ++i) {
            list[i] = vm.addr(first + i);
        }
    }

    function commitments(uint256 threshold) private pure returns (bytes memory all) {
        all = new bytes(65 * threshold);
        for (uint256 i = 0; i < all.length; ++i) {
            all[i] = i % 65 == 0 ? bytes1(0x04) : bytes1(i < 65 ? 0x77 : 0x01);
        }
    }

    function signatures(uint256 first, Shares memory what) private view returns (bytes[] memory list) {
        list = new bytes[](SHARDS);
        bytes32 digest = epochs.hashShares(what);
        for (uint256 i = 0; i < SHARDS; ++i) {
            list[i] = signed(first + i, digest);
        }
    }

    function shares(uint32 version, uint256 first) private pure returns (Shares memory) {
        bytes32 points = keccak256(commitments(THRESHOLD));
        return Shares(EPOCH, version, points, KeyShares.holdersHash(holders(first)), "log");
    }

    function test_gas_of_confirming_and_dealing_again_the_most_shards() public {
        epochs.openEpoch(
            EPOCH,
            commitments(1),
            commitments(THRESHOLD),
            holders(OLD),
            uint8(THRESHOLD),
            IKeyEpochs.Assurance.HARDWARE,
            "policy"
        );
        bytes memory data = abi.encodeCall(epochs.confirm, (EPOCH, "log", signatures(OLD, shares(0, OLD))));
        told("confirm_64_shards", measured(address(epochs), data, "confirm"));
        Shares memory next = shares(1, NEW);
        (bytes[] memory own, bytes[] memory consents) = (signatures(NEW, next), signatures(OLD, next));
        data = abi.encodeCall(
            epochs.reshare, (EPOCH, commitments(THRESHOLD), holders(NEW), uint8(THRESHOLD), "log", own, consents)
        );
        told("reshare_64_shards", measured(address(epochs), data, "reshare"));
    }

    // --- operators ---

    /// @dev All of 255 operators and one more, so that the breaker trips; or all of them so long ago that each is forgotten.
    function test_gas_of_the_most_convicted_operators() public {
        Convicted lately = new Convicted();
        lately.fill(255, 1_000);
        bytes memory data = abi.encodeCall(lately.trips, (address(256), 2_000, 3_000, 255));
        told("breaker_trips_at_256_operators", measured(address(lately), data, "trips"));
        Convicted long = new Convicted();
        long.fill(255, 1_000);
        data = abi.encodeCall(long.trips, (address(256), 9_000, 3_000, 255));
        told("breaker_forgets_255_operators", measured(address(long), data, "forgets"));
    }

    // --- commitments ---

    /// @dev All of 255 at once are more than a transaction may use: a relay brings them in parts.
    function test_gas_of_the_most_relayed_commitments() public {
        populated(10_000);
        (Receipt memory r, uint64 batchId,) = posted(1);
        (bytes32 id,) = openedAt(r, batchId);
        drawnAll(id, SALT);
        IRounds.Member[] memory list = members(id);
        that(list.length > RELAYED, "so many members");
        told("commits_200_relayed", relayed(id, list, 0, RELAYED));
        relayed(id, list, RELAYED, list.length);
        same(roundOf(id).committedMask, (1 << 255) - 1, "everybody, in two transactions");
    }

    function relayed(bytes32 id, IRounds.Member[] memory list, uint256 from, uint256 to) private returns (uint256) {
        uint256 count = to - from;
        (Commit[] memory commits, address[] memory voters, bytes[] memory sigs) =
            (new Commit[](count), new address[](count), new bytes[](count));
        for (uint256 i = 0; i < count; ++i) {
            IRounds.Member memory m = list[from + i];
            voters[i] = m.voter;
            commits[i] = Commit(id, 1, m.seatMask, rounds.hashVote(voteOf(id, m, equal())));
            sigs[i] = signed(crowd.keyOf(m.voter), rounds.hashCommit(commits[i]));
        }
        return measured(address(rounds), abi.encodeCall(rounds.commitFor, (commits, voters, sigs)), "commitFor");
    }

    // --- pools ---

    /// @dev Every pool has judged once; what certified a model is in the last of them.
    function test_gas_of_the_most_pools() public {
        bytes32 last;
        for (uint256 i = 1; i < POOLS; ++i) {
            last = bytes32(i);
            StakeTree t = new StakeTree(EPOCH_BLOCKS, LOOKAHEAD, 1 ether, MAX_UNITS);
            t.wire(address(registry));
            registry.addPool(last, t);
            crowd.grow(20 + 4 * i, last, MEASUREMENT);
        }
        pass(EPOCH_BLOCKS * BLOCK_TIME);
        registry.propose("model", 0, "vectors", "");
        for (uint256 i = crowd.size() - 4; i < crowd.size(); ++i) {
            vm.prank(vm.addr(0xC0FFEE000000 + i));
            registry.certify("model", "vectors");
        }
        bytes memory data = abi.encodeCall(registry.activate, ("model"));
        told("activate_model_of_128_pools", measured(address(registry), data, "activate"));
        data = abi.encodeCall(epochs.drain, (epochs.activeEpoch()));
        told("drain_epoch_of_128_pools", measured(address(epochs), data, "drain"));
    }

    // --- prices ---

    /// @dev From the dearest price that there may be to the least, one epoch of the market after the other.
    function test_gas_of_a_batch_after_the_longest_silence() public {
        market.setLimits(1 ether, 1 ether, 1, 1);
        market.setLimits(1, 1 ether, 1, 1);
        pass(1_000);
        (,, uint256 gas) = posted(1);
        told("anchor_after_the_longest_silence", gas);
        same(market.price(), 1, "the least");
    }
}
