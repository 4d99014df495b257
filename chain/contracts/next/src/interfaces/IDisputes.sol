// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Bls} from "../../../src/Bls.sol";
import {Certificate} from "../../../src/Certificate.sol";
import {Commit, Finding, Outcome, Phase, Receipt, Standing, Verdict, Vote} from "../Types.sol";

/// @title IDisputes: a receipt is questioned, a committee re-executes, a verdict is found (design section 9)
/// @notice The phase table is in `docs/protocol.md` and `bytewise/protocol/phases.py`; money is `ISettlement`'s. All times are
///         of the protocol clock. Every step but commit and reveal may be taken by anyone, so no dispute waits for a party.
///         A round is one drawn committee, counted from 1; its level says how large it is. A rerun is a new round of the same
///         level, because nobody got the key. Parameters are those in force when the receipt was anchored.
interface IDisputes {
    /// @notice A dispute as it stands.
    struct Dispute {
        bytes32 receiptId;
        bytes32 claimedOutHash;
        bytes32 environment;
        address operator; // accused
        address challenger; // opener
        uint64 batchId;
        uint64 openedAt;
        uint64 keyEpoch;
        uint32 paramsVersion;
        Phase phase; // as stored; `phaseOf` says what it is by now
        uint8 level; // 1 to `Committee.rounds`
        uint16 round;
        uint8 reruns;
        bool appealed;
        bool refunded; // the guardian ended it
        Verdict verdict; // of the last conclusive round; final in FINAL
        uint64 appealEnd; // last second to appeal
        uint64 airgapEnd; // money moves after it
        bytes32 key; // what the verdict says (`TallyLib.keyOf`); 0 without one
        bytes32 secondKey; // the leading fault of a mixed UNAVAILABLE
        bytes32 replacement; // the output that replaces the claim, else 0
    }

    /// @notice One drawn committee.
    struct Round {
        uint64 seedBlock; // whose mix draws the seats
        uint64 commitEnd; // 0 before the draw
        uint64 revealEnd;
        uint16 seats;
        uint16 drawn; // seats drawn so far
        uint8 level;
        uint8 rearms; // how often the seed was lost
        bool settled;
        uint256 committedMask; // of seats
        uint256 revealedMask; // of seats, certified ones included
        bytes32 roundSeed; // keccak256(abi.encode(seed, dispute, round)); 0 before the draw
        bytes32 committee; // `Certificate.form`; 0 if nobody formed it
        bytes32 certifiedGroup; // what the certificate said; 0 without one
        uint256 certifiedMask; // seats it spoke for
    }

    /// @notice One voter in one round, with all its seats.
    struct Member {
        address voter; // 0: nobody holds these seats
        uint16 seats;
        uint256 seatMask; // bit i: seat i
        bytes32 commitment; // 0 until committed, and after the reveal
        bytes32 group; // hash of everything revealed; 0 until revealed
    }

    /// @notice Seats of a round, by what they said.
    struct Tally {
        uint16 equal; // largest group EXECUTED with the claimed outHash
        uint16 lead; // largest group among other EXECUTED and INVALID; the first to get so large
        uint16 unavailable;
        uint16 noKey;
        uint16 cannotExecute;
        uint16 notRevealed; // committed only
        uint16 absent; // not committed
        bytes32 leadKey;
        bytes32 leadOutHash; // 0 if the lead is a defect
        Verdict leadVerdict; // OVERTURNED or INVALID
    }

