// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EmptyLeaf, Hashes, Outcome, Receipt, Status} from "../src/Types.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {KeyEpochs} from "../src/KeyEpochs.sol";
import {IKeyEpochs} from "../src/interfaces/IKeyEpochs.sol";
import {IRegistry} from "../src/interfaces/IRegistry.sol";
import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {Network} from "./Network.sol";

/// @title Batches, membership, finality, equivocation, key epochs
contract AnchorTest is Network {
    function posted(IReceiptAnchor.BatchHeader memory h, bytes memory err) private {
        vm.prank(operator);
        vm.expectRevert(err);
        anchor.post(h);
    }

    function checked(Receipt memory r, bytes memory sig, bytes memory err) private {
        vm.expectRevert(err);
        anchor.checkMember(r, sig, 0, none());
    }

    // --- post ---

    function test_numbers_are_neither_left_out_nor_reused(uint64 first, uint32 count, uint64 next) public {
        count = uint32(bound(count, 1, 64));
        bytes memory gap = abi.encodeWithSelector(IReceiptAnchor.SequenceGap.selector, first, 1);
        if (first != 1) posted(header(first, count, "root"), gap);
        vm.prank(operator);
        anchor.post(header(1, count, "root"));
        same(anchor.lastSeq(operator), count, "last");
        vm.assume(next != count + 1);
        posted(
            header(next, 1, "root"),
            abi.encodeWithSelector(IReceiptAnchor.SequenceGap.selector, next, uint64(count) + 1)
        );
    }

    function test_a_batch_has_one_leaf_at_least_and_not_too_many(uint32 count) public {
        if (count >= 1 && count <= 64) count += 64;
        posted(header(1, count, "root"), abi.encodeWithSelector(IReceiptAnchor.BadCount.selector, count, 64));
    }

    function test_only_active_environments_models_and_epochs_are_anchored(bytes32 other_, uint64 epoch) public {
        vm.assume(other_ != ENVIRONMENT && other_ != MODEL && epoch != EPOCH);
        IReceiptAnchor.BatchHeader memory h = header(1, 1, "root");
        h.environment = other_;
        posted(h, abi.encodeWithSelector(IReceiptAnchor.EnvironmentNotActive.selector, other_));
        h = header(1, 1, "root");
        h.modelId = other_;
        posted(h, abi.encodeWithSelector(IReceiptAnchor.ModelNotActive.selector, other_));
        h = header(1, 1, "root");
        h.keyEpoch = epoch;
        posted(h, abi.encodeWithSelector(IReceiptAnchor.EpochNotOpen.selector, epoch));
        registry.setEnvironment(ENVIRONMENT, Status.CLOSED, "");
        posted(header(1, 1, "root"), abi.encodeWithSelector(IReceiptAnchor.EnvironmentNotActive.selector, ENVIRONMENT));
    }

    function test_a_stranger_or_an_operator_without_collateral_anchors_nothing(address who, uint96 gone) public {
        vm.assume(who != operator);
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.NotOperator.selector, who));
        anchor.post(header(1, 1, "root"));
        uint256 left = 100 ether - bound(gone, 80 ether + 1, 100 ether);
        vm.prank(operator);
        vault.requestUnbond(100 ether - left);
        posted(
            header(1, 1, "root"),
            abi.encodeWithSelector(IReceiptAnchor.CollateralTooSmall.selector, operator, left, 20 ether)
        );
    }

    function test_nothing_is_anchored_that_nobody_could_judge(uint64 seq) public {
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            uint256 all = vault.stakeOf(verifier(i));
            vm.prank(verifier(i));
            vault.requestUnbond(all);
        }
        seq = 1;
        posted(header(seq, 1, "root"), abi.encodeWithSelector(IReceiptAnchor.NoPool.selector));
    }

    // --- members ---

    function test_every_leaf_of_a_batch_is_a_member_and_a_bad_proof_is_none(uint8 which, bytes32 junk) public {
        Receipt[2] memory r = [receipt(1), receipt(2)];
        bytes32[2] memory leaves;
        for (uint64 i = 0; i < 2; ++i) {
            leaves[i] = Hashes.batchLeaf(anchor.receiptId(r[i]), i + 1);
        }
        bytes32 root = leafPair(leaves[0], leaves[1]);
        vm.prank(operator);
        anchor.post(header(1, 2, root));
        uint256 i_ = which % 2;
        bytes32[] memory proof = new bytes32[](1);
        proof[0] = leaves[1 - i_];
        bytes memory sig = signature(r[i_]);
        (bytes32 id, uint64 at_) = anchor.checkMember(r[i_], sig, 0, proof);
        same(id, anchor.receiptId(r[i_]), "id");
        same(at_, block.timestamp, "anchored at");
        vm.assume(junk != proof[0]);
        proof[0] = junk;
        vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.BadProof.selector, root));
        anchor.checkMember(r[i_], sig, 0, proof);
    }

    function test_a_receipt_that_differs_from_its_header_is_no_member(bytes32 junk, uint8 field) public {
        vm.assume(junk != ENVIRONMENT && junk != MODEL && uint64(uint256(junk)) != EPOCH);
        Receipt memory r = receipt(1);
        anchored(r);
        field %= 3;
        if (field == 0) r.environment = junk;
        else if (field == 1) r.modelId = junk;
        else r.keyEpoch = uint64(uint256(junk));
        bytes32 name = field == 0 ? bytes32("environment") : field == 1 ? bytes32("modelId") : bytes32("keyEpoch");
        checked(r, signature(r), abi.encodeWithSelector(IReceiptAnchor.HeaderMismatch.selector, name));
    }

    function test_a_receipt_of_another_chain_is_no_member(uint64 chain) public {
        vm.assume(chain != block.chainid);
        Receipt memory r = receipt(1);
        r.chainId = chain;
        anchored(r);
        checked(r, signature(r), abi.encodeWithSelector(IReceiptAnchor.ForeignChain.selector, chain, block.chainid));
    }

    function test_a_number_outside_its_batch_is_no_member(uint64 seq) public {
        vm.assume(seq != 1);
        anchored(receipt(1));
        Receipt memory r = receipt(seq);
        checked(r, signature(r), abi.encodeWithSelector(IReceiptAnchor.SequenceOutsideBatch.selector, seq, 1, 1));
    }

    function test_a_strangers_or_malformed_signature_makes_no_member(uint128 key, bytes memory junk) public {
        uint256 stranger = bound(key, 1, type(uint128).max);
        vm.assume(stranger != OPERATOR_KEY);
        Receipt memory r = receipt(1);
        anchored(r);
        checked(
            r,
            signed(stranger, anchor.receiptId(r)),
            abi.encodeWithSelector(IReceiptAnchor.BadSignature.selector, vm.addr(stranger), operator)
        );
        vm.assume(junk.length != 65);
        checked(r, junk, abi.encodeWithSelector(IReceiptAnchor.BadSignature.selector, address(0), operator));
    }

    function test_only_a_plain_receipt_without_an_enclave_is_a_member_in_this_version(uint8 mode, address enclave)
        public
    {
        // Half of the runs name no enclave, so that the mode decides alone: a tee receipt needs its second signature.
        if (mode % 2 == 0) enclave = address(0);
        if (mode > 200) mode = 2;
        Receipt memory r = receipt(1);
        (r.mode, r.enclaveKey) = (mode, enclave);
        anchored(r);
        bytes memory sig = signature(r);
        vm.warp(block.timestamp + 1 hours + 1);
        if (mode == 2 && enclave == address(0)) return that(anchor.isFinal(r, sig, 0, none()), "plain");
        bytes memory err = abi.encodeWithSelector(IReceiptAnchor.UnsupportedMode.selector, mode, enclave);
        checked(r, sig, err);
        vm.expectRevert(err);
        anchor.isFinal(r, sig, 0, none());
    }

    function test_a_tee_receipt_without_its_enclaves_signature_is_no_member(uint64 salt) public {
        Receipt memory r = receipt(1);
        (r.mode, r.reqHash) = (1, bytes32(uint256(salt)));
        anchored(r);
        checked(r, signature(r), abi.encodeWithSelector(IReceiptAnchor.UnsupportedMode.selector, uint8(1), address(0)));
    }

    function test_a_receipt_says_whether_its_client_signed_or_delegated(uint8 clientMode) public {
        if (clientMode > 128) clientMode %= 4;
        Receipt memory r = receipt(1);
        r.clientMode = clientMode;
        anchored(r);
        bytes memory sig = signature(r);
        if (clientMode != 1 && clientMode != 2) {
            vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.UnknownClientMode.selector, clientMode));
        }
        anchor.checkMember(r, sig, 0, none());
    }

    function test_there_is_no_member_of_no_batch(uint64 batchId) public {
        Receipt memory r = receipt(1);
        bytes memory sig = signature(r);
        vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.UnknownBatch.selector, batchId));
        anchor.checkMember(r, sig, batchId, none());
    }

    // --- finality ---

    function test_a_receipt_is_final_when_its_window_is_over(uint32 wait) public {
        Receipt memory r = receipt(1);
        anchored(r);
        bytes memory sig = signature(r);
        uint256 end = block.timestamp + 1 hours;
        vm.warp(block.timestamp + wait);
        if (block.timestamp <= end) vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.WindowOpen.selector, end));
        bool ok = anchor.isFinal(r, sig, 0, none());
        if (block.timestamp > end) that(ok, "final");
    }

    function test_finality_follows_the_verdict(uint64 salt, uint8 kind, uint32 wait) public {
        vm.roll(block.number + salt % 1000);
        bytes32 id = opened(challenger, 1);
        Receipt memory r = receipt(1);
        bytes memory sig = signature(r);
        drawn(id);
        vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.DisputePending.selector, id));
        anchor.isFinal(r, sig, 0, none());
        kind %= 4;
        unanimous(id, kind == 0 ? equal() : kind == 1 ? other("x") : kind == 2 ? defect(1) : doubt(Outcome.UNAVAILABLE));
        vm.warp(block.timestamp + wait);
        r.issuedAt = lens.disputeView(id).openedAt;
        r.anchorBy = r.issuedAt + 600;
        if (kind != 0) vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.ReceiptVoid.selector, id, kind + 1));
        that(anchor.isFinal(r, sig, 0, none()) || kind != 0, "upheld is final");
    }

    // --- equivocation ---

    function test_two_leaves_with_one_number_cost_a_slash_once(uint64 seq, bytes32 a, bytes32 b, address reporter)
        public
    {
        vm.assume(a != b && reporter != address(0));
        (Receipt memory r1, Receipt memory r2) = (receipt(seq), receipt(seq));
        (r1.outHash, r2.outHash) = (a, b);
        (bytes memory s1, bytes memory s2) = (signature(r1), signature(r2));
        uint256 credit = ledger.creditOf(reporter);
        vm.prank(reporter);
        anchor.equivocation(r1, s1, r2, s2);
        same(vault.stakeOf(operator), 90 ether, "slashed");
        same(ledger.creditOf(reporter) - credit, 3 ether, "alpha");
        same(ledger.totalBurned(), 7 ether, "burned");
        moneyBalances();
        vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.AlreadyPunished.selector, operator, seq));
        anchor.equivocation(r2, s2, r1, s1);
    }

    function test_a_receipt_beside_an_empty_leaf_is_equivocation(uint64 seq) public {
        Receipt memory r = receipt(seq);
        EmptyLeaf memory e = EmptyLeaf(operator, seq, block.chainid);
        bytes memory sig = signature(r);
        anchor.equivocationWithEmpty(r, sig, e, signed(OPERATOR_KEY, anchor.emptyLeafId(e)));
        same(vault.stakeOf(operator), 90 ether, "slashed");
    }

    function equivocated(uint64 seq, bytes memory err) private {
        (Receipt memory r1, Receipt memory r2) = (receipt(seq), receipt(seq));
        r2.outHash = "another";
        (bytes memory s1, bytes memory s2) = (signature(r1), signature(r2));
        if (err.length != 0) vm.expectRevert(err);
        anchor.equivocation(r1, s1, r2, s2);
    }

    function test_an_equivocation_that_disputes_leave_nothing_for_can_be_reported_again(uint96 free, uint64 salt)
        public
    {
        vm.roll(block.number + salt % 1000);
        bytes32 id = opened(challenger, 1);
        // The dispute binds 10 ether; what it leaves is not enough for a second slash, or nothing at all.
        uint256 left = bound(free, 0, 10 ether - 1);
        exited(90 ether - left);
        bytes memory nothing = abi.encodeWithSelector(IReceiptAnchor.NothingToSlash.selector, operator, 7);
        equivocated(7, left == 0 ? nothing : bytes(""));
        same(vault.stakeOf(operator), 10 ether, "what was free is taken and what is bound is not");
        equivocated(7, nothing);
        drawn(id);
        unanimous(id, equal());
        equivocated(7, "");
        same(vault.stakeOf(operator), left, "one slash in all");
        equivocated(7, abi.encodeWithSelector(IReceiptAnchor.AlreadyPunished.selector, operator, 7));
        moneyBalances();
        nothingIsBound(id);
    }

    /// @dev The operator takes stake out and the clock is where it was, so that no window closes meanwhile.
    function exited(uint256 amount) private {
        uint256 now_ = block.timestamp;
        vm.prank(operator);
        vault.requestUnbond(amount);
        vm.warp(now_ + 1 days);
        vm.prank(operator);
        vault.finishUnbond();
        vm.warp(now_);
    }

    function test_one_leaf_twice_or_two_numbers_are_no_equivocation(uint64 seq, uint64 next) public {
        Receipt memory r = receipt(seq);
        bytes memory sig = signature(r);
        vm.expectRevert(IReceiptAnchor.NoEquivocation.selector);
        anchor.equivocation(r, sig, r, sig);
        vm.assume(next != seq);
        Receipt memory r2 = receipt(next);
        bytes memory sig2 = signature(r2);
        vm.expectRevert(IReceiptAnchor.NoEquivocation.selector);
        anchor.equivocation(r, sig, r2, sig2);
    }

    // --- key epochs ---

    function test_a_draining_epoch_takes_batches_for_the_anchoring_delay_only(uint32 wait) public {
        openEpoch(2);
        epochs.activate(2);
        same(epochs.activeEpoch(), 2, "active");
        vm.warp(block.timestamp + wait);
        that(epochs.isOpenForInclusion(1) == (wait <= 1 hours), "draining");
        that(epochs.isOpenForInclusion(2), "active");
    }

    function test_an_epoch_retires_after_its_retention_and_not_before(uint32 wait) public {
        epochs.drain(EPOCH);
        uint256 until = block.timestamp + 2 days;
        vm.warp(block.timestamp + wait);
        if (block.timestamp < until) {
            vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.RetentionNotOver.selector, EPOCH, until));
        }
        epochs.retire(EPOCH);
        that(!epochs.isOpenForInclusion(EPOCH) || wait <= 1 hours, "closed");
    }

    function test_epochs_move_only_along_their_table(uint8[6] memory moves) public {
        openEpoch(7);
        IKeyEpochs.EpochState have = IKeyEpochs.EpochState.PENDING;
        for (uint256 i = 0; i < moves.length; ++i) {
            uint8 move = moves[i] % 4;
            vm.warp(block.timestamp + 3 days);
            uint8 want = move == 3 ? 5 : move + 2; // ACTIVE, DRAINING, RETIRED, COMPROMISED
            bool ok = move == 3 ? uint8(have) != 5 : uint8(have) + 1 == want && uint8(have) <= 3;
            if (!ok) vm.expectPartialRevert(IKeyEpochs.BadTransition.selector);
            if (move == 0) epochs.activate(7);
            else if (move == 1) epochs.drain(7);
            else if (move == 2) epochs.retire(7);
            else epochs.compromise(7);
            if (ok) have = IKeyEpochs.EpochState(want);
            same(uint8(epochs.epochInfo(7).state), uint8(have), "state");
        }
    }

    function test_a_compromised_epoch_takes_no_batch(uint64 seq) public {
        epochs.compromise(EPOCH);
        seq = 1;
        posted(header(seq, 1, "root"), abi.encodeWithSelector(IReceiptAnchor.EpochNotOpen.selector, EPOCH));
    }

    function test_a_simulated_epoch_is_refused_on_a_production_chain(uint64 chain) public {
        vm.assume(
            chain != 31337 && chain != 1337 && chain != 11155111 && chain != 17000 && chain != 560048 && chain != 0
        );
        vm.chainId(chain);
        bytes memory key = new bytes(65);
        key[0] = 0x04;
        address[] memory shards = new address[](1);
        shards[0] = address(1);
        vm.expectRevert(abi.encodeWithSelector(IKeyEpochs.SimulatedOnProductionChain.selector, chain));
        epochs.openEpoch(9, key, "points", shards, 1, IKeyEpochs.Assurance.SIMULATED, "policy");
        epochs.openEpoch(9, key, "points", shards, 1, IKeyEpochs.Assurance.HARDWARE, "policy");
    }

    // --- owner ---

    function test_only_the_owner_names_environments_models_policies_and_epochs(address who, uint64 n) public {
        vm.assume(who != address(this));
        bytes memory err = abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, who);
        vm.prank(who);
        vm.expectRevert(err);
        registry.setEnvironment(ENVIRONMENT, Status.CLOSED, "");
        vm.prank(who);
        vm.expectRevert(err);
        registry.setModel(MODEL, Status.CLOSED, "");
        vm.prank(who);
        vm.expectRevert(err);
        registry.setPolicy("policy", n, "");
        vm.prank(who);
        vm.expectRevert(err);
        epochs.compromise(n);
    }

    function test_policy_serials_grow(uint64 first, uint64 second) public {
        vm.assume(first > 0);
        registry.setPolicy("first", first, "");
        if (second <= first) {
            vm.expectRevert(abi.encodeWithSelector(IRegistry.SerialNotGrowing.selector, first, second));
        }
        registry.setPolicy("second", second, "");
    }
}
