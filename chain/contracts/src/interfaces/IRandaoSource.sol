// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRandomness} from "./IRandomness.sol";

/// @title IRandaoSource: seeds from the RANDAO mix of blocks announced in advance, proven from their headers
/// @notice Unlike a block hash, a mix cannot be ground by changing a block's contents: whoever proposes one of the last
///         blocks before it gets one other mix for each block withheld, and loses that block's reward.
interface IRandaoSource is IRandomness {
    /// @notice The mix of `blockNumber` will be a seed.
    event SeedAnnounced(uint256 indexed blockNumber);
    /// @notice The mix of `blockNumber` was proven.
    event SeedProven(uint256 indexed blockNumber, bytes32 mix);

    /// @notice The lookahead bounds are not 2 <= shortest < longest.
    error BadLookahead(uint256 shortest, uint256 longest);
    /// @notice Two headers do not show that mixes of this chain differ.
    error MixesAreConstant(bytes32 mix);
    /// @notice A block can be announced `first` to `last`.
    error NotAnnounceable(uint256 blockNumber, uint256 first, uint256 last);
    /// @notice Nobody announced this block.
    error NotAnnounced(uint256 blockNumber);
    /// @notice Nobody has proven the mix of this block yet.
    error SeedNotProven(uint256 blockNumber);
    /// @notice The header does not hash to the hash of the block.
    error WrongHeader(uint256 blockNumber, bytes32 have, bytes32 want);

    /// @notice Blocks after the current one before which no block can be announced.
    function SHORTEST() external view returns (uint256);
    /// @notice Blocks after the current one behind which no block can be announced.
    function LONGEST() external view returns (uint256);
    /// @notice Name a block whose mix nobody knows yet. Anyone may; again is no change.
    function announce(uint256 blockNumber) external;
    /// @notice Show the header of an announced block while the chain still knows its hash: 8,191 blocks. Anyone may; again
    ///         is no change.
    /// @param header RLP of the header, as it is hashed
    function prove(uint256 blockNumber, bytes calldata header) external;
    /// @notice Whether the block was announced.
    function isAnnounced(uint256 blockNumber) external view returns (bool);
    /// @notice The proven mix; zero before.
    function mixOf(uint256 blockNumber) external view returns (bytes32);
}
