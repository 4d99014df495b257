// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Receipt} from "../libraries/Types.sol";

/// @title IDemands: availability demands, and faults of an operator that need no committee
/// @notice Receipts and empty leaves are signed under the EIP-712 domain of `ReceiptAnchor`.
interface IDemands {
    /// @notice What is demanded.
    enum Kind {
        NONE,
        LIST, // subject: `listSubject` of a batch
        ENVELOPE, // subject: receipt id, member of a batch
        ANCHOR // subject: `anchorSubject` of a receipt that was given out and not anchored
    }

    /// @notice State of a demand.
    enum State {
        NONE,
        OPEN,
        ANSWERED,
        EXPIRED // nobody answered in time
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
        uint96 bond; // wei
    }

    event Demanded(
        bytes32 indexed subject, Kind kind, address indexed operator, address by, uint64 deadline, uint96 bond
    );
    /// @notice LIST: the arguments of `answerList`, ABI-encoded; ENVELOPE: a new locator; ANCHOR: empty.
    event Answered(bytes32 indexed subject, Kind kind, address by, bytes answer);
    /// @notice Nobody answered; this call took `slashed` wei. Emitted again if a later call takes the rest of the penalty.
    event Expired(bytes32 indexed subject, Kind kind, uint256 slashed);
    event BatchVoided(uint64 indexed batchId);
    event Equivocation(
        address indexed operator, uint64 indexed seq, bytes32 first, bytes32 second, address reporter, uint256 slashed
    );
    /// @notice `reporter` showed a signed receipt whose number the operator anchored as an empty leaf.
    event Skipped(
        address indexed operator,
        uint64 indexed seq,
        uint64 batchId,
        bytes32 receiptId,
        address reporter,
        uint256 slashed
    );
    /// @notice Stake that was slashed under `ref` was shared: `share` wei to `to`, `burned` wei burned.
    event Collected(bytes32 indexed ref, address indexed to, uint256 share, uint256 burned);

    /// @notice Demand the list of a batch inside its window, once. The bond is `bondOf(Kind.LIST, batchId)`.
    function demandList(uint64 batchId) external payable;
    /// @notice Answer with the list and all leaves. Anybody may; the bond is the operator's. A receipt of mode 0 stands for the
    ///         empty leaf of its operator, number and chain.
    function answerList(uint64 batchId, bytes calldata list, Receipt[] calldata receipts, bytes[] calldata sigs)
        external;
    /// @notice Demand the envelope of a member inside its window, once.
    function demandEnvelope(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        payable;
    /// @notice Answer with a locator. The operator only.
    function answerEnvelope(bytes32 receiptId, bytes calldata locator) external;
    /// @notice Demand that a receipt be anchored: after its `anchorBy`, while its number is not anchored. The operator has
    ///         `maxAnchorDelay` on the protocol clock; nothing excuses it.
    function demandAnchor(Receipt calldata r, bytes calldata sig) external payable;
    /// @notice Show the demanded receipt in a batch. Anybody.
    function answerAnchor(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof) external;
    /// @notice End a demand that nobody answered in time; again for what is left of its penalty. Anybody.
    function expire(bytes32 subject) external;
    /// @notice Share slashed stake that has arrived since. Anybody.
    /// @param ref `equivocationRef`, `unanchoredRef`, or `listSubject`
    function collect(bytes32 ref) external;
    /// @notice Show two different receipts that one operator signed with one number. Anybody; costs a slash.
    function equivocation(Receipt calldata r1, bytes calldata sig1, Receipt calldata r2, bytes calldata sig2) external;
    /// @notice Show a signed receipt, and its operator's empty leaf with the same number as member of a batch. Anybody; costs
    ///         `unanchoredPenalty` of the batch's parameters, once for each number, together with an expired demand to anchor.
    function reportSkipped(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof) external;

    function demand(bytes32 subject) external view returns (Demand memory);
    function listSubject(uint64 batchId) external view returns (bytes32);
    function anchorSubject(bytes32 receiptId) external view returns (bytes32);
    /// @notice Reference under which an equivocation is punished.
    function equivocationRef(address operator, uint64 seq) external view returns (bytes32);
    /// @notice Reference under which a number that was skipped, or not anchored when demanded, is punished: once.
    function unanchoredRef(address operator, uint64 seq) external view returns (bytes32);
    /// @notice Bond of a demand. LIST: `demandBond * count`; ENVELOPE: `demandBond`, both of the batch's parameters; ANCHOR:
    ///         `demandBond` of those in force, whatever the batch.
    function bondOf(Kind kind, uint64 batchId) external view returns (uint256);
}
