// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Hashes} from "@openzeppelin/contracts/utils/cryptography/Hashes.sol";

/// @title CommitTree: the Merkle tree of a round's commitments, with one place for each seat
/// @dev A leaf's place is part of what its proof shows, and all proofs are equally long: under one root there is one
///      commitment for a member, and nobody can choose between several when it sees what others say. `MerkleProof` sorts
///      each pair, and forgets places.
library CommitTree {
    /// @notice The root over 256 places that the proof leads to.
    /// @param leaf of a member: its commitment bound to it and to its seats; 0 where there is none
    /// @param seatMask the member's seats; its place is the first of them
    /// @param proof siblings from the bottom up
    function rootOf(bytes32 leaf, uint256 seatMask, bytes32[8] calldata proof) internal pure returns (bytes32 node) {
        uint256 place = 0;
        while ((seatMask >> place) & 1 == 0) ++place;
        node = leaf;
        for (uint256 i = 0; i < 8; ++i) {
            bool left = (place >> i) & 1 == 0;
            node = left ? Hashes.efficientKeccak256(node, proof[i]) : Hashes.efficientKeccak256(proof[i], node);
        }
    }
}
