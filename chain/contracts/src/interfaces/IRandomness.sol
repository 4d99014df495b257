// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title IRandomness: a public seed from one block that was named in advance
interface IRandomness {
    /// @notice The named block is not over.
    error SeedTooEarly(uint256 blockNumber, uint256 now_);
    /// @notice The named block is too old to be read; name a new one.
    error SeedExpired(uint256 blockNumber, uint256 now_);

    /// @notice The seed of block `blockNumber`.
    function seed(uint256 blockNumber) external view returns (bytes32);
    /// @notice Whether the seed of `blockNumber` can never be read again.
    function isExpired(uint256 blockNumber) external view returns (bool);
}
