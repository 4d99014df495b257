// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title HeaderLib: the mix of a block, read from its header
/// @dev Of all fields only this one is needed; `BlockHeader` of OpenZeppelin, which takes the whole header apart, costs 40,000 gas
///      more, and the tests compare with it. Only for headers whose hash is known to be the chain's.
library HeaderLib {
    /// @dev Fields before the mix, since the first block of all.
    uint256 private constant BEFORE = 13;

    /// @notice These bytes are no block header.
    error NotHeader(uint256 from);

    /// @notice The beacon chain's mix of RANDAO reveals that the block of `header` was given.
    function prevRandao(bytes memory header) internal pure returns (bytes32 mix) {
        uint8 prefix = _byteAt(header, 0);
        if (prefix < 0xf8) revert NotHeader(0);
        // Long list: the prefix says how many bytes its length has.
        uint256 from = uint256(prefix) - 0xf6;
        for (uint256 i = 0; i < BEFORE; ++i) {
            from = _behind(header, from);
        }
        if (_byteAt(header, from) != 0xa0 || header.length < from + 33) revert NotHeader(from);
        assembly ("memory-safe") {
            mix := mload(add(add(header, 33), from))
        }
    }

    /// @dev Where the string that begins at `from` ends.
    function _behind(bytes memory header, uint256 from) private pure returns (uint256) {
        uint8 prefix = _byteAt(header, from);
        if (prefix < 0x80) return from + 1;
        if (prefix < 0xb8) return from + 1 + prefix - 0x80;
        if (prefix >= 0xc0) revert NotHeader(from);
        uint256 length = 0;
        uint256 bytes_ = prefix - 0xb7;
        for (uint256 i = 1; i <= bytes_; ++i) {
            length = length << 8 | _byteAt(header, from + i);
        }
        return from + 1 + bytes_ + length;
    }

    function _byteAt(bytes memory header, uint256 from) private pure returns (uint8) {
        if (from >= header.length) revert NotHeader(from);
        return uint8(header[from]);
    }
}
