// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {LabelLib} from "../libraries/LabelLib.sol";
import {LeafLib} from "../libraries/LeafLib.sol";
import {EmptyLeaf, Phase, Receipt, StructHashes, Verdict} from "../libraries/Types.sol";
import {Wired} from "../libraries/Wired.sol";
import {IDemands} from "../interfaces/IDemands.sol";
import {IDisputes} from "../interfaces/IDisputes.sol";
import {IFeeMarket} from "../interfaces/IFeeMarket.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IKeyEpochs} from "../interfaces/IKeyEpochs.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";
import {IStakeSource} from "../interfaces/IStakeSource.sol";

/// @title ReceiptAnchor: where a receipt's window begins, and the only place to ask whether it is accepted
/// @dev A batch:
///
///      NONE -post-> OPEN -release-> RELEASED
///
///      and beside it, from `question` or `questionBatch` to `unhold` or `voidBatch`, HELD, once for each dispute and demand: what is
///      held is not released. `voidBatch` makes it VOID for ever; it is released like any other. A receipt is accepted (`isFinal`)
///      when its batch is not VOID, no demand or dispute about it is open, its dispute, if it had one, ended UPHELD, and its
///      window is over. DRAW and REFUNDED make it void, too.
///
///      | transition | who pays         | what                                | to whom                                 |
///      |------------|------------------|-------------------------------------|-----------------------------------------|
///      | `post`     | operator         | `IFeeMarket.feeFor(count)`          | audit pool, by `FEES`; the rest is back |
///      | `post`     | operator's stake | `count * receiptCollateral`         | bound                                   |
///      | `release`  | operator's stake | the same, of the batch's parameters | free                                    |
///
///      Every other transition moves nothing. Invariants (docs/reference/contracts.md, section 6):
///
///      I10 BOUND: The collateral of a batch is bound from `post` to `release`, which frees it once.
///      I14 ENDS: A batch that nothing holds can be released once the longest window of its receipts is over.
///      I27 ACCEPTED FOR GOOD: A receipt that `isFinal` accepts can neither be questioned nor be void any more.
///      I28 HELD: `holds` counts the open disputes and the open demands for list and envelopes of the batch.
contract ReceiptAnchor is IReceiptAnchor, EIP712, Wired {
    /// @notice What this contract works with.
    struct Parts {
        IParams params;
        IGuardian guardian;
        IRegistry registry;
        IStakeSource vault;
        IKeyEpochs epochs;
        IFeeMarket fees;
    }

    /// @dev What the receipts of many batches were made with, stored once. Whoever shows a receipt is compared with the hash.
    struct Service {
        bytes32 hash;
        bytes32 environment;
        bytes32 modelId;
        bytes32 pool; // of the environment, which never changes
        uint64 keyEpoch;
    }

    /// @dev Four words. Times are seconds: `anchoredAt` wall time, `startedAt` of the protocol clock.
    struct Stored {
        address operator;
        uint40 anchoredAt;
        uint40 startedAt;
        bool released;
        uint64 firstSeq;
        uint32 count;
        uint40 blockNumber;
        uint32 paramsVersion;
        uint32 stoppedAtStart; // the pool's stopped seconds
        uint24 service; // from 1
        uint16 holds; // demands and disputes that are open: two for each of at most 188 leaves, and one
        bool demanded; // list or an envelope, ever: without it no window stood still for a demand, and nobody is asked
        bool isVoid;
        bytes32 root;
        bytes32 listHash;
    }

    /// @notice The network's parameters.
    IParams public immutable PARAMS;
    /// @notice The protocol clock.
    IGuardian public immutable GUARDIAN;
    /// @notice Operators, environments, models, pools.
    IRegistry public immutable REGISTRY;
    /// @notice Where stakes are.
    IStakeSource public immutable VAULT;
    /// @notice Key epochs.
    IKeyEpochs public immutable EPOCHS;
    /// @notice What places cost.
    IFeeMarket public immutable FEES;

    /// @inheritdoc IReceiptAnchor
    IDisputes public disputes;
    /// @inheritdoc IReceiptAnchor
    IDemands public demands;
    /// @inheritdoc IReceiptAnchor
    mapping(address operator => uint64) public lastSeq;
    /// @inheritdoc IReceiptAnchor
    uint64 public batchCount;

    uint24 private _serviceCount;
    mapping(uint64 batchId => Stored) private _batches;
    mapping(uint24 place => Service) private _services;
    mapping(bytes32 hash => uint24 place) private _servicePlace;

    constructor(Parts memory p) EIP712("Bytewise", "1") {
        (PARAMS, GUARDIAN, REGISTRY) = (p.params, p.guardian, p.registry);
        (VAULT, EPOCHS, FEES) = (p.vault, p.epochs, p.fees);
    }

    /// @notice Name the dispute court and who demands. Once, by the deployer.
    function wire(IDisputes disputes_, IDemands demands_) external wiring {
        disputes = IDisputes(_nonZero(address(disputes_)));
        demands = IDemands(_nonZero(address(demands_)));
    }

    // --- a batch from its beginning to its end ---

    /// @inheritdoc IReceiptAnchor
    function post(BatchHeader calldata header) external payable returns (uint64 batchId) {
        if (GUARDIAN.pausedUntil() != 0) revert IGuardian.NotNow(true);
        uint32 version = PARAMS.version();
        (uint256 minStake, uint256 collateral, uint256 maxBatch) = PARAMS.postTerms(version);
        uint64 want = lastSeq[msg.sender] + 1;
        if (header.firstSeq != want) revert SequenceGap(header.firstSeq, want);
        if (header.count == 0 || header.count > maxBatch) revert BadCount(header.count, maxBatch);
        batchId = _push(header, version);
        Batch memory shown = _shown(_batches[batchId]);
        (shown.environment, shown.modelId, shown.keyEpoch) = (header.environment, header.modelId, header.keyEpoch);
        emit BatchAnchored(batchId, msg.sender, header, shown);
        VAULT.reserve(msg.sender, batchId, header.count * collateral, minStake);
        _pay(header.count);
    }

    /// @inheritdoc IReceiptAnchor
    function windowEnd(bytes32 receiptId_, uint64 batchId) external view returns (uint64) {
        (uint256 end,) = _windowEnd(_known(batchId), batchId, receiptId_);
        return SafeCast.toUint64(end);
    }

    /// @inheritdoc IReceiptAnchor
    function isFinal(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        view
        returns (bool)
    {
        bytes32 id = checkMember(r, sig, batchId, proof);
        Stored storage b = _known(batchId);
        if (b.isVoid) revert BatchIsVoid(batchId);
        (uint256 end, bytes32 pending) = _windowEnd(b, batchId, id);
        if (pending != 0) revert DemandPending(pending);
        (bytes32 dispute, Phase phase, Verdict verdict,) = disputes.receiptStatus(id);
        if (phase != Phase.NONE && phase != Phase.FINAL) revert DisputePending(dispute);
        if (phase == Phase.FINAL && verdict != Verdict.UPHELD) revert ReceiptVoid(dispute, uint8(verdict));
        // Upheld early, a receipt could still fall with its list: accepted is for good.
        _checkOver(end);
        return true;
    }

    /// @inheritdoc IReceiptAnchor
    function release(uint64 batchId) external {
        Stored storage b = _known(batchId);
        if (b.released) revert AlreadyReleased(batchId);
        if (b.holds != 0) revert BatchHeld(batchId, b.holds);
        uint256 end = _undemandedEnd(b);
        if (b.demanded) end += demands.longestHeld(batchId);
        _checkOver(end);
        b.released = true;
        (, uint256 each,) = PARAMS.postTerms(b.paramsVersion);
        VAULT.release(b.operator, batchId, b.count * each);
    }

    // --- what holds a batch ---

    /// @inheritdoc IReceiptAnchor
    function question(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        returns (Question memory)
    {
        if (msg.sender != address(disputes)) _checkDemands();
        return _hold(batchId, checkMember(r, sig, batchId, proof));
    }

    /// @inheritdoc IReceiptAnchor
    function questionBatch(uint64 batchId) external returns (Question memory) {
        _checkDemands();
        return _hold(batchId, 0);
    }

    /// @inheritdoc IReceiptAnchor
    function unhold(uint64 batchId) external {
        if (msg.sender != address(disputes)) _checkDemands();
        --_known(batchId).holds;
    }

    /// @inheritdoc IReceiptAnchor
    function voidBatch(uint64 batchId) external {
        _checkDemands();
        Stored storage b = _known(batchId);
        --b.holds;
        b.isVoid = true;
        emit BatchVoided(batchId);
    }

    // --- members ---

    /// @inheritdoc IReceiptAnchor
    function checkMember(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        public
        view
        returns (bytes32 id)
    {
        Stored storage b = _known(batchId);
        LeafLib.checkModes(r);
        _checkService(r, b);
        id = LeafLib.signed(_domainSeparatorV4(), StructHashes.receipt(r), sig, r.operator, r.chainId);
        _checkLeaf(id, r.seq, proof, b);
    }

    /// @inheritdoc IReceiptAnchor
    function checkLeaf(bytes32 id, address operator, uint64 seq, uint64 batchId, bytes32[] calldata proof)
        external
        view
        returns (uint32 paramsVersion)
    {
        Stored storage b = _known(batchId);
        _checkNumber(operator, seq, b);
        _checkLeaf(id, seq, proof, b);
        return b.paramsVersion;
    }

    /// @inheritdoc IReceiptAnchor
    function checkList(uint64 batchId, bytes calldata list, Receipt[] calldata receipts, bytes[] calldata sigs)
        external
        view
    {
        Batch memory b = batch(batchId);
        bytes32 digest = LabelLib.list(list);
        if (digest != b.listHash) revert BadAnswer(digest, b.listHash);
        if (receipts.length != b.count || sigs.length != b.count) {
            revert LeavesMissing(receipts.length, sigs.length, b.count);
        }
        if (LeafLib.rootOf(_leaves(b, receipts, sigs)) != b.root) revert BadProof(b.root);
    }

    /// @inheritdoc IReceiptAnchor
    function receiptId(Receipt calldata r) external view returns (bytes32) {
        return _hashTypedDataV4(StructHashes.receipt(r));
    }

    /// @inheritdoc IReceiptAnchor
    function emptyLeafId(EmptyLeaf memory e) external view returns (bytes32) {
        return _hashTypedDataV4(StructHashes.emptyLeaf(e));
    }

    // --- views ---

    /// @inheritdoc IReceiptAnchor
    function batch(uint64 batchId) public view returns (Batch memory shown) {
        Stored storage b = _known(batchId);
        Service storage s = _services[b.service];
        shown = _shown(b);
        (shown.environment, shown.modelId, shown.keyEpoch) = (s.environment, s.modelId, s.keyEpoch);
    }

    /// @inheritdoc IReceiptAnchor
    function countOf(uint64 batchId) external view returns (uint32) {
        return _known(batchId).count;
    }

    // --- parts of the steps ---

    /// @dev Store a batch of the caller that begins now.
    function _push(BatchHeader calldata h, uint32 version) private returns (uint64 batchId) {
        uint64 clock = GUARDIAN.clock();
        bytes32 pool = _checkServable(h, clock);
        batchId = batchCount++;
        lastSeq[msg.sender] = h.firstSeq + h.count - 1;
        Stored storage b = _batches[batchId];
        b.operator = msg.sender;
        b.anchoredAt = SafeCast.toUint40(block.timestamp);
        b.startedAt = SafeCast.toUint40(clock);
        b.firstSeq = h.firstSeq;
        b.count = h.count;
        b.blockNumber = SafeCast.toUint40(block.number);
        b.paramsVersion = version;
        b.stoppedAtStart = SafeCast.toUint32(REGISTRY.stoppedSeconds(pool));
        b.service = _serviceOf(h.environment, h.modelId, h.keyEpoch, pool);
        b.root = h.root;
        b.listHash = h.listHash;
    }

    /// @dev The caller, environment, model, epoch and the environment's pool are open, or were until lately: what was signed before a
    ///      closure can be anchored for `maxAnchorDelay`.
    function _checkServable(BatchHeader calldata h, uint64 clock) private view returns (bytes32) {
        (bytes32 pool, uint64 ownUntil, uint64 environmentUntil, uint64 modelUntil, uint64 poolUntil) =
            REGISTRY.anchorable(msg.sender, h.environment, h.modelId);
        if (ownUntil == 0) revert NotOperator(msg.sender);
        if (clock > ownUntil) revert OperatorSuspended(msg.sender, ownUntil);
        if (clock > environmentUntil) revert EnvironmentNotActive(h.environment);
        if (clock > modelUntil) revert ModelNotActive(h.modelId);
        if (!EPOCHS.isOpenForInclusion(h.keyEpoch)) revert EpochNotOpen(h.keyEpoch);
        if (clock > poolUntil) revert PoolTooSmall(pool);
        return pool;
    }

    function _serviceOf(bytes32 environment, bytes32 modelId, uint64 keyEpoch, bytes32 pool)
        private
        returns (uint24 place)
    {
        bytes32 hash = _serviceHash(environment, modelId, keyEpoch);
        place = _servicePlace[hash];
        if (place != 0) return place;
        place = ++_serviceCount;
        _servicePlace[hash] = place;
        _services[place] = Service(hash, environment, modelId, pool, keyEpoch);
    }

    function _serviceHash(bytes32 environment, bytes32 modelId, uint64 keyEpoch) private pure returns (bytes32) {
        return keccak256(abi.encode(environment, modelId, keyEpoch));
    }

    function _pay(uint256 count) private {
        uint256 fee = FEES.feeFor(count);
        if (msg.value < fee) revert FeeMismatch(msg.value, fee);
        FEES.use{value: fee}(count);
        // The price may have moved since the transaction was made: what is too much comes back, last of all.
        if (msg.value == fee) return;
        (bool ok,) = msg.sender.call{value: msg.value - fee}("");
        if (!ok) revert PaymentRefused(msg.sender);
    }

    /// @dev One more dispute or demand.
    function _hold(uint64 batchId, bytes32 id) private returns (Question memory) {
        Stored storage b = _known(batchId);
        (uint256 end,) = _windowEnd(b, batchId, id);
        ++b.holds;
        if (msg.sender == address(demands)) b.demanded = true;
        bytes32 pool = _services[b.service].pool;
        return Question(id, b.operator, b.count, b.paramsVersion, SafeCast.toUint64(end), pool);
    }

    /// @dev Last second to question a receipt, and the demand that makes it stand still now, if any does.
    function _windowEnd(Stored storage b, uint64 batchId, bytes32 id)
        private
        view
        returns (uint256 end, bytes32 pending)
    {
        if (b.demanded) (end, pending) = demands.heldFor(batchId, id);
        end += _undemandedEnd(b);
    }

    /// @dev Window, and what the pool stopped since. The clock less the pool's stops never goes back, so a window that was over
    ///      stays over.
    function _undemandedEnd(Stored storage b) private view returns (uint256) {
        uint256 stopped = REGISTRY.stoppedSeconds(_services[b.service].pool);
        // Nothing overflows: times are of 40 bits, and a pool's stops only grow.
        unchecked {
            return uint256(b.startedAt) + PARAMS.window(b.paramsVersion) + stopped - b.stoppedAtStart;
        }
    }

    function _checkOver(uint256 end) private view {
        if (GUARDIAN.clock() <= end) revert WindowOpen(end);
    }

    function _checkDemands() private view {
        if (msg.sender != address(demands)) revert NotAuthorised(msg.sender);
    }

    /// @dev The receipt is of the operator and service that the header names, and of a number of the batch.
    function _checkService(Receipt calldata r, Stored storage b) private view {
        _checkNumber(r.operator, r.seq, b);
        Service storage s = _services[b.service];
        if (_serviceHash(r.environment, r.modelId, r.keyEpoch) == s.hash) return;
        if (r.environment != s.environment) revert HeaderMismatch("environment");
        revert HeaderMismatch(r.modelId != s.modelId ? bytes32("modelId") : bytes32("keyEpoch"));
    }

    function _checkNumber(address operator, uint64 seq, Stored storage b) private view {
        if (operator != b.operator) revert HeaderMismatch("operator");
        if (seq < b.firstSeq || seq - b.firstSeq >= b.count) revert SequenceOutsideBatch(seq, b.firstSeq, b.count);
    }

    /// @dev What was signed as `id` is the leaf of number `seq`.
    /// @dev A tree of `count` leaves has no longer proof: so many leaves there are at most, and so many holds.
    function _checkLeaf(bytes32 id, uint64 seq, bytes32[] calldata proof, Stored storage b) private view {
        if (proof.length > Math.log2(b.count, Math.Rounding.Ceil)) revert BadProof(b.root);
        if (!MerkleProof.verifyCalldata(proof, b.root, StructHashes.batchLeaf(id, seq))) revert BadProof(b.root);
    }

    /// @dev All leaves of the batch, in order.
    function _leaves(Batch memory b, Receipt[] calldata receipts, bytes[] calldata sigs)
        private
        view
        returns (bytes32[] memory leaves)
    {
        leaves = new bytes32[](b.count);
        bytes32 domain = _domainSeparatorV4();
        for (uint64 i = 0; i < leaves.length; ++i) {
            leaves[i] = _leaf(receipts[i], sigs[i], b, b.firstSeq + i, domain);
        }
    }

    /// @dev A receipt of mode 0 stands for the empty leaf of its operator, number and chain.
    ///      Of what the operator signed as that number, for the service that the header names: a receipt under any other is no
    ///      member of its batch, so nobody could demand, dispute or report it, and its number would be taken.
    function _leaf(Receipt calldata r, bytes calldata sig, Batch memory b, uint64 seq, bytes32 domain)
        private
        view
        returns (bytes32)
    {
        if (r.operator != b.operator) revert HeaderMismatch("operator");
        if (r.seq != seq) revert SequenceGap(r.seq, seq);
        bytes32 said;
        if (r.mode == 0) {
            said = StructHashes.emptyLeaf(EmptyLeaf(r.operator, seq, r.chainId));
        } else {
            if (r.environment != b.environment) revert HeaderMismatch("environment");
            if (r.modelId != b.modelId) revert HeaderMismatch("modelId");
            if (r.keyEpoch != b.keyEpoch) revert HeaderMismatch("keyEpoch");
            said = StructHashes.receipt(r);
        }
        return StructHashes.batchLeaf(LeafLib.signed(domain, said, sig, r.operator, r.chainId), seq);
    }

    function _known(uint64 batchId) private view returns (Stored storage b) {
        b = _batches[batchId];
        if (b.count == 0) revert UnknownBatch(batchId);
    }

    /// @dev A batch as the interface shows it, without its service.
    function _shown(Stored storage b) private view returns (Batch memory shown) {
        shown.operator = b.operator;
        shown.anchoredAt = b.anchoredAt;
        shown.blockNumber = b.blockNumber;
        shown.startedAt = b.startedAt;
        shown.paramsVersion = b.paramsVersion;
        shown.firstSeq = b.firstSeq;
        shown.count = b.count;
        shown.stoppedAtStart = b.stoppedAtStart;
        shown.isVoid = b.isVoid;
        shown.released = b.released;
        shown.root = b.root;
        shown.listHash = b.listHash;
    }
}
