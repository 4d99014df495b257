// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Phase, Verdict} from "../src/libraries/Types.sol";

/// @title The phase table of `docs/reference/contracts.md`, section 1: which step may follow a look at a dispute, and what it may
///        change
/// @dev Checks I13 TABLE, I21 FIXED PARAMETERS, I24 QUESTIONED ONCE.
library Table {
    /// @notice The rows, in the table's order. STAY: nothing of the table happened.
    enum Move {
        STAY,
        OPEN,
        REARM,
        GIVE_UP, // rearmed once too often
        DRAW_PART,
        DRAW_LAST,
        COMMITS_CLOSE,
        DECIDE,
        DECIDE_LAST,
        RERUN,
        ESCALATE,
        UNDECIDED,
        APPEAL,
        APPEAL_ENDS,
        REFUND,
        FINALIZE
    }

    /// @notice A dispute and its current round at one moment.
    struct Look {
        Phase phase; // by the clock
        uint8 level;
        uint16 round;
        uint8 reruns;
        bool appealed;
        bool refunded;
        Verdict verdict;
        uint64 seedBlock;
        uint64 commitEnd;
        uint64 revealEnd;
        uint64 appealEnd;
        uint64 airgapEnd;
        uint256 committed; // masks of seats
        uint256 revealed;
        bool promised; // a root was posted: each seat may open under it
        bool lost; // the seed that was waited for before can not be used any more
        uint8 rearms;
        uint16 drawn;
        uint16 seats;
        uint64 clock;
        uint256 block_;
        bool held;
        bytes32 fixed_; // hash of what never changes
    }

    /// @notice What the parameters of the dispute say.
    struct Limits {
        uint8 rounds;
        uint8 maxReruns;
        uint32 commitTime;
        uint32 revealTime;
        uint32 appealTime;
        uint32 airgap;
        uint32 breakerTime;
        uint16 breakerOperators;
    }

    uint8 internal constant MAX_REARMS = 3;

    error NotInTheTable(Phase was, Phase is_, uint16 roundWas, uint16 roundIs);
    error Guard(Move move, string what);

    /// @notice The row that leads from `a` to `b`, its guards checked.
    function move(Look memory a, Look memory b, Limits memory p) internal pure returns (Move m) {
        if (a.phase != Phase.NONE && a.fixed_ != b.fixed_) revert Guard(Move.STAY, "fixed");
        m = _row(a, b);
        _guards(m, a, b, p);
        bool judged = m == Move.DECIDE || m == Move.DECIDE_LAST;
        bool ended = m == Move.FINALIZE || m == Move.REFUND || m == Move.UNDECIDED || m == Move.GIVE_UP;
        if (!judged && !ended && a.verdict != b.verdict) revert Guard(m, "verdict moved");
        if (b.drawn > b.seats || b.rearms > MAX_REARMS) revert Guard(m, "bounds");
        bool drawnFully = b.phase == Phase.COMMIT || b.phase == Phase.REVEAL;
        if (drawnFully && b.drawn != b.seats) revert Guard(m, "seats drawn");
    }

    function _row(Look memory a, Look memory b) private pure returns (Move) {
        if (a.phase == b.phase && a.round == b.round) return _within(a, b);
        if (a.phase == Phase.NONE && b.phase == Phase.SEED) return Move.OPEN;
        bool waiting = a.phase == Phase.SEED || a.phase == Phase.DRAWING;
        if (a.phase == Phase.DRAWING && b.phase == Phase.SEED && a.round == b.round) return Move.REARM;
        if (waiting && b.phase == Phase.AIRGAP) return Move.GIVE_UP;
        if (waiting && b.phase == Phase.DRAWING) return Move.DRAW_PART;
        if (waiting && b.phase == Phase.COMMIT) return Move.DRAW_LAST;
        if (a.phase == Phase.COMMIT && b.phase == Phase.REVEAL) return Move.COMMITS_CLOSE;
        if (a.phase == Phase.APPEAL && b.phase == Phase.SEED) return Move.APPEAL;
        if (a.phase == Phase.APPEAL && b.phase == Phase.AIRGAP) return Move.APPEAL_ENDS;
        if (a.phase == Phase.REVEAL) return _settled(a, b);
        bool open = a.phase == Phase.APPEAL || a.phase == Phase.AIRGAP;
        if (open && b.phase == Phase.FINAL) return b.verdict == Verdict.REFUNDED ? Move.REFUND : Move.FINALIZE;
        revert NotInTheTable(a.phase, b.phase, a.round, b.round);
    }

    function _within(Look memory a, Look memory b) private pure returns (Move) {
        if (b.rearms == a.rearms + 1) return Move.REARM;
        if (a.phase == Phase.DRAWING && b.drawn > a.drawn) return Move.DRAW_PART;
        bool same = a.rearms == b.rearms && a.drawn == b.drawn && a.level == b.level && a.appealed == b.appealed
            && a.refunded == b.refunded && a.reruns == b.reruns && a.airgapEnd == b.airgapEnd;
        if (!same) revert NotInTheTable(a.phase, b.phase, a.round, b.round);
        return Move.STAY;
    }

    function _settled(Look memory a, Look memory b) private pure returns (Move) {
        if (b.phase == Phase.APPEAL) return Move.DECIDE;
        if (b.phase == Phase.SEED) return b.level == a.level ? Move.RERUN : Move.ESCALATE;
        if (b.phase == Phase.AIRGAP) return Move.DECIDE_LAST; // or UNDECIDED: the count tells
        revert NotInTheTable(a.phase, b.phase, a.round, b.round);
    }

    function _guards(Move m, Look memory a, Look memory b, Limits memory p) private pure {
        bool next = b.round == a.round + 1;
        if (m == Move.OPEN) {
            _need(b.round == 1 && b.level == 1 && b.verdict == Verdict.NONE, m, "beginning");
        } else if (m == Move.REARM) {
            _need(a.rearms < MAX_REARMS && b.drawn == 0, m, "rearms");
        } else if (m == Move.GIVE_UP) {
            _need(a.rearms == MAX_REARMS, m, "rearms");
        } else if (m == Move.RERUN) {
            _need(next && b.reruns == a.reruns + 1 && b.reruns <= p.maxReruns, m, "reruns");
        } else if (m == Move.ESCALATE) {
            _need(next && b.level == a.level + 1 && b.level <= p.rounds && b.reruns == a.reruns, m, "level");
        } else if (m == Move.DECIDE) {
            _need(!a.appealed && a.level < p.rounds, m, "appealable");
        } else if (m == Move.DECIDE_LAST) {
            _need(a.appealed || a.level == p.rounds, m, "last");
        } else if (m == Move.APPEAL) {
            _need(!a.appealed && b.appealed && next && b.level == a.level + 1, m, "appeal");
        } else if (m == Move.FINALIZE) {
            _need(a.phase == Phase.AIRGAP && b.clock > a.airgapEnd, m, "airgap");
            bool slashes = a.verdict == Verdict.OVERTURNED || a.verdict == Verdict.INVALID;
            _need(!b.held || (!slashes && a.verdict != Verdict.UNAVAILABLE), m, "held");
            _need(a.verdict != Verdict.REFUNDED && a.verdict == b.verdict, m, "verdict");
        }
    }

    function _need(bool ok, Move m, string memory what) private pure {
        if (!ok) revert Guard(m, what);
    }
}
