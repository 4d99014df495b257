// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Check} from "./Vm.sol";
import {MaturityQueue} from "../src/libraries/MaturityQueue.sol";

/// @title `push` as it reads in plain terms: every member of the head by its name
library PlainQueue {
    using SafeCast for uint256;

    function push(MaturityQueue.Queue storage q, uint256 amount, uint256 clock, uint256 delay) internal {
        MaturityQueue.Head memory h = q.head;
        uint256 hour = Math.ceilDiv(clock + delay, 1 hours);
        if (h.newest != 0 && hour < h.hour) hour = h.hour;
        if (amount == 0) return;
        if (h.newest != 0 && hour != h.hour) age(q, h, clock);
        h.newest += amount.toUint96();
        h.hour = hour.toUint32();
        q.head = h;
    }

    function age(MaturityQueue.Queue storage q, MaturityQueue.Head memory h, uint256 clock) private {
        for (uint256 i = 0; i < 2 && h.count != 0; ++i) {
            MaturityQueue.Entry memory e = q.entries[h.first];
            if (uint256(e.hour) * 1 hours > clock) break;
            h.mature += e.amount;
            delete q.entries[h.first];
            unchecked {
                (h.first, h.count) = (h.first + 1, h.count - 1);
            }
        }
        if (h.count == 0 && uint256(h.hour) * 1 hours <= clock) {
            h.mature += h.newest;
        } else {
            unchecked {
                q.entries[h.first + h.count] = MaturityQueue.Entry(h.newest, h.hour);
            }
            h.count += 1;
        }
        h.newest = 0;
    }
}

/// @title Both ways to add, from any state
contract PlainQueueTest is Check {
    using MaturityQueue for MaturityQueue.Queue;

    MaturityQueue.Queue private q;
    MaturityQueue.Queue private plain;

    function fast(uint256 amount, uint256 clock, uint256 delay) external {
        q.push(amount, clock, delay);
    }

    function slow(uint256 amount, uint256 clock, uint256 delay) external {
        PlainQueue.push(plain, amount, clock, delay);
    }

    function agrees() private view {
        same(keccak256(abi.encode(q.head)), keccak256(abi.encode(plain.head)), "the head");
        for (uint256 i = 0; i < 2 ** 16; i += i == 40 ? 2 ** 16 - 80 : 1) {
            same(q.entries[i].amount, plain.entries[i].amount, "an entry's wei");
            same(q.entries[i].hour, plain.entries[i].hour, "an entry's hour");
        }
    }

    /// @dev Heads that no queue ever has are among them; entries around the numbers' end too.
    function test_a_word_is_what_a_struct_is(
        MaturityQueue.Head memory h,
        uint96[3] memory waits,
        uint256[3] memory adds
    ) public {
        (h.count, h.hour) = (h.count % 4, h.hour % 2 ** 31);
        if (h.count != 0) h.first = h.first % 8 < 4 ? type(uint16).max - h.first % 4 : h.first % 4;
        (q.head, plain.head) = (h, h);
        for (uint16 i = 0; i < h.count; ++i) {
            uint16 number;
            unchecked {
                number = h.first + i;
            }
            MaturityQueue.Entry memory e = MaturityQueue.Entry(waits[i], uint32(uint256(h.hour) * (i + 1) / 5));
            (q.entries[number], plain.entries[number]) = (e, e);
        }
        for (uint256 i = 0; i < 3; ++i) {
            uint256 r = uint256(keccak256(abi.encode(adds[i])));
            uint256 amount = r % 8 == 0 ? adds[i] : (r >> 8) % 2 ** (8 * (r % 12));
            // From long before the newest entry to long after it, often in its hour.
            uint256 clock = uint256(h.hour) * 1 hours + (r >> 136) % 3 hours;
            clock = clock < 1 hours ? 0 : clock - 1 hours;
            uint256 delay = (r >> 200) % 2 == 0 ? 0 : (r >> 208) % 3 days;
            (bool want,) = address(this).call(abi.encodeCall(this.slow, (amount, clock, delay)));
            (bool have,) = address(this).call(abi.encodeCall(this.fast, (amount, clock, delay)));
            that(have == want, "refused alike");
            agrees();
        }
    }

    function test_the_hour_is_said_before_it_is_pushed(uint40 clock, uint32 delay) public {
        same(q.push(1, clock, delay), MaturityQueue.secondOf(MaturityQueue.hourOf(clock, delay)), "of an empty queue");
    }
}

