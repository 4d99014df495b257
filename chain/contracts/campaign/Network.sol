// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {Outcome, Receipt, StructHashes, Vote} from "../src/libraries/Types.sol";
import {Phase} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {Deployment} from "./Deployment.sol";

/// @title What actors do on a deployed network: stake, receipts, disputes, votes
abstract contract Network is Deployment {
    uint256 internal constant OPERATOR_KEY = 0xA11CE00; // + index
    uint256 internal constant VERIFIER_KEY = 0xBEEF0000; // + index
    bytes32 internal constant POOL = keccak256("pool");
    bytes32 internal constant ENVIRONMENT = keccak256("environment");
    bytes32 internal constant MODEL = keccak256("model");
    bytes32 internal constant MEASUREMENT = keccak256("measurement");
    bytes32 internal constant TOKENS = keccak256("tokens");
    bytes32 internal constant TRACE = keccak256("trace");
    uint64 internal constant KEY_EPOCH = 1;

    mapping(address who => uint256 key) internal secretOf;

    /// @notice What a member says in a round.
    struct Act {
        Outcome outcome;
        uint8 code;
        bytes32 tokens;
        bytes32 trace;
        bytes32 digest;
    }

    // --- actors ---

    function operatorAt(uint256 i) internal pure returns (address) {
        return vm.addr(OPERATOR_KEY + i);
    }

    function verifierAt(uint256 i) internal pure returns (address) {
        return vm.addr(VERIFIER_KEY + i);
    }

    function stake(address who, uint256 amount) internal {
        vm.prank(who);
        vault.deposit{value: amount}();
    }

    // --- time ---

    /// @dev Blocks come every 12 seconds, as on main net.
    function pass(uint256 seconds_) internal {
        vm.warp(block.timestamp + seconds_);
        vm.roll(block.number + (seconds_ + BLOCK_TIME - 1) / BLOCK_TIME);
    }

    /// @dev Block `number` is the newest, or an older one.
    function reach(uint256 number) internal {
        if (number > block.number) pass((number - block.number) * BLOCK_TIME);
    }

    /// @dev Until the protocol clock shows `time`; a pause that runs is sat out.
    function until(uint256 time) internal {
        uint64 pausedUntil = guardian.pausedUntil();
        if (pausedUntil != 0) pass(pausedUntil - block.timestamp);
        uint64 now_ = guardian.clock();
        if (time > now_) pass(time - now_);
    }

    // --- receipts ---

    function receipt(address operator, uint64 seq, bytes32 environment) internal view returns (Receipt memory r) {
        r.operator = operator;
        r.seq = seq;
        r.reqHash = keccak256(abi.encode("request", seq));
        r.tokensHash = TOKENS;
        r.outHash = StructHashes.outHash(TOKENS, TRACE);
        r.modelId = MODEL;
        r.environment = environment;
        r.keyEpoch = KEY_EPOCH;
        r.envelopeHash = keccak256(abi.encode("envelope", seq));
        r.issuedAt = uint64(block.timestamp);
        r.anchorBy = uint64(block.timestamp) + 600;
        r.mode = 2;
        r.clientMode = 2;
        r.chainId = block.chainid;
    }

    function signature(Receipt memory r) internal view returns (bytes memory) {
        return signed(secretOf[r.operator], anchor.receiptId(r));
    }

    function listOf(Receipt memory r) internal pure returns (bytes memory) {
        return abi.encode("list", r.operator, r.seq);
    }

    /// @dev The labelled hash of `bytewise/protocol/digests.py`, said again.
    function listDigest(bytes memory list) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(uint64(24), "bytewise/v1/receipt-list", uint64(list.length), list));
    }

    function headerOf(Receipt memory r, uint32 count, bytes32 root)
        internal
        pure
        returns (IReceiptAnchor.BatchHeader memory h)
    {
        h.firstSeq = r.seq;
        h.count = count;
        h.root = root;
        h.listHash = listDigest(listOf(r));
        h.environment = r.environment;
        h.modelId = r.modelId;
        h.keyEpoch = r.keyEpoch;
        h.locator = "eigenda:standard:0x00";
    }

    /// @dev A batch of one: its root is its leaf and its proof is empty.
    function anchored(Receipt memory r) internal returns (uint64 batchId) {
        bytes32 leaf = StructHashes.batchLeaf(anchor.receiptId(r), r.seq);
        uint256 fee = market.feeFor(1);
        IReceiptAnchor.BatchHeader memory h = headerOf(r, 1, leaf);
        vm.prank(r.operator);
        return anchor.post{value: fee}(h);
    }

    function none() internal pure returns (bytes32[] memory) {
        return new bytes32[](0);
    }

    // --- disputes ---

    function opened(address who, Receipt memory r, uint64 batchId, bytes32 altCommit) internal returns (bytes32) {
        bytes memory sig = signature(r);
        uint256 bond = params.requiredBond(anchor.batch(batchId).paramsVersion);
        vm.prank(who);
        return disputes.open{value: bond}(r, sig, batchId, none(), altCommit);
    }

    function roundOf(bytes32 id) internal view returns (IRounds.Round memory) {
        return rounds.roundOf(id, disputes.roundsOf(id));
    }

    function members(bytes32 id) internal view returns (IRounds.Member[] memory) {
        return rounds.membersOf(id, disputes.roundsOf(id));
    }

    /// @dev The seed block is over: its header.
    function seeded(bytes32 id, bytes32 salt) internal returns (bytes memory) {
        uint256 seedBlock = roundOf(id).seedBlock;
        reach(seedBlock + 1);
        return minted(seedBlock, salt);
    }

    function drawn(bytes32 id, bytes32 salt) internal {
        bytes memory header_ = seeded(id, salt);
        disputes.draw(id, 255, header_);
    }

    function voteOf(bytes32 id, IRounds.Member memory m, Act memory act) internal view returns (Vote memory v) {
        v.dispute = id;
        v.round = disputes.roundsOf(id);
        v.voter = m.voter;
        v.seatMask = m.seatMask;
        v.outcome = uint8(act.outcome);
        v.code = act.code;
        v.tokensHash = act.tokens;
        v.traceRoot = act.trace;
        v.roundDigest = act.digest;
        v.quoteHash = keccak256("quote");
        v.salt = keccak256(abi.encode("salt", id, v.round, m.voter));
    }

    function committed(bytes32 id, IRounds.Member memory m, Act memory act) internal {
        bytes32 commitment = rounds.hashVote(voteOf(id, m, act));
        vm.prank(m.voter);
        rounds.commit(id, m.seatMask, commitment);
    }

    function revealed(bytes32 id, IRounds.Member memory m, Act memory act) internal {
        rounds.reveal(voteOf(id, m, act), "quote");
    }

    /// @dev All members with a holder say the same, and the round is counted.
    function unanimous(bytes32 id, Act memory act) internal {
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter != address(0)) committed(id, list[i], act);
        }
        if (disputes.phaseOf(id) == Phase.COMMIT) until(uint256(roundOf(id).commitEnd) + 1);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter != address(0)) revealed(id, list[i], act);
        }
        if (!disputes.isSettleable(id)) until(uint256(roundOf(id).revealEnd) + 1);
        disputes.settle(id);
    }

    /// @dev Past appeal and airgap.
    function finalized(bytes32 id) internal {
        until(uint256(disputes.dispute(id).airgapEnd) + 1);
        disputes.finalize(id);
    }

    // --- what members say ---

    function equal() internal pure returns (Act memory) {
        return Act(Outcome.EXECUTED, 0, TOKENS, TRACE, keccak256("round"));
    }

    function other(bytes32 tokens) internal pure returns (Act memory) {
        return Act(Outcome.EXECUTED, 0, tokens, TRACE, keccak256("round"));
    }

    function defect(uint8 code) internal pure returns (Act memory) {
        return Act(Outcome.INVALID, code, 0, 0, 0);
    }

    function doubt(Outcome outcome) internal pure returns (Act memory) {
        return Act(outcome, 0, 0, 0, 0);
    }
}
