// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title SortitionLib: seats in proportion to stake, with replacement (design section 9). Anyone can repeat it
library SortitionLib {
    /// @notice For each seat the position of its holder in `stakes`.
    /// @param seed the beacon of the round's seed block
    /// @param id the dispute
    /// @param round first round is 1
    /// @param stakes weights in wei, in registry order
    /// @param total their sum, not 0
    function draw(bytes32 seed, bytes32 id, uint16 round, uint256 seats, uint256[] memory stakes, uint256 total)
        internal
        pure
        returns (uint256[] memory holders)
    {
        holders = new uint256[](seats);
        for (uint256 i = 0; i < seats; ++i) {
            uint256 point = uint256(keccak256(abi.encode(seed, id, round, i))) % total;
            uint256 holder = 0;
            while (point >= stakes[holder]) {
                point -= stakes[holder];
                ++holder;
            }
            holders[i] = holder;
        }
    }

    /// @notice The seed that the members' round digests are bound to.
    function roundSeed(bytes32 seed, bytes32 id, uint16 round) internal pure returns (bytes32) {
        return keccak256(abi.encode(seed, id, round));
    }
}
