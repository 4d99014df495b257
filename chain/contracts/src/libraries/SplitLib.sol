// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SplitTerms, Verdict} from "./Types.sol";

/// @title SplitLib: who gets what of a dispute, one function per row of the table of design section 9
/// @notice Everything is wei. Every share is rounded down, and `burned` is what no share took: what comes in goes out.
library SplitLib {
    uint256 private constant BPS = 10_000;
    /// @dev Challenger and committee together get at most 80 % of a slash; 20 % are burned, always.
    uint256 private constant MAX_REWARD_BPS = 8_000;

    /// @notice What is known when a dispute ends.
    struct Facts {
        Verdict verdict;
        bool appellantWon;
        bool knew; // the challenger committed to what the verdict says
        uint256 bond; // of the challenger
        uint256 appealBond;
        uint256 advanced; // by the treasury
        uint256 slashed; // really taken
        uint256 seats; // that were right; in a refund those that worked; in a draw none
    }

    /// @notice Where it goes.
    struct Split {
        uint256 perSeat;
        uint256 bondBack; // to the challenger: this and the next
        uint256 alpha; // for having known
        uint256 toAppellant;
        uint256 toOperator;
        uint256 repaid;
        uint256 burned;
    }

    /// @notice The whole split. Never reverts for a verdict and amounts of ether.
    function split(Facts memory f, SplitTerms memory t) internal pure returns (Split memory s) {
        if (f.verdict == Verdict.UPHELD) _upheld(f, t, s);
        else if (f.verdict == Verdict.DRAW) _draw(f, t, s);
        else if (f.verdict == Verdict.REFUNDED) _refunded(f, t, s);
        else _convicted(f, t, s);
        s.burned = f.bond + f.appealBond + f.advanced + f.slashed - s.bondBack - s.alpha - s.perSeat * f.seats
            - s.toAppellant - s.toOperator - s.repaid;
    }

    /// @dev Fees come from the lost bond, and from the treasury beyond that; then it has its advance back, then the operator its
    ///      share for having been questioned.
    function _upheld(Facts memory f, SplitTerms memory t, Split memory s) private pure {
        uint256 lost = _appealLost(f, s);
        uint256 funds = f.bond + lost + f.advanced;
        if (f.seats != 0) s.perSeat = Math.min(t.feePerSeat, funds / f.seats);
        uint256 remaining = funds - s.perSeat * f.seats;
        s.repaid = Math.min(f.advanced, remaining);
        s.toOperator = (remaining - s.repaid) * t.operatorShareBps / BPS;
    }

    /// @dev alpha to a challenger who knew (withholding is nobody's answer), beta and fees to the right seats; all of it from the
    ///      slash and a lost appeal bond, and from the treasury only as far as these do not reach the fees.
    function _convicted(Facts memory f, SplitTerms memory t, Split memory s) private pure {
        uint256 lost = _appealLost(f, s);
        s.bondBack = f.bond;
        if (f.verdict != Verdict.UNAVAILABLE && f.knew) s.alpha = f.slashed * t.alphaBps / BPS;
        s.repaid = f.advanced;
        if (f.seats == 0) return;
        uint256 fees = f.seats * t.feePerSeat;
        uint256 most = f.slashed * MAX_REWARD_BPS / BPS - s.alpha + lost;
        uint256 pay = Math.min(f.slashed * t.betaBps / BPS + fees, most);
        uint256 used = pay < fees ? Math.min(f.advanced, fees - pay) : 0;
        s.repaid -= used;
        s.perSeat = (pay + used) / f.seats;
    }

    /// @dev Nobody was found right or wrong, and nobody gains by it: whoever is paid for a draw is paid for stalling. The bond comes
    ///      back less the fee of one seat, which is burned (ADR-032).
    function _draw(Facts memory f, SplitTerms memory t, Split memory s) private pure {
        s.repaid = f.advanced;
        s.toAppellant = f.appealBond;
        s.bondBack = f.bond - Math.min(t.feePerSeat, f.bond);
    }

    /// @dev Everybody has its own back; who worked is paid by the treasury.
    function _refunded(Facts memory f, SplitTerms memory t, Split memory s) private pure {
        if (f.seats != 0) s.perSeat = Math.min(t.feePerSeat, f.advanced / f.seats);
        s.repaid = f.advanced - s.perSeat * f.seats;
        (s.toAppellant, s.bondBack) = (f.appealBond, f.bond);
    }

    /// @dev The bond of an appeal that changed nothing is lost.
    function _appealLost(Facts memory f, Split memory s) private pure returns (uint256 lost) {
        if (f.appellantWon) s.toAppellant = f.appealBond;
        else lost = f.appealBond;
    }
}
