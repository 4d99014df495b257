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
        uint96 amount; // wei
        uint32 hour; // since 1970
    }

    /// @notice All that most queues ever hold is in this one word: the newest entry, and what is mature.
    struct Head {
        uint96 newest; // wei of the newest entry; 0: there is none at all
        uint32 hour; // in which it matures; stays when it was taken, so that the next one needs no new word
        uint96 mature; // wei that belong to no entry any more
        uint16 first; // number of the oldest of the other entries; numbers begin again behind the last
        uint16 count; // of them
    }

    /// @notice Entries in the order in which they mature, the newest in the head.
    struct Queue {
        Head head;
        mapping(uint256 number => Entry) entries;
    }

    /// @notice More was to be taken than the queue holds.
    error QueueTooSmall(uint256 have, uint256 want);

    uint256 private constant STEP = 1 hours;
    /// @dev Where the head's members begin in its word.
    uint256 private constant HOUR = 96;
    uint256 private constant MATURE = 128;
    uint256 private constant FIRST = 224;
    uint256 private constant COUNT = 240;

    /// @notice Add `amount` wei that mature `delay` seconds from `clock` or up to an hour later. Zero changes nothing.
    /// @return maturesAt when; not before what is in the queue already, so that its order stays that of time
    function push(Queue storage q, uint256 amount, uint256 clock, uint256 delay) internal returns (uint64 maturesAt) {
        return secondOf(enter(q, amount, clock, hourOf(clock, delay)));
    }

    /// @notice `push` to many queues: of each amount that comes at one moment the hour is the same, unless the queue has a later one.
    /// @return matures the hour in which it matures
    /// @dev Most queues are one word, and most additions change that alone: it is read and written once, and no struct is made.
    function enter(Queue storage q, uint256 amount, uint256 clock, uint256 hour) internal returns (uint256 matures) {
        uint256 word = _word(q);
        (uint256 newest, uint256 last) = (uint96(word), uint32(word >> HOUR));
        matures = newest != 0 && hour < last ? last : hour;
        if (amount == 0) return matures;
        uint256 mature = uint96(word >> MATURE);
        if (newest != 0 && matures != last) {
            if (word >> COUNT == 0 && last * STEP <= clock) {
                mature = (mature + newest).toUint96();
            } else {
                word = _aged(q, clock);
                mature = uint96(word >> MATURE);
            }
            newest = 0;
        }
        word = (word >> FIRST << FIRST) | (mature << MATURE) | (matures << HOUR) | (newest + amount).toUint96();
        assembly ("memory-safe") {
            sstore(q.slot, word)
        }
    }

    /// @notice The hour in which an amount matures that is added now to a queue in which nothing matures later.
    function hourOf(uint256 clock, uint256 delay) internal pure returns (uint256) {
        return Math.ceilDiv(clock + delay, STEP).toUint32();
    }

    /// @notice Its second.
    function secondOf(uint256 hour) internal pure returns (uint64) {
        // Safe: an hour has 32 bits.
        return uint64(hour * STEP);
    }

    /// @notice Take `amount` wei out, from what matures first, matured or not: the caller says what may leave.
    function take(Queue storage q, uint256 amount) internal {
        uint256 have = total(q);
        if (amount > have) revert QueueTooSmall(have, amount);
        Head memory h = q.head;
        uint96 left = amount.toUint96();
        uint96 part = left < h.mature ? left : h.mature;
        (h.mature, left) = (h.mature - part, left - part);
        while (left != 0 && h.count != 0) {
            Entry storage e = q.entries[h.first];
            part = left < e.amount ? left : e.amount;
            left -= part;
            if (part == e.amount) _drop(q, h);
            else e.amount -= part;
        }
        h.newest -= left;
        q.head = h;
    }

    /// @notice Wei of all entries.
    function total(Queue storage q) internal view returns (uint256 sum) {
        Head memory h = q.head;
        sum = uint256(h.mature) + h.newest;
        for (uint16 i = 0; i < h.count; ++i) {
            sum += q.entries[_after(h.first, i)].amount;
        }
    }

    /// @notice Wei that are mature at `clock`, and when the next are (0: there are none).
    function due(Queue storage q, uint256 clock) internal view returns (uint256 amount, uint64 nextAt) {
        Head memory h = q.head;
        amount = h.mature;
        for (uint16 i = 0; i < h.count; ++i) {
            Entry memory e = q.entries[_after(h.first, i)];
            if (secondOf(e.hour) > clock) return (amount, secondOf(e.hour));
            amount += e.amount;
        }
        if (h.newest == 0) return (amount, 0);
        if (secondOf(h.hour) > clock) return (amount, secondOf(h.hour));
        amount += h.newest;
    }

    /// @notice Number of entries.
    function length(Queue storage q) internal view returns (uint256) {
        Head memory h = q.head;
        return h.newest == 0 ? h.count : uint256(h.count) + 1;
    }

    /// @dev The head's word, as the compiler lays it out.
    function _word(Queue storage q) private view returns (uint256 word) {
        assembly ("memory-safe") {
            word := sload(q.slot)
        }
    }

    /// @dev The head's word after `_age`.
    function _aged(Queue storage q, uint256 clock) private returns (uint256) {
        Head memory h = q.head;
        _age(q, h, clock);
        q.head = h;
        return _word(q);
    }

    /// @dev Room for a newer entry in the head. Each new one clears two mature ones away, if there are two: so mature ones
    ///      cannot pile up while nobody takes them.
    function _age(Queue storage q, Head memory h, uint256 clock) private {
        for (uint256 i = 0; i < 2 && h.count != 0; ++i) {
            Entry memory e = q.entries[h.first];
            if (secondOf(e.hour) > clock) break;
            h.mature += e.amount;
            _drop(q, h);
        }
        if (h.count == 0 && secondOf(h.hour) <= clock) {
            h.mature += h.newest;
        } else {
            q.entries[_after(h.first, h.count)] = Entry(h.newest, h.hour);
            h.count += 1;
        }
        h.newest = 0;
    }

    /// @dev The oldest entry goes.
    function _drop(Queue storage q, Head memory h) private {
        delete q.entries[h.first];
        (h.first, h.count) = (_after(h.first, 1), h.count - 1);
    }

    function _after(uint16 number, uint16 steps) private pure returns (uint16) {
        unchecked {
            return number + steps;
        }
    }
}
