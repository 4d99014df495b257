// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRandomness} from "./interfaces/IRandomness.sol";

/// @title BlockSeedSource: the hash of a block named in advance, readable for 256 blocks
/// @dev The block hash commits to the block's RANDAO mix, and to more: the builder of that one block can grind its
///      own contents. A RANDAO proof from the header replaces this contract behind the same interface.
contract BlockSeedSource is IRandomness {
    /// @inheritdoc IRandomness
    function seed(uint256 blockNumber) external view returns (bytes32) {
        if (block.number <= blockNumber) revert SeedTooEarly(blockNumber, block.number);
        bytes32 hash = blockhash(blockNumber);
        if (hash == bytes32(0)) revert SeedExpired(blockNumber, block.number);
        return keccak256(abi.encode(hash, block.chainid, blockNumber));
    }

    /// @inheritdoc IRandomness
    function isExpired(uint256 blockNumber) external view returns (bool) {
        return block.number > blockNumber && blockhash(blockNumber) == bytes32(0);
    }
}
