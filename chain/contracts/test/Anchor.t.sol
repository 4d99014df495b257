// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ParamSet, Phase, Receipt, Verdict} from "../src/libraries/Types.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {Wired} from "../src/libraries/Wired.sol";
import {IStakeSource} from "../src/interfaces/IStakeSource.sol";
import {AnchorBase} from "./AnchorBase.sol";

/// @title Batches: what is anchored, who is a member, how long the window is, when collateral is free
contract AnchorTest is AnchorBase {
    function refused(IReceiptAnchor.BatchHeader memory h, bytes memory why) private {
        uint256 fee = fees.feeFor(h.count);
        vm.deal(operator, fee);
        vm.prank(operator);
        vm.expectRevert(why);
        anchor.post{value: fee}(h);
    }

    function noMember(Receipt memory r, bytes memory sig, bytes memory why) private {
        vm.expectRevert(why);
        anchor.checkMember(r, sig, 0, none());
    }

    // --- post ---

    function test_a_batch_is_stored_as_it_was_posted(uint32 count, bytes32 root, bytes32 list, uint32 later) public {
        count = uint32(bound(count, 1, 64));
        vm.warp(block.timestamp + later);
        IReceiptAnchor.BatchHeader memory h = header(1, count, root);
        h.listHash = list;
        same(posted(h), 0, "batches count from 0");
        IReceiptAnchor.Batch memory b = anchor.batch(0);
        same(b.operator, operator, "operator");
        same(b.anchoredAt, block.timestamp, "anchored at");
        same(b.startedAt, guardian.clock(), "started at");
        same(b.blockNumber, block.number, "block");
        same(b.paramsVersion, 1, "version");
        same(b.firstSeq, 1, "first");
        same(b.count, count, "count");
        same(b.keyEpoch, EPOCH, "epoch");
        same(b.root, root, "root");
        same(b.listHash, list, "list");
        same(b.environment, ENVIRONMENT, "environment");
        same(b.modelId, MODEL, "model");
        that(!b.isVoid && !b.released && b.stoppedAtStart == 0, "nothing happened to it");
        same(anchor.batchCount(), 1, "batches");
        same(vault.collateralOf(operator), count * 0.1 ether, "collateral");
        same(audits.pool(), count * FEE, "the fee is for audits");
        balanced();
    }

    function test_batches_of_several_models_and_epochs_keep_their_own(uint8 salt) public {
        bytes32 other = keccak256("another model");
        activate(other, 0);
        openEpoch(2);
        vouch(epochs, 2, 3);
        for (uint64 i = 0; i < 4; ++i) {
            IReceiptAnchor.BatchHeader memory h = header(i + 1, 1, "root");
            if ((salt >> i) % 2 == 1) h.modelId = other;
            if (i == 2) epochs.activate(2);
            h.keyEpoch = i < 2 ? 1 : 2;
            posted(h);
        }
        for (uint64 i = 0; i < 4; ++i) {
            IReceiptAnchor.Batch memory b = anchor.batch(i);
            same(b.modelId, (salt >> i) % 2 == 1 ? other : MODEL, "model");
            same(b.keyEpoch, i < 2 ? 1 : 2, "epoch");
            same(b.environment, ENVIRONMENT, "environment");
        }
    }

    function test_numbers_are_neither_left_out_nor_reused(uint64 first, uint32 count, uint64 next) public {
        count = uint32(bound(count, 1, 64));
        bytes memory gap = err(IReceiptAnchor.SequenceGap.selector, first, 1);
        if (first != 1) refused(header(first, count, "root"), gap);
        posted(header(1, count, "root"));
        same(anchor.lastSeq(operator), count, "last");
        vm.assume(next != count + 1);
        refused(header(next, 1, "root"), err(IReceiptAnchor.SequenceGap.selector, next, uint256(count) + 1));
    }

    function test_a_batch_has_one_leaf_at_least_and_not_too_many(uint32 count) public {
        count = uint32(count % 2 == 0 ? 0 : bound(count, 65, type(uint32).max));
        refused(header(1, count, "root"), err(IReceiptAnchor.BadCount.selector, count, 64));
    }

    function test_only_active_environments_models_and_epochs_are_anchored(bytes32 other, uint64 epoch) public {
        vm.assume(other != ENVIRONMENT && other != MODEL && epoch != EPOCH);
        IReceiptAnchor.BatchHeader memory h = header(1, 1, "root");
        h.environment = other;
        refused(h, err(IReceiptAnchor.EnvironmentNotActive.selector, uint256(other)));
        // A model is an item too and no environment.
        h.environment = MODEL;
        refused(h, err(IReceiptAnchor.EnvironmentNotActive.selector, uint256(MODEL)));
        h = header(1, 1, "root");
        h.modelId = other;
        refused(h, err(IReceiptAnchor.ModelNotActive.selector, uint256(other)));
        h = header(1, 1, "root");
        h.keyEpoch = epoch;
        refused(h, err(IReceiptAnchor.EpochNotOpen.selector, epoch));
        registry.close(ENVIRONMENT);
        vm.warp(block.timestamp + 1 hours + 1);
        refused(header(1, 1, "root"), err(IReceiptAnchor.EnvironmentNotActive.selector, uint256(ENVIRONMENT)));
    }

    /// @dev A root over more leaves than the batch says has longer proofs. Who had 65,535 receipts under the root of one could have
    ///      filled the count of holds, and nobody could have questioned the last of them.
    function test_a_member_has_no_longer_proof_than_its_batch(uint32 count, uint8 more) public {
        count = uint32(bound(count, 1, 64));
        uint256 depth = 0;
        while (uint256(1) << depth < count) ++depth;
        uint256 length = bound(more, 0, 12);
        bytes32[] memory proof = new bytes32[](length);
        Receipt memory r = receipt(1);
        bytes32 node = leafOf(r);
        for (uint256 i = 0; i < length; ++i) {
            proof[i] = keccak256(abi.encode(i, more));
            node = node < proof[i] ? keccak256(bytes.concat(node, proof[i])) : keccak256(bytes.concat(proof[i], node));
        }
        posted(header(1, count, node));
        bytes memory sig = signature(r);
        if (length > depth) vm.expectRevert(err(IReceiptAnchor.BadProof.selector, uint256(node)));
        anchor.checkMember(r, sig, 0, proof);
    }

    /// @dev What it signed before can be anchored for as long as after any other closure.
    function test_a_suspended_operator_posts_what_it_signed_before(uint32 wait) public {
        vm.prank(address(bench));
        registry.suspend(operator);
        uint256 until = guardian.clock() + 1 hours;
        same(registry.operatorUntil(operator), until, "drains");
        vm.warp(block.timestamp + bound(wait, 1, 2 hours));
        if (guardian.clock() <= until) {
            posted(header(1, 1, "root"));
        } else {
            refused(
                header(1, 1, "root"), abi.encodeWithSelector(IReceiptAnchor.OperatorSuspended.selector, operator, until)
            );
        }
        registry.readmit(operator);
        posted(header(anchor.lastSeq(operator) + 1, 1, "root"));
    }

    function test_a_stranger_or_an_operator_without_free_stake_anchors_nothing(address who, uint96 left) public {
        vm.assume(who != operator);
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.NotOperator.selector, who));
        anchor.post(header(1, 1, "root"));
        left = uint96(bound(left, 0, 20 ether - 1));
        vm.prank(operator);
        vault.requestUnbond(100 ether - left);
        bytes memory why = abi.encodeWithSelector(IStakeSource.StakeTooSmall.selector, operator, left, 20 ether);
        refused(header(1, 1, "root"), why);
    }

    function test_open_receipts_bind_stake_until_too_little_is_free(uint8 batches) public {
        // Each batch of 64 binds 6.4 of 100; 20 must be free before each.
        uint64 many = uint64(bound(batches, 1, 16));
        uint64 seq = 1;
        for (uint64 i = 0; i < many; ++i) {
            uint256 free = 100 ether - uint256(i) * 6.4 ether;
            if (free < 20 ether) {
                refused(
                    header(seq, 64, "root"),
                    abi.encodeWithSelector(IStakeSource.StakeTooSmall.selector, operator, free, 20 ether)
                );
                return;
            }
            posted(header(seq, 64, "root"));
            seq += 64;
            same(vault.freeStakeOf(operator), free - 6.4 ether, "free");
        }
    }

    function test_nothing_is_anchored_that_too_few_could_judge(uint8 who) public {
        vm.prank(verifier(who % VERIFIERS));
        registry.quit();
        vm.warp(block.timestamp + 1 hours + 1);
        refused(header(1, 1, "root"), err(IReceiptAnchor.PoolTooSmall.selector, uint256(POOL)));
    }

    function test_nothing_is_anchored_in_a_pause(uint16 duration) public {
        paused(uint64(bound(duration, 1, 1 days)));
        vm.prank(operator);
        refusedWhilePaused();
        anchor.post(header(1, 1, "root"));
    }

    function test_the_fee_is_taken_and_what_is_more_comes_back(uint32 count, uint64 sent) public {
        count = uint32(bound(count, 1, 64));
        uint256 fee = count * FEE;
        vm.deal(operator, sent);
        vm.prank(operator);
        if (sent < fee) vm.expectRevert(err(IReceiptAnchor.FeeMismatch.selector, sent, fee));
        anchor.post{value: sent}(header(1, count, "root"));
        same(operator.balance, sent < fee ? sent : sent - fee, "change");
        same(address(anchor).balance + address(fees).balance + address(audits).balance, 0, "nothing stays on the way");
    }

    function test_an_operator_that_refuses_its_change_anchors_nothing(uint64 more) public {
        Miser miser = new Miser();
        stake(address(miser), 100 ether);
        vm.deal(address(miser), FEE + more);
        vm.prank(address(miser));
        registry.registerOperator("");
        vm.prank(address(miser));
        if (more != 0) vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.PaymentRefused.selector, address(miser)));
        anchor.post{value: FEE + more}(header(1, 1, "root"));
    }

    // --- members ---

    function test_every_leaf_of_a_batch_is_a_member_and_a_bad_proof_is_none(uint8 which, bytes32 junk) public {
        Receipt[2] memory r = [receipt(1), receipt(2)];
        bytes32[2] memory leaves = [leafOf(r[0]), leafOf(r[1])];
        (bytes32 low, bytes32 high) = leaves[0] < leaves[1] ? (leaves[0], leaves[1]) : (leaves[1], leaves[0]);
        bytes32 root = keccak256(abi.encode(low, high));
        posted(header(1, 2, root));
        uint256 i = which % 2;
        bytes32[] memory proof = new bytes32[](1);
        proof[0] = leaves[1 - i];
        bytes memory sig = signature(r[i]);
        same(anchor.checkMember(r[i], sig, 0, proof), anchor.receiptId(r[i]), "id");
        vm.assume(junk != proof[0]);
        proof[0] = junk;
        vm.expectRevert(err(IReceiptAnchor.BadProof.selector, uint256(root)));
        anchor.checkMember(r[i], sig, 0, proof);
    }

    function test_a_receipt_that_differs_from_its_header_is_no_member(bytes32 junk, uint8 field) public {
        vm.assume(junk != ENVIRONMENT && junk != MODEL && uint64(uint256(junk)) != EPOCH);
        Receipt memory r = receipt(1);
        anchored(r);
        field %= 4;
        if (field == 0) r.environment = junk;
        else if (field == 1) r.modelId = junk;
        else if (field == 2) r.keyEpoch = uint64(uint256(junk));
        else r.operator = stranger;
        bytes32 name = field == 0 ? bytes32("environment") : field == 1 ? bytes32("modelId") : bytes32("keyEpoch");
        if (field == 3) name = "operator";
        noMember(r, signature(r), err(IReceiptAnchor.HeaderMismatch.selector, uint256(name)));
    }

    function test_a_receipt_of_another_chain_is_no_member(uint64 chain) public {
        vm.assume(chain != block.chainid);
        Receipt memory r = receipt(1);
        r.chainId = chain;
        anchored(r);
        noMember(r, signature(r), err(IReceiptAnchor.ForeignChain.selector, chain, block.chainid));
    }

    function test_a_receipt_signed_for_another_deployment_is_no_member() public {
        Receipt memory r = receipt(1);
        bytes memory sig = signature(r);
        // The same network once more: only the contract's address differs.
        deploy();
        populate();
        anchored(r);
        vm.expectPartialRevert(IReceiptAnchor.BadSignature.selector);
        anchor.checkMember(r, sig, 0, none());
        anchor.checkMember(r, signature(r), 0, none());
    }

    function test_a_number_outside_its_batch_is_no_member(uint64 seq) public {
        vm.assume(seq != 1);
        anchored(receipt(1));
        Receipt memory r = receipt(seq);
        noMember(
            r, signature(r), abi.encodeWithSelector(IReceiptAnchor.SequenceOutsideBatch.selector, seq, uint64(1), 1)
        );
    }

    function test_a_strangers_or_malformed_signature_makes_no_member(uint128 key, bytes memory junk) public {
        uint256 other = bound(key, 1, type(uint128).max);
        vm.assume(other != OPERATOR_KEY);
        Receipt memory r = receipt(1);
        anchored(r);
        bytes32 id = anchor.receiptId(r);
        noMember(
            r, signed(other, id), abi.encodeWithSelector(IReceiptAnchor.BadSignature.selector, vm.addr(other), operator)
        );
        if (junk.length != 65) {
            bytes memory nobody = abi.encodeWithSelector(IReceiptAnchor.BadSignature.selector, address(0), operator);
            noMember(r, junk, nobody);
        }
    }

    function test_the_second_form_of_a_signature_makes_no_member(uint64 salt) public {
        Receipt memory r = receipt(1);
        r.reqHash = keccak256(abi.encode(salt));
        anchored(r);
        (uint8 v, bytes32 x, bytes32 s) = vm.sign(OPERATOR_KEY, anchor.receiptId(r));
        uint256 order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
        bytes memory high = abi.encodePacked(x, bytes32(order - uint256(s)), v == 27 ? uint8(28) : uint8(27));
        noMember(r, high, abi.encodeWithSelector(IReceiptAnchor.BadSignature.selector, address(0), operator));
    }

    function test_only_a_plain_receipt_without_an_enclave_is_a_member(uint8 mode, address enclave, uint8 client)
        public
    {
        Receipt memory r = receipt(1);
        anchored(r);
        (r.mode, r.enclaveKey, r.clientMode) = (mode, enclave, client);
        if (mode != 2 || enclave != address(0)) {
            noMember(r, "", abi.encodeWithSelector(IReceiptAnchor.UnsupportedMode.selector, mode, enclave));
        } else if (client != 1 && client != 2) {
            noMember(r, "", err(IReceiptAnchor.UnknownClientMode.selector, client));
        }
        r.clientMode = client == 1 || client == 2 ? 0 : client;
        (r.mode, r.enclaveKey) = (2, address(0));
        noMember(r, "", err(IReceiptAnchor.UnknownClientMode.selector, r.clientMode));
    }

    function test_there_is_nothing_about_no_batch(uint64 id) public {
        anchored(receipt(1));
        id = uint64(bound(id, 1, type(uint64).max));
        bytes memory why = err(IReceiptAnchor.UnknownBatch.selector, id);
        vm.expectRevert(why);
        anchor.batch(id);
        vm.expectRevert(why);
        anchor.windowEnd(0, id);
        vm.expectRevert(why);
        anchor.release(id);
        vm.expectRevert(why);
        demands.demandList(id);
        vm.expectRevert(why);
        demands.answerList(id, "list", new Receipt[](0), new bytes[](0));
        Receipt memory r = receipt(1);
        bytes memory sig = signature(r);
        vm.expectRevert(why);
        bench.question(anchor, r, sig, id);
        vm.expectRevert(why);
        bench.unhold(anchor, id);
        vm.expectRevert(why);
        anchor.countOf(id);
        vm.expectRevert(why);
        anchor.checkLeaf("leaf", operator, 1, id, none());
    }

    // --- windows ---

    /// @dev The hour of the window on the protocol clock, whatever the wall says.
    function test_a_receipt_is_final_when_its_window_is_over(uint32 wait, uint32 pause_) public {
        Receipt memory r = receipt(1);
        anchored(r);
        uint256 start = guardian.clock();
        wait = uint32(bound(wait, 0, 2 hours));
        pause_ = uint32(bound(pause_, 0, 1 days));
        if (pause_ != 0) paused(pause_);
        vm.warp(block.timestamp + wait + pause_);
        same(guardian.clock(), start + wait, "clock");
        bytes memory sig = signature(r);
        if (wait <= 1 hours) vm.expectRevert(err(IReceiptAnchor.WindowOpen.selector, start + 1 hours));
        that(anchor.isFinal(r, sig, 0, none()) || wait <= 1 hours, "final");
    }

    /// @dev Stops before, in and after the window: only those in it move its end, and what was over stays over.
    function test_a_window_stands_still_while_its_pool_is_too_small(
        uint16 before,
        uint16 from,
        uint16 stop,
        uint16 rest
    ) public {
        stopped(before);
        Receipt memory r = receipt(1);
        anchored(r);
        uint256 start = guardian.clock();
        uint256 inside = bound(from, 0, 2 hours);
        vm.warp(block.timestamp + inside);
        bool over = guardian.clock() > anchor.windowEnd(0, 0);
        same(over ? 1 : 0, inside > 1 hours ? 1 : 0, "over before the stop");
        stopped(stop);
        uint256 end = start + 1 hours + stop;
        if (!over) same(anchor.windowEnd(0, 0), end, "the end moved");
        vm.warp(block.timestamp + rest);
        bytes memory sig = signature(r);
        if (over) {
            that(anchor.isFinal(r, sig, 0, none()), "it stays over");
        } else {
            if (guardian.clock() <= end) vm.expectRevert(err(IReceiptAnchor.WindowOpen.selector, end));
            anchor.isFinal(r, sig, 0, none());
        }
    }

    /// @dev While the pool is stopped the end moves with the clock.
    function test_no_window_ends_while_its_pool_is_stopped(uint16 from, uint32 later) public {
        anchored(receipt(1));
        uint256 start = guardian.clock();
        uint256 inside = bound(from, 0, 1 hours);
        vm.warp(block.timestamp + inside);
        vm.prank(verifier(0));
        registry.quit();
        vm.warp(block.timestamp + later);
        same(anchor.windowEnd(0, 0), start + 1 hours + later, "end");
        vm.expectRevert(err(IReceiptAnchor.WindowOpen.selector, start + 1 hours + later));
        anchor.release(0);
    }

    function stopped(uint256 duration) private {
        vm.prank(verifier(0));
        registry.quit();
        vm.warp(block.timestamp + duration);
        vm.prank(verifier(0));
        registry.join(POOL, keccak256(abi.encode("platform", 0)), MEASUREMENT);
    }

    function test_a_batch_keeps_to_the_version_it_was_posted_under(uint16 window) public {
        anchored(receipt(1));
        uint256 start = guardian.clock();
        ParamSet memory p = params.get(1);
        p.times.window = uint32(bound(window, 1, 1 days));
        p.money.receiptCollateral = 1 ether;
        params.set(p);
        anchored(receipt(2));
        same(anchor.windowEnd(0, 0), start + 1 hours, "old");
        same(anchor.windowEnd(0, 1), start + p.times.window, "new");
        vm.warp(block.timestamp + 2 days);
        anchor.release(0);
        same(vault.collateralOf(operator), 1 ether, "each frees what it bound");
        anchor.release(1);
        same(vault.collateralOf(operator), 0, "all");
    }

    // --- finality under disputes ---

    function test_finality_follows_the_verdict(uint8 phase, uint8 verdict, bool early) public {
        Receipt memory r = receipt(1);
        anchored(r);
        bytes32 id = anchor.receiptId(r);
        // Half of the time over, and half of that upheld: the cases that matter are met in every run.
        Phase phase_ = phase % 2 == 0 ? Phase.FINAL : Phase(bound(phase, 1, uint8(Phase.FINAL)));
        Verdict v = verdict % 2 == 0 ? Verdict.UPHELD : Verdict(verdict % (uint8(type(Verdict).max) + 1));
        bench.put(id, phase_, v);
        uint256 end = anchor.windowEnd(id, 0);
        if (!early) vm.warp(end + 1);
        bytes memory sig = signature(r);
        if (phase_ != Phase.FINAL) {
            vm.expectRevert(err(IReceiptAnchor.DisputePending.selector, uint256(id)));
        } else if (v != Verdict.UPHELD) {
            vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.ReceiptVoid.selector, id, uint8(v)));
        } else if (early) {
            // Its list can still be demanded in vain.
            vm.expectRevert(err(IReceiptAnchor.WindowOpen.selector, end));
        }
        that(anchor.isFinal(r, sig, 0, none()) || phase_ != Phase.FINAL || v != Verdict.UPHELD || early, "accepted");
    }

    // --- collateral ---

    function test_collateral_is_free_after_the_window_once(uint32 wait, uint32 count) public {
        count = uint32(bound(count, 1, 64));
        posted(header(1, count, "root"));
        uint256 end = guardian.clock() + 1 hours;
        vm.warp(block.timestamp + bound(wait, 0, 2 hours));
        if (guardian.clock() <= end) {
            vm.expectRevert(err(IReceiptAnchor.WindowOpen.selector, end));
            anchor.release(0);
            vm.warp(end + 1);
        }
        vm.prank(stranger);
        anchor.release(0);
        same(vault.collateralOf(operator), 0, "free");
        that(anchor.batch(0).released, "released");
        vm.expectRevert(err(IReceiptAnchor.AlreadyReleased.selector, 0));
        anchor.release(0);
    }

    function test_an_open_dispute_holds_the_collateral(uint8 disputes_) public {
        uint32 n = uint32(bound(disputes_, 1, 5));
        Receipt memory r = receipt(1);
        anchored(r);
        bytes memory sig = signature(r);
        for (uint256 i = 0; i < n; ++i) {
            bench.question(anchor, r, sig, 0);
        }
        vm.warp(block.timestamp + 3 hours);
        for (uint32 i = n; i > 0; --i) {
            vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.BatchHeld.selector, uint64(0), i));
            anchor.release(0);
            bench.unhold(anchor, 0);
        }
        anchor.release(0);
        same(vault.collateralOf(operator), 0, "free");
    }

    function test_a_question_says_what_a_court_must_know(uint16 later) public {
        Receipt memory r = receipt(1);
        anchored(r);
        vm.warp(block.timestamp + later);
        IReceiptAnchor.Question memory q = bench.question(anchor, r, signature(r), 0);
        same(q.receiptId, anchor.receiptId(r), "receipt");
        same(q.operator, operator, "operator");
        same(q.count, 1, "leaves");
        same(q.paramsVersion, 1, "version");
        same(q.windowEnd, anchor.windowEnd(q.receiptId, 0), "end");
        same(q.pool, POOL, "pool");
    }

    function test_only_the_court_and_demands_hold_batches(address who, bool court) public {
        vm.assume(who != address(bench) && who != address(demands));
        Receipt memory r = receipt(1);
        anchored(r);
        bytes memory sig = signature(r);
        bytes memory why = abi.encodeWithSelector(Wired.NotAuthorised.selector, who);
        vm.prank(who);
        vm.expectRevert(why);
        anchor.question(r, sig, 0, none());
        vm.prank(who);
        vm.expectRevert(why);
        anchor.unhold(0);
        // A whole batch is questioned, and void, by demands only.
        if (court) (who, why) = (address(bench), abi.encodeWithSelector(Wired.NotAuthorised.selector, address(bench)));
        vm.prank(who);
        vm.expectRevert(why);
        anchor.questionBatch(0);
        vm.prank(who);
        vm.expectRevert(why);
        anchor.voidBatch(0);
    }

    /// @dev What an operator agreed to when it anchored, whatever is voted later: neither more is kept back nor less.
    function test_open_receipts_keep_the_stake_of_their_own_parameters(
        uint96 first,
        uint96 next,
        uint96 now_,
        uint8 how
    ) public {
        // The second batch: none, beside the first, after it is over and before or after it is released.
        how %= 4;
        (uint256 a, uint256 b) = (votes(first), 0);
        anchored(receipt(1));
        if (how > 1) vm.warp(block.timestamp + 1 hours + 1);
        if (how == 3) anchor.release(0);
        if (how != 0) {
            b = votes(next);
            anchored(receipt(2));
        }
        if (how == 2) anchor.release(0);
        votes(now_);
        vm.prank(operator);
        vault.requestUnbond(100 ether);
        stopped(20 days);
        // Whoever has none open any more agreed to nothing.
        uint256 kept = how == 3 || b > a ? b : a;
        vm.prank(operator);
        same(vault.finishUnbond(), 100 ether - (kept + 1 gwei - 1) / 1 gwei * 1 gwei, "what leaves");
        vm.warp(block.timestamp + 2 hours);
        if (how < 2) anchor.release(0);
        if (how != 0) anchor.release(1);
        vm.prank(operator);
        vault.finishUnbond();
        same(operator.balance, 100 ether, "all of it");
    }

    /// @dev Governance asks for so much stake from now on.
    function votes(uint96 least) private returns (uint256) {
        ParamSet memory p = params.get(params.version());
        p.money.minOperatorStake = uint96(bound(least, 10 ether, 45 ether));
        params.set(p);
        return p.money.minOperatorStake;
    }

    /// @dev What open receipts bind cannot leave, however long ago its exit was asked for.
    function test_collateral_outlasts_an_exit_that_was_asked_for(uint32 count, uint64 wait) public {
        count = uint32(bound(count, 1, 64));
        posted(header(1, count, "root"));
        vm.prank(address(demands));
        anchor.questionBatch(0);
        vm.prank(operator);
        vault.requestUnbond(100 ether);
        vm.warp(block.timestamp + 15 days + bound(wait, 0, 365 days));
        vm.prank(operator);
        vault.finishUnbond();
        same(operator.balance, 80 ether, "all but a whole stake");
        vm.prank(address(demands));
        anchor.unhold(0);
        anchor.release(0);
        vm.prank(operator);
        vault.finishUnbond();
        same(operator.balance, 100 ether, "the rest");
    }
}

/// @title An operator that takes no money
contract Miser {}
