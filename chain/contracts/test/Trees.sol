// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Roots of batches, by halves, unlike the contract
library Trees {
    /// @dev Pairs in order, a lone last one unchanged.
    function rootOf(bytes32[] memory leaves) internal pure returns (bytes32) {
        return _rootOf(leaves, 0, leaves.length);
    }

    function _rootOf(bytes32[] memory leaves, uint256 from, uint256 to) private pure returns (bytes32) {
        if (to - from == 1) return leaves[from];
        uint256 half = 1;
        while (2 * half < to - from) half *= 2;
        (bytes32 a, bytes32 b) = (_rootOf(leaves, from, from + half), _rootOf(leaves, from + half, to));
        return a < b ? keccak256(abi.encode(a, b)) : keccak256(abi.encode(b, a));
    }
}
