// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EmptyLeaf, Receipt} from "../libraries/Types.sol";
import {IDemands} from "./IDemands.sol";
import {IDisputes} from "./IDisputes.sol";

/// @title IReceiptAnchor: batches of receipts, membership, windows, finality
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

    /// @notice A batch as stored. The locator is in the event only.
    struct Batch {
        address operator;
        uint64 anchoredAt; // wall time of its block: what `anchorBy` and expiry are compared with
        uint64 blockNumber;
        uint64 startedAt; // protocol clock: the window runs from here
        uint32 paramsVersion;
        uint64 firstSeq;
        uint32 count;
        uint64 keyEpoch;
        uint64 stoppedAtStart; // the pool's stopped seconds then
        bool isVoid; // its list was demanded in vain: no receipt of it is ever accepted
        bool released; // its collateral is free
        bytes32 root;
        bytes32 listHash;
        bytes32 environment;
        bytes32 modelId;
    }

    /// @notice What is known of a receipt that is questioned, or of a batch.
    struct Question {
        bytes32 receiptId; // 0 for a batch
        address operator;
        uint32 count; // leaves of the batch
        uint32 paramsVersion;
        uint64 windowEnd; // last second (protocol clock) to question
        bytes32 pool;
    }

    event BatchAnchored(uint64 indexed batchId, address indexed operator, BatchHeader header, Batch batch);
    event BatchVoided(uint64 indexed batchId);

    error NotOperator(address who);
    /// @notice Too many disputes with this operator ended in a DRAW: its batches were taken until `until` (protocol clock).
    error OperatorSuspended(address who, uint64 until);
    error SequenceGap(uint64 have, uint64 want);
    error BadCount(uint256 count, uint256 max);
    error EnvironmentNotActive(bytes32 environment);
    error ModelNotActive(bytes32 modelId);
    error EpochNotOpen(uint64 keyEpoch);
    /// @notice The pool of the environment cannot seat the largest round.
    error PoolTooSmall(bytes32 pool);
    error UnknownBatch(uint64 batchId);
    error ForeignChain(uint256 have, uint256 want);
    error HeaderMismatch(bytes32 field);
    error SequenceOutsideBatch(uint64 seq, uint64 first, uint32 count);
    error BadSignature(address recovered, address operator);
    error BadProof(bytes32 root);
    /// @notice A list has another digest than the header says.
    error BadAnswer(bytes32 have, bytes32 want);
    /// @notice Receipts and signatures are not as many as the batch has leaves.
    error LeavesMissing(uint256 receipts, uint256 sigs, uint256 count);
    error UnsupportedMode(uint8 mode, address enclaveKey);
    error UnknownClientMode(uint8 clientMode);
    error WindowOpen(uint256 end);
    error DisputePending(bytes32 dispute);
    error DemandPending(bytes32 subject);
    error ReceiptVoid(bytes32 dispute, uint8 verdict);
    error BatchIsVoid(uint64 batchId);
    /// @notice Less was sent than the places cost.
    error FeeMismatch(uint256 have, uint256 want);
    /// @notice The caller refused what it had sent too much.
    error PaymentRefused(address account);
    error AlreadyReleased(uint64 batchId);
    /// @notice Demands or disputes hold the collateral.
    error BatchHeld(uint64 batchId, uint32 holds);

    /// @notice Anchor the caller's next batch; `IFeeMarket.feeFor(count)` at least is sent along, the rest comes back, and
    ///         collateral is bound. List and leaves must fit into one transaction, for it may have to be the answer to a demand.
    function post(BatchHeader calldata header) external payable returns (uint64 batchId);
    /// @notice Free the collateral of a batch whose windows are over and that no demand or dispute holds. Anybody.
    function release(uint64 batchId) external;

    /// @notice Question a receipt: `checkMember`, and the batch is held until `unhold`. The court for a dispute, `Demands` for an
    ///         envelope; whether the window is over the caller looks.
    function question(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        returns (Question memory);
    /// @notice The same of a whole batch. `Demands` only.
    function questionBatch(uint64 batchId) external returns (Question memory);
    /// @notice A dispute or demand that held the batch ended. The court and `Demands` only.
    function unhold(uint64 batchId) external;
    /// @notice The list was demanded in vain, and that demand holds the batch no longer. `Demands` only.
    function voidBatch(uint64 batchId) external;

    function receiptId(Receipt calldata r) external view returns (bytes32);
    function emptyLeafId(EmptyLeaf memory e) external view returns (bytes32);
    /// @notice Check that a signed receipt is a member of a batch; revert with the reason if it is not. A member of a void batch
    ///         is one: it can be disputed and never accepted, so that no operator escapes a challenge by withholding.
    function checkMember(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        view
        returns (bytes32 id);
    /// @notice Check that what is signed as `id` is leaf `seq` of a batch of `operator`; whose signature it has the caller looks.
    function checkLeaf(bytes32 id, address operator, uint64 seq, uint64 batchId, bytes32[] calldata proof)
        external
        view
        returns (uint32 paramsVersion);
    /// @notice Check that a list, whose digest must be the header's, and leaves, whose root must be, are those of a batch: all of them.
    ///         `receipts` in order; one of mode 0 stands for the empty leaf of its operator, number and chain. `sigs` are the
    ///         operator's, of each; of every receipt environment, model and epoch are the header's.
    function checkList(uint64 batchId, bytes calldata list, Receipt[] calldata receipts, bytes[] calldata sigs)
        external
        view;
    /// @notice Last second (protocol clock) to question a receipt of a batch: window, stops of the pool and of demands included.
    ///         While something stands still it moves with the clock. Compare it with the clock of the same block only: once
    ///         the clock is past it, it is past it for good, whatever stops come later.
    /// @param receiptId_ of a member; 0: of those whose envelopes nobody demanded
    function windowEnd(bytes32 receiptId_, uint64 batchId) external view returns (uint64);
    /// @notice True if the receipt is accepted for good; reverts with the reason otherwise. Nothing else means "accepted".
    function isFinal(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        view
        returns (bool);
    function batch(uint64 batchId) external view returns (Batch memory);
    /// @notice Leaves of a batch.
    function countOf(uint64 batchId) external view returns (uint32);
    function batchCount() external view returns (uint64);
    function lastSeq(address operator) external view returns (uint64);
    /// @notice The dispute court.
    function disputes() external view returns (IDisputes);
    /// @notice Who asks for what is withheld.
    function demands() external view returns (IDemands);
}
