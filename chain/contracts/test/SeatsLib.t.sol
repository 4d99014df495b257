// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Check} from "./Vm.sol";
import {SeatsLib} from "../src/libraries/SeatsLib.sol";

/// @title What `proofs/Seats.sol` proves of two bytes of a mask, for all of it
contract SeatsLibTest is Check {
    function test_size_counts_every_seat(uint256 mask) public pure {
        uint256 seats = mask >> 1; // 255 of them
        uint256 count = 0;
        for (uint256 i = 0; i < 255; ++i) {
            count += seats >> i & 1;
        }
        same(SeatsLib.size(seats), count, "seats of a mask");
        same(SeatsLib.size(SeatsLib.first(mask % 256)), mask % 256, "the first seats");
    }
}
