// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AuditResult, ParamSet, Phase, Receipt, StructHashes, Verdict} from "../src/libraries/Types.sol";
import {IAudits} from "../src/interfaces/IAudits.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {Defaults} from "./Defaults.sol";
import {AnchorBase} from "./AnchorBase.sol";

/// @title Light audits: who may post, what is opened, who is paid
/// @dev Every verifier has 20 seats at least and the rate is 9,000, so each is drawn for everything.
contract AuditsTest is AnchorBase {
    uint256 private constant BOUNTY = 0.001 ether;
    uint256 private opensAt;

    struct Said {
        uint8 result;
        bytes32 tokens;
        bytes32 trace;
    }

    function setUp() public override {
        super.setUp();
        anchored(receipt(1));
        opensAt = guardian.clock() + 1 hours + 1;
        vm.roll(block.number + 3);
        audits.feed{value: 1 ether}();
    }

    function commitment(uint256 who, bytes32 id, Said memory s) private view returns (bytes32) {
        return audits.commitmentOf(id, verifier(who), s.tokens, s.trace, salt(who));
    }

    function salt(uint256 who) private pure returns (bytes32) {
        return keccak256(abi.encode("salt", who));
    }

    function resultOf(uint256 who, uint64 seq, Said memory s) private view returns (AuditResult memory a) {
        a.receiptId = anchor.receiptId(receiptOf(seq));
        a.verifier = verifier(who);
        a.result = s.result;
        a.commitment = commitment(who, a.receiptId, s);
        a.auditedAt = uint64(block.timestamp);
    }

    /// @dev As it was anchored: receipts name the time of their making.
    function receiptOf(uint64 seq) private pure returns (Receipt memory r) {
        return abi.decode(abi.encode(_at(seq)), (Receipt));
    }

    function _at(uint64 seq) private pure returns (Receipt memory r) {
        r.operator = vm.addr(OPERATOR_KEY);
        r.seq = seq;
        r.reqHash = keccak256(abi.encode("request", seq));
        r.tokensHash = TOKENS;
        r.outHash = StructHashes.outHash(TOKENS, TRACE);
        r.modelId = MODEL;
        r.environment = ENVIRONMENT;
        r.keyEpoch = EPOCH;
        r.envelopeHash = keccak256(abi.encode("envelope", seq));
        r.issuedAt = 1_800_000_000;
        r.anchorBy = 1_800_000_600;
        (r.mode, r.clientMode, r.chainId) = (2, 2, 31337);
    }

    function posts(uint256 who, uint64 seq, uint64 batchId, Said memory s) private {
        AuditResult memory a = resultOf(who, seq, s);
        audits.post(a, signed(VERIFIER_KEY + who, audits.hashAudit(a)), batchId);
    }

    function opens(uint256 who, uint64 seq, Said memory s) private {
        audits.open(anchor.receiptId(receiptOf(seq)), verifier(who), s.tokens, s.trace, salt(who));
    }

    function claims(uint256 who, uint64 seq) private {
        Receipt memory r = receiptOf(seq);
        audits.claim(r, signature(r), none(), verifier(who));
    }

    function refused(AuditResult memory a, bytes memory sig, uint64 batchId, bytes memory why) private {
        vm.expectRevert(why);
        audits.post(a, sig, batchId);
    }

    function matched() private pure returns (Said memory) {
        return Said(1, TOKENS, TRACE);
    }

    function pair(bytes4 selector, bytes32 id, address who) private pure returns (bytes memory) {
        return abi.encodeWithSelector(selector, id, who);
    }

    // --- the way of a bounty ---

    function test_two_that_found_the_same_are_paid_and_nobody_else(uint8 first, uint8 second, uint8 other, bool lies)
        public
    {
        (uint256 a, uint256 b) = (first % VERIFIERS, second % VERIFIERS);
        uint256 c = other % VERIFIERS;
        vm.assume(a != b && b != c && a != c);
        Said memory s = lies ? Said(2, TOKENS, keccak256("another trace")) : matched();
        Said memory apart = Said(2, keccak256("tokens"), keccak256("lonely"));
        posts(a, 1, 0, s);
        posts(b, 1, 0, s);
        posts(c, 1, 0, apart);
        vm.warp(opensAt);
        opens(a, 1, s);
        opens(c, 1, apart);
        bytes32 id = anchor.receiptId(receiptOf(1));
        Receipt memory r = receiptOf(1);
        bytes memory sig = signature(r);
        vm.expectRevert(
            abi.encodeWithSelector(IAudits.NobodyAgrees.selector, id, StructHashes.outHash(s.tokens, s.trace))
        );
        audits.claim(r, sig, none(), verifier(a));
        // Who has not opened has nothing to agree with.
        vm.expectRevert(abi.encodeWithSelector(IAudits.NobodyAgrees.selector, id, bytes32(0)));
        audits.claim(r, sig, none(), verifier(b));
        opens(b, 1, s);
        if (lies) bench.replace(id, StructHashes.outHash(s.tokens, s.trace));
        claims(a, 1);
        claims(b, 1);
        same(ledger.creditOf(verifier(a)), BOUNTY, "first");
        same(ledger.creditOf(verifier(b)), BOUNTY, "second");
        same(audits.agreeing(id, 0, StructHashes.outHash(s.tokens, s.trace)), 2, "agreeing");
        same(audits.pool(), 1 ether + FEE - 2 * BOUNTY, "pool");
        vm.expectPartialRevert(IAudits.NobodyAgrees.selector);
        audits.claim(r, sig, none(), verifier(c));
        vm.expectRevert(pair(IAudits.AlreadyPaid.selector, id, verifier(a)));
        audits.claim(r, sig, none(), verifier(a));
        balanced();
    }

    /// @dev Two accounts of one owner can agree on anything. The receipt, and a court that replaced it, are nobody's word.
    function test_what_no_court_put_in_the_place_of_the_receipt_is_not_paid(bytes32 junk, uint8 phase, uint8 verdict)
        public
    {
        bytes32 found = StructHashes.outHash(TOKENS, junk);
        vm.assume(junk != TRACE);
        posts(0, 1, 0, Said(2, TOKENS, junk));
        posts(1, 1, 0, Said(2, TOKENS, junk));
        vm.warp(opensAt);
        opens(0, 1, Said(2, TOKENS, junk));
        opens(1, 1, Said(2, TOKENS, junk));
        Receipt memory r = receiptOf(1);
        (bytes32 id, bytes memory sig) = (anchor.receiptId(r), signature(r));
        bytes memory unproven = abi.encodeWithSelector(IAudits.NotRight.selector, id, found, r.outHash);
        vm.expectRevert(unproven);
        audits.claim(r, sig, none(), verifier(0));
        Phase p = Phase(phase % (uint8(type(Phase).max) + 1));
        Verdict v = Verdict(verdict % (uint8(type(Verdict).max) + 1));
        bench.put(id, p, v);
        if (p == Phase.FINAL && convicts(v)) {
            unproven = abi.encodeWithSelector(IAudits.NotRight.selector, id, found, 0);
        }
        if (p != Phase.NONE && p != Phase.FINAL) unproven = pending(id);
        vm.expectRevert(unproven);
        audits.claim(r, sig, none(), verifier(0));
        bench.replace(id, found);
        claims(0, 1);
        same(ledger.creditOf(verifier(0)), BOUNTY, "once it was judged");
    }

    /// @dev The true outHash beside other tokens is no match: a finding is the receipt's in both fields or in none.
    function test_false_tokens_beside_the_true_outHash_are_a_mismatch(bytes32 tokens) public {
        vm.assume(tokens != TOKENS);
        Receipt memory r = receiptOf(2);
        r.tokensHash = tokens;
        uint64 batchId = anchored(r);
        vm.roll(block.number + 3);
        bytes32 id = anchor.receiptId(r);
        for (uint256 who = 0; who < 4; ++who) {
            // What each found is the truth; the first two call it a match.
            AuditResult memory a = AuditResult(id, verifier(who), who < 2 ? 1 : 2, 0, uint64(block.timestamp));
            a.commitment = commitment(who, id, matched());
            audits.post(a, signed(VERIFIER_KEY + who, audits.hashAudit(a)), batchId);
        }
        vm.warp(block.timestamp + 2 hours);
        for (uint256 who = 0; who < 4; ++who) {
            audits.open(id, verifier(who), TOKENS, TRACE, salt(who));
        }
        bytes memory sig = signature(r);
        // Nobody has convicted it: what two of somebody's accounts say is not paid.
        vm.expectRevert(abi.encodeWithSelector(IAudits.NotRight.selector, id, r.outHash, r.outHash));
        audits.claim(r, sig, none(), verifier(2));
        bench.replace(id, r.outHash);
        vm.expectRevert(pair(IAudits.ResultContradicted.selector, id, verifier(0)));
        audits.claim(r, sig, none(), verifier(0));
        audits.claim(r, sig, none(), verifier(2));
        same(ledger.creditOf(verifier(2)), BOUNTY, "who saw it");
    }

    function test_a_match_of_what_was_overturned_is_not_paid(bytes32 truth) public {
        posts(0, 1, 0, matched());
        posts(1, 1, 0, matched());
        vm.warp(opensAt);
        opens(0, 1, matched());
        opens(1, 1, matched());
        Receipt memory r = receiptOf(1);
        (bytes32 id, bytes memory sig) = (anchor.receiptId(r), signature(r));
        vm.assume(truth != r.outHash);
        bench.replace(id, truth);
        vm.expectRevert(abi.encodeWithSelector(IAudits.NotRight.selector, id, r.outHash, truth));
        audits.claim(r, sig, none(), verifier(0));
        bench.put(id, Phase.FINAL, Verdict.UPHELD);
        claims(0, 1);
    }

    /// @dev What two wrong verifiers agree on, and the receipt says, is not paid before the court has spoken, nor after it
    ///      convicted: they were paid in time before.
    function test_a_match_waits_for_the_court_and_falls_with_the_receipt(uint8 phase, uint8 verdict) public {
        posts(0, 1, 0, matched());
        posts(1, 1, 0, matched());
        vm.warp(opensAt);
        opens(0, 1, matched());
        opens(1, 1, matched());
        Receipt memory r = receiptOf(1);
        (bytes32 id, bytes memory sig) = (anchor.receiptId(r), signature(r));
        Phase p = Phase(phase % (uint8(type(Phase).max) + 1));
        Verdict v = Verdict(verdict % (uint8(type(Verdict).max) + 1));
        bench.put(id, p, v);
        bool runs = p != Phase.NONE && p != Phase.FINAL;
        bool fell = p == Phase.FINAL && convicts(v);
        if (runs) vm.expectRevert(pending(id));
        else if (fell) vm.expectRevert(abi.encodeWithSelector(IAudits.NotRight.selector, id, r.outHash, 0));
        audits.claim(r, sig, none(), verifier(0));
        same(ledger.creditOf(verifier(0)), runs || fell ? 0 : BOUNTY, "paid");
    }

    /// @dev Nobody can look into the list of such a batch, and none of its receipts is ever accepted.
    function test_nothing_of_a_void_batch_is_paid(bool answered, bool ended) public {
        posts(0, 1, 0, matched());
        posts(1, 1, 0, matched());
        demands.demandList{value: 0.01 ether}(0);
        bytes32 list = demands.listSubject(0);
        if (answered) answersList(0, "list");
        vm.warp(block.timestamp + 3 hours);
        if (!answered && ended) demands.expire(list);
        vm.warp(block.timestamp + 3 hours);
        opens(0, 1, matched());
        opens(1, 1, matched());
        Receipt memory r = receiptOf(1);
        bytes memory sig = signature(r);
        if (!answered && ended) vm.expectRevert(err(IReceiptAnchor.BatchIsVoid.selector, 0));
        else if (!answered) vm.expectRevert(err(IReceiptAnchor.DemandPending.selector, uint256(list)));
        audits.claim(r, sig, none(), verifier(0));
        same(ledger.creditOf(verifier(0)), answered ? BOUNTY : 0, "paid");
    }

    /// @dev Committees show what they found: who had another result put in the place of its own from then on had run nothing.
    function test_what_a_dispute_may_have_shown_is_not_posted(uint8 phase, uint16 round, bool again) public {
        AuditResult memory a = resultOf(0, 1, matched());
        bytes memory sig = signed(VERIFIER_KEY, audits.hashAudit(a));
        if (again) posts(0, 1, 0, Said(2, TOKENS, "wrong"));
        Phase p = Phase(phase % (uint8(type(Phase).max) + 1));
        bench.put(a.receiptId, p, Verdict.NONE);
        bench.advance(a.receiptId, round % 3);
        bool late = p != Phase.NONE && (again || p >= Phase.REVEAL || round % 3 > 1);
        if (late) vm.expectRevert(abi.encodeWithSelector(IAudits.AlreadyDisputed.selector, a.receiptId, a.receiptId));
        vm.prank(verifier(0));
        audits.post(a, sig, 0);
        bool stored = audits.audit(a.receiptId, a.verifier).commitment == a.commitment;
        that(stored != late, "stored");
    }

    /// @dev Anybody may bring a result for a batch that the receipt is not in, and then have it disputed.
    function test_a_result_in_the_wrong_batch_is_put_right_whatever_runs(uint8 phase, uint16 round) public {
        posted(header(2, 1, "root"));
        vm.roll(block.number + 3);
        AuditResult memory a = resultOf(0, 1, matched());
        bytes memory sig = signed(VERIFIER_KEY, audits.hashAudit(a));
        audits.post(a, sig, 1);
        bench.put(a.receiptId, Phase(phase % (uint8(type(Phase).max) + 1)), Verdict.NONE);
        bench.advance(a.receiptId, round % 3);
        vm.prank(verifier(0));
        audits.post(a, sig, 0);
        that(audits.audit(a.receiptId, a.verifier).batchId == 0, "put right");
    }

    function convicts(Verdict v) private pure returns (bool) {
        return v == Verdict.OVERTURNED || v == Verdict.INVALID || v == Verdict.UNAVAILABLE;
    }

    function pending(bytes32 id) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IReceiptAnchor.DisputePending.selector, id);
    }

    function test_a_word_that_its_opening_contradicts_is_not_paid(bool said) public {
        // Both say the opposite of what they opened.
        Said memory s = said ? Said(1, TOKENS, "another") : Said(2, TOKENS, TRACE);
        posts(0, 1, 0, s);
        posts(1, 1, 0, s);
        vm.warp(opensAt);
        opens(0, 1, s);
        opens(1, 1, s);
        Receipt memory r = receiptOf(1);
        bytes memory sig = signature(r);
        vm.expectRevert(pair(IAudits.ResultContradicted.selector, anchor.receiptId(r), verifier(0)));
        audits.claim(r, sig, none(), verifier(0));
    }

    /// @dev The receipt says its out hash to everybody: who copies it knows no trace root to open with.
    function test_who_repeats_the_operator_opens_nothing(bytes32 guess) public {
        vm.assume(guess != TRACE);
        posts(0, 1, 0, matched());
        Said memory lazy = Said(1, TOKENS, guess);
        posts(1, 1, 0, lazy);
        vm.warp(opensAt);
        opens(0, 1, matched());
        bytes32 id = anchor.receiptId(receiptOf(1));
        // Now the trace root is public, and too late.
        bytes memory why =
            abi.encodeWithSelector(IAudits.BadOpening.selector, commitment(1, id, matched()), commitment(1, id, lazy));
        vm.expectRevert(why);
        audits.open(id, verifier(1), TOKENS, TRACE, salt(1));
    }

    function test_a_copied_commitment_opens_for_nobody_else(bytes32 junk) public {
        posts(0, 1, 0, matched());
        AuditResult memory a = resultOf(1, 1, matched());
        a.commitment = commitment(0, a.receiptId, matched());
        audits.post(a, signed(VERIFIER_KEY + 1, audits.hashAudit(a)), 0);
        vm.warp(opensAt);
        opens(0, 1, matched());
        bytes32 have = audits.commitmentOf(a.receiptId, verifier(1), TOKENS, TRACE, salt(0));
        vm.expectRevert(abi.encodeWithSelector(IAudits.BadOpening.selector, have, a.commitment));
        audits.open(a.receiptId, verifier(1), TOKENS, TRACE, salt(0));
        vm.expectPartialRevert(IAudits.BadOpening.selector);
        audits.open(a.receiptId, verifier(1), TOKENS, TRACE, junk);
    }

    /// @dev Posting does not prove membership, so an audit of nothing, or under another batch, must not be paid.
    function test_only_audits_of_members_are_paid(uint64 seq) public {
        vm.assume(seq != 1);
        vm.warp(1_800_000_000);
        IReceiptAnchor.BatchHeader memory h = header(2, 1, "root");
        posted(h);
        vm.roll(block.number + 3);
        for (uint256 i = 0; i < 2; ++i) {
            posts(i, seq, 0, matched());
            // The real receipt under a batch that it is not in: a beacon of choice.
            posts(i, 1, 1, matched());
        }
        vm.warp(opensAt);
        for (uint256 i = 0; i < 2; ++i) {
            opens(i, seq, matched());
            opens(i, 1, matched());
        }
        Receipt memory r = receiptOf(seq);
        bytes memory sig = signature(r);
        vm.expectPartialRevert(IReceiptAnchor.SequenceOutsideBatch.selector);
        audits.claim(r, sig, none(), verifier(0));
        r = receiptOf(1);
        sig = signature(r);
        vm.expectPartialRevert(IReceiptAnchor.SequenceOutsideBatch.selector);
        audits.claim(r, sig, none(), verifier(0));
    }

    /// @dev A signed result says no batch. Who sees it under way brings it for another one, whose beacon drew the verifier too.
    function test_who_is_brought_for_a_wrong_batch_puts_it_right_until_it_is_opened(uint8 who) public {
        uint256 v = who % VERIFIERS;
        posted(header(2, 1, "root"));
        vm.roll(block.number + 3);
        AuditResult memory a = resultOf(v, 1, matched());
        bytes memory sig = signed(VERIFIER_KEY + v, audits.hashAudit(a));
        vm.prank(stranger);
        audits.post(a, sig, 1);
        vm.prank(stranger);
        vm.expectRevert(pair(IAudits.AlreadyAudited.selector, a.receiptId, verifier(v)));
        audits.post(a, sig, 0);
        vm.prank(verifier(v));
        audits.post(a, sig, 0);
        vm.prank(stranger);
        vm.expectRevert(pair(IAudits.AlreadyAudited.selector, a.receiptId, verifier(v)));
        audits.post(a, sig, 1);
        posts((v + 1) % VERIFIERS, 1, 0, matched());
        vm.warp(opensAt);
        opens(v, 1, matched());
        opens((v + 1) % VERIFIERS, 1, matched());
        vm.prank(verifier(v));
        vm.expectRevert(pair(IAudits.AlreadyAudited.selector, a.receiptId, verifier(v)));
        audits.post(a, sig, 1);
        claims(v, 1);
        same(ledger.creditOf(verifier(v)), BOUNTY, "paid");
    }

    function test_one_in_another_batch_is_no_second(bool member) public {
        posted(header(2, 1, "root"));
        vm.roll(block.number + 3);
        posts(0, 1, 0, matched());
        posts(1, 1, member ? 0 : 1, matched());
        vm.warp(opensAt + 1);
        opens(0, 1, matched());
        opens(1, 1, matched());
        Receipt memory r = receiptOf(1);
        bytes memory sig = signature(r);
        if (!member) vm.expectPartialRevert(IAudits.NobodyAgrees.selector);
        audits.claim(r, sig, none(), verifier(0));
        same(ledger.creditOf(verifier(0)), member ? BOUNTY : 0, "paid");
    }

    // --- limits ---

    function test_a_verifier_has_so_many_bounties_an_hour(uint16 wait) public {
        ParamSet memory p = params.get(1);
        p.shares.auditsPerHour = 2;
        params.set(p);
        vm.warp(1_800_000_000);
        for (uint64 i = 2; i < 5; ++i) {
            anchored(receiptOf(i));
        }
        vm.roll(block.number + 3);
        for (uint64 i = 1; i < 5; ++i) {
            posts(0, i, i - 1, matched());
            posts(1, i, i - 1, matched());
        }
        vm.warp(opensAt);
        for (uint64 i = 1; i < 5; ++i) {
            opens(0, i, matched());
            opens(1, i, matched());
        }
        claims(0, 1);
        claims(0, 2);
        uint64 until = uint64((guardian.clock() / 3600 + 1) * 3600);
        vm.warp(block.timestamp + bound(wait, 0, until - block.timestamp + 3599));
        Receipt memory r = receiptOf(3);
        bytes memory sig = signature(r);
        bytes memory why = abi.encodeWithSelector(IAudits.RateLimited.selector, verifier(0), until);
        if (block.timestamp < until) vm.expectRevert(why);
        audits.claim(r, sig, none(), verifier(0));
        // Another verifier has its own.
        claims(1, 3);
        if (block.timestamp < until) vm.warp(until);
        claims(0, 4);
    }

    function test_an_empty_pool_pays_later(uint96 fed) public {
        posts(0, 1, 0, matched());
        posts(1, 1, 0, matched());
        vm.warp(opensAt);
        opens(0, 1, matched());
        opens(1, 1, matched());
        ledgerEmptied();
        fed = uint96(bound(fed, 0, 2 * BOUNTY));
        audits.feed{value: fed}();
        Receipt memory r = receiptOf(1);
        bytes memory sig = signature(r);
        if (fed < BOUNTY) vm.expectRevert(abi.encodeWithSelector(IAudits.PoolEmpty.selector, fed, BOUNTY));
        audits.claim(r, sig, none(), verifier(0));
        if (fed >= BOUNTY) return;
        audits.feed{value: BOUNTY}();
        claims(0, 1);
        balanced();
    }

    /// @dev This contract stands for the settlement, so it is a mover.
    function ledgerEmptied() private {
        ledger.repay(audits.POOL(), audits.pool());
    }

    // --- post ---

    function test_only_a_signed_word_of_three_is_posted_once(uint8 result, uint128 key) public {
        AuditResult memory a = resultOf(0, 1, matched());
        a.result = result;
        bytes memory sig = signed(VERIFIER_KEY, audits.hashAudit(a));
        if (result == 0 || result > 3) {
            refused(a, sig, 0, err(IAudits.BadAuditResult.selector, result));
            a.result = 1;
        }
        uint64 anchoredAt = anchor.batch(0).anchoredAt;
        for (uint256 i = 0; i < 2; ++i) {
            a.auditedAt = i == 0 ? anchoredAt - 1 : uint64(block.timestamp) + 1;
            bytes memory untimely = abi.encodeWithSelector(IAudits.BadAuditTime.selector, a.auditedAt, anchoredAt);
            refused(a, signed(VERIFIER_KEY, audits.hashAudit(a)), 0, untimely);
        }
        a.auditedAt = anchoredAt;
        uint256 other = bound(key, 1, type(uint128).max);
        vm.assume(other != VERIFIER_KEY);
        bytes memory foreign = signed(other, audits.hashAudit(a));
        bytes memory why = abi.encodeWithSelector(IAudits.BadSignature.selector, vm.addr(other), verifier(0));
        refused(a, foreign, 0, why);
        sig = signed(VERIFIER_KEY, audits.hashAudit(a));
        audits.post(a, sig, 0);
        same(audits.audit(a.receiptId, a.verifier).commitment, a.commitment, "stored");
        refused(a, sig, 0, pair(IAudits.AlreadyAudited.selector, a.receiptId, verifier(0)));
    }

    function test_the_signature_is_of_the_courts_domain(address elsewhere) public view {
        vm.assume(elsewhere != address(bench));
        AuditResult memory a = resultOf(0, 1, matched());
        bytes32 domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("Bytewise"),
                keccak256("1"),
                block.chainid,
                address(bench)
            )
        );
        bytes32 want = keccak256(abi.encodePacked(hex"1901", domain, StructHashes.audit(a)));
        same(audits.hashAudit(a), want, "digest");
    }

    function test_who_is_no_verifier_of_the_pool_or_came_later_posts_nothing(uint128 key, uint8 later) public {
        uint256 other = bound(key, 1e9, type(uint128).max);
        address who = vm.addr(other);
        AuditResult memory a = resultOf(0, 1, matched());
        a.verifier = who;
        bytes memory sig = signed(other, audits.hashAudit(a));
        bytes memory why = abi.encodeWithSelector(IAudits.NotVerifier.selector, who);
        refused(a, sig, 0, why);
        stake(who, 100 ether);
        vm.roll(block.number + later);
        vm.prank(who);
        registry.join(POOL, "machine", MEASUREMENT);
        refused(a, sig, 0, why);
        a.verifier = verifier(1);
        vm.prank(verifier(1));
        registry.quit();
        sig = signed(VERIFIER_KEY + 1, audits.hashAudit(a));
        refused(a, sig, 0, abi.encodeWithSelector(IAudits.NotVerifier.selector, verifier(1)));
    }

    function test_results_come_inside_the_window_and_are_opened_after_it(uint16 wait) public {
        AuditResult memory a = resultOf(0, 1, matched());
        bytes memory sig = signed(VERIFIER_KEY, audits.hashAudit(a));
        uint256 end = anchor.windowEnd(a.receiptId, 0);
        posts(1, 1, 0, matched());
        vm.warp(block.timestamp + bound(wait, 0, 2 hours));
        if (guardian.clock() > end) {
            refused(a, sig, 0, err(IAudits.WindowClosed.selector, guardian.clock(), end));
            opens(1, 1, matched());
            vm.expectRevert(pair(IAudits.AlreadyOpened.selector, a.receiptId, verifier(1)));
        } else {
            audits.post(a, sig, 0);
            vm.expectRevert(err(IAudits.WindowOpen.selector, end));
        }
        audits.open(a.receiptId, verifier(1), TOKENS, TRACE, salt(1));
    }

    function test_what_was_not_audited_or_found_nothing_is_not_opened(bytes32 id) public {
        vm.expectRevert(pair(IAudits.NotAudited.selector, id, verifier(0)));
        audits.open(id, verifier(0), TOKENS, TRACE, salt(0));
        Receipt memory r = receiptOf(1);
        bytes memory sig = signature(r);
        vm.expectRevert(pair(IAudits.NotAudited.selector, anchor.receiptId(r), verifier(0)));
        audits.claim(r, sig, none(), verifier(0));
        posts(0, 1, 0, Said(3, 0, 0));
        vm.warp(opensAt);
        bytes32 audited = anchor.receiptId(r);
        vm.expectRevert(err(IAudits.BadAuditResult.selector, 3));
        audits.open(audited, verifier(0), 0, 0, salt(0));
    }

    function test_a_compromised_epoch_is_not_audited(uint8 who, bool drained) public {
        uint256 i = who % VERIFIERS;
        AuditResult memory a = resultOf(i, 1, matched());
        bytes memory sig = signed(VERIFIER_KEY + i, audits.hashAudit(a));
        if (drained) epochs.drain(EPOCH);
        else epochs.compromise(EPOCH);
        if (!drained) vm.expectRevert(err(IAudits.EpochNotOpen.selector, EPOCH));
        audits.post(a, sig, 0);
    }

    // --- the draw ---

    function test_the_beacon_is_the_second_block_after_the_batch(uint16 blocks) public {
        vm.roll(anchor.batch(0).blockNumber);
        uint256 at_ = block.number;
        vm.roll(at_ + bound(blocks, 0, 300));
        bytes32 id = anchor.receiptId(receiptOf(1));
        if (block.number <= at_ + 2) {
            vm.expectRevert(err(IAudits.BeaconTooEarly.selector, block.number, at_ + 2));
        } else if (block.number > at_ + 2 + 256) {
            // No history contract on this chain: only the last 256 hashes are there.
            vm.expectRevert(err(IAudits.BeaconExpired.selector, at_ + 2));
        }
        audits.isDrawn(id, verifier(0), 0);
    }

    function test_stake_that_came_after_the_batch_draws_nothing(uint96 more) public {
        // Verifier 0 with 20 seats is drawn at any rate from 500 on; at 0 nobody is, however much comes later.
        ParamSet memory p = params.get(1);
        p.shares.auditRateBps = 0;
        params.set(p);
        anchored(receiptOf(2));
        vm.roll(block.number + 3);
        stake(verifier(0), uint256(more) + 1);
        AuditResult memory a = resultOf(0, 2, matched());
        bytes memory sig = signed(VERIFIER_KEY, audits.hashAudit(a));
        refused(a, sig, 1, pair(IAudits.NotDrawn.selector, a.receiptId, verifier(0)));
        that(audits.isDrawn(a.receiptId, verifier(0), 0), "under the version before it is drawn");
    }
}

