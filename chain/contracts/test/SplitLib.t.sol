// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Check} from "./Vm.sol";
import {SplitLib} from "../src/libraries/SplitLib.sol";
import {SplitTerms, Verdict} from "../src/libraries/Types.sol";

/// @title The split of a dispute's money, for amounts of every size
contract SplitLibTest is Check {
    uint256 private constant ETHER = 1e27; // more wei than there are

    function facts(uint256[5] memory r, Verdict v) private pure returns (SplitLib.Facts memory f) {
        f.verdict = v;
        f.appellantWon = r[0] & 1 == 1;
        f.knew = r[0] & 2 == 2;
        f.bond = 1 + r[1] % (ETHER >> r[1] % 90);
        f.appealBond = r[2] % (ETHER >> r[2] % 90);
        f.advanced = r[3] % (ETHER >> r[3] % 90);
        f.slashed = r[4] % (ETHER >> r[4] % 90);
        f.seats = (r[0] >> 8) % 5 == 0 ? 0 : (r[0] >> 16) % 2_551;
        if (v == Verdict.UPHELD || v == Verdict.REFUNDED) f.slashed = 0;
    }

    function terms(uint256[4] memory r) private pure returns (SplitTerms memory t) {
        t.feePerSeat = 1 + r[0] % (ETHER >> r[0] % 90);
        t.alphaBps = r[1] % 8_001;
        t.betaBps = r[2] % (8_001 - t.alphaBps);
        t.operatorShareBps = r[3] % 5_001;
    }

    function verdictOf(uint8 v) private pure returns (Verdict) {
        return Verdict(1 + v % 6);
    }

    function test_what_comes_in_goes_out(uint256[5] memory r, uint256[4] memory q, uint8 v) public pure {
        SplitLib.Facts memory f = facts(r, verdictOf(v));
        SplitLib.Split memory s = SplitLib.split(f, terms(q));
        uint256 gone = s.bondBack + s.alpha + s.perSeat * f.seats;
        gone += s.toAppellant + s.toOperator + s.repaid + s.burned;
        same(gone, f.bond + f.appealBond + f.advanced + f.slashed, "to the wei");
        that(s.repaid <= f.advanced, "the treasury gets back what it gave at most");
    }

    function test_a_fifth_of_a_slash_is_burned(uint256[5] memory r, uint256[4] memory q, uint8 v) public pure {
        SplitLib.Facts memory f = facts(r, [Verdict.OVERTURNED, Verdict.INVALID, Verdict.UNAVAILABLE][v % 3]);
        SplitLib.Split memory s = SplitLib.split(f, terms(q));
        that(s.burned * 5 >= f.slashed, "whatever the fees and whoever paid");
    }

    function test_upheld_pays_fees_first_then_the_treasury(uint256[5] memory r, uint256[4] memory q) public pure {
        SplitLib.Facts memory f = facts(r, Verdict.UPHELD);
        SplitTerms memory t = terms(q);
        SplitLib.Split memory s = SplitLib.split(f, t);
        uint256 funds = f.bond + f.advanced + (f.appellantWon ? 0 : f.appealBond);
        that(s.perSeat <= t.feePerSeat, "never more than the fee");
        if (f.seats != 0 && funds >= f.seats * t.feePerSeat) same(s.perSeat, t.feePerSeat, "the fee if it is there");
        uint256 left = funds - s.perSeat * f.seats;
        same(s.repaid, left < f.advanced ? left : f.advanced, "then the advance");
        that(s.toOperator * 2 <= left - s.repaid, "at most half of the rest to the operator");
        same(s.bondBack + s.alpha, 0, "the bond is lost");
        same(s.toAppellant, f.appellantWon ? f.appealBond : 0, "unless the appeal was right");
    }

    function test_a_conviction_returns_the_bond_and_pays_who_knew(uint256[5] memory r, uint256[4] memory q, uint8 v)
        public
        pure
    {
        SplitLib.Facts memory f = facts(r, [Verdict.OVERTURNED, Verdict.INVALID, Verdict.UNAVAILABLE][v % 3]);
        SplitTerms memory t = terms(q);
        SplitLib.Split memory s = SplitLib.split(f, t);
        same(s.bondBack, f.bond, "the bond");
        uint256 alpha = f.verdict == Verdict.UNAVAILABLE || !f.knew ? 0 : f.slashed * t.alphaBps / 10_000;
        same(s.alpha, alpha, "alpha to who knew");
        same(s.toOperator, 0, "nothing to the convicted");
        uint256 fees = f.seats * t.feePerSeat;
        uint256 most = f.slashed * t.betaBps / 10_000 + fees;
        that(s.perSeat * f.seats <= most, "beta and fees at most");
        if (s.repaid < f.advanced) that(s.perSeat * f.seats <= fees, "the treasury pays fees, never rewards");
        if (f.seats != 0 && f.slashed * 8_000 / 10_000 - alpha >= most) {
            same(s.perSeat, most / f.seats, "and all of it");
        }
    }

    /// @dev Whatever the seats were: who stalls earns nothing, and who was questioned or questioned honestly loses next to nothing.
    function test_a_draw_pays_nobody(uint256[5] memory r, uint256[4] memory q) public pure {
        SplitLib.Facts memory f = facts(r, Verdict.DRAW);
        SplitTerms memory t = terms(q);
        f.slashed = 0;
        SplitLib.Split memory s = SplitLib.split(f, t);
        same(s.perSeat, 0, "no seat is paid");
        same(s.toOperator, 0, "nor the operator");
        uint256 lost = t.feePerSeat < f.bond ? t.feePerSeat : f.bond;
        same(s.bondBack, f.bond - lost, "the bond loses the fee of a seat");
        same(s.alpha, 0, "and nobody knew");
        same(s.repaid, f.advanced, "the treasury has all of it back");
        same(s.toAppellant, f.appealBond, "no appeal was lost");
    }

    function test_a_refund_returns_everything(uint256[5] memory r, uint256[4] memory q) public pure {
        SplitLib.Facts memory f = facts(r, Verdict.REFUNDED);
        SplitTerms memory t = terms(q);
        SplitLib.Split memory s = SplitLib.split(f, t);
        same(s.bondBack, f.bond, "the bond");
        same(s.alpha, 0, "and no more");
        same(s.toAppellant, f.appealBond, "the appeal's");
        same(s.burned, 0, "nothing burned");
        that(s.perSeat <= t.feePerSeat, "fees from the treasury alone");
        same(s.repaid, f.advanced - s.perSeat * f.seats, "which has back the rest");
    }

    /// @dev One case of each kind, by hand: 31 seats of 0.01 ether, a bond of 0.5 ether, a slash of 10 ether.
    function test_by_hand() public pure {
        SplitLib.Facts memory f;
        (f.bond, f.knew) = (0.5 ether, true);
        (f.appealBond, f.advanced, f.slashed, f.seats) = (1 ether, 0.6 ether, 10 ether, 30);
        SplitTerms memory t = SplitTerms(0, 0, 0.01 ether, 3_000, 3_000, 5_000);
        f.verdict = Verdict.OVERTURNED;
        SplitLib.Split memory s = SplitLib.split(f, t);
        same(s.bondBack, 0.5 ether, "the bond");
        same(s.alpha, 3 ether, "and alpha, for it knew");
        same(s.perSeat, 0.11 ether, "3 ether of beta and 0.3 of fees for 30 seats");
        same(s.repaid, 0.6 ether, "the treasury was not needed");
        same(s.burned, 1 ether + 10 ether - 6.3 ether, "the lost appeal and the rest of the slash");
        f.verdict = Verdict.DRAW;
        f.slashed = 0;
        s = SplitLib.split(f, t);
        same(s.perSeat, 0, "nobody is paid for a draw");
        same(s.bondBack, 0.49 ether, "what the fee of a seat leaves");
        same(s.burned, 0.01 ether, "the fee of a seat");
        f.verdict = Verdict.UPHELD;
        s = SplitLib.split(f, t);
        same(s.toOperator, 0.6 ether, "half of 0.5 + 1 - 0.3");
        same(s.burned, 0.6 ether, "the other half");
    }
}
