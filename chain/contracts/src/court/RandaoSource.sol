// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Blockhash} from "@openzeppelin/contracts/utils/Blockhash.sol";
import {HeaderLib} from "../libraries/HeaderLib.sol";
import {IRandaoSource} from "../interfaces/IRandaoSource.sol";

/// @title RandaoSource: a mix is a seed once its header is shown to hash to the block hash that the chain knows
/// @dev No states, no money: a view over headers. Invariants (docs/reference/contracts.md, section 6):
///
///      I16 DRAWN FIRST: A seed is the mix of the block that was named before anybody could know it.
contract RandaoSource is IRandaoSource {
    /// @inheritdoc IRandaoSource
    /// @dev Main net: 128, four epochs.
    uint256 public immutable SHORTEST;
    /// @inheritdoc IRandaoSource
    uint256 public immutable LONGEST;

    /// @param firstBlock a recent block
    /// @param firstHeader its header
    /// @param secondBlock another recent block, with another mix: some chains have the same in every block
    /// @param secondHeader its header
    constructor(
        uint256 shortest,
        uint256 longest,
        uint256 firstBlock,
        bytes memory firstHeader,
        uint256 secondBlock,
        bytes memory secondHeader
    ) {
        // The mix of a block is the sum of reveals up to its parent, whose proposer knows it one block earlier.
        if (shortest < 2 || longest <= shortest) revert BadLookahead(shortest, longest);
        (SHORTEST, LONGEST) = (shortest, longest);
        bytes32 mix = _mixOf(firstBlock, firstHeader);
        if (mix == _mixOf(secondBlock, secondHeader)) revert MixesAreConstant(mix);
    }

    /// @inheritdoc IRandaoSource
    function seedOf(uint256 blockNumber, bytes calldata header) external view returns (bytes32) {
        return keccak256(abi.encode(_mixOf(blockNumber, header), block.chainid, blockNumber));
    }

    /// @inheritdoc IRandaoSource
    function isExpired(uint256 blockNumber) external view returns (bool) {
        return block.number > blockNumber && Blockhash.blockHash(blockNumber) == bytes32(0);
    }

    /// @dev Nothing of a header is read before it is known to be the chain's own.
    function _mixOf(uint256 blockNumber, bytes memory header) private view returns (bytes32) {
        if (block.number <= blockNumber) revert SeedTooEarly(blockNumber, block.number);
        bytes32 want = Blockhash.blockHash(blockNumber);
        if (want == bytes32(0)) revert SeedExpired(blockNumber, block.number);
        bytes32 have = keccak256(header);
        if (have != want) revert WrongHeader(blockNumber, have, want);
        return HeaderLib.prevRandao(header);
    }
}
