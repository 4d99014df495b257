// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AuditResult, Outcome, Phase, Receipt, Verdict, Vote} from "../Types.sol";

/// @title IDisputes: a receipt is questioned, a committee re-executes, a verdict moves money (design section 9)
///
///      open --> SEED --draw--> COMMIT --> REVEAL --settle--> FINAL
///                ^ \rearm/                   |
///                +------- next round --------+   (inconclusive, rounds left)
///
/// @notice COMMIT ends at `commitEnd` or when every seat has committed; REVEAL at `revealEnd` or when every committed
///         seat has revealed. Chain time is the only clock. Every step but commit and reveal may be taken by anyone.
interface IDisputes {
    /// @notice A dispute. Amounts in wei, times in unix seconds.
    struct Dispute {
        bytes32 receiptId;
        address operator; // accused
        uint64 batchId;
        address challenger; // opener
        uint64 openedAt;
        bytes32 claimedOutHash; // what the receipt says
        uint64 keyEpoch;
        uint16 round; // 1, 2
        Phase phase; // as stored: SEED, COMMIT (drawn) or FINAL
        Verdict verdict; // NONE until FINAL
        uint256 bond;
        uint256 operatorLocked; // operator stake bound by this dispute
        bytes32 replacement; // the output that replaces the claim after OVERTURNED, else 0
    }

    /// @notice One round of a dispute.
    struct Round {
        uint64 seedBlock; // block whose seed draws the seats
        uint64 stakeBlock; // block whose stakes are the weights
        uint64 commitEnd; // last second to commit; 0 before the draw
        uint64 revealEnd; // last second to reveal; 0 before the draw
        uint16 seats;
        uint16 committedSeats;
        uint16 revealedSeats;
        uint8 rearms; // how often the seed was lost
        bytes32 roundSeed; // keccak256(abi.encode(seed, dispute, round)); 0 before the draw
    }

    /// @notice One verifier in one round, with all its seats.
    struct Member {
        address voter;
        uint16 seats;
        Outcome outcome; // NONE until revealed
        uint8 code;
        bool revealed;
        uint256 locked; // stake bound for its seats
        uint256 seatMask; // bit i: seat i
        bytes32 commitment; // 0 until committed
        bytes32 group; // hash of every revealed value; seats count together only if it is equal
        bytes32 outHash; // of an EXECUTED vote, else 0
    }

    /// @notice Seats of a settled round, by what they said.
    struct Tally {
        uint16 equal; // largest group EXECUTED with the claimed outHash
        uint16 lead; // largest group among other EXECUTED and INVALID; the first drawn of equals
        uint16 unavailable;
        uint16 noKey;
        uint16 cannotExecute;
        uint16 notRevealed; // committed only
        uint16 absent; // not committed
        Outcome leadOutcome;
        uint8 leadCode;
        bytes32 leadOutHash;
    }

    /// @notice Where the money of a dispute went.
    ///         bond + slashed + penalties == toChallenger + toVerifiers + toOperator + burned.
    struct Payout {
        uint256 bond;
        uint256 slashed; // really taken from the operator
        uint256 penalties; // really taken from verifiers, all burned
        uint256 toChallenger;
        uint256 toVerifiers;
        uint256 toOperator;
        uint256 burned;
    }

    /// @notice Why a member paid.
    enum Charge {
        NONE,
        ABSENT,
        NOT_REVEALED,
        WRONG,
        CANNOT_EXECUTE
    }

    /// @notice A receipt is questioned.
    event DisputeOpened(
        bytes32 indexed id,
        bytes32 indexed receiptId,
        address indexed operator,
        address challenger,
        uint64 batchId,
        uint256 bond,
        uint256 operatorLocked,
        uint64 seedBlock
    );
    /// @notice Nobody drew while the seed could be read; a new block is named.
    event SeedRearmed(bytes32 indexed id, uint16 indexed round, uint64 seedBlock, uint8 rearms);
    /// @notice The committee is drawn. `seed` is the beacon from which anyone can repeat the draw; one `SeatTaken` per member.
    event SeatsDrawn(
        bytes32 indexed id, uint16 indexed round, bytes32 seed, bytes32 roundSeed, uint16 seats, uint64 commitEnd
    );
    /// @notice A voter holds the seats of `seatMask` and `locked` wei of its stake are bound for them.
    event SeatTaken(bytes32 indexed id, uint16 indexed round, address indexed voter, uint256 seatMask, uint256 locked);
    /// @notice A member committed, for good.
    event Committed(
        bytes32 indexed id, uint16 indexed round, address indexed voter, uint256 seatMask, bytes32 commitment
    );
    /// @notice A member opened its vote; `quote` are the bytes behind `vote.quoteHash`.
    event Revealed(bytes32 indexed id, uint16 indexed round, address indexed voter, Vote vote, bytes quote);
    /// @notice A round is over. `verdict` is NONE if the next round decides.
    event Settled(bytes32 indexed id, uint16 indexed round, Verdict verdict, Tally tally);
    /// @notice An inconclusive round led to a larger one.
    event Escalated(bytes32 indexed id, uint16 indexed round, uint16 seats, uint64 seedBlock);
    /// @notice A member paid a penalty, which is burned. `amount` is what was really taken.
    event MemberCharged(
        bytes32 indexed id, uint16 indexed round, address indexed voter, Charge reason, uint16 seats, uint256 amount
    );
    /// @notice The end of a dispute. `outHash` is what stands for the receipt now; 0 if it is void.
    event Finalized(
        bytes32 indexed id, bytes32 indexed receiptId, Verdict indexed verdict, bytes32 outHash, Payout money
    );
    /// @notice The committee's output replaces the operator's.
    event OutputReplaced(bytes32 indexed receiptId, bytes32 oldOutHash, bytes32 newOutHash);
    /// @notice A light audit's public result.
    event AuditPosted(
        bytes32 indexed receiptId,
        address indexed verifier,
        uint8 result,
        bytes32 commitment,
        uint64 auditedAt,
        bytes signature
    );

