// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Receipt} from "../libraries/Types.sol";

/// @title IDemands: what an operator withholds is asked for, and faults that need no committee are reported
/// @notice Batches are the anchor's; a demand for a list or an envelope holds one there.
interface IDemands {
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
    /// @notice LIST: the arguments of `answerList`, as `abi.encode` has them; ENVELOPE: a new locator; ANCHOR: empty, the batch that
    ///         holds it says all.
    event Answered(bytes32 indexed subject, Kind kind, address by, bytes answer);
    /// @notice Nobody answered; `slashed` wei were taken. Again if a call took what the first could not.
    event Expired(bytes32 indexed subject, Kind kind, uint256 slashed);
    /// @notice Stake that was slashed by report `ref` has been shared between `to` and nobody.
    event Collected(bytes32 indexed ref, address indexed to, uint256 share, uint256 burned);

    error NotOperator(address who);
    error WindowClosed(uint256 now_, uint256 end);
    error NoEquivocation();
    error AlreadyPunished(address operator, uint64 seq);
    error NothingToSlash(address operator, uint64 seq);
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
    error TooEarly(uint256 now_, uint256 notBefore);
    error TooLate(uint256 now_, uint256 end);
    /// @notice The receipt's number was anchored: look into the batch.
    error NumberAnchored(uint64 seq, uint64 last);

    /// @notice Demand the list of a batch, for `demandBond` of each of its leaves: so much more the answer costs. Answered, the bond is
    ///         the operator's, whoever brings the answer; unanswered, the batch is void and each receipt costs `withheldPenalty`, all
    ///         of them at least one slash. The window stands still meanwhile. Once per batch, inside its window. Who wants to dispute
    ///         after the answer demands while enough of the window is left.
    function demandList(uint64 batchId) external payable;
    /// @notice List and leaves of the batch (`IReceiptAnchor.checkList`). Anybody may answer. Then everybody has all receipts and
    ///         their proofs; a batch whose list does not fit its root hides none behind it.
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
    /// @notice Two different signed leaves with one number. Permissionless; alpha to who reports first. A report that takes
    ///         less than a slash, because no more stake was left, can be repeated for the rest by anybody.
    function equivocation(Receipt calldata r1, bytes calldata sig1, Receipt calldata r2, bytes calldata sig2) external;
    /// @notice Show a signed receipt whose number its operator anchored as an empty leaf. Costs `unanchoredPenalty` of the batch's
    ///         parameters, once for a number, whether by this or by a demand to anchor; a share to who reports first. Permissionless.
    /// @param proof of the empty leaf in the batch
    function reportSkipped(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof) external;
    /// @notice Share stake that a report or an expiry slashed and that has arrived since. Anybody.
    /// @param ref `equivocationRef`, `unanchoredRef`, or the subject of a demand for a list
    function collect(bytes32 ref) external;

    function demand(bytes32 subject) external view returns (Demand memory);
    /// @notice Seconds for which demands for the list of its batch and for its envelope have made the window of a receipt stand still,
    ///         and which of these demands is open: the list's before the envelope's; 0 without any.
    /// @param receiptId of a member of the batch; 0: the list's demand alone
    function heldFor(uint64 batchId, bytes32 receiptId) external view returns (uint256 held, bytes32 pending);
    /// @notice The longest that ended demands have held the window of one receipt of a batch.
    function longestHeld(uint64 batchId) external view returns (uint256);
    /// @notice Subject of a demand for the list of a batch.
    function listSubject(uint64 batchId) external view returns (bytes32);
    /// @notice Subject of a demand to anchor a receipt.
    function anchorSubject(bytes32 receiptId) external view returns (bytes32);
    /// @notice Reference under which an equivocation is punished.
    function equivocationRef(address operator, uint64 seq) external view returns (bytes32);
    /// @notice Reference under which a receipt is punished that was given out and not anchored.
    function unanchoredRef(address operator, uint64 seq) external view returns (bytes32);
}
