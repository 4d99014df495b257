// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Verdict} from "../src/libraries/Types.sol";
import {ISettlement} from "../src/interfaces/ISettlement.sol";

/// @title The money table of design section 9 a second time, row by row
/// @dev Checks I2 IN EQUALS OUT, I4 SHARES.
library Rows {
    struct Case {
        Verdict verdict;
        bool appellantWon;
        uint256 fee;
        uint256 seats; // right ones; in a refund those that worked, and in a draw for nothing
        bool knew;
        uint256 alphaBps;
        uint256 betaBps;
        uint256 operatorShareBps;
    }

    error Row(string what, uint256 have, uint256 want);

    /// @notice Revert unless the account of an ended dispute is what its row says.
    function check(ISettlement.Account memory a, Case memory c) internal pure {
        uint256 lost = c.verdict == Verdict.DRAW || c.verdict == Verdict.REFUNDED || c.appellantWon ? 0 : a.appealBond;
        _same(a.toAppellant, a.appealBond - lost, "to the appellant");
        if (c.verdict == Verdict.UPHELD) _upheld(a, c, lost);
        else if (c.verdict == Verdict.DRAW) _draw(a, c);
        else if (c.verdict == Verdict.REFUNDED) _refunded(a, c);
        else _convicted(a, c, lost);
        _same(a.toVerifiers, a.perSeat * c.seats, "to verifiers");
        uint256 come = uint256(a.bond) + a.appealBond + a.advanced + a.slashed;
        uint256 gone = uint256(a.toChallenger) + a.toAppellant + a.toOperator + a.toVerifiers + a.repaid + a.burned;
        _same(gone, come, "what came in went out");
    }

    function _upheld(ISettlement.Account memory a, Case memory c, uint256 lost) private pure {
        uint256 funds = a.bond + lost + a.advanced;
        uint256 each = c.seats == 0 ? 0 : _least(c.fee, funds / c.seats);
        uint256 left = funds - each * c.seats;
        uint256 repaid = _least(a.advanced, left);
        _same(a.perSeat, each, "upheld: seat");
        _same(a.repaid, repaid, "upheld: treasury");
        _same(a.toOperator, (left - repaid) * c.operatorShareBps / 10_000, "upheld: operator");
        _same(a.toChallenger, 0, "upheld: challenger");
        _same(a.slashed, 0, "upheld: slashed");
    }

    function _convicted(ISettlement.Account memory a, Case memory c, uint256 lost) private pure {
        uint256 s = a.slashed;
        // Nobody gains by convicting itself: a fifth of every slash is burned.
        if (a.burned < s / 5) revert Row("a fifth is burned", a.burned, s / 5);
        uint256 alpha = c.verdict == Verdict.UNAVAILABLE || !c.knew ? 0 : s * c.alphaBps / 10_000;
        uint256 fees = c.seats * c.fee;
        uint256 pay = _least(s * c.betaBps / 10_000 + fees, s * 8_000 / 10_000 - alpha + lost);
        uint256 used = pay < fees ? _least(a.advanced, fees - pay) : 0;
        // What the challenger gets too much, seats get too little where both reach their limit.
        _same(a.toChallenger, a.bond + alpha, "convicted: challenger");
        _same(a.perSeat, c.seats == 0 ? 0 : (pay + used) / c.seats, "convicted: seat");
        _same(a.repaid, c.seats == 0 ? a.advanced : a.advanced - used, "convicted: treasury");
        _same(a.toOperator, 0, "convicted: operator");
    }

    function _draw(ISettlement.Account memory a, Case memory c) private pure {
        _same(a.slashed, 0, "draw: slashed");
        _same(a.perSeat, 0, "draw: seat");
        _same(a.toChallenger, a.bond - _least(c.fee, a.bond), "draw: challenger");
        _same(a.repaid, a.advanced, "draw: treasury");
        _same(a.toOperator, 0, "draw: operator");
    }

    function _refunded(ISettlement.Account memory a, Case memory c) private pure {
        _same(a.toChallenger, a.bond, "refund: challenger");
        _same(a.slashed, 0, "refund: slashed");
        _same(a.perSeat, c.seats == 0 ? 0 : _least(c.fee, a.advanced / c.seats), "refund: seat");
        _same(a.repaid, a.advanced - a.perSeat * c.seats, "refund: treasury");
    }

    function _least(uint256 a, uint256 b) private pure returns (uint256) {
        return a < b ? a : b;
    }

    function _same(uint256 have, uint256 want, string memory what) private pure {
        if (have != want) revert Row(what, have, want);
    }
}
