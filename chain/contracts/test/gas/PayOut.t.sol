// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Settlement} from "../../src/court/Settlement.sol";
import {Standing, Verdict} from "../../src/libraries/Types.sol";
import {IDisputes} from "../../src/interfaces/IDisputes.sol";
import {ILedger} from "../../src/interfaces/ILedger.sol";
import {ISettlement} from "../../src/interfaces/ISettlement.sol";
import {GivenCourt} from "../CourtRoom.sol";
import {EigenStaking} from "../eigenlayer/EigenStaking.sol";
import {Meter} from "./GasBase.sol";

/// @title What is paid when a slash at EigenLayer has arrived: the most accounts, none of which had a credit before
/// forge-config: default.isolate = true
contract PayOutGasTest is EigenStaking {
    bytes32 private constant ID = "dispute";
    address private constant APPELLANT = address(0xA44);
    address private constant CHALLENGER = address(0xC4A1);
    uint256 private constant WAIT = 10;
    uint16 private constant SEATS = 15;

    event log_named_uint(string key, uint256 val);

    Settlement private settlement;
    GivenCourt private court;

    function setUp() public override {
        super.setUp();
        settlement = new Settlement(params, ledger, adapter);
        court = new GivenCourt();
        settlement.wire(IDisputes(address(court)));
        ledger.setMover(address(settlement), true);
        ledger.setSource(address(court), true);
        adapter.setMover(address(settlement), true);
        vm.deal(address(court), 100 ether);
        vm.deal(address(this), 100 ether);
        ledger.fund{value: 10 ether}();
        delegated(who, 40 ether, ALL);
    }

    function test_gas_of_the_largest_late_payment() public {
        eigen.pause(false, false, WAIT);
        convicted();
        that(!settlement.accountOf(ID).paid, "the slash is on its way");
        vm.roll(block.number + WAIT);
        adapter.collect(1);
        settlement.payOut(ID);
        Meter.Gas memory g = Meter(address(vm)).lastCallGas();
        that(g.gasTotalUsed + uint64(g.gasRefunded) <= 1 << 24, "fits one transaction");
        emit log_named_uint("pay_out", g.gasTotalUsed);
        same(ledger.creditOf(APPELLANT), 1 ether, "the appeal is paid back");
        that(ledger.creditOf(CHALLENGER) > params.requiredBond(1), "bond and a share");
    }

    /// @dev A challenger who knew, an appeal that was won, and an advance that goes back.
    function convicted() private {
        (uint256 bond, uint256 slashAmount) = params.openTerms(1);
        vm.prank(address(court));
        ledger.take{value: bond}(ID, CHALLENGER, ILedger.Source.BOND);
        vm.prank(address(court));
        settlement.opened(ID, who, slashAmount);
        court.setChallenger(ID, CHALLENGER, true);
        vm.prank(address(court));
        settlement.advance(ID, SEATS, 1);
        vm.prank(address(court));
        ledger.take{value: 1 ether}(ID, APPELLANT, ILedger.Source.APPEAL_BOND);
        vm.prank(address(court));
        settlement.appealed(ID, APPELLANT, 1 ether);
        for (uint256 i = 0; i < SEATS; ++i) {
            court.addSeat(ID, 1, person(i / 5), Standing.RIGHT);
        }
        ISettlement.Ending memory how = court.ending(ID, Verdict.OVERTURNED, true);
        vm.prank(address(court));
        settlement.end(ID, how);
    }
}
