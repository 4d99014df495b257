// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

// Whoever needs signed structs and their hashes imports them from here.
import "./Signed.sol";

/// @notice Every duration of the network, in seconds of the protocol clock (`IGuardian.clock`).
struct Times {
    uint32 window; // to question a receipt, from its anchoring
    uint32 maxAnchorDelay; // from the end of an epoch's inclusion, and from a demand, to anchoring
    uint32 cure; // to answer an availability demand
    uint32 seedTime; // bound for a seed to be announced, mined and proven
    uint32 drawTime; // bound for the draw
    uint32 commitTime;
    uint32 revealTime;
    uint32 appealTime;
    uint32 rerunTime; // bound for all reruns of a dispute together
    uint32 airgap; // from a last verdict to the first movement of money
    uint32 maxPause; // longest pause
    uint32 executionBound; // fetch + key + slowest sequential execution
    uint32 unbondDelay;
    uint32 daRetention;
    uint32 daMargin;
    uint32 keyRetention;
    uint32 withdrawDelay; // from a credit to its payment
    uint32 breakerTime; // over which convictions of one environment are counted together
}

/// @notice Who judges.
struct Committee {
    uint16[3] seats; // of each round; odd, growing; 0 beyond `rounds`
    uint8 rounds; // 1 to 3
    uint8 maxReruns; // of rounds that had no key
    uint8 breakerOperators; // convictions of more operators than this trip the breaker
    uint16 tauNum; // a verdict needs ceil(seats * tauNum / tauDen) seats
    uint16 tauDen;
    uint16 minPool; // verifiers with weight without which a pool takes no batch and its windows stand still
    uint16 certifyBps; // share of a pool's units that must have reproduced an environment or model
}

/// @notice Amounts in wei.
struct Money {
    uint96 feePerSeat;
    uint96 privacyPrice; // opening a receipt has a price, whatever the verdict
    uint96 slashAmount;
    uint96 absentPenalty; // per seat
    uint96 noRevealPenalty; // per seat
    uint96 wrongPenalty; // per seat
    uint96 minOperatorStake;
    uint96 minVerifierStake;
    uint96 receiptCollateral; // stake that one open receipt binds
    uint96 withheldPenalty; // per receipt of a batch whose list was demanded in vain
    uint96 unanchoredPenalty; // for a receipt that was given out and not anchored when demanded
    uint96 demandBond;
    uint96 auditUnit; // wei of stake per seat of the light-audit draw
    uint96 bounty; // for one agreeing light audit
}

/// @notice Shares in basis points, and counts.
struct Shares {
    uint16 alphaBps; // of the slash, to a challenger whose other answer won
    uint16 betaBps; // of the slash, to the right seats
    uint16 operatorShareBps; // of what lost bonds leave after fees, to the operator
    uint16 auditRateBps;
    uint16 auditsPerHour; // bounties of one verifier
    uint32 maxBatch;
}

/// @notice What the money of a dispute is split by, of one version.
struct SplitTerms {
    uint256 bond; // of the challenger
    uint256 slashAmount;
    uint256 feePerSeat;
    uint256 alphaBps;
    uint256 betaBps;
    uint256 operatorShareBps;
}

/// @notice One version of all parameters. A dispute and a batch keep to the version they began with.
struct ParamSet {
    Times times;
    Committee committee;
    Money money;
    Shares shares;
}

/// @notice Where a dispute stands. Time alone leads from COMMIT to REVEAL and from APPEAL to AIRGAP.
enum Phase {
    NONE,
    SEED, // the seed block is named
    DRAWING, // some seats are drawn
    COMMIT,
    REVEAL,
    APPEAL, // a verdict that its loser may appeal
    AIRGAP, // a last verdict before money moves: the guardian may refund, the breaker may hold
    FINAL
}

/// @notice What a dispute ends with. NONE while nothing was found.
enum Verdict {
    NONE,
    UPHELD,
    OVERTURNED,
    INVALID,
    UNAVAILABLE,
    DRAW,
    REFUNDED
}

/// @notice Status of an environment or a model. NONE, PROPOSED -> ACTIVE -> CLOSED; CLOSED -> ACTIVE by the curator.
enum Status {
    NONE,
    PROPOSED,
    ACTIVE,
    CLOSED
}

/// @notice What a seat is worth when its dispute is over.
enum Standing {
    NONE, // the round was not drawn, or nobody holds the seat
    RIGHT, // said what the final verdict says
    WORKED, // EXECUTED, INVALID or UNAVAILABLE, paid in a refund, and in a draw for nothing
    NEUTRAL, // NO_KEY, or nothing to be measured against
    ABSENT, // did not commit; or CANNOT_EXECUTE; or NO_KEY, and a later committee had it
    NOT_REVEALED,
    WRONG
}

/// @notice A commitment that another account brings to the chain, signed by its voter under `Disputes`.
struct Commit {
    bytes32 dispute;
    uint16 round;
    uint256 seatMask;
    bytes32 commitment;
}
