// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Bls} from "../libraries/Bls.sol";
import {Commit, Finding, Verdict, Vote} from "../libraries/Types.sol";

/// @title IRounds: how the committee of a round votes, and what its seats said
/// @notice `IDisputes` begins a round, seats it and counts it; everything between is here. Votes, commitments and certificates
///         are signed under the EIP-712 domain of `Disputes`, which binds every dispute id.
interface IRounds {
    /// @notice One drawn committee.
    struct Round {
        uint64 seedBlock; // whose mix draws the seats; all is 0 but `rearms` where a draw was given up
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
        bytes32 certifiedGroup; // what the certificate said; 0 without one
        uint256 certifiedMask; // seats it counts for
    }

    /// @notice Seats of a round that are drawn together, and with the last of them its times and its seed.
    struct Seating {
        uint8 level;
        uint8 seats; // of the round
        uint8 from; // the first of these
        uint40 seedBlock;
        uint40 commitEnd; // this and the next two: 0 before the last seat
        uint40 revealEnd;
        bytes32 roundSeed;
        uint16[] places; // who holds seats `from` on
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

    event Committed(
        bytes32 indexed id, uint16 indexed round, address indexed voter, uint256 seatMask, bytes32 commitment
    );
    /// @notice A root over commitments that were collected off-chain; a certificate names the one it belongs to.
    event CommitRootPosted(bytes32 indexed id, uint16 indexed round, bytes32 root, address by);
    event Revealed(bytes32 indexed id, uint16 indexed round, address indexed voter, Vote vote, bytes quote);
    /// @notice `signers` is the mask of the seats that it counts for: those that signed and had not opened their votes.
    event Certified(bytes32 indexed id, uint16 indexed round, Finding finding, uint256 signers, uint16 seats);

    /// @notice The round is not drawn yet, or counted already, or there is none.
    error NotVoting(bytes32 id, uint16 round);
    error TooEarly(uint256 now_, uint256 notBefore);
    error TooLate(uint256 now_, uint256 end);
    /// @notice Nothing would change.
    error NoProgress(bytes32 id);
    error NotMember(bytes32 id, uint16 round, address who);
    /// @notice The mask must name all of the voter's seats and no other.
    error WrongSeatMask(uint256 have, uint256 want);
    error EmptyCommitment();
    error AlreadyCommitted(bytes32 id, uint16 round, address who);
    error NotCommitted(bytes32 id, uint16 round, address who);
    error AlreadyRevealed(bytes32 id, uint16 round, address who);
    /// @notice Votes that are revealed together are of one round.
    error ForeignVote(bytes32 dispute, uint16 round, address voter);
    error BadReveal(bytes32 have, bytes32 want);
    error BadQuote(bytes32 have, bytes32 want);
    error MalformedVote(uint8 outcome, uint8 code);
    error BadSignature(address recovered, address voter);
    /// @notice Every commitment needs its voter and its signature, every vote its quote.
    error LengthMismatch(uint256 have, uint256 first, uint256 second);
    /// @notice More commitments at once than a transaction has gas for: bring them in parts.
    error TooManyCommits(uint256 have, uint256 most);
    error UnknownRoot(bytes32 root);
    error AlreadyCertified(bytes32 id, uint16 round);
    /// @notice A certificate speaks for a quorum.
    error QuorumNotMet(uint256 have, uint256 want);
    /// @notice The mask names a seat beyond the last.
    error NoSuchSeat(uint256 signers, uint256 seats);
    /// @notice A vote under a root is shown by its voter alone.
    error NotVoter(address who, address voter);
    /// @notice Seats that committed on the chain cannot be certified, and open nothing under a root: they reveal.
    error CommittedThemselves(bytes32 id, uint16 round, uint256 seats);