    event DisputeOpened(
        bytes32 indexed id,
        bytes32 indexed receiptId,
        address indexed operator,
        address challenger,
        uint64 batchId,
        bytes32 altCommit
    );
    event Joined(bytes32 indexed id, address indexed challenger, bytes32 altCommit);
    /// @notice A round waits for its seed. The first one, a larger one, a rerun, or a seed that was lost.
    event SeedNamed(
        bytes32 indexed id, uint16 indexed round, uint8 level, uint16 seats, uint64 seedBlock, uint8 rearms
    );
    /// @notice Seats `from` on are held by `places` of the pool's tree, `NOBODY` for none.
    event SeatsDrawn(bytes32 indexed id, uint16 indexed round, uint16 from, uint16[] places);
    /// @notice All seats are drawn.
    event CommitOpened(
        bytes32 indexed id, uint16 indexed round, bytes32 seed, bytes32 roundSeed, uint64 commitEnd, uint64 revealEnd
    );
    event Committed(
        bytes32 indexed id, uint16 indexed round, address indexed voter, uint256 seatMask, bytes32 commitment
    );
    /// @notice A root over commitments that were collected off-chain; a certificate names the one it belongs to.
    event CommitRootPosted(bytes32 indexed id, uint16 indexed round, bytes32 root, address by);
    event CommitteeFormed(bytes32 indexed id, uint16 indexed round, bytes32 committee, uint256 seated);
    event Revealed(bytes32 indexed id, uint16 indexed round, address indexed voter, Vote vote, bytes quote);
    event Certified(bytes32 indexed id, uint16 indexed round, Finding finding, uint256 signers, uint16 seats);
    /// @notice A round is counted. `verdict` is NONE if it was inconclusive.
    event Settled(bytes32 indexed id, uint16 indexed round, Verdict verdict, Tally tally);
    /// @notice What stands now, and until when it can be appealed and refunded.
    event Decided(bytes32 indexed id, Verdict verdict, uint64 appealEnd, uint64 airgapEnd);
    event Appealed(bytes32 indexed id, address indexed by, uint256 bond);
    /// @notice `challenger` knew the other answer before anybody voted.
    event AltOpened(bytes32 indexed id, address indexed challenger);
    event Finalized(bytes32 indexed id, bytes32 indexed receiptId, Verdict indexed verdict, bytes32 outHash);
    event OutputReplaced(bytes32 indexed receiptId, bytes32 oldOutHash, bytes32 newOutHash);
    /// @notice Too many operators were convicted, or disputes drawn, in one environment: see `isHeld`.
    event BreakerTripped(bytes32 indexed environment, uint256 operators, bool closed);
    event BreakerReset(bytes32 indexed environment);

    error WindowClosed(uint256 now_, uint256 end);
    error AlreadyDisputed(bytes32 receiptId, bytes32 id);
    error BondMismatch(uint256 have, uint256 want);
    error EmptyAltCommit();
    /// @notice The operator's own account may not question it.
    error OwnReceipt(address operator);
    /// @notice The pool cannot seat the largest round.
    error PoolTooSmall(bytes32 pool);
    error AlreadyChallenger(bytes32 id, address who);
    error TooManyChallengers(bytes32 id, uint256 most);
    error WrongPhase(bytes32 id, Phase have, Phase want);
    error TooEarly(uint256 now_, uint256 notBefore);
    error TooLate(uint256 now_, uint256 end);
    /// @notice Nothing would change.
    error NoProgress(bytes32 id);
    /// @notice The seed can still be read and its epoch runs: draw.
    error SeedReadable(bytes32 id, uint64 seedBlock);
    error NotMember(bytes32 id, uint16 round, address who);
    /// @notice The mask must name all of the voter's seats and no other.
    error WrongSeatMask(uint256 have, uint256 want);
    error EmptyCommitment();
    error AlreadyCommitted(bytes32 id, uint16 round, address who);
    error NotCommitted(bytes32 id, uint16 round, address who);
    error AlreadyRevealed(bytes32 id, uint16 round, address who);
    error ForeignVote(bytes32 dispute, uint16 round, address voter);
    error BadReveal(bytes32 have, bytes32 want);
    error BadQuote(bytes32 have, bytes32 want);
    error MalformedVote(uint8 outcome, uint8 code);
    error BadSignature(address recovered, address voter);
    error UnknownRoot(bytes32 root);
    error CommitteeExists(bytes32 id, uint16 round);
    error NoCommittee(bytes32 id, uint16 round);
    error AlreadyCertified(bytes32 id, uint16 round);
    /// @notice A certificate speaks for a quorum that has not revealed.
    error QuorumNotMet(uint256 have, uint256 want);
    error AlreadyAppealed(bytes32 id);
    error LastLevel(bytes32 id);
    error BadAlt(bytes32 have, bytes32 want);
    error NotChallenger(bytes32 id, address who);
    /// @notice The breaker holds convictions of this environment until governance has looked.
    error Held(bytes32 environment);

