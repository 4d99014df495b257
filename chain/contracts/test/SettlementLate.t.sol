// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ILedger} from "../src/interfaces/ILedger.sol";
import {IRegistry} from "../src/interfaces/IRegistry.sol";
import {ISettlement} from "../src/interfaces/ISettlement.sol";
import {StakeBook} from "../src/stake/StakeBook.sol";
import {StakeVault} from "../src/stake/StakeVault.sol";
import {Verdict} from "../src/libraries/Types.sol";
import {CourtRoom} from "./CourtRoom.sol";

/// @title Stake whose money comes in a second step, as EigenLayer's does
contract LateSource {
    ILedger private immutable LEDGER;
    mapping(address account => uint256) public stakeOf;
    mapping(address account => uint256) public lockedOf;
    mapping(bytes32 ref => uint256) public owed;

    constructor(ILedger ledger) {
        LEDGER = ledger;
    }

    function wire(IRegistry, address, address, address) external {}

    function deposit() external payable {
        stakeOf[msg.sender] += msg.value;
    }

    function lock(address account, uint256 want, bytes32) external returns (uint256 locked) {
        uint256 free = stakeOf[account] - lockedOf[account];
        locked = want < free ? want : free;
        lockedOf[account] += locked;
    }

    function unlock(address account, uint256 amount, bytes32) external {
        lockedOf[account] -= amount;
    }

    function slash(address account, uint256 boundBefore, uint256 want, bytes32 ref) external returns (uint256 taken) {
        lockedOf[account] -= boundBefore;
        uint256 free = stakeOf[account] - lockedOf[account];
        taken = want < free ? want : free;
        stakeOf[account] -= taken;
        owed[ref] += taken;
    }

    function bring(bytes32 ref, uint256 amount) external {
        owed[ref] -= amount;
        LEDGER.take{value: amount}(ref, address(0), ILedger.Source.SLASH);
    }
}

contract SettlementLateTest is CourtRoom {
    LateSource private late;

    function newVault(StakeBook.Parts memory parts) internal override returns (StakeVault) {
        late = new LateSource(parts.ledger);
        return StakeVault(address(late));
    }

    function convicted(uint96 stake_, bytes32 moves) private returns (uint256 slashed) {
        stake(OPERATOR, bound(stake_, 2, 40 ether));
        opened(true);
        seated(1, 15, Verdict.OVERTURNED, moves);
        ended(Verdict.OVERTURNED, false);
        slashed = account().slashed;
        same(late.owed(ID), slashed, "on its way");
    }

    function test_nobody_is_paid_before_the_slash_is_there(uint96 stake_, uint256 part, bytes32 moves) public {
        uint256 slashed = convicted(stake_, moves);
        uint256 missing = bound(part, 1, slashed);
        late.bring(ID, slashed - missing);
        uint256 want = account().bond + slashed;
        for (uint256 i = 0; i < 2; ++i) {
            vm.expectRevert(abi.encodeWithSelector(ISettlement.NotArrived.selector, ID, want - missing, want));
            if (i == 0) settlement.payOut(ID);
            else settlement.settleSeats(ID, 1, 15);
        }
        same(ledger.totalCredits(), 0, "nobody");
        late.bring(ID, missing);
        settlement.payOut(ID);
        that(account().paid, "now everybody");
        settledAll(moves);
        same(ledger.potOf(ID), 0, "and every seat");
    }

    /// @dev Whoever settles the first seat after the money is there pays the others first.
    function test_seats_pay_out_what_has_arrived(uint96 stake_, bytes32 moves) public {
        late.bring(ID, 0);
        uint256 slashed = convicted(stake_, moves);
        late.bring(ID, slashed);
        settlement.settleSeats(ID, 1, 15);
        ISettlement.Account memory a = account();
        that(a.paid, "paid");
        same(ledger.creditOf(CHALLENGER), a.toChallenger, "the challenger too");
        same(ledger.potOf(ID), 0, "nothing is left");
    }

    /// @dev Penalties that come late are burned when they come; they never mix with what seats are to get.
    function test_late_penalties_are_burned_late(uint96 stake_, bytes32 moves) public {
        late.bring(ID, convicted(stake_, moves));
        settledAll(moves);
        ISettlement.Account memory a = account();
        bytes32 pot = settlement.penaltyPot(ID);
        same(late.owed(pot), a.penalties, "on their way");
        same(ledger.totalBurned(), a.burned, "not burned yet");
        late.bring(pot, a.penalties);
        if (a.penalties == 0) vm.expectRevert(abi.encodeWithSelector(ISettlement.AlreadyPaid.selector, ID));
        settlement.payOut(ID);
        same(ledger.totalBurned(), uint256(a.burned) + a.penalties, "burned now");
        same(ledger.totalPots(), 0, "no pot is left");
    }
}
