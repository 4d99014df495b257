// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title BreakerLib: to how many different subjects something happened lately
library BreakerLib {
    struct Entry {
        address subject; // an operator, or the first 20 bytes of a dispute's id
        uint40 since; // protocol clock
    }

    /// @notice Note that it happened to `subject`, forget what is older than `span`, return how many subjects are left.
    /// @dev The list has one entry per subject and is emptied when it trips, so it is never longer than the limit plus one,
    ///      256 entries.
    function note(Entry[] storage list, address subject, uint40 now_, uint256 span) internal returns (uint256) {
        uint256 i = 0;
        while (i < list.length) {
            Entry memory e = list[i];
            if (e.subject == subject || uint256(e.since) + span < now_) {
                list[i] = list[list.length - 1];
                list.pop();
            } else {
                ++i;
            }
        }
        list.push(Entry(subject, now_));
        return list.length;
    }

    /// @notice Forget everybody.
    function clear(Entry[] storage list) internal {
        while (list.length != 0) {
            list.pop();
        }
    }
}
