// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Check} from "./Vm.sol";
import {MaturityQueue} from "../src/libraries/MaturityQueue.sol";

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
