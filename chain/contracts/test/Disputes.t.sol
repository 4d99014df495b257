// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AuditResult, Hashes, Outcome, Phase, Receipt, Verdict, Vote} from "../src/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IRandomness} from "../src/interfaces/IRandomness.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {ILens} from "../src/interfaces/ILens.sol";
import {Network} from "./Network.sol";

/// @title The steps of a dispute, and everyone who tries a wrong one
contract DisputesTest is Network {
    function ready(uint64 salt) private returns (bytes32 id, IDisputes.Member memory m) {
        vm.roll(block.number + salt % 1000);
        id = opened(challenger, 1);
        drawn(id);
        m = members(id)[0];
    }

    /// @dev A dispute whose commits are over; every member committed to `equal()`.
    function committedAll(uint64 salt) private returns (bytes32 id, IDisputes.Member memory m) {
        (id, m) = ready(salt);
        IDisputes.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            committed(id, list[i], equal());
        }
    }

    // --- open ---

    function test_a_dispute_can_be_opened_to_the_last_second_of_the_window(uint64 wait) public {
        Receipt memory r = receipt(1);
        uint64 batchId = anchored(r);
        uint256 end = block.timestamp + 1 hours;
        vm.warp(bound(wait, block.timestamp, end));
        bytes32 id = openedAs(challenger, r, batchId);
        same(id, disputes.disputeId(anchor.receiptId(r)), "id");
        same(vault.lockedOf(operator), 10 ether, "lock");
        same(ledger.potOf(id), params.requiredBond(), "pot");
        same(lens.disputeView(id).seedBlock, block.number + 3, "seed block");
    }

    function test_no_dispute_after_the_window(uint32 late) public {
        Receipt memory r = receipt(1);
        uint64 batchId = anchored(r);
        uint256 end = block.timestamp + 1 hours;
        vm.warp(end + 1 + late);
        bytes memory sig = signature(r);
        uint256 bond = params.requiredBond();
        vm.deal(address(this), bond);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.WindowClosed.selector, block.timestamp, end));
        disputes.open{value: bond}(r, sig, batchId, none());
    }

    function test_the_bond_is_exact(uint96 bond) public {
        vm.assume(bond != params.requiredBond());
        Receipt memory r = receipt(1);
        uint64 batchId = anchored(r);
        bytes memory sig = signature(r);
        vm.deal(address(this), bond);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.BondMismatch.selector, bond, 46 * 0.01 ether + 0.05 ether));
        disputes.open{value: bond}(r, sig, batchId, none());
    }

    function test_a_receipt_is_disputed_once(uint64 salt, address second) public {
        (bytes32 id,) = ready(salt);
        Receipt memory r = receipt(1);
        bytes memory sig = signature(r);
        uint256 bond = params.requiredBond();
        vm.deal(second, bond);
        vm.prank(second);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.AlreadyDisputed.selector, anchor.receiptId(r), id));
        disputes.open{value: bond}(r, sig, 0, none());
    }

    /// @dev Every verifier whose bit is not set unbonds all its stake, one block before the receipt is questioned.
    function emptied(uint8 stays) private {
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            if (stays >> i & 1 == 1) continue;
            uint256 all = vault.stakeOf(verifier(i));
            vm.prank(verifier(i));
            vault.requestUnbond(all);
        }
        vm.roll(block.number + 1);
    }

    function test_nobody_opens_a_dispute_that_only_the_opener_could_judge(uint8 stays, uint8 who) public {
        Receipt memory r = receipt(1);
        uint64 batchId = anchored(r);
        if (stays % 2 == 0) stays = uint8(1 << (who % VERIFIERS)); // the opener alone, in half of the runs
        emptied(stays);
        address opener = verifier(who % VERIFIERS);
        uint256 others = stays % 2 ** VERIFIERS & ~(1 << (who % VERIFIERS));
        bytes memory sig = signature(r);
        uint256 bond = params.requiredBond();
        vm.deal(opener, bond);
        if (others == 0) vm.expectRevert(abi.encodeWithSelector(IDisputes.NobodyToJudge.selector, opener));
        vm.prank(opener);
        disputes.open{value: bond}(r, sig, batchId, none());
        if (others == 0) {
            same(uint8(disputes.phaseOf(disputes.disputeId(anchor.receiptId(r)))), uint8(Phase.NONE), "no dispute");
            vm.warp(block.timestamp + 1 hours + 1);
            that(anchor.isFinal(r, sig, batchId, none()), "the receipt stands");
        } else {
            drawn(disputes.disputeId(anchor.receiptId(r)));
        }
    }

    // --- draw ---

    function test_the_draw_waits_for_its_block(uint8 wait) public {
        bytes32 id = opened(challenger, 1);
        uint256 seedBlock = lens.disputeView(id).seedBlock;
        vm.roll(bound(wait, block.number, seedBlock));
        vm.expectPartialRevert(IRandomness.SeedTooEarly.selector);
        disputes.draw(id);
    }

    function test_a_draw_seats_exactly_the_round_and_locks_for_each_seat(uint64 salt) public {
        (bytes32 id,) = ready(salt);
        IDisputes.Member[] memory list = members(id);
        uint256 all;
        for (uint256 i = 0; i < list.length; ++i) {
            same(all & list[i].seatMask, 0, "a seat has one holder");
            all |= list[i].seatMask;
            same(vault.lockedOf(list[i].voter), 0.1 ether * list[i].seats, "lock");
        }
        same(all, 2 ** 15 - 1, "seats");
    }

    function test_the_openers_own_account_is_not_drawn(uint8 who, uint64 salt) public {
        address opener = verifier(who % VERIFIERS);
        vm.roll(block.number + salt % 1000);
        bytes32 id = opened(opener, 1);
        drawn(id);
        IDisputes.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            that(list[i].voter != opener, "opener drawn");
        }
    }

    function test_stake_that_came_after_the_opening_has_no_weight(uint96 amount, uint64 salt) public {
        vm.roll(block.number + salt % 1000);
        bytes32 id = opened(challenger, 1);
        address late = vm.addr(0x1A7E);
        stake(late, bound(amount, 5 ether, type(uint96).max));
        vm.prank(late);
        registry.registerVerifier();
        drawn(id);
        IDisputes.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            that(list[i].voter != late, "late stake drawn");
        }
    }

    function test_a_lost_seed_is_named_anew_and_after_three_times_the_dispute_draws(uint16 late) public {
        bytes32 id = opened(challenger, 1);
        uint256 bond = params.requiredBond();
        for (uint256 i = 0; i < 4; ++i) {
            uint256 seedBlock = lens.disputeView(id).seedBlock;
            vm.roll(seedBlock + 10);
            vm.expectPartialRevert(IDisputes.SeedReadable.selector);
            disputes.rearm(id);
            vm.roll(seedBlock + 257 + late);
            vm.expectPartialRevert(IRandomness.SeedExpired.selector);
            disputes.draw(id);
            disputes.rearm(id);
        }
        same(uint8(disputes.dispute(id).verdict), uint8(Verdict.DRAW), "verdict");
        same(ledger.creditOf(challenger), bond, "bond back");
        nothingIsBound(id);
        moneyBalances();
    }

    // --- commit ---

    function test_a_stranger_cannot_vote(uint64 salt, address stranger, bytes32 commitment) public {
        (bytes32 id, IDisputes.Member memory m) = ready(salt);
        vm.assume(keyOf[stranger] == 0 || stranger == operator);
        vm.prank(stranger);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.NotMember.selector, id, uint16(1), stranger));
        disputes.commit(id, m.seatMask, commitment);
    }

    function test_a_commitment_is_final(uint64 salt, bytes32 first, bytes32 second) public {
        vm.assume(first != 0);
        (bytes32 id, IDisputes.Member memory m) = ready(salt);
        vm.prank(m.voter);
        disputes.commit(id, m.seatMask, first);
        vm.prank(m.voter);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.AlreadyCommitted.selector, id, uint16(1), m.voter));
        disputes.commit(id, m.seatMask, second);
    }

    function test_a_commitment_names_all_its_seats_and_no_other(uint64 salt, uint256 mask) public {
        (bytes32 id, IDisputes.Member memory m) = ready(salt);
        vm.assume(mask != m.seatMask);
        vm.prank(m.voter);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.WrongSeatMask.selector, mask, m.seatMask));
        disputes.commit(id, mask, "commitment");
    }

    function test_no_commitment_after_its_time(uint64 salt, uint32 late) public {
        (bytes32 id, IDisputes.Member memory m) = ready(salt);
        uint256 end = lens.disputeView(id).commitEnd;
        vm.warp(end + 1 + late);
        vm.prank(m.voter);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.TooLate.selector, block.timestamp, end));
        disputes.commit(id, m.seatMask, "commitment");
    }

    function test_nothing_can_be_committed_before_the_draw(address who, bytes32 commitment) public {
        bytes32 id = opened(challenger, 1);
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.WrongPhase.selector, id, Phase.SEED, Phase.COMMIT));
        disputes.commit(id, 1, commitment);
    }

    // --- reveal ---

    function test_reveals_begin_when_the_last_seat_has_committed(uint64 salt) public {
        (bytes32 id, IDisputes.Member memory m) = ready(salt);
        IDisputes.Member[] memory list = members(id);
        vm.assume(list.length > 1);
        committed(id, m, equal());
        Vote memory v = voteOf(id, m, equal());
        vm.prank(m.voter);
        vm.expectPartialRevert(IDisputes.TooEarly.selector);
        disputes.reveal(v, "quote");
        for (uint256 i = 1; i < list.length; ++i) {
            committed(id, list[i], equal());
        }
        same(uint8(disputes.phaseOf(id)), uint8(Phase.REVEAL), "phase");
        revealed(id, m, equal());
        that(members(id)[0].revealed, "revealed");
    }

    function test_no_reveal_after_its_time(uint64 salt, uint32 late) public {
        (bytes32 id, IDisputes.Member memory m) = committedAll(salt);
        uint256 end = lens.disputeView(id).revealEnd;
        vm.warp(end + 1 + late);
        Vote memory v = voteOf(id, m, equal());
        vm.prank(m.voter);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.TooLate.selector, block.timestamp, end));
        disputes.reveal(v, "quote");
    }

    function test_a_copied_commitment_cannot_be_opened(uint64 salt) public {
        (bytes32 id, IDisputes.Member memory m) = ready(salt);
        IDisputes.Member[] memory list = members(id);
        vm.assume(list.length > 1);
        committed(id, m, equal());
        IDisputes.Member memory thief = list[1];
        bytes32 copied = members(id)[0].commitment;
        vm.prank(thief.voter);
        disputes.commit(id, thief.seatMask, copied);
        vm.warp(lens.disputeView(id).commitEnd + 1);
        Vote memory v = voteOf(id, m, equal());
        revealed(id, m, equal());
        vm.prank(thief.voter);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.ForeignVote.selector, id, uint16(1), m.voter));
        disputes.reveal(v, "quote");
        (v.voter, v.seatMask) = (thief.voter, thief.seatMask);
        vm.prank(thief.voter);
        vm.expectPartialRevert(IDisputes.BadReveal.selector);
        disputes.reveal(v, "quote");
    }

    function test_a_vote_is_opened_once_and_only_as_committed(uint64 salt, bytes32 tokens, uint8 field) public {
        vm.assume(tokens != TOKENS);
        (bytes32 id, IDisputes.Member memory m) = committedAll(salt);
        Vote memory v = voteOf(id, m, equal());
        if (field % 4 == 0) v.tokensHash = tokens;
        else if (field % 4 == 1) v.salt = ~v.salt;
        else if (field % 4 == 2) v.roundDigest = ~v.roundDigest;
        else v.traceRoot = ~v.traceRoot;
        vm.prank(m.voter);
        vm.expectPartialRevert(IDisputes.BadReveal.selector);
        disputes.reveal(v, "quote");
        revealed(id, m, equal());
        v = voteOf(id, m, equal());
        vm.prank(m.voter);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.AlreadyRevealed.selector, id, uint16(1), m.voter));
        disputes.reveal(v, "quote");
    }

    function test_a_reveal_publishes_the_quote_it_committed_to(uint64 salt, bytes calldata quote) public {
        vm.assume(keccak256(quote) != keccak256("quote"));
        (bytes32 id, IDisputes.Member memory m) = committedAll(salt);
        Vote memory v = voteOf(id, m, equal());
        vm.prank(m.voter);
        vm.expectPartialRevert(IDisputes.BadQuote.selector);
        disputes.reveal(v, quote);
    }

    function test_only_well_formed_votes_open(uint64 salt, uint8 outcome, uint8 code, bytes32 tokens) public {
        (bytes32 id, IDisputes.Member memory m) = ready(salt);
        bool executed = outcome == 1 && code == 0;
        bool coded = (outcome == 2 || outcome == 5) && tokens == 0;
        bool plain = (outcome == 3 || outcome == 4) && tokens == 0 && code == 0;
        Vote memory v = voteOf(id, m, equal());
        (v.outcome, v.code, v.tokensHash, v.traceRoot, v.roundDigest) = (outcome, code, tokens, 0, 0);
        bytes32 commitment = disputes.hashVote(v);
        vm.prank(m.voter);
        disputes.commit(id, m.seatMask, commitment);
        vm.warp(lens.disputeView(id).commitEnd + 1);
        if (!executed && !coded && !plain) {
            vm.expectRevert(abi.encodeWithSelector(IDisputes.MalformedVote.selector, outcome, code));
        }
        vm.prank(m.voter);
        disputes.reveal(v, "quote");
    }

    function test_a_vote_for_another_round_does_not_open(uint64 salt, uint16 round) public {
        vm.assume(round != 1);
        (bytes32 id, IDisputes.Member memory m) = ready(salt);
        Vote memory v = voteOf(id, m, equal());
        v.round = round;
        bytes32 commitment = disputes.hashVote(v);
        vm.prank(m.voter);
        disputes.commit(id, m.seatMask, commitment);
        vm.warp(lens.disputeView(id).commitEnd + 1);
        vm.prank(m.voter);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.ForeignVote.selector, id, round, m.voter));
        disputes.reveal(v, "quote");
    }

    // --- settle ---

    function test_nobody_settles_before_the_votes_are_in(uint64 salt, address who) public {
        (bytes32 id, IDisputes.Member memory m) = ready(salt);
        vm.prank(who);
        vm.expectPartialRevert(IDisputes.TooEarly.selector);
        disputes.settle(id);
        vm.assume(members(id).length > 1);
        IDisputes.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            committed(id, list[i], equal());
        }
        revealed(id, m, equal());
        vm.expectPartialRevert(IDisputes.TooEarly.selector);
        disputes.settle(id);
        vm.warp(lens.disputeView(id).revealEnd + 1);
        disputes.settle(id);
    }

    function test_a_verdict_is_final(uint64 salt, uint8 step) public {
        (bytes32 id, IDisputes.Member memory m) = ready(salt);
        unanimous(id, equal());
        Vote memory v = voteOf(id, m, equal());
        vm.expectPartialRevert(IDisputes.WrongPhase.selector);
        if (step % 5 == 0) disputes.draw(id);
        else if (step % 5 == 1) disputes.rearm(id);
        else if (step % 5 == 2) disputes.commit(id, m.seatMask, "x");
        else if (step % 5 == 3) disputes.reveal(v, "quote");
        else disputes.settle(id);
    }

    function test_the_lens_shows_the_round_as_it_is(uint64 salt, address who) public {
        (bytes32 id, IDisputes.Member memory m) = committedAll(salt);
        revealed(id, m, equal());
        ILens.Snapshot memory s = lens.snapshot(who, 0, 10);
        same(s.disputeCount, 1, "count");
        same(s.disputes.length, 1, "page");
        same(s.disputes[0].phase, uint8(Phase.REVEAL), "phase");
        same(s.disputes[0].members[0].outHash, Hashes.outHash(TOKENS, TRACE), "out hash");
        same(s.verifiers.length, VERIFIERS, "verifiers");
        same(s.activeEpoch, EPOCH, "epoch");
        same(lens.snapshot(who, 1, 10).disputes.length, 0, "past the end");
    }

    // --- audits ---

    function test_an_audit_is_posted_once_by_its_signed_verifier(AuditResult memory a, uint8 who, address relayer)
        public
    {
        a.verifier = verifier(who % VERIFIERS);
        a.result = uint8(bound(a.result, 1, 3));
        bytes memory sig = signed(keyOf[a.verifier], disputes.hashAudit(a));
        vm.prank(relayer);
        disputes.postAudit(a, sig);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.AlreadyAudited.selector, a.receiptId, a.verifier));
        disputes.postAudit(a, sig);
    }

    function test_an_audit_of_a_stranger_or_with_a_strangers_signature_is_refused(AuditResult memory a, uint128 key)
        public
    {
        uint256 stranger = bound(key, 1, type(uint128).max);
        vm.assume(stranger < VERIFIER_KEY || stranger >= VERIFIER_KEY + VERIFIERS);
        a.result = 2;
        a.verifier = vm.addr(stranger);
        bytes memory sig = signed(stranger, disputes.hashAudit(a));
        vm.expectRevert(abi.encodeWithSelector(IDisputes.NotVerifier.selector, a.verifier));
        disputes.postAudit(a, sig);
        a.verifier = verifier(0);
        sig = signed(stranger, disputes.hashAudit(a));
        vm.expectPartialRevert(IDisputes.BadSignature.selector);
        disputes.postAudit(a, sig);
    }
}
