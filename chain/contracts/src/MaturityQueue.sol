// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

/// @title MaturityQueue: amounts of one account that can leave only after a delay, the oldest first
/// @notice Amounts that mature in one hour are one entry, so the queue has at most ceil(delay / 1 hour) + 2 entries whoever
///         fills it and however often, and no addition can delay what is in it already. All times are of the protocol clock.
library MaturityQueue {
    using SafeCast for uint256;

    /// @notice What matures together.
    struct Entry {
        uint128 amount; // wei
        uint64 maturesAt; // full hour
    }

    /// @notice Entries `first` to `end - 1`, in the order in which they mature.
    struct Queue {
        uint128 total; // wei of all entries
        uint64 first;
        uint64 end;
        mapping(uint256 index => Entry) entries;
    }

    /// @notice More was to be taken than the queue holds.
    error QueueTooSmall(uint256 have, uint256 want);

    uint256 private constant STEP = 1 hours;

    /// @notice Add `amount` wei that mature `delay` seconds from `clock` or up to an hour later. Zero changes nothing.
    /// @return maturesAt when; not before what is in the queue already, so that its order stays that of time
    function push(Queue storage q, uint256 amount, uint256 clock, uint256 delay) internal returns (uint64 maturesAt) {
        maturesAt = (Math.ceilDiv(clock + delay, STEP) * STEP).toUint64();
        (uint64 first, uint64 end) = (q.first, q.end);
        uint64 last = first == end ? 0 : q.entries[end - 1].maturesAt;
        if (maturesAt < last) maturesAt = last;
        if (amount == 0) return maturesAt;
        q.total += amount.toUint128();
        if (first != end && maturesAt == last) {
            q.entries[end - 1].amount += amount.toUint128();
        } else {
            q.entries[end] = Entry(amount.toUint128(), maturesAt);
            q.end = end + 1;
            _joinMatured(q, first, end + 1, clock);
        }
    }

    /// @notice Take `amount` wei out, from what matures first, matured or not: the caller says what may leave.
    function take(Queue storage q, uint256 amount) internal {
        if (amount > q.total) revert QueueTooSmall(q.total, amount);
        q.total -= amount.toUint128();
        uint64 first = q.first;
        while (amount != 0) {
            Entry storage e = q.entries[first];
            uint256 part = Math.min(amount, e.amount);
            amount -= part;
            if (part == e.amount) delete q.entries[first++];
            else e.amount -= part.toUint128();
        }
        q.first = first;
    }

    /// @notice Wei that are mature at `clock`, and when the next are (0: there are none).
    function due(Queue storage q, uint256 clock) internal view returns (uint256 amount, uint64 nextAt) {
        uint64 end = q.end;
        for (uint64 i = q.first; i < end; ++i) {
            Entry memory e = q.entries[i];
            if (e.maturesAt > clock) return (amount, e.maturesAt);
            amount += e.amount;
        }
    }

    /// @notice Number of entries.
    function length(Queue storage q) internal view returns (uint256) {
        return q.end - q.first;
    }

    /// @dev Each new entry joins two mature ones, if there are two: so mature ones cannot pile up while nobody takes them.
    function _joinMatured(Queue storage q, uint64 first, uint64 end, uint256 clock) private {
        if (end - first < 2) return;
        Entry storage next = q.entries[first + 1];
        if (next.maturesAt > clock) return;
        next.amount += q.entries[first].amount;
        delete q.entries[first];
        q.first = first + 1;
    }
}
