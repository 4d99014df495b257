// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Bls} from "../libraries/Bls.sol";
import {Certificate} from "../libraries/Certificate.sol";
import {ICourt} from "./ICourt.sol";
import {Commit, Finding, Phase, Standing, Verdict, Vote} from "../libraries/Types.sol";

/// @title IBallots: how a committee votes, and what others ask the court. See `IDisputes`
interface IBallots is ICourt {
    /// @notice Commit to a vote with all of the caller's seats. Final.
    function commit(bytes32 id, uint256 seatMask, bytes32 commitment) external;
    /// @notice The same for others, at most 200, each with its signature over `Commit`. Who has committed already is passed over.
    function commitFor(Commit[] calldata commits, address[] calldata voters, bytes[] calldata sigs) external;
    /// @notice Say that commitments of this root existed before anybody revealed. A member of the round. Under the first of a round
    ///         members can open single ones, if it is made as `CommitTree` has it; and who is silent in a round with a root is
    ///         NOT_REVEALED, whether it committed on the chain or not.
    function postCommitRoot(bytes32 id, bytes32 root) external;
    /// @notice Add the keys of the drawn members who have one, for certificates. Anybody, once per round.
    /// @param seated mask of their seats
    /// @param points their keys, one per seat of the mask, lowest first
    function formCommittee(bytes32 id, uint256 seated, Bls.G1[] calldata points) external;
    /// @notice Open a vote. Anybody who knows it; `quote` is empty where `vote.quoteHash` is zero.
    function reveal(Vote calldata vote, bytes calldata quote) external;
    /// @notice Open the caller's own vote, which it did not commit to on the chain, under the first root that was posted.
    ///         Whoever a certificate leaves out votes so, and whoever does not wait for one.
    /// @param proof of `CommitTree`; the leaf is keccak256(abi.encode(commitment, voter, seatMask))
    function revealUnderRoot(Vote calldata vote, bytes calldata quote, bytes32[8] calldata proof) external;
    /// @notice One signature of members whose seats make a quorum, none of whom committed on the chain. The digest that they
    ///         signed is that of the finding under `commitRoot`, which was posted before the commit phase ended, for the mask
    ///         of all their seats. Who of them has opened its vote before counts for that vote instead.
    function certify(Finding calldata finding, bytes32 commitRoot, Certificate.Proof calldata proof) external;
    function disputeId(bytes32 receiptId) external view returns (bytes32);
    function domainSeparator() external view returns (bytes32);
    function hashVote(Vote calldata vote) external view returns (bytes32);
    function hashCommit(Commit calldata commit_) external view returns (bytes32);
    function disputeCount() external view returns (uint256);
    function disputeAt(uint256 index) external view returns (bytes32);
    function dispute(bytes32 id) external view returns (Dispute memory);
    /// @notice Rounds that a dispute has had, the running one included.
    function roundsOf(bytes32 id) external view returns (uint16);
    function phaseOf(bytes32 id) external view returns (Phase);
    function roundOf(bytes32 id, uint16 round) external view returns (Round memory);
    /// @notice The members of a round in the order of their first seats.
    function membersOf(bytes32 id, uint16 round) external view returns (Member[] memory);
    function tallyOf(bytes32 id, uint16 round) external view returns (Tally memory);
    /// @notice The challenger, and whether it has shown that it knew what the verdict says.
    function challengerOf(bytes32 id) external view returns (address who, bool knew);
    /// @notice Seats of a round that said what the verdict says, and seats that worked, whatever they said.
    function paidSeats(bytes32 id, uint16 round) external view returns (uint16 right, uint16 worked);
    /// @notice Holder and standing of a seat under the final verdict; NONE before FINAL.
    function standingOf(bytes32 id, uint16 round, uint16 seat) external view returns (address holder, Standing standing);
    /// @notice The same of up to `count` seats from `from` on, as many as the round has.
    function standingsOf(bytes32 id, uint16 round, uint256 from, uint256 count)
        external
        view
        returns (address[] memory holders, Standing[] memory standings);
    function isSettleable(bytes32 id) external view returns (bool);
    /// @notice Whether the breaker holds this environment's convictions.
    function isHeld(bytes32 environment) external view returns (bool);
    function receiptStatus(bytes32 receiptId)
        external
        view
        returns (bytes32 id, Phase phase, Verdict verdict, bytes32 replacement);
}
