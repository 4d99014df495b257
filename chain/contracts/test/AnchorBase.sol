// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManager} from "@openzeppelin/contracts/access/manager/AccessManager.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {StakeTree} from "../src/stake/StakeTree.sol";
import {Audits} from "../src/anchor/Audits.sol";
import {Demands} from "../src/demands/Demands.sol";
import {FeeMarket} from "../src/anchor/FeeMarket.sol";
import {Guardian} from "../src/governance/Guardian.sol";
import {KeyEpochs} from "../src/keys/KeyEpochs.sol";
import {Ledger} from "../src/stake/Ledger.sol";
import {Params} from "../src/governance/Params.sol";
import {ReceiptAnchor} from "../src/anchor/ReceiptAnchor.sol";
import {Registry} from "../src/stake/Registry.sol";
import {StakeBook} from "../src/stake/StakeBook.sol";
import {StakeVault} from "../src/stake/StakeVault.sol";
import {EmptyLeaf, ParamSet, Phase, Receipt, StructHashes, Verdict} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";
import {IKeyEpochs} from "../src/interfaces/IKeyEpochs.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {Defaults} from "./Defaults.sol";
import {Holders} from "./Holders.sol";

/// @title What the anchor asks of a court, without committees: whoever tests says how a dispute stands
/// @dev Holds and domain are real; the court itself is tested in its own files and, with all of this, in the campaign.
contract Bench is EIP712 {
    struct Case {
        Phase phase;
        Verdict verdict;
        bytes32 replacement;
        uint16 rounds;
    }

    mapping(bytes32 receiptId => Case) private _cases;

    constructor() EIP712("Bytewise", "1") {}

    function put(bytes32 receiptId, Phase phase, Verdict verdict) external {
        _cases[receiptId] = Case(phase, verdict, 0, 1);
    }

    function advance(bytes32 receiptId, uint16 rounds) external {
        _cases[receiptId].rounds = rounds;
    }

    function replace(bytes32 receiptId, bytes32 replacement) external {
        _cases[receiptId] = Case(Phase.FINAL, Verdict.OVERTURNED, replacement, 1);
    }

    function question(IReceiptAnchor anchor, Receipt calldata r, bytes calldata sig, uint64 batchId)
        external
        returns (IReceiptAnchor.Question memory)
    {
        return anchor.question(r, sig, batchId, new bytes32[](0));
    }

    function unhold(IReceiptAnchor anchor, uint64 batchId) external {
        anchor.unhold(batchId);
    }

    function receiptStatus(bytes32 receiptId) external view returns (bytes32, Phase, Verdict, bytes32) {
        Case memory c = _cases[receiptId];
        return (receiptId, c.phase, c.verdict, c.replacement);
    }

    /// @dev A dispute has the id of its receipt here.
    function roundsOf(bytes32 id) external view returns (uint16) {
        return _cases[id].rounds;
    }

    /// @dev It knows its rounds itself.
    function ROUNDS() external view returns (address) {
        return address(this);
    }

    function domainSeparator() external view returns (bytes32) {
        return _domainSeparatorV4();
    }
}

