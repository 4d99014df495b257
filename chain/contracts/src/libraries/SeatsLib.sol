// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title SeatsLib: who holds the seats of a round, as places of a stake tree, sixteen to a word
/// @dev A voter's seats are found by reading all places of the round, 255 at most: cheaper than a word per voter.
library SeatsLib {
    /// @notice A seat that nobody holds: `StakeTree.NOBODY`.
    uint16 internal constant NOBODY = type(uint16).max;
    uint256 private constant PER_WORD = 16;
    uint256 private constant BITS = 16;

    /// @notice The mask of the first `count` seats.
    function first(uint256 count) internal pure returns (uint256) {
        return (1 << count) - 1;
    }

    /// @notice Seats in a mask, which has 255 at most.
    function size(uint256 mask) internal pure returns (uint256) {
        // Sums of neighbouring bits, pairs, nibbles; then all bytes at once. No lane overflows.
        unchecked {
            mask -= (mask >> 1) & (type(uint256).max / 3);
            mask = (mask & (type(uint256).max / 5)) + ((mask >> 2) & (type(uint256).max / 5));
            mask = (mask + (mask >> 4)) & (type(uint256).max / 17);
            return (mask * (type(uint256).max / 255)) >> 248;
        }
    }

    /// @notice The lowest seat of a mask alone; names the member whose seats they are. 0 for no seat.
    function lowest(uint256 mask) internal pure returns (uint256) {
        unchecked {
            return mask & (~mask + 1);
        }
    }

    /// @notice Write the places of seats `from` on. Seats behind them are as if never written.
    function write(uint256[16] storage words, uint256 from, uint16[] memory places) internal {
        uint256 i = 0;
        while (i < places.length) {
            uint256 seat = from + i;
            uint256 lane = seat % PER_WORD;
            // What an earlier draw of this round left behind goes.
            uint256 word = lane == 0 ? 0 : words[seat / PER_WORD] & ((1 << (lane * BITS)) - 1);
            for (; lane < PER_WORD && i < places.length; (++lane, ++i)) {
                word |= uint256(places[i]) << (lane * BITS);
            }
            words[seat / PER_WORD] = word;
        }
    }

    /// @notice The places of all seats.
    function all(uint256[16] storage words, uint256 seats) internal view returns (uint16[] memory places) {
        places = new uint16[](seats);
        uint256 word;
        // Nothing overflows: seats are 255 at most.
        unchecked {
            for (uint256 seat = 0; seat < seats; ++seat) {
                if (seat % PER_WORD == 0) word = words[seat / PER_WORD];
                places[seat] = uint16(word);
                word >>= BITS;
            }
        }
    }

    /// @notice The seats of a place.
    function maskOf(uint256[16] storage words, uint256 seats, uint16 place) internal view returns (uint256 mask) {
        // Nothing overflows: seats are 255 at most.
        unchecked {
            for (uint256 seat = 0; seat < seats;) {
                uint256 word = words[seat / PER_WORD];
                uint256 end = seat + PER_WORD < seats ? seat + PER_WORD : seats;
                for (; seat < end; ++seat) {
                    if (uint16(word) == place) mask |= 1 << seat;
                    word >>= BITS;
                }
            }
        }
    }

    /// @notice `count` places from `from` on.
    function part(uint16[] memory places, uint256 from, uint256 count) internal pure returns (uint16[] memory out) {
        out = new uint16[](count);
        for (uint256 i = 0; i < count; ++i) {
            out[i] = places[from + i];
        }
    }

    /// @notice The first seat of who holds `seat`.
    function firstOf(uint16[] memory places, uint256 seat) internal pure returns (uint256 i) {
        uint16 place = places[seat];
        while (places[i] != place) ++i;
    }

    /// @notice One bit of a word for a place; some places share one.
    function mark(uint16 place) internal pure returns (uint256) {
        return 1 << (place & 0xff);
    }

    /// @notice The marks of the places of these seats: a place whose mark is not among them holds none of the seats.
    function marks(uint16[] memory places, uint256 mask) internal pure returns (uint256 all_) {
        for (uint256 seat = 0; seat < places.length; ++seat) {
            if (mask & (1 << seat) != 0) all_ |= mark(places[seat]);
        }
    }

    /// @notice The seats of a place among places in memory.
    function maskIn(uint16[] memory places, uint16 place) internal pure returns (uint256 mask) {
        uint256 seats = places.length;
        unchecked {
            for (uint256 seat = 0; seat < seats; ++seat) {
                if (places[seat] == place) mask |= 1 << seat;
            }
        }
    }
}
