// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";
import {IKeyEpochs} from "./interfaces/IKeyEpochs.sol";
import {ILedger} from "./interfaces/ILedger.sol";
import {IParams} from "./interfaces/IParams.sol";
import {IReceiptAnchor} from "./interfaces/IReceiptAnchor.sol";
import {IRegistry} from "./interfaces/IRegistry.sol";
import {IStakeSource} from "./interfaces/IStakeSource.sol";
import {EmptyLeaf, Hashes, ParamSet, Phase, Receipt, Status, Verdict} from "./Types.sol";
import {Wired} from "./Wired.sol";

/// @title ReceiptAnchor: where a receipt's window begins, and the only place that says "accepted"
contract ReceiptAnchor is IReceiptAnchor, EIP712, Wired {
    uint256 private constant BPS = 10_000;
    uint8 private constant MODE_PLAIN = 2;
    uint8 private constant CLIENT_SIGNED = 1;
    uint8 private constant CLIENT_DELEGATED = 2;

    /// @notice The network's parameters.
    IParams public immutable PARAMS;
    /// @notice Operators, environments, models, pool.
    IRegistry public immutable REGISTRY;
    /// @notice Where stakes are.
    IStakeSource public immutable VAULT;
    /// @notice Where slashed stake goes.
    ILedger public immutable LEDGER;
    /// @notice Key epochs.
    IKeyEpochs public immutable EPOCHS;
    /// @notice The dispute court.
    IDisputes public disputes;

    /// @inheritdoc IReceiptAnchor
    mapping(address operator => uint64) public lastSeq;

    Batch[] private _batches;
    /// @dev Wei that an equivocation has cost so far; it is punished when that is a whole slash.
    mapping(address operator => mapping(uint64 seq => uint256)) private _paid;

    constructor(IParams params, IRegistry registry, IStakeSource vault, ILedger ledger, IKeyEpochs epochs)
        EIP712("Bytewise", "1")
    {
        PARAMS = params;
        REGISTRY = registry;
        VAULT = vault;
        LEDGER = ledger;
        EPOCHS = epochs;
    }

    /// @notice Name the dispute court. Once, by the deployer.
    function wire(IDisputes disputes_) external wiring {
        _nonZero(address(disputes_));
        disputes = disputes_;
    }

    /// @inheritdoc IReceiptAnchor
    function post(BatchHeader calldata header) external returns (uint64 batchId) {
        _checkSequence(header);
        _checkServable(header);
        batchId = uint64(_batches.length);
        lastSeq[msg.sender] = header.firstSeq + header.count - 1;
        _batches.push(Batch(msg.sender, uint64(block.timestamp), uint64(block.number), header));
        emit BatchAnchored(batchId, msg.sender, header, uint64(block.timestamp), uint64(block.number));
    }

    /// @inheritdoc IReceiptAnchor
    function equivocation(Receipt calldata r1, bytes calldata sig1, Receipt calldata r2, bytes calldata sig2) external {
        bytes32 first = _signedReceipt(r1, sig1);
        bytes32 second = _signedReceipt(r2, sig2);
        if (r1.operator != r2.operator || r1.seq != r2.seq) revert NoEquivocation();
        _punish(r1.operator, r1.seq, first, second);
    }

    /// @inheritdoc IReceiptAnchor
    function equivocationWithEmpty(
        Receipt calldata r,
        bytes calldata sig,
        EmptyLeaf calldata empty,
        bytes calldata emptySig
    ) external {
        bytes32 first = _signedReceipt(r, sig);
        bytes32 second = emptyLeafId(empty);
        _checkChain(empty.chainId);
        _checkSigner(second, emptySig, empty.operator);
        if (r.operator != empty.operator || r.seq != empty.seq) revert NoEquivocation();
        _punish(r.operator, r.seq, first, second);
    }

    /// @inheritdoc IReceiptAnchor
    function receiptId(Receipt calldata r) public view returns (bytes32) {
        return _hashTypedDataV4(Hashes.receipt(r));
    }

    /// @inheritdoc IReceiptAnchor
    function emptyLeafId(EmptyLeaf calldata e) public view returns (bytes32) {
        return _hashTypedDataV4(Hashes.emptyLeaf(e));
    }

    /// @inheritdoc IReceiptAnchor
    function checkMember(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        public
        view
        returns (bytes32 id, uint64 anchoredAt)
    {
        if (batchId >= _batches.length) revert UnknownBatch(batchId);
        Batch storage b = _batches[batchId];
        _checkModes(r);
        _checkHeader(r, b);
        id = _signedReceipt(r, sig);
        if (!MerkleProof.verifyCalldata(proof, b.header.root, Hashes.batchLeaf(id, r.seq))) {
            revert BadProof(b.header.root);
        }
        return (id, b.anchoredAt);
    }

    /// @inheritdoc IReceiptAnchor
    function isFinal(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        view
        returns (bool)
    {
        (bytes32 id, uint64 anchoredAt) = checkMember(r, sig, batchId, proof);
        (bytes32 dispute, Phase phase, Verdict verdict,) = disputes.receiptStatus(id);
        if (phase == Phase.NONE) {
            uint256 end = uint256(anchoredAt) + PARAMS.get().window;
            if (block.timestamp <= end) revert WindowOpen(end);
            return true;
        }
        if (phase != Phase.FINAL) revert DisputePending(dispute);
        if (verdict != Verdict.UPHELD) revert ReceiptVoid(dispute, uint8(verdict));
        return true;
    }

    /// @inheritdoc IReceiptAnchor
    function batch(uint64 batchId) external view returns (Batch memory) {
        if (batchId >= _batches.length) revert UnknownBatch(batchId);
        return _batches[batchId];
    }

    /// @inheritdoc IReceiptAnchor
    function batchCount() external view returns (uint64) {
        return uint64(_batches.length);
    }

    function _checkSequence(BatchHeader calldata h) private view {
        uint64 want = lastSeq[msg.sender] + 1;
        if (h.firstSeq != want) revert SequenceGap(h.firstSeq, want);
        uint256 max = PARAMS.get().maxBatch;
        if (h.count == 0 || h.count > max) revert BadCount(h.count, max);
    }

    function _checkServable(BatchHeader calldata h) private view {
        if (!REGISTRY.operatorInfo(msg.sender).registered) revert NotOperator(msg.sender);
        if (REGISTRY.environmentStatus(h.environment) != Status.ACTIVE) revert EnvironmentNotActive(h.environment);
        if (REGISTRY.modelStatus(h.modelId) != Status.ACTIVE) revert ModelNotActive(h.modelId);
        if (!EPOCHS.isOpenForInclusion(h.keyEpoch)) revert EpochNotOpen(h.keyEpoch);
        // Seats are drawn with replacement, so one staked verifier can seat any round.
        if (REGISTRY.poolSize() == 0) revert NoPool();
        uint256 want = PARAMS.get().minOperatorStake;
        uint256 have = VAULT.freeStakeOf(msg.sender);
        if (have < want) revert CollateralTooSmall(msg.sender, have, want);
    }

    function _checkModes(Receipt calldata r) private pure {
        // Who wants the mark of an enclave must bring its signature; nothing here could check one yet.
        if (r.mode != MODE_PLAIN || r.enclaveKey != address(0)) revert UnsupportedMode(r.mode, r.enclaveKey);
        if (r.clientMode != CLIENT_SIGNED && r.clientMode != CLIENT_DELEGATED) revert UnknownClientMode(r.clientMode);
    }

    function _checkHeader(Receipt calldata r, Batch storage b) private view {
        if (r.operator != b.operator) revert HeaderMismatch("operator");
        if (r.environment != b.header.environment) revert HeaderMismatch("environment");
        if (r.modelId != b.header.modelId) revert HeaderMismatch("modelId");
        if (r.keyEpoch != b.header.keyEpoch) revert HeaderMismatch("keyEpoch");
        if (r.seq < b.header.firstSeq || r.seq - b.header.firstSeq >= b.header.count) {
            revert SequenceOutsideBatch(r.seq, b.header.firstSeq, b.header.count);
        }
    }

    function _signedReceipt(Receipt calldata r, bytes calldata sig) private view returns (bytes32 id) {
        _checkChain(r.chainId);
        id = receiptId(r);
        _checkSigner(id, sig, r.operator);
    }

    function _checkChain(uint256 chainId) private view {
        if (chainId != block.chainid) revert ForeignChain(chainId, block.chainid);
    }

    function _checkSigner(bytes32 digest, bytes calldata sig, address operator) private pure {
        // A malformed signature recovers to nobody; an operator of zero would then match it.
        (address recovered, ECDSA.RecoverError err,) = ECDSA.tryRecoverCalldata(digest, sig);
        if (err != ECDSA.RecoverError.NoError || recovered != operator) revert BadSignature(recovered, operator);
    }

    function _punish(address operator, uint64 seq, bytes32 first, bytes32 second) private {
        if (first == second) revert NoEquivocation();
        ParamSet memory p = PARAMS.get();
        uint256 paid = _paid[operator][seq];
        if (paid == p.slashAmount) revert AlreadyPunished(operator, seq);
        bytes32 ref = keccak256(abi.encode("equivocation", operator, seq));
        uint256 slashed = VAULT.slash(operator, 0, p.slashAmount - paid, ref);
        if (slashed == 0) revert NothingToSlash(operator, seq);
        _paid[operator][seq] = paid + slashed;
        LEDGER.credit(ref, msg.sender, slashed * p.alphaBps / BPS, ILedger.Reason.EQUIVOCATION_REPORT);
        LEDGER.close(ref, ILedger.BurnReason.EQUIVOCATION);
        emit Equivocation(operator, seq, first, second, msg.sender, slashed);
    }
}