/// @title Everything around receipts: one operator, five verifiers with unequal stakes
abstract contract AnchorBase is Holders {
    uint256 internal constant OPERATOR_KEY = 0xA11CE;
    uint256 internal constant VERIFIER_KEY = 0xBEEF00; // + index
    uint256 internal constant VERIFIERS = 5;
    bytes32 internal constant POOL = keccak256("exact-1");
    bytes32 internal constant ENVIRONMENT = keccak256("environment");
    bytes32 internal constant MODEL = keccak256("model");
    bytes32 internal constant VECTORS = keccak256("vectors");
    bytes32 internal constant MEASUREMENT = keccak256("measurement");
    bytes32 internal constant TOKENS = keccak256("tokens");
    bytes32 internal constant TRACE = keccak256("trace");
    uint64 internal constant EPOCH = 1;
    uint256 internal constant FEE = 1 gwei;

    AccessManager internal manager;
    Params internal params;
    Guardian internal guardian;
    Ledger internal ledger;
    StakeVault internal vault;
    Registry internal registry;
    KeyEpochs internal epochs;
    FeeMarket internal fees;
    ReceiptAnchor internal anchor;
    Demands internal demands;
    Audits internal audits;
    Bench internal bench;

    /// @dev Kept, because hashing is a call, which an expected revert would be taken for.
    bytes32 internal listHash = listDigest("list");
    address internal operator = vm.addr(OPERATOR_KEY);
    address internal stranger = address(0x57A4);
    /// @dev Leaves of batches of one, as they were anchored.
    mapping(uint64 batchId => Receipt) private _leaves;
    mapping(uint64 batchId => bytes) private _leafSigs;

    function setUp() public virtual {
        vm.warp(1_800_000_000);
        vm.roll(1_000);
        deploy();
        populate();
    }

    function parameters() internal pure virtual returns (ParamSet memory) {
        return Defaults.parameters();
    }

    function deploy() internal {
        manager = new AccessManager(address(this));
        params = new Params(address(manager), parameters());
        guardian = new Guardian(address(manager), params);
        ledger = new Ledger(address(manager), guardian, params);
        vault = new StakeVault(StakeBook.Parts(address(manager), guardian, params, ledger));
        registry = new Registry(address(manager), guardian, params, vault);
        epochs = new KeyEpochs(address(manager), params, guardian, registry);
        fees = new FeeMarket(address(manager), guardian, uint96(FEE), 1 ether, 1_000, 1 hours);
        bench = new Bench();
        IDisputes court = IDisputes(address(bench));
        anchor = new ReceiptAnchor(ReceiptAnchor.Parts(params, guardian, registry, vault, epochs, fees));
        demands = new Demands(Demands.Parts(params, guardian, registry, vault, ledger, anchor));
        audits = new Audits(Audits.Parts(params, guardian, registry, vault, ledger, epochs, anchor, court));
        anchor.wire(court, demands);
        fees.wire(address(anchor), audits);
        ledger.wire(address(vault), address(this), address(demands), address(audits), address(this));
        vault.wire(registry, address(this), address(anchor), address(demands));
        registry.wire(address(bench));
    }

    function populate() internal {
        StakeTree tree = new StakeTree(300, 8, 1 ether, 100_000);
        tree.wire(address(registry));
        registry.addPool(POOL, tree);
        registry.setMeasurement(MEASUREMENT, true);
        stake(operator, 100 ether);
        vm.prank(operator);
        registry.registerOperator("https://operator.example");
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            stake(verifier(i), (20 + 7 * i) * 1 ether);
            vm.prank(verifier(i));
            registry.join(POOL, keccak256(abi.encode("platform", i)), MEASUREMENT);
        }
        vm.roll(block.number + 300);
        activate(ENVIRONMENT, POOL);
        activate(MODEL, 0);
        putInForce(EPOCH);
    }

    function activate(bytes32 item, bytes32 pool) internal {
        registry.propose(item, pool, VECTORS, "");
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            vm.prank(verifier(i));
            registry.certify(item, VECTORS);
        }
        registry.activate(item);
    }

    /// @dev An epoch of three shards of which two open.
    function openEpoch(uint64 epoch) internal {
        bytes memory key = new bytes(65);
        key[0] = 0x04;
        epochs.openEpoch(epoch, key, points(key, 2), holders(3, 0), 2, IKeyEpochs.Assurance.SIMULATED, "policy");
    }

    function putInForce(uint64 epoch) internal {
        openEpoch(epoch);
        vouch(epochs, epoch, 3);
        epochs.activate(epoch);
    }

    // --- actors ---

    function verifier(uint256 i) internal pure returns (address) {
        return vm.addr(VERIFIER_KEY + i);
    }

    function stake(address who, uint256 amount) internal {
        vm.deal(who, who.balance + amount);
        vm.prank(who);
        vault.deposit{value: amount}();
    }

    function paused(uint64 duration) internal {
        guardian.pause(duration);
    }

    function refusedWhilePaused() internal {
        vm.expectRevert(abi.encodeWithSelector(IGuardian.NotNow.selector, true));
    }

    // --- receipts ---

    function receipt(uint64 seq) internal view returns (Receipt memory r) {
        r.operator = operator;
        r.seq = seq;
        r.reqHash = keccak256(abi.encode("request", seq));
        r.tokensHash = TOKENS;
        r.outHash = StructHashes.outHash(TOKENS, TRACE);
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
        return signed(OPERATOR_KEY, anchor.receiptId(r));
    }

    function emptySignature(EmptyLeaf memory e) internal view returns (bytes memory) {
        return signed(OPERATOR_KEY, anchor.emptyLeafId(e));
    }

    function header(uint64 firstSeq, uint32 count, bytes32 root)
        internal
        view
        returns (IReceiptAnchor.BatchHeader memory h)
    {
        h.firstSeq = firstSeq;
        h.count = count;
        h.root = root;
        h.listHash = listHash;
        h.environment = ENVIRONMENT;
        h.modelId = MODEL;
        h.keyEpoch = EPOCH;
        h.locator = "eigenda:standard:0x00";
    }

    /// @dev The labelled hash of `bytewise/protocol/digests.py`, said again.
    function listDigest(bytes memory list) internal pure returns (bytes32) {
        bytes memory label = "bytewise/v1/receipt-list";
        return sha256(bytes.concat(bytes8(uint64(24)), label, bytes8(uint64(list.length)), list));
    }

    function leafOf(Receipt memory r) internal view returns (bytes32) {
        return StructHashes.batchLeaf(anchor.receiptId(r), r.seq);
    }

    function posted(IReceiptAnchor.BatchHeader memory h) internal returns (uint64) {
        uint256 fee = fees.feeFor(h.count);
        vm.deal(operator, operator.balance + fee);
        vm.prank(operator);
        return anchor.post{value: fee}(h);
    }

    /// @dev A batch of one: its root is its leaf and its proof is empty.
    function anchored(Receipt memory r) internal returns (uint64) {
        return anchored(r, header(r.seq, 1, leafOf(r)));
    }

    function anchored(Receipt memory r, IReceiptAnchor.BatchHeader memory h) internal returns (uint64 batchId) {
        batchId = posted(h);
        (_leaves[batchId], _leafSigs[batchId]) = (r, signature(r));
    }

    /// @dev The list, and the one leaf of the batch. One call, so that a test can expect what becomes of it.
    function answersList(uint64 batchId, bytes memory list) internal {
        (Receipt[] memory receipts, bytes[] memory sigs) = (new Receipt[](1), new bytes[](1));
        (receipts[0], sigs[0]) = (_leaves[batchId], _leafSigs[batchId]);
        demands.answerList(batchId, list, receipts, sigs);
    }

    function none() internal pure returns (bytes32[] memory) {
        return new bytes32[](0);
    }

    function err(bytes4 selector, uint256 a) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(selector, a);
    }

    function err(bytes4 selector, uint256 a, uint256 b) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(selector, a, b);
    }

    function balanced() internal view {
        uint256 sum = ledger.totalPots() + ledger.totalCredits() + ledger.treasury() + ledger.totalBurned();
        same(address(ledger).balance, sum, "ledger");
        same(address(vault).balance, vault.totalStake() + vault.totalUnbonding(), "vault");
    }
}
