// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Settlement} from "../../src/court/Settlement.sol";
import {Standing, Verdict} from "../../src/libraries/Types.sol";
import {IDisputes} from "../../src/interfaces/IDisputes.sol";
import {ILedger} from "../../src/interfaces/ILedger.sol";
import {ISettlement} from "../../src/interfaces/ISettlement.sol";
import {GivenCourt} from "../CourtRoom.sol";
import {EigenStaking} from "./EigenStaking.sol";

/// @title Disputes settled with stake at EigenLayer: nobody's share is lost because its payment waits
contract EigenDisputesTest is EigenStaking {
    bytes32 private constant ID = "dispute";
    address private constant CHALLENGER = address(0xC4A1);
    uint256 private constant SEATS = 15;

    Settlement private settlement;
    GivenCourt private court;

    /// @dev The operator is account `who`; three accounts hold five seats each.
    function setUp() public override {
        super.setUp();
        settlement = new Settlement(params, ledger, adapter);
        court = new GivenCourt();
        settlement.wire(IDisputes(address(court)));
        ledger.setMover(address(settlement), true);
        ledger.setSource(address(court), true);
        adapter.setMover(address(settlement), true);
        for (uint256 i = 0; i < 3; ++i) {
            delegated(person(i), LEAST, ALL);
        }
    }

    /// @dev Holders 0 and 1 were right, holder 2 said something else.
    function judged(uint256 stake_) private returns (ISettlement.Account memory a) {
        delegated(who, stake_, ALL);
        (uint256 bond, uint256 slashAmount) = params.openTerms(1);
        vm.deal(address(court), bond);
        vm.prank(address(court));
        ledger.take{value: bond}(ID, CHALLENGER, ILedger.Source.BOND);
        vm.prank(address(court));
        settlement.opened(ID, who, slashAmount);
        court.setChallenger(ID, CHALLENGER, true);
        for (uint256 i = 0; i < SEATS; ++i) {
            court.addSeat(ID, 1, person(i / 5), i < 10 ? Standing.RIGHT : Standing.WRONG);
        }
        ISettlement.Ending memory how = court.ending(ID, Verdict.OVERTURNED, false);
        vm.prank(address(court));
        settlement.end(ID, how);
        a = settlement.accountOf(ID);
    }

    /// @dev 30 % to who knew, 30 % and the fees to the right seats, the rest burned; the wrong seats' penalty is burned too.
    function paid(uint256 slashed_) private view {
        same(ledger.creditOf(CHALLENGER), params.requiredBond(1) + slashed_ * 3 / 10, "bond and alpha");
        uint256 due = slashed_ * 3 / 10 + 10 * 0.01 ether;
        uint256 have = slashed_ * 8 / 10 - slashed_ * 3 / 10;
        uint256 perSeat = (due < have ? due : have) / 10;
        same(ledger.creditOf(person(0)), 5 * perSeat, "right seats");
        same(ledger.creditOf(person(1)), 5 * perSeat, "right seats");
        same(ledger.creditOf(person(2)), 0, "wrong seats");
    }

    function test_what_waits_at_eigenlayer_is_paid_when_it_comes(uint96 amount, uint16 delay, bool penaltyFirst)
        public
    {
        uint256 wait = uint256(delay) + 1;
        eigen.pause(false, false, wait);
        ISettlement.Account memory a = judged(bound(amount, 1 ether, 40 ether));
        that(a.slashed != 0 && !a.paid, "taken, not here");
        uint256 want = a.slashed + params.requiredBond(1);
        bytes4 late = ISettlement.NotArrived.selector;
        vm.expectRevert(abi.encodeWithSelector(late, ID, params.requiredBond(1), want));
        settlement.payOut(ID);
        vm.roll(block.number + wait);
        adapter.collect(1);
        settlement.settleSeats(ID, 1, SEATS);
        paid(a.slashed);
        uint256 penalty = settlement.accountOf(ID).penalties;
        near(penalty, 5 * 0.07 ether, grain(LEAST), "penalty");
        uint256 burned = ledger.totalBurned();
        // Its money waits too, and is burned when it comes.
        if (penaltyFirst) vm.roll(block.number + wait);
        else eigen.pause(false, false, 0);
        adapter.collect(2);
        settlement.payOut(ID);
        same(ledger.totalBurned(), burned + penalty, "burned");
        same(ledger.potOf(ID), 0, "nothing is left in the pot");
        same(adapter.totalOwed(), 0, "nor on its way");
    }

    function test_what_eigenlayer_pays_at_once_is_paid_at_once(uint96 amount) public {
        ISettlement.Account memory a = judged(bound(amount, 1 ether, 40 ether));
        that(a.paid, "at once");
        settlement.settleSeats(ID, 1, SEATS);
        paid(a.slashed);
        same(ledger.potOf(ID), 0, "nothing is left in the pot");
    }

    /// @dev A refusal to slash stops no verdict: bonds come back, and what is slashed later is nobody's.
    function test_what_eigenlayer_refuses_stops_no_verdict(uint96 amount) public {
        eigen.pause(true, false, 0);
        ISettlement.Account memory a = judged(bound(amount, 1 ether, 40 ether));
        same(a.slashed, 0, "not taken");
        that(a.paid, "settled without it");
        settlement.settleSeats(ID, 1, SEATS);
        paid(0);
        eigen.pause(false, false, 0);
        uint256 due = adapter.dueOf(who, ID);
        near(adapter.retry(who, ID), due, grain(40 ether), "no amnesty");
        same(ledger.potOf(ID), 0, "to the pot of nobody");
    }
}
