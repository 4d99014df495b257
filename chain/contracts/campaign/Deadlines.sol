// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Phase} from "../src/libraries/Types.sol";
import {Table} from "./Table.sol";

/// @title When things may happen to a dispute: deadlines of its parameters, and what must be in before a phase ends early
/// @dev Checks I13 TABLE.
library Deadlines {
    error When(Table.Move move, string what);

    /// @notice The phase that a dispute seen as `a` has by `clock`, if nobody touches it.
    function aged(Table.Look memory a, uint64 clock) internal pure returns (Phase) {
        if (a.phase == Phase.COMMIT && clock > a.commitEnd) return Phase.REVEAL;
        if (a.phase == Phase.APPEAL && clock > a.appealEnd) return Phase.AIRGAP;
        return a.phase;
    }

    /// @notice Revert unless `a` (aged) may become `b` at this time.
    function check(Table.Move m, Table.Look memory a, Table.Look memory b, Table.Limits memory p) internal pure {
        _need(aged(b, b.clock) == b.phase && !_early(b), m, "phase by the clock");
        if (m == Table.Move.DRAW_LAST) {
            _need(b.commitEnd == b.clock + p.commitTime && b.revealEnd == b.commitEnd + p.revealTime, m, "commit time");
            _need(b.committed == 0 && b.revealed == 0, m, "votes before the draw");
        } else if (_voting(a.phase) && _voting(b.phase) && a.round == b.round) {
            _votes(m, a, b, p);
        } else if (a.phase == Phase.REVEAL) {
            bool all = a.revealed == _all(a.seats) || (a.committed & ~a.revealed == 0 && !a.promised);
            _need(all || b.clock > a.revealEnd, m, "reveals are open");
        }
        if (m == Table.Move.REARM || m == Table.Move.GIVE_UP) _need(b.lost, m, "the seed is readable");
        if (m == Table.Move.DECIDE) {
            _need(b.appealEnd == b.clock + p.appealTime && b.airgapEnd == b.appealEnd + p.airgap, m, "appeal time");
        } else if (m == Table.Move.DECIDE_LAST || m == Table.Move.UNDECIDED || m == Table.Move.GIVE_UP) {
            _need(b.airgapEnd == b.clock + p.airgap, m, "airgap");
        }
    }

    /// @dev Commits end early only when all are in; nothing is committed after them or shown before, and nothing taken back.
    function _votes(Table.Move m, Table.Look memory a, Table.Look memory b, Table.Limits memory p) private pure {
        if (a.commitEnd == b.commitEnd) {
            _need(a.revealEnd == b.revealEnd, m, "reveals end at another time");
        } else {
            _need(b.committed == _all(b.seats), m, "commits end early");
            _need(b.commitEnd == b.clock - 1 && b.revealEnd == b.clock + p.revealTime, m, "reveals begin");
        }
        _need((a.committed & ~b.committed) | (a.revealed & ~b.revealed) == 0, m, "a vote was taken back");
        if (a.committed != b.committed) _need(a.phase == Phase.COMMIT, m, "a late commitment");
        if (a.revealed == b.revealed) return;
        _need(a.phase == Phase.REVEAL && b.clock <= a.revealEnd, m, "a vote outside its time");
    }

    /// @dev A phase that only the clock ends goes on until then.
    function _early(Table.Look memory b) private pure returns (bool) {
        if (b.phase == Phase.REVEAL) return b.clock <= b.commitEnd;
        return b.phase == Phase.AIRGAP && b.appealEnd != 0 && b.clock <= b.appealEnd;
    }

    function _voting(Phase phase) private pure returns (bool) {
        return phase == Phase.COMMIT || phase == Phase.REVEAL;
    }

    function _all(uint256 seats) private pure returns (uint256) {
        return (1 << seats) - 1;
    }

    function _need(bool ok, Table.Move m, string memory what) private pure {
        if (!ok) revert When(m, what);
    }
}
