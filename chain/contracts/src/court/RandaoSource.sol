// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Blockhash} from "@openzeppelin/contracts/utils/Blockhash.sol";
import {HeaderLib} from "../libraries/HeaderLib.sol";
import {IRandaoSource} from "../interfaces/IRandaoSource.sol";
import {IRandomness} from "../interfaces/IRandomness.sol";

/// @title RandaoSource: a mix is a seed once its header was shown to hash to the block hash that the chain knows
contract RandaoSource is IRandaoSource {
    /// @inheritdoc IRandaoSource
    /// @dev Main net: 128, four epochs.
    uint256 public immutable SHORTEST;
    /// @inheritdoc IRandaoSource
    uint256 public immutable LONGEST;

    /// @dev Stands for a mix that is not known yet: one word for both. A mix of 0 or 1 would never be proven.
    bytes32 private constant ANNOUNCED = bytes32(uint256(1));

    mapping(uint256 blockNumber => bytes32) private _words;

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
        bytes32 mix = _proven(firstBlock, firstHeader);
        if (mix == _proven(secondBlock, secondHeader)) revert MixesAreConstant(mix);
    }

    /// @inheritdoc IRandaoSource
    function announce(uint256 blockNumber) external {
        if (isAnnounced(blockNumber)) return;
        (uint256 first, uint256 last) = (block.number + SHORTEST, block.number + LONGEST);
        if (blockNumber < first || blockNumber > last) revert NotAnnounceable(blockNumber, first, last);
        _words[blockNumber] = ANNOUNCED;
        emit SeedAnnounced(blockNumber);
    }

    /// @inheritdoc IRandaoSource
    function prove(uint256 blockNumber, bytes calldata header) external {
        bytes32 word = _words[blockNumber];
        if (word == bytes32(0)) revert NotAnnounced(blockNumber);
        if (word != ANNOUNCED) return;
        bytes32 mix = _proven(blockNumber, header);
        if (uint256(mix) <= uint256(ANNOUNCED)) return;
        _words[blockNumber] = mix;
        emit SeedProven(blockNumber, mix);
    }

    /// @inheritdoc IRandaoSource
    function isAnnounced(uint256 blockNumber) public view returns (bool) {
        return _words[blockNumber] != bytes32(0);
    }

    /// @inheritdoc IRandaoSource
    function mixOf(uint256 blockNumber) public view returns (bytes32) {
        bytes32 word = _words[blockNumber];
        return word == ANNOUNCED ? bytes32(0) : word;
    }

    /// @inheritdoc IRandomness
    function seed(uint256 blockNumber) external view returns (bytes32) {
        bytes32 mix = mixOf(blockNumber);
        if (mix != bytes32(0)) return keccak256(abi.encode(mix, block.chainid, blockNumber));
        if (!isAnnounced(blockNumber)) revert NotAnnounced(blockNumber);
        _hashOf(blockNumber);
        revert SeedNotProven(blockNumber);
    }

    /// @inheritdoc IRandomness
    function isExpired(uint256 blockNumber) external view returns (bool) {
        if (mixOf(blockNumber) != bytes32(0)) return false;
        if (!isAnnounced(blockNumber)) return block.number + SHORTEST > blockNumber;
        return block.number > blockNumber && Blockhash.blockHash(blockNumber) == bytes32(0);
    }

    /// @dev Nothing of a header is read before it is known to be the chain's own.
    function _proven(uint256 blockNumber, bytes memory header) private view returns (bytes32) {
        bytes32 want = _hashOf(blockNumber);
        bytes32 have = keccak256(header);
        if (have != want) revert WrongHeader(blockNumber, have, want);
        return HeaderLib.prevRandao(header);
    }

    function _hashOf(uint256 blockNumber) private view returns (bytes32 hash) {
        if (block.number <= blockNumber) revert SeedTooEarly(blockNumber, block.number);
        hash = Blockhash.blockHash(blockNumber);
        if (hash == bytes32(0)) revert SeedExpired(blockNumber, block.number);
    }
}
