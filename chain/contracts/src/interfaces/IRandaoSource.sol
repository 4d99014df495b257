// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title IRandaoSource: seeds from the RANDAO mix of blocks that were named in advance, shown by their headers
/// @notice Unlike a block hash, a mix cannot be ground by changing a block's contents: whoever proposes one of the last
///         blocks before it gets one other mix for each block withheld, and loses that block's reward. Nothing is stored:
///         who uses a seed has named its block at least `SHORTEST` and at most `LONGEST` blocks ahead.
interface IRandaoSource {
    /// @notice The lookahead bounds are not 2 <= shortest < longest.
    error BadLookahead(uint256 shortest, uint256 longest);
    /// @notice Two headers do not show that mixes of this chain differ.
    error MixesAreConstant(bytes32 mix);
    /// @notice The header does not hash to the hash of the block.
    error WrongHeader(uint256 blockNumber, bytes32 have, bytes32 want);
    /// @notice The named block is not over.
    error SeedTooEarly(uint256 blockNumber, uint256 now_);
    /// @notice The named block is too old to be read; name a new one.
    error SeedExpired(uint256 blockNumber, uint256 now_);

    /// @notice Blocks after the current one before which no seed block is named.
    function SHORTEST() external view returns (uint256);
    /// @notice Blocks after the current one behind which no seed block is named.
    function LONGEST() external view returns (uint256);
    /// @notice keccak256(abi.encode(mix, chainId, blockNumber)), while the chain still knows the block's hash: 8,191 blocks.
    /// @param header RLP of the header, as it is hashed
    function seedOf(uint256 blockNumber, bytes calldata header) external view returns (bytes32);
    /// @notice Whether the seed of `blockNumber` can never be read again.
    function isExpired(uint256 blockNumber) external view returns (bool);
}