    /// @notice Question a receipt: member of its batch, inside its window, never disputed, not by its operator, `requiredBond`
    ///         sent along. The operator's stake is locked, the seed block named.
    /// @param altCommit `altCommitOf` of the answer that the opener expects to win and a salt: alpha is for who knew it
    function open(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof, bytes32 altCommit)
        external
        payable
        returns (bytes32 id);
    /// @notice Join before the seed block, with `joinBond`: up to 4 more challengers share alpha, so that who runs ahead of an
    ///         opener shuts nobody out.
    function join(bytes32 id, bytes32 altCommit) external payable;
    /// @notice Draw up to `count` seats once the seed is known, in its epoch; at least one or revert. All parts together are the draw.
    function draw(bytes32 id, uint256 count) external;
    /// @notice Name a new seed block because the old one was lost or its epoch is over. Too often: the dispute ends as after a
    ///         last inconclusive round.
    function rearm(bytes32 id) external;
    /// @notice Commit to a vote with all of the caller's seats. Final.
    function commit(bytes32 id, uint256 seatMask, bytes32 commitment) external;
    /// @notice The same for others, each with its signature over `Commit`. Who has committed already is passed over.
    function commitFor(Commit[] calldata commits, address[] calldata voters, bytes[] calldata sigs) external;
    /// @notice Say that commitments of this root existed before anybody revealed.
    function postCommitRoot(bytes32 id, bytes32 root) external;
    /// @notice Add the keys of the drawn members who have one, for certificates. Anybody, once per round.
    function formCommittee(bytes32 id, uint256 seated, Bls.G1[] calldata points) external;
    /// @notice Open a vote. Anybody who knows it; `quote` is empty where `vote.quoteHash` is zero.
    function reveal(Vote calldata vote, bytes calldata quote) external;
    /// @notice One signature of members whose seats make a quorum and who have not revealed. The digest that they signed is that
    ///         of the finding under `commitRoot`, which was posted before the commit phase ended.
    function certify(Finding calldata finding, bytes32 commitRoot, Certificate.Proof calldata proof) external;
    /// @notice Count the round: decided, or the next level, or a rerun.
    function settle(bytes32 id) external;
    /// @notice Ask for the next level, once, for `appealBond`. Anybody may, for the loser.
    function appeal(bytes32 id) external payable;
    /// @notice Show that `challenger` committed to what the verdict says. Before the airgap ends.
    function openAlt(bytes32 id, address challenger, bytes32 salt) external;
    /// @notice End the dispute and move its money. Anybody, after the airgap, unless held.
    function finalize(bytes32 id) external;
    /// @notice Give everybody its own back. The guardian only, between verdict and end, held or not.
    function refund(bytes32 id) external;
    /// @notice Convictions of an environment may go on. Governance.
    function resetBreaker(bytes32 environment) external;

    function disputeId(bytes32 receiptId) external view returns (bytes32);
    function domainSeparator() external view returns (bytes32);
    function hashVote(Vote calldata vote) external view returns (bytes32);
    function hashCommit(Commit calldata commit_) external view returns (bytes32);
    /// @notice What a challenger commits to: chain, court, dispute, its own account, what it expects, a salt.
    function altCommitOf(bytes32 id, address challenger, bytes32 key, bytes32 salt) external view returns (bytes32);
    /// @notice Wei to send with `appeal`: twice the fees of the next level.
    function appealBond(bytes32 id) external view returns (uint256);
    function disputeCount() external view returns (uint256);
    function disputeAt(uint256 index) external view returns (bytes32);
    function dispute(bytes32 id) external view returns (Dispute memory);
    function phaseOf(bytes32 id) external view returns (Phase);
    function roundOf(bytes32 id, uint16 round) external view returns (Round memory);
    /// @notice The members of a round in the order of their first seats.
    function membersOf(bytes32 id, uint16 round) external view returns (Member[] memory);
    function tallyOf(bytes32 id, uint16 round) external view returns (Tally memory);
    /// @notice Challengers in order, the opener first, and whether each has shown that it knew.
    function challengersOf(bytes32 id) external view returns (address[] memory who, bool[] memory knew);
    /// @notice Seats of a round that said what the verdict says, and seats that worked, whatever they said.
    function paidSeats(bytes32 id, uint16 round) external view returns (uint16 right, uint16 worked);
    /// @notice Holder and standing of a seat under the final verdict; NONE before FINAL.
    function standingOf(bytes32 id, uint16 round, uint16 seat) external view returns (address holder, Standing standing);
    function isSettleable(bytes32 id) external view returns (bool);
    /// @notice Whether the breaker holds this environment's convictions.
    function isHeld(bytes32 environment) external view returns (bool);
    function receiptStatus(bytes32 receiptId)
        external
        view
        returns (bytes32 id, Phase phase, Verdict verdict, bytes32 replacement);
}
