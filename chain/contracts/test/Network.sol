// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {BlockSeedSource} from "../src/BlockSeedSource.sol";
import {Disputes} from "../src/Disputes.sol";
import {DisputeStore} from "../src/DisputeStore.sol";
import {KeyEpochs} from "../src/KeyEpochs.sol";
import {Ledger} from "../src/Ledger.sol";
import {Lens} from "../src/Lens.sol";
import {Params} from "../src/Params.sol";
import {ReceiptAnchor} from "../src/ReceiptAnchor.sol";
import {Registry} from "../src/Registry.sol";
import {StakeVault} from "../src/StakeVault.sol";
import {Hashes, Outcome, ParamSet, Phase, Receipt, Status, Verdict, Vote} from "../src/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IKeyEpochs} from "../src/interfaces/IKeyEpochs.sol";
import {ILens} from "../src/interfaces/ILens.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {Check} from "./Vm.sol";

/// @title A whole network: one operator, five verifiers with unequal stakes, one challenger
abstract contract Network is Check {
    uint256 internal constant OPERATOR_KEY = 0xA11CE;
    uint256 internal constant VERIFIER_KEY = 0xBEEF00; // + index
    uint256 internal constant VERIFIERS = 5;
    bytes32 internal constant ENVIRONMENT = keccak256("environment");
    bytes32 internal constant MODEL = keccak256("model");
    bytes32 internal constant TOKENS = keccak256("tokens");
    bytes32 internal constant TRACE = keccak256("trace");
    uint64 internal constant EPOCH = 1;

    Params internal params;
    Ledger internal ledger;
    StakeVault internal vault;
    Registry internal registry;
    KeyEpochs internal epochs;
    BlockSeedSource internal seeds;
    ReceiptAnchor internal anchor;
    Disputes internal disputes;
    Lens internal lens;

    address internal operator = vm.addr(OPERATOR_KEY);
    address internal challenger = vm.addr(0xC4A11);
    mapping(address who => uint256 key) internal keyOf;

    /// @notice What a member does in a round.
    struct Act {
        bool commits;
        bool reveals;
        Outcome outcome;
        uint8 code;
        bytes32 tokens;
        bytes32 trace;
        bytes32 digest;
    }

    function setUp() public virtual {
        vm.warp(1_800_000_000);
        vm.roll(1_000);
        deploy(parameters());
        populate();
    }

    function parameters() internal pure virtual returns (ParamSet memory p) {
        p.window = 1 hours;
        p.maxAnchorDelay = 1 hours;
        p.seedTime = 10 minutes;
        p.drawTime = 10 minutes;
        p.commitTime = 1 hours;
        p.revealTime = 30 minutes;
        p.executionBound = 20 minutes;
        p.unbondDelay = 1 days;
        p.daRetention = 3 days;
        p.daMargin = 1 days;
        p.keyRetention = 2 days;
        p.rounds = 2;
        p.seats = [uint16(15), 31];
        p.tauNum = 2;
        p.tauDen = 3;
        p.seedDelayBlocks = 3;
        p.feePerSeat = 0.01 ether;
        p.privacyPrice = 0.05 ether;
        p.slashAmount = 10 ether;
        p.seatStake = 0.1 ether;
        p.absentPenalty = 0.02 ether;
        p.noRevealPenalty = 0.05 ether;
        p.wrongPenalty = 0.1 ether;
        p.minOperatorStake = 20 ether;
        p.minVerifierStake = 5 ether;
        p.auditUnit = 1 ether;
        p.alphaBps = 3_000;
        p.betaBps = 3_000;
        p.operatorShareBps = 5_000;
        p.auditRateBps = 9_000;
        p.maxBatch = 64;
    }

    function deploy(ParamSet memory p) internal {
        params = new Params(p);
        ledger = new Ledger();
        vault = new StakeVault(params, ledger);
        registry = new Registry(params, vault, address(this));
        epochs = new KeyEpochs(params, address(this));
        seeds = new BlockSeedSource();
        anchor = new ReceiptAnchor(params, registry, vault, ledger, epochs);
        disputes = new Disputes(DisputeStore.Parts(params, registry, vault, ledger, anchor, seeds));
        lens = new Lens(Lens.Parts(params, registry, vault, ledger, epochs, anchor, disputes));
        ledger.wire(address(vault), address(disputes), address(anchor));
        vault.wire(address(disputes), address(anchor));
        anchor.wire(disputes);
    }

    function populate() internal {
        registry.setEnvironment(ENVIRONMENT, Status.ACTIVE, "");
        registry.setModel(MODEL, Status.ACTIVE, "");
        openEpoch(EPOCH);
        epochs.activate(EPOCH);
        stake(operator, 100 ether);
        keyOf[operator] = OPERATOR_KEY;
        vm.prank(operator);
        registry.registerOperator("https://operator.example");
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            address v = verifier(i);
            keyOf[v] = VERIFIER_KEY + i;
            stake(v, (20 + 7 * i) * 1 ether);
            vm.prank(v);
            registry.registerVerifier();
        }
        vm.roll(block.number + 1);
    }

    function openEpoch(uint64 epoch) internal {
        bytes memory key = new bytes(65);
        key[0] = 0x04;
        address[] memory shards = new address[](3);
        for (uint160 i = 0; i < 3; ++i) {
            shards[i] = address(0x5000 + i);
        }
        epochs.openEpoch(epoch, key, "points", shards, 2, IKeyEpochs.Assurance.SIMULATED, "policy");
    }

    // --- actors ---

    function verifier(uint256 i) internal pure returns (address) {
        return vm.addr(VERIFIER_KEY + i);
    }

    function stake(address who, uint256 amount) internal virtual {
        vm.deal(who, who.balance + amount);
        vm.prank(who);
        vault.deposit{value: amount}();
    }

    function signed(uint256 key, bytes32 digest) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    // --- receipts ---

    function receipt(uint64 seq) internal view returns (Receipt memory r) {
        r.operator = operator;
        r.seq = seq;
        r.reqHash = keccak256(abi.encode("request", seq));
        r.tokensHash = TOKENS;
        r.outHash = Hashes.outHash(TOKENS, TRACE);
        r.modelId = MODEL;
        r.environment = ENVIRONMENT;
        r.keyEpoch = EPOCH;
        r.envelopeHash = keccak256(abi.encode("envelope", seq));
        r.issuedAt = uint64(block.timestamp);
        r.anchorBy = uint64(block.timestamp) + 600;
        r.mode = 2;
        r.clientMode = 2;
        r.chainId = block.chainid;
    }

    function signature(Receipt memory r) internal view returns (bytes memory) {
        return signed(keyOf[r.operator], anchor.receiptId(r));
    }

    function header(uint64 firstSeq, uint32 count, bytes32 root)
        internal
        pure
        returns (IReceiptAnchor.BatchHeader memory)
    {
        return IReceiptAnchor.BatchHeader(
            firstSeq, count, root, keccak256("list"), ENVIRONMENT, MODEL, EPOCH, "eigenda:standard:0x00"
        );
    }

    /// @dev A batch of one: its root is its leaf and its proof is empty.
    function anchored(Receipt memory r) internal returns (uint64 batchId) {
        bytes32 leaf = Hashes.batchLeaf(anchor.receiptId(r), r.seq);
        vm.prank(r.operator);
        return anchor.post(header(r.seq, 1, leaf));
    }

    function leafPair(bytes32 a, bytes32 b) internal pure returns (bytes32) {
        return a < b ? keccak256(abi.encode(a, b)) : keccak256(abi.encode(b, a));
    }

    function none() internal pure returns (bytes32[] memory) {
        return new bytes32[](0);
    }

    // --- disputes ---

    function opened(address who, uint64 seq) internal returns (bytes32 id) {
        Receipt memory r = receipt(seq);
        uint64 batchId = anchored(r);
        return openedAs(who, r, batchId);
    }

    function openedAs(address who, Receipt memory r, uint64 batchId) internal returns (bytes32) {
        bytes memory sig = signature(r);
        uint256 bond = params.requiredBond();
        vm.deal(who, who.balance + bond);
        vm.prank(who);
        return disputes.open{value: bond}(r, sig, batchId, none());
    }

    function drawn(bytes32 id) internal {
        vm.roll(lens.disputeView(id).seedBlock + 1);
        disputes.draw(id);
    }

    function members(bytes32 id) internal view returns (IDisputes.Member[] memory) {
        return disputes.membersOf(id, disputes.dispute(id).round);
    }

    function voteOf(bytes32 id, IDisputes.Member memory m, Act memory act) internal view returns (Vote memory v) {
        v.dispute = id;
        v.round = disputes.dispute(id).round;
        v.voter = m.voter;
        v.seatMask = m.seatMask;
        v.outcome = uint8(act.outcome);
        v.code = act.code;
        v.tokensHash = act.tokens;
        v.traceRoot = act.trace;
        v.roundDigest = act.digest;
        v.quoteHash = keccak256("quote");
        v.salt = keccak256(abi.encode("salt", m.voter));
    }

    function committed(bytes32 id, IDisputes.Member memory m, Act memory act) internal {
        bytes32 commitment = disputes.hashVote(voteOf(id, m, act));
        vm.prank(m.voter);
        disputes.commit(id, m.seatMask, commitment);
    }

    function revealed(bytes32 id, IDisputes.Member memory m, Act memory act) internal {
        Vote memory v = voteOf(id, m, act);
        vm.prank(m.voter);
        disputes.reveal(v, "quote");
    }

    /// @dev Plays one drawn round to the point where it can be settled.
    function played(bytes32 id, Act[] memory acts) internal {
        IDisputes.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (acts[i].commits) committed(id, list[i], acts[i]);
        }
        if (disputes.phaseOf(id) != Phase.REVEAL) vm.warp(lens.disputeView(id).commitEnd + 1);
        for (uint256 i = 0; i < list.length; ++i) {
            if (acts[i].commits && acts[i].reveals) revealed(id, list[i], acts[i]);
        }
        if (!disputes.isSettleable(id)) vm.warp(lens.disputeView(id).revealEnd + 1);
    }

    /// @dev All members do the same.
    function unanimous(bytes32 id, Act memory act) internal {
        Act[] memory acts = new Act[](members(id).length);
        for (uint256 i = 0; i < acts.length; ++i) {
            acts[i] = act;
        }
        played(id, acts);
        disputes.settle(id);
    }

    function equal() internal pure returns (Act memory) {
        return Act(true, true, Outcome.EXECUTED, 0, TOKENS, TRACE, keccak256("round"));
    }

    function other(bytes32 tokens) internal pure returns (Act memory) {
        return Act(true, true, Outcome.EXECUTED, 0, tokens, TRACE, keccak256("round"));
    }

    function defect(uint8 code) internal pure returns (Act memory) {
        return Act(true, true, Outcome.INVALID, code, 0, 0, 0);
    }

    function doubt(Outcome outcome) internal pure returns (Act memory) {
        return Act(true, true, outcome, 0, 0, 0, 0);
    }

    function absent() internal pure returns (Act memory act) {}

    function silent() internal pure returns (Act memory act) {
        act = equal();
        act.reveals = false;
    }

    // --- what must always hold ---

    function moneyBalances() internal view {
        ILens.Money memory m = lens.money();
        same(m.vaultBalance, m.totalStake + m.totalUnbonding, "vault");
        same(m.ledgerBalance, m.totalBonds + m.totalCredits + m.totalBurned, "ledger");
    }

    /// @dev After the end of every dispute nothing is bound.
    function nothingIsBound(bytes32 id) internal view {
        same(ledger.potOf(id), 0, "pot");
        same(vault.lockedOf(operator), 0, "operator's lock");
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            same(vault.lockedOf(verifier(i)), 0, "verifier's lock");
        }
    }
}