/// @title A queue against a plain list of everything that was ever added
contract MaturityQueueTest is Check {
    using MaturityQueue for MaturityQueue.Queue;

    struct Added {
        uint256 amount;
        uint256 maturesAt;
    }

    MaturityQueue.Queue private q;
    Added[] private added; // as they were added; what was taken is taken off the first ones
    uint256 private clock = 1_000_000;

    function push(uint256 amount, uint256 delay) private {
        uint256 when = q.push(amount, clock, delay);
        if (amount != 0) added.push(Added(amount, when));
        that(when >= clock + delay, "never before the delay");
        that(when % 1 hours == 0, "at a full hour");
    }

    /// @dev Takes out of the list too, the first in it first.
    function take(uint256 amount) private {
        q.take(amount);
        for (uint256 i = 0; i < added.length && amount != 0; ++i) {
            uint256 part = amount < added[i].amount ? amount : added[i].amount;
            added[i].amount -= part;
            amount -= part;
        }
    }

    function takeOutside(uint256 amount) external {
        q.take(amount);
    }

    function agrees() private view {
        (uint256 sum, uint256 mature, uint256 next) = (0, 0, 0);
        for (uint256 i = 0; i < added.length; ++i) {
            if (added[i].amount == 0) continue;
            sum += added[i].amount;
            if (added[i].maturesAt <= clock) mature += added[i].amount;
            else if (next == 0) next = added[i].maturesAt;
        }
        (uint256 due, uint64 nextAt) = q.due(clock);
        same(q.total(), sum, "all that was added and not taken");
        same(due, mature, "what is mature");
        same(nextAt, next, "when more is");
    }

    function test_it_holds_what_a_plain_list_holds(bytes32 moves, uint8 steps) public {
        for (uint256 s = 0; s < steps % 48; ++s) {
            uint256 r = uint256(keccak256(abi.encode(moves, s)));
            if (r & 3 == 0) take((r >> 8) % (q.total() + 1));
            else push((r >> 8) % 10 ether, (r >> 128) % 3 days);
            if (r & 4 == 0) clock += (r >> 16) % 1 days;
            agrees();
        }
    }

    /// @dev However often and for whomever: the entries are the hours of one delay, and one of what is mature.
    function test_nobody_can_make_it_long(bytes32 moves, uint24 delay, uint8 idle) public {
        uint256 d = bound(delay, 0, 12 hours);
        for (uint256 s = 0; s < 100; ++s) {
            push(1, d);
            clock += uint256(keccak256(abi.encode(moves, s))) % (s % 16 == idle % 16 ? 30 days : 50 minutes);
            that(q.length() <= (d + 1 hours - 1) / 1 hours + 2, "bounded by the delay");
        }
        agrees();
    }

    function test_what_is_in_it_cannot_be_delayed(uint128 mine, uint128 others, uint24 delay, uint16 later, uint8 many)
        public
    {
        uint256 amount = bound(mine, 1, type(uint88).max);
        uint64 when = q.push(amount, clock, delay);
        for (uint256 i = 0; i < many % 16; ++i) {
            clock += later % 600;
            q.push(others % type(uint88).max, clock, delay);
        }
        clock = clock < when ? when : clock;
        (uint256 due,) = q.due(clock);
        that(due >= amount, "mature when it was said");
    }

    function test_a_shorter_delay_does_not_overtake(uint24 long, uint24 short) public {
        uint64 first = q.push(1, clock, bound(long, 1 days, 30 days));
        uint64 second = q.push(1, clock, bound(short, 0, 1 days));
        same(second, first, "after what is in it");
        same(q.length(), 1, "and together with it");
    }

    function test_more_than_it_holds_cannot_be_taken(uint96 amount, uint96 more) public {
        q.push(amount, clock, 0);
        uint256 want = uint256(amount) + 1 + more;
        vm.expectRevert(abi.encodeWithSelector(MaturityQueue.QueueTooSmall.selector, amount, want));
        this.takeOutside(want);
    }

    function test_zero_changes_nothing(uint24 delay) public {
        q.push(0, clock, delay);
        q.take(0);
        same(q.length(), 0, "no entry");
        agrees();
    }
}
