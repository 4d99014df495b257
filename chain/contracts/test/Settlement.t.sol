// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Wired} from "../src/libraries/Wired.sol";
import {Settlement} from "../src/court/Settlement.sol";
import {Money, Standing, Verdict} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {ISettlement} from "../src/interfaces/ISettlement.sol";
import {CourtRoom} from "./CourtRoom.sol";

/// @title Whole disputes, from the bond to the last seat, with money and stake that are really there
contract SettlementTest is CourtRoom {
    struct Story {
        uint8 verdict;
        bool appeal;
        bool appellantWon;
        bool knew;
        uint8 rounds;
        uint96 stake;
        uint96 treasury;
        uint96 bond; // of the appeal
    }

    function verdictOf(Story memory s) private pure returns (Verdict) {
        return Verdict(1 + s.verdict % 6);
    }

    /// @dev Plays a dispute to its end.
    function played(Story memory s, bytes32 moves) private {
        stake(OPERATOR, bound(s.stake, 1, 40 ether));
        vm.deal(address(this), s.treasury % 2 ether);
        ledger.fund{value: s.treasury % 2 ether}();
        opened(s.knew);
        if (s.appeal) appealed(s.bond % 2 ether);
        uint16[4] memory sizes = [uint16(0), 15, 31, 63];
        for (uint16 round = 1; round <= s.rounds % 4; ++round) {
            if (round > 1) advanced(sizes[round]);
            seated(round, sizes[round], verdictOf(s), moves);
        }
        ended(verdictOf(s), s.appeal && s.appellantWon);
    }

    function owned(address who) private view returns (uint256) {
        return ledger.creditOf(who) + vault.stakeOf(who);
    }

    /// @dev Nothing appears, nothing disappears, and both pots are empty when the last seat is settled.
    function test_every_wei_arrives(Story memory s, bytes32 moves) public {
        uint256 before = 1e9 ether;
        played(s, moves);
        settledAll(moves);
        ISettlement.Account memory a = account();
        uint256 gone = uint256(a.toChallenger) + a.toAppellant + a.toOperator + a.toVerifiers + a.repaid + a.burned;
        same(uint256(a.bond) + a.appealBond + a.advanced + a.slashed, gone, "in == out");
        same(ledger.potOf(ID), 0, "its pot");
        same(ledger.potOf(settlement.penaltyPot(ID)), 0, "the pot of penalties");
        same(ledger.totalPots(), 0, "all pots");
        same(ledger.totalBurned(), uint256(a.burned) + a.penalties, "burned");
        same(ledger.treasury(), s.treasury % 2 ether - a.advanced + a.repaid, "treasury");
        same(ledger.totalCredits(), gone - a.repaid - a.burned, "credits");
        same(before - address(court).balance, uint256(a.bond) + a.appealBond, "bonds came from the court");
        same(vault.lockedOf(OPERATOR), 0, "no lock is left");
        that(a.ended && a.paid, "over");
    }

    function test_each_gets_its_own(Story memory s, bytes32 moves) public {
        played(s, moves);
        uint256 held = vault.stakeOf(OPERATOR) + account().slashed;
        same(held, bound(s.stake, 1, 40 ether), "only what was slashed left the operator");
        settledAll(moves);
        ISettlement.Account memory a = account();
        same(ledger.creditOf(OPERATOR), a.toOperator, "operator");
        same(ledger.creditOf(APPELLANT), a.toAppellant, "appellant");
        same(ledger.creditOf(CHALLENGER), a.toChallenger, "challenger");
        (uint256 pay, uint256 penalties) = seatMoney(verdictOf(s), a.perSeat);
        same(pay, a.toVerifiers, "every right seat");
        same(penalties, a.penalties, "every penalty");
    }

    /// @dev Checks each verifier against its seats; returns the sums.
    function seatMoney(Verdict verdict, uint256 perSeat) private view returns (uint256 pay, uint256 penalties) {
        Money memory m = params.money(1);
        bool forgiving = verdict == Verdict.DRAW || verdict == Verdict.REFUNDED;
        for (uint256 v = 0; v < VERIFIERS; ++v) {
            (uint256 mine, uint256 lost) = (0, 0);
            for (uint16 round = 1; round <= court.dispute(ID).round; ++round) {
                for (uint16 i = 0; i < court.roundOf(ID, round).seats; ++i) {
                    (address holder, Standing st) = court.standingOf(ID, round, i);
                    if (holder != verifier(v)) continue;
                    if (st == Standing.RIGHT || st == Standing.WORKED) mine += perSeat;
                    if (st == Standing.ABSENT) lost += m.absentPenalty;
                    if (st == Standing.NOT_REVEALED) lost += m.noRevealPenalty;
                    if (st == Standing.WRONG) lost += m.wrongPenalty;
                }
            }
            if (forgiving) lost = 0;
            same(ledger.creditOf(verifier(v)), mine, "pay of one");
            same(vault.stakeOf(verifier(v)), 5 ether - lost, "penalties of one");
            (pay, penalties) = (pay + mine, penalties + lost);
        }
    }

    function test_steps_do_not_matter(Story memory s, bytes32 moves, bytes32 otherSteps) public {
        played(s, moves);
        settledAll(otherSteps);
        seatMoney(verdictOf(s), account().perSeat);
    }

    function test_a_fifth_of_what_was_really_slashed_is_burned(Story memory s, bytes32 moves) public {
        s.verdict = [1, 2, 3][s.verdict % 3];
        played(s, moves);
        ISettlement.Account memory a = account();
        uint256 staked = bound(s.stake, 1, 40 ether);
        same(a.slashed, staked < 10 ether ? staked : 10 ether, "as much as there was");
        that(uint256(a.burned) * 5 >= a.slashed, "a fifth");
    }

    function test_a_draw_or_refund_charges_nobody(Story memory s, bytes32 moves) public {
        s.verdict = s.verdict % 2 == 0 ? 4 : 5;
        played(s, moves);
        settledAll(moves);
        same(account().penalties, 0, "no penalties");
        same(vault.stakeOf(OPERATOR), bound(s.stake, 1, 40 ether), "nor a slash");
        if (verdictOf(s) == Verdict.REFUNDED) return;
        same(account().toVerifiers, 0, "and a draw pays no seat");
        same(account().advanced, account().repaid, "so the treasury has its own back");
    }

    function test_an_empty_treasury_stops_nothing(Story memory s, bytes32 moves) public {
        s.treasury = 0;
        played(s, moves);
        settledAll(moves);
        same(account().advanced, 0, "nothing to advance");
        same(ledger.totalPots(), 0, "and still over");
    }

    function test_seats_are_settled_once_and_only_those_there_are(Story memory s, bytes32 moves, uint16 round) public {
        played(s, moves);
        settledAll(moves);
        vm.expectRevert(abi.encodeWithSelector(ISettlement.NoProgress.selector, ID, round));
        settlement.settleSeats(ID, round, 5);
    }

    function test_no_seats_at_a_time_is_no_progress(Story memory s, bytes32 moves) public {
        s.rounds = 1;
        played(s, moves);
        vm.expectRevert(abi.encodeWithSelector(ISettlement.NoProgress.selector, ID, 1));
        settlement.settleSeats(ID, 1, 0);
        settlement.settleSeats(ID, 1, type(uint256).max);
        same(settlement.settledSeats(ID, 1), 15, "as many as there are");
    }

    function test_ten_committees_are_counted_apart(bytes32 moves) public {
        stake(OPERATOR, 20 ether);
        opened(false);
        for (uint16 round = 1; round <= 10; ++round) {
            seated(round, 3 + round % 2, Verdict.UPHELD, moves);
        }
        ended(Verdict.UPHELD, false);
        for (uint16 round = 10; round > 0; --round) {
            settlement.settleSeats(ID, round, 3);
            for (uint16 other = 1; other < round; ++other) {
                same(settlement.settledSeats(ID, other), 0, "another round is not touched");
            }
        }
        same(settlement.settledSeats(ID, 10), 3, "nor forgotten");
    }

    function test_nothing_is_paid_before_the_end(uint8 which, uint16 round, uint256 count) public {
        stake(OPERATOR, 20 ether);
        opened(false);
        vm.expectRevert(abi.encodeWithSelector(ISettlement.NotEnded.selector, ID));
        if (which % 2 == 0) settlement.payOut(ID);
        else settlement.settleSeats(ID, round, count);
        that(!account().ended, "open");
        same(account().toChallenger, 0, "nothing is known yet");
    }

    function test_it_ends_and_is_paid_once(Story memory s, bytes32 moves) public {
        played(s, moves);
        vm.expectRevert(abi.encodeWithSelector(ISettlement.AlreadyPaid.selector, ID));
        settlement.payOut(ID);
        ISettlement.Ending memory how = court.ending(ID, Verdict.UPHELD, false);
        vm.prank(address(court));
        vm.expectRevert(abi.encodeWithSelector(ISettlement.AlreadyEnded.selector, ID));
        settlement.end(ID, how);
    }

    function test_only_the_court_moves_a_dispute(address who, uint8 which) public {
        vm.assume(who != address(court));
        bytes[4] memory calls = [
            abi.encodeCall(ISettlement.opened, (ID, OPERATOR, 1 ether)),
            abi.encodeCall(ISettlement.appealed, (ID, who, 1 ether)),
            abi.encodeCall(ISettlement.advance, (ID, 15, 1)),
            abi.encodeCall(ISettlement.end, (ID, court.ending(ID, Verdict.UPHELD, false)))
        ];
        vm.prank(who);
        (bool ok, bytes memory why) = address(settlement).call(calls[which % 4]);
        that(!ok, "refused");
        same(keccak256(why), keccak256(abi.encodeWithSelector(Wired.NotAuthorised.selector, who)), "not the court");
    }

    function test_it_is_wired_once(address who) public {
        vm.expectRevert(abi.encodeWithSelector(Wired.AlreadyWired.selector));
        settlement.wire(IDisputes(who));
        Settlement other = new Settlement(params, ledger, vault);
        vm.expectRevert(abi.encodeWithSelector(Wired.ZeroAddress.selector));
        other.wire(IDisputes(address(0)));
    }
}
