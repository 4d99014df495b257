// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title SumNodeLib: a node of a sum tree in one word: seven sums of 32 bits, lowest first, and the epoch they count from
library SumNodeLib {
    /// @notice Children of a node.
    uint256 internal constant ARITY = 7;
    uint256 private constant BITS = 32;
    uint256 private constant MASK = type(uint32).max;
    /// @dev Behind all sums.
    uint256 private constant EPOCH = 224;

    /// @notice The epoch from which the sums of `node` count; 0 for a node never written.
    function epochOf(uint256 node) internal pure returns (uint32) {
        return uint32(node >> EPOCH);
    }

    /// @notice The sum of child `i`.
    function child(uint256 node, uint256 i) internal pure returns (uint32) {
        return uint32(node >> (i * BITS));
    }

    /// @notice `node` with another sum of child `i`.
    function withChild(uint256 node, uint256 i, uint32 sum) internal pure returns (uint256) {
        return (node & ~(MASK << (i * BITS))) | (uint256(sum) << (i * BITS));
    }

    /// @notice `node` with another epoch.
    function withEpoch(uint256 node, uint32 epoch) internal pure returns (uint256) {
        return (node & ((1 << EPOCH) - 1)) | (uint256(epoch) << EPOCH);
    }

    /// @notice The sum of all children.
    function total(uint256 node) internal pure returns (uint256 sum) {
        for (uint256 i = 0; i < ARITY; ++i) {
            sum += child(node, i);
        }
    }
}