    /// @notice Commit to a vote with all of the caller's seats of the running round. Final.
    function commit(bytes32 id, uint256 seatMask, bytes32 commitment) external;
    /// @notice The same for others, at most 200, each with its signature over `Commit`. Who has committed already is passed over.
    function commitFor(Commit[] calldata commits, address[] calldata voters, bytes[] calldata sigs) external;
    /// @notice Say that commitments of this root existed before anybody revealed. A member of the round. Under the first of a round
    ///         members can open single ones, if it is made as `CommitTree` has it; and who is silent in a round with a root is
    ///         NOT_REVEALED, whether it committed on the chain or not.
    function postCommitRoot(bytes32 id, bytes32 root) external;
    /// @notice Open a vote. Anybody who knows it; `quote` is empty where `vote.quoteHash` is zero.
    function reveal(Vote calldata vote, bytes calldata quote) external;
    /// @notice Open votes of one round together. A vote that is open already is passed over.
    function revealMany(Vote[] calldata votes, bytes[] calldata quotes) external;
    /// @notice Open the caller's own vote, which it did not commit to on the chain, under the first root that was posted.
    ///         Whoever a certificate leaves out votes so, and whoever does not wait for one.
    /// @param proof of `CommitTree`; the leaf is keccak256(abi.encode(commitment, voter, seatMask))
    function revealUnderRoot(Vote calldata vote, bytes calldata quote, bytes32[8] calldata proof) external;
    /// @notice One signature of members whose seats make a quorum, none of whom committed on the chain. The digest that they
    ///         signed is that of the finding under `commitRoot`, which was posted before the commit phase ended, for the mask
    ///         of all their seats. Who of them has opened its vote before counts for that vote instead.
    /// @param signers mask of the seats that sign; a member signs with all of its seats
    /// @param keys of the signing seats, lowest seat first, once for each seat; each of an account whose place `IBlsKeys` has noted
    function certify(
        Finding calldata finding,
        bytes32 commitRoot,
        uint256 signers,
        Bls.G1[] calldata keys,
        Bls.G2 calldata signature
    ) external;

    /// @notice A dispute was opened. The court only, as are the next three.
    /// @param claim `claimOf` of the dispute
    function begin(bytes32 id, bytes32 claim) external;
    /// @notice The seed was lost: no seat is drawn.
    function rearm(bytes32 id, uint16 round) external;
    /// @notice Seats are drawn. With the last of them the commit phase begins.
    function seat(bytes32 id, uint16 round, Seating calldata seating) external;
    /// @notice Close the round. Reverts before nothing more can come.
    function close(bytes32 id, uint16 round) external returns (Tally memory tally, uint8 seats);

    /// @notice The EIP-712 domain of `Disputes`.
    function domainSeparator() external view returns (bytes32);
    function hashVote(Vote calldata vote) external view returns (bytes32);
    function hashCommit(Commit calldata commit_) external view returns (bytes32);
    /// @notice keccak256(abi.encode(tokensHash, outHash)) of the disputed receipt; 0 for no dispute.
    function claimOf(bytes32 id) external view returns (bytes32);
    function roundOf(bytes32 id, uint16 round) external view returns (Round memory);
    /// @notice Seats that are drawn, and how often the seed was lost.
    function seatingOf(bytes32 id, uint16 round) external view returns (uint8 drawn, uint8 rearms);
    /// @notice End of commits, 0 before the draw; and whether nothing more can be revealed.
    function votingOf(bytes32 id, uint16 round) external view returns (uint40 commitEnd, bool isClosed);
    /// @notice The members of a round in the order of their first seats.
    function membersOf(bytes32 id, uint16 round) external view returns (Member[] memory);
    function tallyOf(bytes32 id, uint16 round) external view returns (Tally memory);
    /// @notice What a verdict says, and the fault that is right beside a mixed UNAVAILABLE; 0 for nothing, and where the claim stands.
    ///         And the outHash of the leading fault of the round that found it.
    function keysOf(bytes32 id, Verdict verdict, uint16 decidedIn, bool isMixed)
        external
        view
        returns (bytes32 key, bytes32 second, bytes32 outHash);
    /// @notice Seats of a round that said what the verdict says, and seats that worked, whatever they said.
    function paidSeats(bytes32 id, uint16 round) external view returns (uint16 right, uint16 worked);
    /// @notice Holders and standings under the final verdict of up to `count` seats from `from` on, as many as the round has: byte
    ///         i is the `Standing` of the i-th, NONE before FINAL.
    function standingsOf(bytes32 id, uint16 round, uint256 from, uint256 count)
        external
        view
        returns (address[] memory holders, bytes memory standings);
}
