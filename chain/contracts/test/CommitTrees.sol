// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The whole tree that `CommitTree` checks proofs of, level by level
library CommitTrees {
    /// @param leaves of all places, 0 where there is none
    /// @return root of the tree, `proof` the siblings of `place` from the bottom up
    function proven(bytes32[256] memory leaves, uint256 place)
        internal
        pure
        returns (bytes32 root, bytes32[8] memory proof)
    {
        bytes32[256] memory level;
        for (uint256 i = 0; i < 256; ++i) {
            level[i] = leaves[i];
        }
        uint256 size = 256;
        for (uint256 k = 0; k < 8; ++k) {
            proof[k] = level[(place >> k) ^ 1];
            size /= 2;
            for (uint256 i = 0; i < size; ++i) {
                level[i] = keccak256(abi.encode(level[2 * i], level[2 * i + 1]));
            }
        }
        root = level[0];
    }
}
