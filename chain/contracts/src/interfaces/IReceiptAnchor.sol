// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EmptyLeaf, Receipt} from "../libraries/Types.sol";
import {IDisputes} from "./IDisputes.sol";

/// @title IReceiptAnchor: batches of receipts, membership, finality, equivocation, demands
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
        uint64 extended; // seconds by which list demands moved the window's end
        bool isVoid; // its list was demanded in vain: no receipt of it is ever accepted
        bool released; // its collateral is free
        bytes32 root;
        bytes32 listHash;
        bytes32 environment;
        bytes32 modelId;
    }

    /// @notice What is demanded.
    enum Kind {
        NONE,
        LIST, // subject: batch id
        ENVELOPE, // subject: receipt id, member of a batch
        ANCHOR // subject: `anchorSubject` of a receipt that was given out and not anchored
    }
    /// @notice How a demand stands.
    enum State {
        NONE,
        OPEN,
        ANSWERED,
        EXPIRED // nobody answered
    }

    struct Demand {
        Kind kind;
        State state;
        address by;
        address operator;
        uint64 batchId; // LIST, ENVELOPE
        uint64 seq; // ANCHOR
        uint64 openedAt; // protocol clock
        uint64 deadline; // protocol clock
        uint32 paramsVersion;
        uint96 bond;
    }

    event BatchAnchored(uint64 indexed batchId, address indexed operator, BatchHeader header, Batch batch);
    event Equivocation(
        address indexed operator, uint64 indexed seq, bytes32 first, bytes32 second, address reporter, uint256 slashed
    );
    /// @notice The operator anchored number `seq` as an empty leaf, and had signed a receipt for it.
    event Skipped(
        address indexed operator,
        uint64 indexed seq,
        uint64 batchId,
        bytes32 receiptId,
        address reporter,
        uint256 slashed
    );
    event Demanded(
        bytes32 indexed subject, Kind kind, address indexed operator, address by, uint64 deadline, uint96 bond
    );
    /// @notice LIST: the arguments of `answerList`; ENVELOPE: a new locator; ANCHOR: empty, the batch that holds it says all.
    event Answered(bytes32 indexed subject, Kind kind, address by, bytes answer);
    /// @notice Nobody answered; `slashed` wei were taken. Again if a call took what the first could not.
    event Expired(bytes32 indexed subject, Kind kind, uint256 slashed);
    /// @notice Stake that was slashed by report `ref` has been shared between `to` and nobody.
    event Collected(bytes32 indexed ref, address indexed to, uint256 share, uint256 burned);
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
    /// @notice Receipts and signatures are not as many as the batch has leaves.
    error LeavesMissing(uint256 receipts, uint256 sigs, uint256 count);
    /// @notice The arguments are not encoded as `abi.encode` does it.
    error BadEncoding(bytes32 have, bytes32 want);
    error UnsupportedMode(uint8 mode, address enclaveKey);
    error UnknownClientMode(uint8 clientMode);
    error WindowOpen(uint256 end);
    error WindowClosed(uint256 now_, uint256 end);
    error DisputePending(bytes32 dispute);
    error DemandPending(bytes32 subject);
    error ReceiptVoid(bytes32 dispute, uint8 verdict);
    error BatchIsVoid(uint64 batchId);
    error NoEquivocation();
    error AlreadyPunished(address operator, uint64 seq);
    error NothingToSlash(address operator, uint64 seq);
    /// @notice Less was sent than the places cost.
    error FeeMismatch(uint256 have, uint256 want);
    /// @notice The caller refused what it had sent too much.
    error PaymentRefused(address account);
    error AlreadyReleased(uint64 batchId);
    /// @notice Demands or disputes hold the collateral.
    error BatchHeld(uint64 batchId, uint32 holds);
    /// @notice Nothing slashed by this report waits to be shared.
    error NothingToCollect(bytes32 ref);
    /// @notice Slashed stake is still on its way: the pot has `have` of `want`.
    error NotArrived(bytes32 ref, uint256 have, uint256 want);
    /// @notice A subject is demanded once.
    error AlreadyDemanded(bytes32 subject);
    error NotDemanded(bytes32 subject, State have);
    /// @notice What was demanded is of kind `want`, and this is no answer to it.
    error OtherKind(bytes32 subject, Kind want);
    error BondMismatch(uint256 have, uint256 want);
    error BadAnswer(bytes32 have, bytes32 want);
    error TooEarly(uint256 now_, uint256 notBefore);
    error TooLate(uint256 now_, uint256 end);
    /// @notice The receipt's number was anchored: look into the batch.
    error NumberAnchored(uint64 seq, uint64 last);

    /// @notice Anchor the caller's next batch; `IFeeMarket.feeFor(count)` at least is sent along, the rest comes back, and
    ///         collateral is bound. List and leaves must fit into one transaction, for it may have to be the answer to a demand.
    function post(BatchHeader calldata header) external payable returns (uint64 batchId);
    /// @notice Free the collateral of a batch whose windows are over and that no demand or dispute holds. Anybody.
    function release(uint64 batchId) external;
    /// @notice Two different signed leaves with one number. Permissionless; alpha to who reports first. A report that takes
    ///         less than a slash, because no more stake was left, can be repeated for the rest by anybody.
    function equivocation(Receipt calldata r1, bytes calldata sig1, Receipt calldata r2, bytes calldata sig2) external;
    /// @notice Show a signed receipt whose number its operator anchored as an empty leaf. Costs `unanchoredPenalty` of the batch's
    ///         parameters, once for a number, whether by this or by a demand to anchor; a share to who reports first. Permissionless.
    /// @param proof of the empty leaf in the batch
    function reportSkipped(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof) external;

    /// @notice Demand the list of a batch, for `demandBond` of each of its leaves: so much more the answer costs. Answered, the bond is
    ///         the operator's, whoever brings the answer; unanswered, the batch is void and each receipt costs `withheldPenalty`, all
    ///         of them at least one slash. The window stands still meanwhile. Once per batch, inside its window. Who wants to dispute
    ///         after the answer demands while enough of the window is left.
    function demandList(uint64 batchId) external payable;
    /// @notice The list, whose digest must be the header's, and all leaves, whose root must be. Anybody may answer. Then
    ///         everybody has all receipts and their proofs; a batch whose list does not fit its root hides none behind it.
    ///         `receipts` in order; one of mode 0 stands for the empty leaf of its operator, number and chain. `sigs` are the
    ///         operator's, of each; of every receipt environment, model and epoch are the header's.
    function answerList(uint64 batchId, bytes calldata list, Receipt[] calldata receipts, bytes[] calldata sigs)
        external;
    /// @notice Demand the envelope of a member. The operator answers with a locator; whether bytes are there only a dispute
    ///         can find. The receipt's window stands still meanwhile. Once per receipt.
    function demandEnvelope(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        payable;
    function answerEnvelope(bytes32 receiptId, bytes calldata locator) external;
    /// @notice Demand that a receipt that was given out be anchored: after its `anchorBy`, while its number is not. The operator has
    ///         `maxAnchorDelay`, and must show the batch itself. Until the demand ends, `unanchoredPenalty` of its stake stays. Nothing
    ///         excuses: what was signed before a closure can be anchored for as long after it.
    function demandAnchor(Receipt calldata r, bytes calldata sig) external payable;
    /// @notice Show the demanded receipt in a batch.
    function answerAnchor(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof) external;
    /// @notice End a demand that nobody answered in time. Anybody. Where less than the penalty could be taken it can be
    ///         called again for the rest.
    function expire(bytes32 subject) external;
    /// @notice Share stake that a report or an expiry slashed and that has arrived since. Anybody.
    /// @param ref `equivocationRef`, `unanchoredRef`, or the subject of a demand for a list
    function collect(bytes32 ref) external;

    function receiptId(Receipt calldata r) external view returns (bytes32);
    function emptyLeafId(EmptyLeaf memory e) external view returns (bytes32);
    /// @notice Subject of a demand for the list of a batch.
    function listSubject(uint64 batchId) external view returns (bytes32);
    /// @notice Subject of a demand to anchor a receipt.
    function anchorSubject(bytes32 receiptId_) external view returns (bytes32);
    /// @notice Reference under which an equivocation is punished.
    function equivocationRef(address operator, uint64 seq) external view returns (bytes32);
    /// @notice Reference under which a receipt is punished that was given out and not anchored.
    function unanchoredRef(address operator, uint64 seq) external view returns (bytes32);
    /// @notice Check that a signed receipt is a member of a batch; revert with the reason if it is not. A member of a void batch
    ///         is one: it can be disputed and never accepted, so that no operator escapes a challenge by withholding.
    function checkMember(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        view
        returns (bytes32 id);
    /// @notice Last second (protocol clock) to question a receipt of a batch: window, stops of the pool and of demands included.
    ///         While something stands still it moves with the clock. Compare it with the clock of the same block only: once
    ///         the clock is past it, it is past it for good, whatever stops come later.
    function windowEnd(bytes32 receiptId_, uint64 batchId) external view returns (uint64);
    /// @notice What a court asks of a receipt that is questioned: `windowEnd`, and the parameters and pool of its batch.
    function disputable(bytes32 receiptId_, uint64 batchId)
        external
        view
        returns (uint64 end, uint32 paramsVersion, bytes32 pool);
    /// @notice True if the receipt is accepted for good; reverts with the reason otherwise. Nothing else means "accepted".
    function isFinal(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        view
        returns (bool);
    function batch(uint64 batchId) external view returns (Batch memory);
    function batchCount() external view returns (uint64);
    function lastSeq(address operator) external view returns (uint64);
    /// @notice The dispute court.
    function disputes() external view returns (IDisputes);
    function demand(bytes32 subject) external view returns (Demand memory);
    /// @notice A dispute about a receipt of this batch opened or ended. The court only: open disputes hold the collateral.
    function onDispute(uint64 batchId, bool opened) external;
}
