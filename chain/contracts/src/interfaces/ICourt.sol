// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Finding, Phase, Verdict, Vote} from "../libraries/Types.sol";

/// @title ICourt: what the parts of the court share: structs, events, errors. See `IDisputes`
interface ICourt {
    /// @notice A dispute as it stands.
    struct Dispute {
        bytes32 receiptId;
        bytes32 claimedTokensHash; // what the receipt says of its answer: these two
        bytes32 claimedOutHash;
        bytes32 environment;
        address operator; // accused
        address challenger;
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
        bytes32 replacement; // outHash that replaces the claim, else 0; the claimed one where the receipt's tokensHash alone is false
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
        uint256 certifiedMask; // seats it counts for
    }

    /// @notice One voter in one round, with all its seats.
    struct Member {
        address voter; // 0: nobody holds these seats
        uint16 seats;
        uint256 seatMask; // bit i: seat i
        bytes32 commitment; // keccak256(abi.encode(commitment, voter, seatMask)); 0 until committed, and after the reveal
        bytes32 group; // hash of everything revealed; 0 until revealed
    }

    /// @notice Seats of a round, by what they said.
    struct Tally {
        uint16 equal; // largest group EXECUTED with the claimed tokensHash and the claimed outHash
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
    /// @notice `signers` is the mask of the seats that it counts for: those that signed and had not opened their votes.
    event Certified(bytes32 indexed id, uint16 indexed round, Finding finding, uint256 signers, uint16 seats);
    /// @notice A round is counted. `verdict` is NONE if it was inconclusive.
    event Settled(bytes32 indexed id, uint16 indexed round, Verdict verdict, Tally tally);
    /// @notice What stands now, and until when it can be appealed and refunded.
    event Decided(bytes32 indexed id, Verdict verdict, uint64 appealEnd, uint64 airgapEnd);
    event Appealed(bytes32 indexed id, address indexed by, uint256 bond);
    /// @notice `challenger` knew the other answer before anybody voted.
    event AltOpened(bytes32 indexed id, address indexed challenger);
    event Finalized(bytes32 indexed id, bytes32 indexed receiptId, Verdict indexed verdict, bytes32 outHash);
    /// @notice Old and new are one where the receipt's tokensHash alone was false: the new one hashes the true tokens.
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
    /// @notice Every commitment needs its voter and its signature.
    error LengthMismatch(uint256 commits, uint256 voters, uint256 sigs);
    /// @notice More commitments at once than a transaction has gas for: bring them in parts.
    error TooManyCommits(uint256 have, uint256 most);
    error UnknownRoot(bytes32 root);
    error CommitteeExists(bytes32 id, uint16 round);
    error NoCommittee(bytes32 id, uint16 round);
    error AlreadyCertified(bytes32 id, uint16 round);
    /// @notice A certificate speaks for a quorum.
    error QuorumNotMet(uint256 have, uint256 want);
    /// @notice A vote under a root is shown by its voter alone.
    error NotVoter(address who, address voter);
    /// @notice Seats that committed on the chain cannot be certified, and open nothing under a root: they reveal.
    error CommittedThemselves(bytes32 id, uint16 round, uint256 seats);
    error AlreadyAppealed(bytes32 id);
    error LastLevel(bytes32 id);
    error BadAlt(bytes32 have, bytes32 want);
    /// @notice The breaker holds convictions of this environment until governance has looked.
    error Held(bytes32 environment);
}
