// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EmptyLeaf, Receipt} from "../Types.sol";

/// @title IReceiptAnchor: batches of receipts, membership, finality, equivocation
interface IReceiptAnchor {
    /// @notice What an operator posts for a batch.
    struct BatchHeader {
        uint64 firstSeq; // sequence number of leaf 0; one more than the last anchored
        uint32 count; // leaves, 1..maxBatch
        bytes32 root; // OpenZeppelin commutative Merkle root over the leaves
        bytes32 listHash; // digest of the list of signed receipts on DA
        bytes32 environment; // ACTIVE
        bytes32 modelId; // ACTIVE
        uint64 keyEpoch; // open for inclusion
        bytes locator; // where the list is
    }

    /// @notice A batch as stored.
    struct Batch {
        address operator;
        uint64 anchoredAt; // unix seconds of its block: the window starts here
        uint64 blockNumber;
        BatchHeader header;
    }

    /// @notice A batch was anchored; its window runs from `anchoredAt`.
    event BatchAnchored(
        uint64 indexed batchId, address indexed operator, BatchHeader header, uint64 anchoredAt, uint64 blockNumber
    );
    /// @notice `operator` signed two different leaves with one number and lost `slashed` wei.
    event Equivocation(
        address indexed operator, uint64 indexed seq, bytes32 first, bytes32 second, address reporter, uint256 slashed
    );

    /// @notice The caller is not a registered operator.
    error NotOperator(address who);
    /// @notice A number was left out or used again.
    error SequenceGap(uint64 have, uint64 want);
    /// @notice The batch is empty, too large, or its numbers overflow.
    error BadCount(uint256 count, uint256 max);
    /// @notice The environment is not ACTIVE.
    error EnvironmentNotActive(bytes32 environment);
    /// @notice The model is not ACTIVE.
    error ModelNotActive(bytes32 modelId);
    /// @notice The key epoch takes no new batches.
    error EpochNotOpen(uint64 keyEpoch);
    /// @notice No staked verifier could be drawn for a dispute.
    error NoPool();
    /// @notice The operator's free stake is below the minimum.
    error CollateralTooSmall(address operator, uint256 have, uint256 want);
    /// @notice There is no such batch.
    error UnknownBatch(uint64 batchId);
    /// @notice The receipt was made for another chain.
    error ForeignChain(uint256 have, uint256 want);
    /// @notice A field of the receipt contradicts the batch header.
    /// @param field its name
    error HeaderMismatch(bytes32 field);
    /// @notice The receipt's number lies outside its batch.
    error SequenceOutsideBatch(uint64 seq, uint64 first, uint32 count);
    /// @notice The signature is not the operator's.
    error BadSignature(address recovered, address operator);
    /// @notice The Merkle proof does not lead to the root.
    error BadProof(bytes32 root);
    /// @notice Only a plain receipt without an enclave is a member: mode tee needs a second signature (design section 3),
    ///         which this version cannot check.
    error UnsupportedMode(uint8 mode, address enclaveKey);
    /// @notice The client mode is neither signed nor delegated.
    error UnknownClientMode(uint8 clientMode);
    /// @notice The window is open until `end`.
    error WindowOpen(uint256 end);
    /// @notice A dispute about the receipt runs.
    error DisputePending(bytes32 dispute);
    /// @notice The receipt lost its dispute.
    error ReceiptVoid(bytes32 dispute, uint8 verdict);
    /// @notice The two leaves are no equivocation.
    error NoEquivocation();
    /// @notice This equivocation has cost its whole slash.
    error AlreadyPunished(address operator, uint64 seq);
    /// @notice The operator has no stake that is not bound by disputes: report again when they are over.
    error NothingToSlash(address operator, uint64 seq);

    /// @notice Anchor the caller's next batch.
    /// @return batchId index of the batch, from 0
    function post(BatchHeader calldata header) external returns (uint64 batchId);
    /// @notice Punish an operator that signed two different receipts with one number. Permissionless; alpha to the caller.
    ///         What disputes bind is left to them: a report that takes less than a slash can be repeated for the rest.
    function equivocation(Receipt calldata r1, bytes calldata sig1, Receipt calldata r2, bytes calldata sig2) external;
    /// @notice Punish an operator that signed a receipt and an empty leaf with one number.
    function equivocationWithEmpty(
        Receipt calldata r,
        bytes calldata sig,
        EmptyLeaf calldata empty,
        bytes calldata emptySig
    ) external;

    /// @notice EIP-712 digest of a receipt: its identity.
    function receiptId(Receipt calldata r) external view returns (bytes32);
    /// @notice EIP-712 digest of an empty leaf.
    function emptyLeafId(EmptyLeaf calldata e) external view returns (bytes32);
    /// @notice Check that a signed receipt is a member of a batch; revert with the reason if it is not.
    /// @return id the receipt's identity
    /// @return anchoredAt when its window began
    function checkMember(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        view
        returns (bytes32 id, uint64 anchoredAt);
    /// @notice True if the receipt is accepted for good; reverts with the reason otherwise. Nothing else means "accepted".
    function isFinal(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        view
        returns (bool);
    /// @notice A batch.
    function batch(uint64 batchId) external view returns (Batch memory);
    /// @notice Number of batches.
    function batchCount() external view returns (uint64);
    /// @notice The last anchored number of an operator; its first batch starts at 1.
    function lastSeq(address operator) external view returns (uint64);
}