/// @title The vectors that Python makes (`tests/vectors/make.py`)
contract AuditVectorsTest is AnchorBase {
    uint256 private constant STAKED = 4;
    string private json;

    function parameters() internal pure override returns (ParamSet memory p) {
        p = Defaults.parameters();
        p.shares.auditRateBps = 100;
    }

    function setUp() public override {
        super.setUp();
        json = vm.readFile("../../tests/vectors/audits.json");
        same(vm.parseJsonUint(json, ".rate"), 100, "rate");
    }

    function test_audits_are_drawn_as_in_python() public {
        address[] memory who = vm.parseJsonAddressArray(json, ".cases.verifier");
        uint256[] memory seats = vm.parseJsonUintArray(json, ".cases.seats");
        bytes32[] memory beacons = vm.parseJsonBytes32Array(json, ".cases.beacon");
        bytes32[] memory ids = vm.parseJsonBytes32Array(json, ".cases.receiptId");
        bool[] memory drawn = vm.parseJsonBoolArray(json, ".cases.drawn");
        for (uint256 i = 0; i < STAKED; ++i) {
            stake(who[i], seats[i] * 1 ether);
        }
        anchored(receipt(1));
        uint256 beacon = block.number + 2;
        vm.roll(beacon + 1);
        uint256 count;
        for (uint256 i = 0; i < who.length; ++i) {
            vm.setBlockhash(beacon, beacons[i]);
            that(audits.isDrawn(ids[i], who[i], 0) == drawn[i], "drawn");
            if (drawn[i]) ++count;
        }
        that(count > 10 && count < who.length, "some are and some are not");
    }

    function test_commitments_and_lists_hash_as_in_python() public {
        bytes32[] memory ids = vm.parseJsonBytes32Array(json, ".cases.receiptId");
        address[] memory who = vm.parseJsonAddressArray(json, ".cases.verifier");
        bytes32[] memory tokens = vm.parseJsonBytes32Array(json, ".cases.tokensHash");
        bytes32[] memory traces = vm.parseJsonBytes32Array(json, ".cases.traceRoot");
        bytes32[] memory salts = vm.parseJsonBytes32Array(json, ".cases.salt");
        bytes32[] memory want = vm.parseJsonBytes32Array(json, ".cases.commitment");
        for (uint256 i = 0; i < ids.length; ++i) {
            same(audits.commitmentOf(ids[i], who[i], tokens[i], traces[i], salts[i]), want[i], "commitment");
        }
        bytes[] memory lists = vm.parseJsonBytesArray(json, ".lists.data");
        bytes32[] memory digests = vm.parseJsonBytes32Array(json, ".lists.digest");
        for (uint64 i = 0; i < lists.length; ++i) {
            Receipt memory r = receipt(i + 1);
            IReceiptAnchor.BatchHeader memory h = header(i + 1, 1, leafOf(r));
            h.listHash = digests[i];
            uint64 batchId = anchored(r, h);
            demands.demandList{value: 0.01 ether}(batchId);
            answersList(batchId, lists[i]);
        }
    }
}
