// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "./IRounds.sol";
import {IStakeTree} from "./IStakeTree.sol";
import {Phase, Receipt, Verdict} from "../libraries/Types.sol";

/// @title IDisputes: a receipt is questioned, a committee re-executes, a verdict is found (design section 9)
/// @notice The phase table is in `docs/reference/contracts.md`, section 1, and `bytewise/protocol/court/phases.py`. `IRounds`
///         has seats and votes, `ISettlement` the money, `IBreaker` the environments whose convictions wait. All times are of the
///         protocol clock.
///         Anybody may take every step, so no dispute waits for a party. A round is one drawn committee, counted from 1; its
///         level says how large it is. A rerun is a new round of the same level, because nobody got the key. The parameters are
///         those that were in force when the receipt was anchored.
interface IDisputes {
    /// @notice A dispute as it stands.
    struct Dispute {
        bytes32 claim; // keccak256(abi.encode(tokensHash, outHash)) of the receipt
        bytes32 environment;
        address operator; // accused
        address challenger;
        uint64 batchId;
        uint64 keyEpoch;
        uint32 paramsVersion;
        Phase phase; // as stored; `phaseOf` says what it is by now
        uint8 level; // 1 to `Committee.rounds`
        uint16 round;
        uint8 reruns;
        bool appealed;
        bool refunded; // the guardian ended it
        Verdict verdict; // of the last conclusive round; final in FINAL
        uint64 appealEnd; // last second to appeal; 0 where nobody can
        uint64 airgapEnd; // money moves after it; 0 while there is none
        bytes32 key; // what a conviction says (`TallyLib.keyOf`); 0 without one, and where the claim stands
        bytes32 secondKey; // the leading fault of a mixed UNAVAILABLE
        bytes32 replacement; // outHash that replaces the claim, else 0; the claimed one where the receipt's tokensHash alone is false
    }

    /// @notice What a round's seats are worth by. Read by `IRounds`.
    struct Standpoint {
        IStakeTree tree; // of the environment's pool
        Phase phase; // as stored
        Verdict verdict;
        uint16 decidedIn; // round whose verdict stands
        bool isMixed; // UNAVAILABLE that needed the leading fault too
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
    event SeedNamed(bytes32 indexed id, uint16 indexed round, uint8 level, uint64 seedBlock, uint8 rearms);
    /// @notice Seats `from` on are held by `places` of the pool's tree, `NOBODY` for none.
    event SeatsDrawn(bytes32 indexed id, uint16 indexed round, uint16 from, uint16[] places);
    /// @notice All seats are drawn.
    event CommitOpened(
        bytes32 indexed id, uint16 indexed round, bytes32 seed, bytes32 roundSeed, uint64 commitEnd, uint64 revealEnd
    );
    /// @notice A round is counted. `verdict` is NONE if it was inconclusive.
    event Settled(bytes32 indexed id, uint16 indexed round, Verdict verdict, IRounds.Tally tally);
    /// @notice What stands now, and until when it can be appealed and refunded.
    event Decided(bytes32 indexed id, Verdict verdict, uint64 appealEnd, uint64 airgapEnd);
    event Appealed(bytes32 indexed id, address indexed by, uint256 bond);
    /// @notice `challenger` knew the other answer before anybody voted.
    event AltOpened(bytes32 indexed id, address indexed challenger);
    /// @notice The dispute is over. `replacement` is the outHash that replaces the claim, or 0.
    event Finalized(bytes32 indexed id, Verdict indexed verdict, bytes32 replacement);

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
    /// @notice The tree's next seed block is further ahead than a seed may be named.
    error SeedTooFar(uint256 seedBlock, uint256 last);
    error AlreadyAppealed(bytes32 id);
    error LastLevel(bytes32 id);
    error BadAlt(bytes32 have, bytes32 want);
    /// @notice The breaker holds convictions of this environment until the curator has looked.
    error Held(bytes32 environment);

    /// @notice Question a receipt: member of its batch, inside its window, never disputed, not by its operator, `requiredBond`
    ///         sent along. The operator's stake is locked, the seed block named.
    /// @param altCommit `altCommitOf` of the answer that the challenger expects to win and a salt: alpha is for who knew it
    function open(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof, bytes32 altCommit)
        external
        payable
        returns (bytes32 id);
    /// @notice Draw up to `count` seats once the seed block is over, in its epoch, paused or not; at least one or revert. All parts
    ///         together are the draw.
    /// @param header RLP of the seed block's header, as it is hashed; every part brings it
    function draw(bytes32 id, uint256 count, bytes calldata header) external;
    /// @notice Name a new seed block because the old one was lost or its epoch is over. Too often: the dispute ends as after a
    ///         last inconclusive round.
    function rearm(bytes32 id) external;
    /// @notice Count the round: decided, or the next level, or a rerun.
    function settle(bytes32 id) external;
    /// @notice Ask for the next level, once, for `appealBond`. Anybody may, for the loser.
    function appeal(bytes32 id) external payable;
    /// @notice Show that the challenger committed to what the conviction says. Before the airgap ends; once more after the verdict
    ///         of an appeal.
    function openAlt(bytes32 id, bytes32 salt) external;
    /// @notice End the dispute and move its money. Anybody, after the airgap, unless held.
    function finalize(bytes32 id) external;
    /// @notice Give everybody its own back. The guardian only, between verdict and end, held or not.
    function refund(bytes32 id) external;

    function disputeId(bytes32 receiptId) external view returns (bytes32);
    function dispute(bytes32 id) external view returns (Dispute memory);
    function phaseOf(bytes32 id) external view returns (Phase);
    /// @notice Rounds that a dispute has had, the running one included.
    function roundsOf(bytes32 id) external view returns (uint16);
    function receiptStatus(bytes32 receiptId)
        external
        view
        returns (bytes32 id, Phase phase, Verdict verdict, bytes32 replacement);
    function isSettleable(bytes32 id) external view returns (bool);
    /// @notice Wei to send with `appeal`: twice the fees of the next level.
    function appealBond(bytes32 id) external view returns (uint256);
    /// @notice What a challenger commits to: chain, court, dispute, its own account, what it expects, a salt.
    function altCommitOf(bytes32 id, address challenger, bytes32 key, bytes32 salt) external view returns (bytes32);
    /// @notice The challenger, and whether it has shown that it knew.
    function challengerOf(bytes32 id) external view returns (address who, bool knew);
    /// @notice What a vote needs: the pool's tree, the running round, the parameters.
    function votingOf(bytes32 id) external view returns (IStakeTree tree, uint16 round, uint32 paramsVersion);
    /// @notice The round that waits for its seed or its seats, and what its draw needs; 0 where none does.
    function seedOf(bytes32 id) external view returns (uint16 round, uint8 level, uint8 seats, uint40 seedBlock);
    function standpointOf(bytes32 id) external view returns (Standpoint memory);
    /// @notice Seats and votes of this court.
    function ROUNDS() external view returns (IRounds);
}
