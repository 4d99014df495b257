// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {StakeTree} from "../src/stake/StakeTree.sol";
import {SumNodeLib} from "../src/libraries/SumNodeLib.sol";

/// @title Proofs of the words and paths of the stake tree for every input: `make prove` (halmos)
/// @dev A function whose name begins with `check_` holds for all arguments that pass its first lines, or halmos shows some
///      for which it does not.
contract TreeProofs is StakeTree(100, 10, 1 ether, 1) {
    uint256 private constant ARITY = SumNodeLib.ARITY;
    /// @dev Nodes above the leaves, as in `StakeTree`.
    uint256 private constant INNER = 2_801;
    uint256 private constant UPPER = 57;
    uint256 private constant LOWER = 400;

    /// @notice A sum is read back as it was written.
    function check_a_written_child_is_read_back(uint256 node, uint256 i, uint32 sum) public pure {
        if (i >= ARITY) return;
        assert(SumNodeLib.child(SumNodeLib.withChild(node, i, sum), i) == sum);
    }

    /// @notice Writing a sum touches neither another sum nor the epoch.
    function check_a_written_child_leaves_the_rest(uint256 node, uint256 i, uint256 j, uint32 sum) public pure {
        if (i >= ARITY || j >= ARITY || i == j) return;
        uint256 after_ = SumNodeLib.withChild(node, i, sum);
        assert(SumNodeLib.child(after_, j) == SumNodeLib.child(node, j));
        assert(SumNodeLib.epochOf(after_) == SumNodeLib.epochOf(node));
    }

    /// @notice An epoch is read back as it was written and no sum changes.
    function check_a_written_epoch_leaves_the_sums(uint256 node, uint256 i, uint32 epoch_) public pure {
        if (i >= ARITY) return;
        uint256 after_ = SumNodeLib.withEpoch(node, epoch_);
        assert(SumNodeLib.epochOf(after_) == epoch_);
        assert(SumNodeLib.child(after_, i) == SumNodeLib.child(node, i));
    }

    /// @notice The draw's own walk, over the two lowest levels: unit `rest` of place `j` below child `i` is found by the point that lies
    ///         `rest` behind all units before it. Every unit has such a point and there are as many points as units: so each
    ///         point finds exactly one. The levels above are the same loop, which hands node and point on in the same way.
    function check_every_unit_has_its_place_0(Node[2] calldata n, uint256 j, uint32 rest, uint32 epoch_) public {
        _found(n, 0, j, rest, epoch_);
    }

    function check_every_unit_has_its_place_1(Node[2] calldata n, uint256 j, uint32 rest, uint32 epoch_) public {
        _found(n, 1, j, rest, epoch_);
    }

    function check_every_unit_has_its_place_2(Node[2] calldata n, uint256 j, uint32 rest, uint32 epoch_) public {
        _found(n, 2, j, rest, epoch_);
    }

    function check_every_unit_has_its_place_3(Node[2] calldata n, uint256 j, uint32 rest, uint32 epoch_) public {
        _found(n, 3, j, rest, epoch_);
    }

    function check_every_unit_has_its_place_4(Node[2] calldata n, uint256 j, uint32 rest, uint32 epoch_) public {
        _found(n, 4, j, rest, epoch_);
    }

    function check_every_unit_has_its_place_5(Node[2] calldata n, uint256 j, uint32 rest, uint32 epoch_) public {
        _found(n, 5, j, rest, epoch_);
    }

    function check_every_unit_has_its_place_6(Node[2] calldata n, uint256 j, uint32 rest, uint32 epoch_) public {
        _found(n, 6, j, rest, epoch_);
    }

    /// @notice A write moves the total by what the child moves.
    function check_a_write_moves_the_total(uint256 node, uint32 sum) public pure {
        for (uint256 i = 0; i < ARITY; ++i) {
            uint256 others = SumNodeLib.total(node) - SumNodeLib.child(node, i);
            assert(SumNodeLib.total(SumNodeLib.withChild(node, i, sum)) == others + sum);
        }
    }

    /// @notice Parent and child numbers undo each other.
    function check_a_child_knows_its_parent(uint256 node, uint256 i) public pure {
        if (node >= INNER || i >= ARITY) return;
        uint256 child = node * ARITY + 1 + i;
        assert((child - 1) / ARITY == node && (child - 1) % ARITY == i);
    }

    /// @notice From every place five steps lead to the root, all of them over inner nodes.
    function check_every_place_is_five_steps_below_the_root(uint256 place) public pure {
        if (place >= CAPACITY) return;
        uint256 node = INNER + place;
        for (uint256 level = 0; level < 5; ++level) {
            assert(node != 0);
            node = (node - 1) / ARITY;
            assert(node < INNER);
        }
        assert(node == 0);
    }

    /// @notice Units are rounded down and capped; the full tree of the cap fits 32 bits.
    function check_units_never_exceed_stake_or_cap(uint256 stake, uint256 unit, uint256 cap) public {
        if (unit == 0 || cap == 0 || cap > type(uint32).max / CAPACITY) return;
        uint256 units = new StakeTree(100, 10, unit, cap).unitsFor(stake);
        assert(units <= cap && units * CAPACITY <= type(uint32).max);
    }

    /// @dev `UPPER` is the first node of the last level but one, `LOWER` its first child, and place 0 the first one below.
    function _found(Node[2] calldata n, uint256 i, uint256 j, uint32 rest, uint32 epoch_) private {
        if (j >= ARITY) return;
        (_nodes[UPPER], _nodes[LOWER + i]) = (n[0], n[1]);
        (uint256 above, uint256 below) = (_sums(UPPER, epoch_), _sums(LOWER + i, epoch_));
        if (rest >= SumNodeLib.child(below, j)) return;
        uint256 point = rest;
        for (uint256 k = 0; k < j; ++k) {
            point += SumNodeLib.child(below, k);
        }
        // A node's sum in its parent is the sum of its own.
        if (point >= SumNodeLib.child(above, i)) return;
        for (uint256 k = 0; k < i; ++k) {
            point += SumNodeLib.child(above, k);
        }
        assert(_find(UPPER, point, epoch_) == ARITY * i + j);
    }
}
