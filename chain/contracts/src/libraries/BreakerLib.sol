// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title BreakerLib: how many different operators something happened to lately
library BreakerLib {
    struct Entry {
        address operator;
        uint40 since; // protocol clock
    }

    /// @notice Note that it happened to `operator`, forget what is older than `span`, return how many operators are left.
    /// @dev The list has one entry per operator and is emptied when it trips, so it is never longer than the limit plus one,
    ///      256 entries.
    function note(Entry[] storage list, address operator, uint40 now_, uint256 span) internal returns (uint256) {
        uint256 i = 0;
        while (i < list.length) {
            Entry memory e = list[i];
            if (e.operator == operator || uint256(e.since) + span < now_) {
                list[i] = list[list.length - 1];
                list.pop();
            } else {
                ++i;
            }
        }
        list.push(Entry(operator, now_));
        return list.length;
    }

    /// @notice Forget everybody.
    function clear(Entry[] storage list) internal {
        while (list.length != 0) {
            list.pop();
        }
    }
}
