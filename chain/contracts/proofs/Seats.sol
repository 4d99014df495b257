// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {SeatsLib} from "../src/libraries/SeatsLib.sol";

/// @title Proofs of the masks and packed places of a round's seats: `make prove` (halmos)
/// @dev A function whose name begins with `check_` holds for all arguments that pass its first lines, or halmos shows some
///      for which it does not. Words of places are 16 seats each; laws that read two of them meet a seat on either side of the border.
contract SeatsProofs {
    uint256 private constant SEATS = 255;
    uint256 private constant TWO_WORDS = 32;

    uint256[16] private _words;

    /// @notice No seat: size 0, no lowest.
    function check_nobody_has_no_seats() public pure {
        assert(SeatsLib.size(0) == 0 && SeatsLib.lowest(0) == 0 && SeatsLib.first(0) == 0);
    }

    /// @notice The first `count` seats are those with a smaller number.
    function check_first_holds_the_seats_before_it(uint256 count, uint256 seat) public pure {
        if (count > SEATS || seat > SEATS) return;
        assert((SeatsLib.first(count) >> seat & 1 == 1) == (seat < count));
    }

    /// @notice The lowest seat is one seat of the mask and none lies before it.
    function check_lowest_is_the_lowest(uint256 mask) public pure {
        if (mask == 0) return;
        uint256 bit = SeatsLib.lowest(mask);
        assert(bit != 0 && mask & bit == bit);
        unchecked {
            assert(bit & (bit - 1) == 0 && mask & (bit - 1) == 0);
        }
    }

    /// @notice Seats of any two bytes side by side are counted, wherever they lie. What of all 255 no solver ends with is
    ///         fuzzed (`test/SeatsLib.t.sol`).
    function check_size_counts_two_bytes(uint16 bits, uint256 lane) public pure {
        if (lane >= 31) return;
        uint256 count = 0;
        for (uint256 i = 0; i < 16; ++i) {
            count += bits >> i & 1;
        }
        assert(SeatsLib.size(uint256(bits) << (8 * lane)) == count);
    }

    /// @notice Places are read back as they were written, across the border of a word.
    function check_written_places_are_read_back(uint16 a, uint16 b, uint16 c, uint256 word) public {
        _words[0] = word;
        _written(14, a, b, c);
        assert(_placeAt(14) == a && _placeAt(15) == b && _placeAt(16) == c);
    }

    /// @notice Places before the written ones stay, and of those behind them nothing is left of an earlier draw.
    function check_a_write_keeps_what_is_before(uint16 a, uint16 b, uint16 c, uint256 word, uint256 next) public {
        (_words[0], _words[1]) = (word, next);
        _written(14, a, b, c);
        for (uint256 seat = 0; seat < 14; ++seat) {
            assert(_placeAt(seat) == uint16(word >> (seat * 16)));
        }
        for (uint256 seat = 17; seat < TWO_WORDS; ++seat) {
            assert(_placeAt(seat) == 0);
        }
    }

    /// @notice A seat is in the mask of a place if, and only if, that place holds it, and nothing beyond the seats is.
    function check_a_mask_is_the_seats_of_its_place(uint16 a, uint16 b, uint16 c, uint16 behind, uint16 place) public {
        if (place == 0) return; // who holds the first fourteen here
        (_words[0], _words[1]) = (uint256(a) << 224 | uint256(b) << 240, uint256(c) | uint256(behind) << 16);
        uint256 want = (a == place ? 1 << 14 : 0) | (b == place ? 1 << 15 : 0) | (c == place ? 1 << 16 : 0);
        assert(SeatsLib.maskOf(_words, 17, place) == want);
    }

    /// @notice Places read at once are the places of all seats.
    function check_all_places_are_those_of_the_seats(uint256 w0, uint256 w1) public {
        (_words[0], _words[1]) = (w0, w1);
        uint16[] memory places = SeatsLib.all(_words, 20);
        for (uint256 seat = 0; seat < 20; ++seat) {
            assert(places[seat] == _placeAt(seat));
        }
    }

    /// @notice Who holds a seat of a mask has its mark among the mask's: no mark, no seat.
    function check_no_mark_no_seat(uint16 a, uint16 b, uint16 c, uint256 mask, uint16 place) public pure {
        uint16[] memory places = _three(a, b, c);
        if (SeatsLib.maskIn(places, place) & mask == 0) return;
        assert(SeatsLib.marks(places, mask) & SeatsLib.mark(place) != 0);
    }

    /// @notice The masks of two places share no seat, and each seat is in the mask of its place.
    function check_nobody_holds_anothers_seat(uint16 a, uint16 b, uint16 c, uint16 one, uint16 other) public pure {
        uint16[] memory places = _three(a, b, c);
        if (one != other) assert(SeatsLib.maskIn(places, one) & SeatsLib.maskIn(places, other) == 0);
        assert(
            SeatsLib.maskIn(places, a) & 1 == 1 && SeatsLib.maskIn(places, b) & 2 == 2
                && SeatsLib.maskIn(places, c) & 4 == 4
        );
    }

    /// @notice The first seat of a holder is the lowest of its mask.
    function check_first_of_is_the_lowest_of_its_mask(uint16 a, uint16 b, uint16 c) public pure {
        uint16[] memory places = _three(a, b, c);
        for (uint256 seat = 0; seat < 3; ++seat) {
            assert(1 << SeatsLib.firstOf(places, seat) == SeatsLib.lowest(SeatsLib.maskIn(places, places[seat])));
        }
    }

    function _written(uint256 from, uint16 a, uint16 b, uint16 c) private {
        SeatsLib.write(_words, from, _three(a, b, c));
    }

    function _three(uint16 a, uint16 b, uint16 c) private pure returns (uint16[] memory places) {
        places = new uint16[](3);
        (places[0], places[1], places[2]) = (a, b, c);
    }

    function _placeAt(uint256 seat) private view returns (uint16) {
        return uint16(_words[seat / 16] >> ((seat % 16) * 16));
    }
}