    /// @notice The challenge window ended at `end`.
    error WindowClosed(uint256 now_, uint256 end);
    /// @notice A receipt is disputed once.
    error AlreadyDisputed(bytes32 receiptId, bytes32 id);
    /// @notice The bond must be exact.
    error BondMismatch(uint256 have, uint256 want);
    /// @notice Nobody but the opener has stake in the pool: there is no committee to draw, so no verdict to come.
    error NobodyToJudge(address opener);
    /// @notice The dispute is not in that phase.
    error WrongPhase(bytes32 id, Phase have, Phase want);
    /// @notice The step can be taken after `notBefore`.
    error TooEarly(uint256 now_, uint256 notBefore);
    /// @notice The phase ended at `end`.
    error TooLate(uint256 now_, uint256 end);
    /// @notice The seed can still be read: draw.
    error SeedReadable(bytes32 id, uint64 seedBlock);
    /// @notice `who` has no seat in this round.
    error NotMember(bytes32 id, uint16 round, address who);
    /// @notice The mask must name all of the caller's seats and no other.
    error WrongSeatMask(uint256 have, uint256 want);
    /// @notice A commitment is not zero.
    error EmptyCommitment();
    /// @notice A commitment is final.
    error AlreadyCommitted(bytes32 id, uint16 round, address who);
    /// @notice There is no commitment to open.
    error NotCommitted(bytes32 id, uint16 round, address who);
    /// @notice A vote is opened once.
    error AlreadyRevealed(bytes32 id, uint16 round, address who);
    /// @notice The vote is another voter's, or for another dispute or round.
    error ForeignVote(bytes32 dispute, uint16 round, address voter);
    /// @notice The vote does not open the commitment.
    error BadReveal(bytes32 have, bytes32 want);
    /// @notice The quote does not hash to the committed `quoteHash`.
    error BadQuote(bytes32 have, bytes32 want);
    /// @notice Only EXECUTED carries hashes; only INVALID and CANNOT_EXECUTE carry a code.
    error MalformedVote(uint8 outcome, uint8 code);
    /// @notice The audit result is not one of 1, 2, 3.
    error BadAuditResult(uint8 result);
    /// @notice Only registered verifiers audit.
    error NotVerifier(address who);
    /// @notice The signature is not the verifier's.
    error BadSignature(address recovered, address verifier);
    /// @notice One result per receipt and verifier.
    error AlreadyAudited(bytes32 receiptId, address verifier);

    /// @notice Question a receipt: member of its batch, inside its window, never disputed; the exact bond is sent along.
    ///         Somebody else must have stake in the pool, or the draw would end in a DRAW that costs the opener nothing.
    /// @return id the dispute
    function open(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        payable
        returns (bytes32 id);
    /// @notice Draw the committee once the seed block is over.
    function draw(bytes32 id) external;
    /// @notice Name a new seed block because the old one was lost. After three times the dispute ends in a DRAW.
    function rearm(bytes32 id) external;
    /// @notice Commit to a vote with all of the caller's seats. Final.
    function commit(bytes32 id, uint256 seatMask, bytes32 commitment) external;
    /// @notice Open the caller's vote. `quote` is empty where `vote.quoteHash` is zero.
    function reveal(Vote calldata vote, bytes calldata quote) external;
    /// @notice Tally the round and finish the dispute, or go on to the next round.
    function settle(bytes32 id) external;
    /// @notice Post a light audit's result, signed by its verifier. Anyone may post it.
    function postAudit(AuditResult calldata a, bytes calldata sig) external;

    /// @notice The id that a dispute about this receipt has or would have.
    function disputeId(bytes32 receiptId) external view returns (bytes32);
    /// @notice EIP-712 digest of a vote: the commitment.
    function hashVote(Vote calldata vote) external view returns (bytes32);
    /// @notice EIP-712 digest of an audit result.
    function hashAudit(AuditResult calldata a) external view returns (bytes32);
    /// @notice The bond to send with `open`, in wei.
    function requiredBond() external view returns (uint256);
    /// @notice Number of disputes ever opened.
    function disputeCount() external view returns (uint256);
    /// @notice Id of the `index`-th dispute.
    function disputeAt(uint256 index) external view returns (bytes32);
    /// @notice A dispute as stored.
    function dispute(bytes32 id) external view returns (Dispute memory);
    /// @notice Where a dispute stands now, by time.
    function phaseOf(bytes32 id) external view returns (Phase);
    /// @notice One round of a dispute.
    function roundOf(bytes32 id, uint16 round) external view returns (Round memory);
    /// @notice The members of a round, in the order of their first seats.
    function membersOf(bytes32 id, uint16 round) external view returns (Member[] memory);
    /// @notice Whether `settle` would succeed now.
    function isSettleable(bytes32 id) external view returns (bool);
    /// @notice What became of a receipt. Phase NONE: never disputed.
    function receiptStatus(bytes32 receiptId)
        external
        view
        returns (bytes32 id, Phase phase, Verdict verdict, bytes32 replacement);
}
