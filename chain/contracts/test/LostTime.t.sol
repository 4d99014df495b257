// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Receipt} from "../src/libraries/Types.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {UnpostedBase} from "./Unposted.t.sol";

/// @title What was signed while the pool judged, and has expired when it judges again, cannot be anchored: that is nobody's fault
contract LostTimeTest is UnpostedBase {
    /// @dev `maxPause`: for so long a Request outlives the promise of its receipt (docs/adr/108).
    uint256 private constant LIVES = 1 days;

    function stands(uint256 time) private {
        quits();
        vm.warp(block.timestamp + time);
        joins();
    }

    function ended(bytes32 subject, bool excused) private {
        // A pause may have come between wall time and the clock.
        (uint256 clock, uint256 deadline) = (guardian.clock(), anchor.demand(subject).deadline);
        if (clock <= deadline) vm.warp(block.timestamp + deadline + 1 - clock);
        anchor.expire(subject);
        isState(subject, excused ? IReceiptAnchor.State.EXCUSED : IReceiptAnchor.State.EXPIRED);
        same(vault.stakeOf(operator), excused ? 100 ether : 90 ether, "slashed");
        same(vault.obligedOf(operator), 0, "nothing is owed any more");
        balanced();
    }

    function subjectOf(Receipt memory r) private view returns (bytes32) {
        return anchor.anchorSubject(anchor.receiptId(r));
    }

    /// @dev One verifier of a pool at its minimum leaves right after receipts were signed, and comes back as it likes.
    function test_a_stop_before_the_demand_is_an_excuse(uint16 when, uint24 stopped, bool atEdge) public {
        Receipt memory r = receipt(1);
        vm.warp(block.timestamp + bound(when, 0, 600));
        uint256 time = atEdge ? LIVES + when % 2 : bound(stopped, 601, 20 days);
        stands(time);
        anchorDemanded(r);
        ended(subjectOf(r), time > LIVES);
    }

    /// @dev Or it comes back for one transaction, to demand.
    function test_stops_before_and_after_the_demand_count_together(uint24 first, uint24 second) public {
        Receipt memory r = receipt(1);
        uint256 one = bound(first, 601, 2 days);
        stands(one);
        anchorDemanded(r);
        uint256 two = bound(second, 0, 2 days);
        stands(two);
        ended(subjectOf(r), one + two > LIVES);
    }

    /// @dev A pause is lost time as well, also one that runs while the pool stands still, in which its seconds do not count.
    function test_pauses_count_with_stops(uint24 before, uint24 pause_, uint24 after_) public {
        Receipt memory r = receipt(1);
        uint256 pause = bound(pause_, 1, LIVES);
        uint256 stop = bound(before, 601, LIVES / 2);
        quits();
        vm.warp(block.timestamp + stop);
        paused(uint64(pause));
        uint256 more = bound(after_, 0, LIVES / 2);
        vm.warp(block.timestamp + pause + more);
        joins();
        same(registry.stoppedSeconds(POOL), idle() + stop + more, "by the clock");
        anchorDemanded(r);
        ended(subjectOf(r), pause + stop + more > LIVES);
    }

    /// @dev Before five verifiers had joined.
    function idle() private view returns (uint256) {
        return registry.stoppedSeconds(POOL) - registry.stoppedInAll();
    }

    /// @dev Without a stop the guardian excuses nobody: a Request outlives every pause.
    function test_a_pause_alone_is_no_excuse(uint24 time) public {
        (, bytes32 subject) = demanded();
        paused(uint64(bound(time, 1, LIVES)));
        vm.warp(guardian.pausedUntil());
        ended(subject, false);
    }

    /// @dev What the operator signed as the time of its receipt brings it no stop that ended before it could have had it to post.
    function test_a_time_long_ago_is_no_excuse(uint24 stopped, uint64 back, uint16 rest) public {
        stands(bound(stopped, LIVES, 20 days));
        vm.warp(block.timestamp + 1 hours + rest);
        Receipt memory r = receipt(1);
        r.anchorBy = uint64(block.timestamp) - 1;
        r.issuedAt = uint64(bound(back, 0, block.timestamp));
        anchorDemanded(r);
        ended(subjectOf(r), false);
    }

    /// @dev Nor is one that has not come; and it takes nothing from who was stopped.
    function test_a_time_that_has_not_come_changes_nothing(uint64 ahead, uint24 stopped) public {
        Receipt memory r = receipt(1);
        r.issuedAt = uint64(bound(ahead, r.anchorBy, type(uint64).max));
        vm.warp(uint256(r.anchorBy));
        uint256 time = bound(stopped, 1, 20 days);
        stands(time);
        anchorDemanded(r);
        ended(subjectOf(r), time > LIVES);
    }

    /// @dev Until the deadline it can still be answered, by an operator whose Request lives longer than it must.
    function test_who_will_be_excused_can_answer(uint24 stopped) public {
        Receipt memory r = receipt(1);
        stands(bound(stopped, LIVES + 1, 20 days));
        anchorDemanded(r);
        bytes32 subject = subjectOf(r);
        vm.expectPartialRevert(IReceiptAnchor.TooEarly.selector);
        anchor.expire(subject);
        uint64 batchId = anchored(r);
        bytes memory sig = signature(r);
        anchor.answerAnchor(r, sig, batchId, none());
        isState(subject, IReceiptAnchor.State.ANSWERED);
    }

    /// @dev Nobody can post any more, whenever that came about and whether anything stood still: it ends at once and for good.
    function test_a_compromised_key_excuses_whenever_it_happens(uint24 when, bool drained) public {
        (, bytes32 subject) = demanded();
        if (drained) putInForce(NEXT);
        vm.warp(block.timestamp + when);
        epochs.compromise(EPOCH);
        anchor.expire(subject);
        isState(subject, IReceiptAnchor.State.EXCUSED);
        same(vault.stakeOf(operator), 100 ether, "nothing was slashed");
        same(ledger.creditOf(demander), BOND, "the bond and no share");
        vm.warp(block.timestamp + 2 hours);
        vm.expectRevert(notDemanded(subject, IReceiptAnchor.State.EXCUSED));
        anchor.expire(subject);
        balanced();
    }

    function shuts(bytes32 item, uint256 time) private {
        registry.close(item);
        vm.warp(block.timestamp + time);
        registry.activate(item);
    }

    /// @dev Closed after the signature and opened again before the demand, environment or model: as a pool that stands still.
    function test_what_was_closed_before_the_demand_is_an_excuse(uint16 when, uint24 closed_, bool model, bool atEdge)
        public
    {
        Receipt memory r = receipt(1);
        vm.warp(block.timestamp + bound(when, 0, 600));
        uint256 time = atEdge ? LIVES + when % 2 : bound(closed_, 601, 20 days);
        shuts(model ? MODEL : ENVIRONMENT, time);
        anchorDemanded(r);
        ended(subjectOf(r), time > LIVES);
    }

    /// @dev One after the other, in any order: what was lost is lost by all three together.
    function test_closures_and_stops_count_together(uint24 first, uint24 second, uint24 third, uint8 order) public {
        Receipt memory r = receipt(1);
        uint256[3] memory times = [bound(first, 601, 1 days), bound(second, 0, 1 days), bound(third, 0, 1 days)];
        for (uint256 i = 0; i < 3; ++i) {
            uint256 what = (i + order) % 3;
            if (what == 0) stands(times[i]);
            else shuts(what == 1 ? ENVIRONMENT : MODEL, times[i]);
            // Or opened for one transaction, to demand.
            if (i == order % 2) anchorDemanded(r);
        }
        ended(subjectOf(r), times[0] + times[1] + times[2] > LIVES);
    }

    /// @dev Nor is a closure that ended before there was a receipt, by whatever time its operator signed.
    function test_a_closure_before_the_signature_is_no_excuse(uint24 closed_, uint64 back, uint16 rest, bool model)
        public
    {
        shuts(model ? MODEL : ENVIRONMENT, bound(closed_, LIVES, 20 days));
        vm.warp(block.timestamp + 1 hours + rest);
        Receipt memory r = receipt(1);
        r.anchorBy = uint64(block.timestamp) - 1;
        r.issuedAt = uint64(bound(back, 0, block.timestamp));
        anchorDemanded(r);
        ended(subjectOf(r), false);
    }

    /// @dev Who signs for what was never open has itself to blame: nobody was told that it can be used.
    function test_what_was_never_open_is_no_lost_time(bool model, uint24 wait) public {
        bytes32 next = keccak256("another item");
        registry.propose(next, model ? bytes32(0) : POOL, "vectors", "");
        Receipt memory r = receipt(1);
        if (model) r.modelId = next;
        else r.environment = next;
        (uint64 then, uint64 zero) = (uint64(block.timestamp), registry.lostUntil(r.environment, r.modelId, r.issuedAt));
        for (uint256 i = 0; i < 5; ++i) {
            vm.prank(verifier(i));
            registry.certify(next, "vectors");
        }
        vm.warp(block.timestamp + bound(wait, LIVES + 1, 20 days));
        registry.activate(next);
        same(registry.lostUntil(r.environment, r.modelId, then), zero, "before");
        same(registry.lostUntil(r.environment, r.modelId, uint64(block.timestamp)), zero, "nothing");
        anchorDemanded(r);
        ended(subjectOf(r), false);
    }

    /// @dev By the protocol clock, so that a pause in the middle counts once; of every moment, also while it is closed and of a moment's closure.
    function test_closed_time_is_known_of_every_moment(uint16[3] memory spans, uint16 pause, uint8 opened, bool model)
        public
    {
        uint256 start = block.timestamp;
        uint256 lost = registry.lostUntil(ENVIRONMENT, MODEL, uint64(start));
        bytes32 item = model ? MODEL : ENVIRONMENT;
        for (uint256 i = 0; i < opened % 3; ++i) {
            shuts(item, 0);
        }
        vm.warp(start + spans[0]);
        registry.close(item);
        vm.warp(start + spans[0] + spans[1]);
        uint256 stopped = bound(pause, 1, 1 days);
        paused(uint64(stopped));
        vm.warp(block.timestamp + stopped + spans[2]);
        same(registry.lostUntil(ENVIRONMENT, MODEL, uint64(start)), lost, "at the beginning");
        same(registry.lostUntil(ENVIRONMENT, MODEL, uint64(start + spans[0])), lost, "when it closed");
        uint256 all = lost + spans[1] + stopped + spans[2];
        same(
            registry.lostUntil(ENVIRONMENT, MODEL, uint64(start + spans[0] + spans[1])),
            lost + spans[1],
            "in the middle"
        );
        same(registry.lostUntil(ENVIRONMENT, MODEL, uint64(block.timestamp)), all, "now");
        registry.activate(item);
        vm.warp(block.timestamp + 1 days);
        same(registry.lostUntil(ENVIRONMENT, MODEL, uint64(block.timestamp)), all, "open again");
    }

    /// @dev A pool that stops and an environment that is closed, in any order: a second of both counts once, of a model and them twice.
    function test_what_stands_still_together_counts_once_but_for_a_model(uint16[8] memory spans, uint24 turns) public {
        bool[3] memory still;
        bytes32[3] memory items = [bytes32(0), ENVIRONMENT, MODEL];
        uint256 want = registry.lostUntil(ENVIRONMENT, MODEL, uint64(block.timestamp));
        for (uint256 i = 0; i < spans.length; ++i) {
            uint256 which = (turns >> (3 * i) & 7) % 3;
            still[which] = !still[which];
            if (which == 0) still[0] ? quits() : joins();
            else still[which] ? registry.close(items[which]) : registry.activate(items[which]);
            uint256 span = spans[i];
            vm.warp(block.timestamp + span);
            want += (still[0] || still[1] ? span : 0) + (still[2] ? span : 0);
            same(registry.lostUntil(ENVIRONMENT, MODEL, uint64(block.timestamp)), want, "lost");
        }
    }

    /// @dev Every moment of the past, of a pool that stops and goes on and a clock that a pause stops once, beside a count of seconds.
    function test_lost_time_is_known_of_every_moment(uint16[6] memory spans, uint16 pause, uint8 where, uint32 asked)
        public
    {
        uint256 start = block.timestamp;
        uint256 lost = registry.lostUntil(ENVIRONMENT, MODEL, uint64(start));
        uint256 want = lost;
        uint256 moment = start + asked % 500_000;
        for (uint256 i = 0; i < spans.length; ++i) {
            if (i % 2 == 0) quits();
            else joins();
            uint256 half = uint256(spans[i]) / 2;
            (want, lost) = advance(half, i % 2 == 0, moment, want, lost);
            if (i == where % 6) {
                paused(uint64(bound(pause, 1, 1 days)));
                (want, lost) = advance(bound(pause, 1, 1 days), true, moment, want, lost);
            }
            (want, lost) = advance(spans[i] - half, i % 2 == 0, moment, want, lost);
        }
        same(registry.lostUntil(ENVIRONMENT, MODEL, uint64(block.timestamp)), lost, "in all");
        if (moment <= block.timestamp) {
            same(registry.lostUntil(ENVIRONMENT, MODEL, uint64(moment)), want, "until then");
        }
    }

    /// @dev `want` is what was lost at `moment`, if time has come as far.
    function advance(uint256 time, bool idles, uint256 moment, uint256 want, uint256 lost)
        private
        returns (uint256, uint256)
    {
        uint256 from = block.timestamp;
        vm.warp(from + time);
        if (moment >= from && moment <= from + time) want = lost + (idles ? moment - from : 0);
        return (want, idles ? lost + time : lost);
    }
}
