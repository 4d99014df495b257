// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Checkpoints} from "@openzeppelin/contracts/utils/structs/Checkpoints.sol";

/// @title StopsLib: how long something had stood still at each moment of the past, by the protocol clock, or by one that stops more often
/// @dev A word for each stop and each resumption: what stays the same from then on. While it goes on that is the seconds for which it
///      stood still, twice; while it stands still the seconds for which it went on, twice and one more. What was never noted never stood still.
library StopsLib {
    using Checkpoints for Checkpoints.Trace208;

    /// @notice From now on it stands still, or goes on. What is so already stays as it was.
    function note(Checkpoints.Trace208 storage trace, uint64 clock, bool stands) internal {
        uint64 stopped = secondsAt(trace, clock);
        trace.push(SafeCast.toUint48(clock), stands ? 2 * (clock - stopped) + 1 : 2 * stopped);
    }

    /// @notice Seconds for which it had stood still in all when the clock stood at `clock`.
    function secondsAt(Checkpoints.Trace208 storage trace, uint64 clock) internal view returns (uint64) {
        uint256 word = trace.upperLookupRecent(SafeCast.toUint48(clock));
        // Safe: seconds, of which half is 63 bits.
        uint64 constant_ = uint64(word / 2);
        return word % 2 == 0 ? constant_ : clock - constant_;
    }
}
