// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Breaker} from "../src/court/Breaker.sol";
import {Disputes} from "../src/court/Disputes.sol";
import {Rounds} from "../src/court/Rounds.sol";
import {Settlement} from "../src/court/Settlement.sol";
import {Phase, Receipt, Status, Verdict} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";
import {Courthouse} from "./Courthouse.sol";
import {Docket} from "./Docket.sol";

/// @title A new court beside the old one: the old one ends what it began (docs/guide/govern.md)
/// forge-config: default.fuzz.runs = 4
contract UpgradeTest is Courthouse {
    struct Court {
        Settlement settlement;
        Docket docket;
        IDisputes disputes;
        Rounds rounds;
        Breaker breaker;
    }

    function present() private view returns (Court memory) {
        return Court(settlement, docket, disputes, rounds, breaker);
    }

    function before(Court memory c) private {
        (settlement, docket) = (c.settlement, c.docket);
        (disputes, rounds, breaker) = (c.disputes, c.rounds, c.breaker);
    }

    /// @dev What a vote of the long timelock brings into force.
    function upgraded() private returns (Court memory old) {
        old = present();
        settlement = new Settlement(params, ledger, vault);
        docket = new Docket(POOL);
        docket.closeWindows(type(uint64).max);
        disputes = newCourt();
        rounds = Rounds(address(disputes.ROUNDS()));
        breaker = Breaker(address(Disputes(address(disputes)).BREAKER()));
        settlement.wire(disputes);
        ledger.setMover(address(settlement), true);
        ledger.setSource(address(disputes), true);
        vault.setMover(address(settlement), true);
        registry.setCourt(address(breaker));
    }

    function openedAgainst(uint256 i) private returns (bytes32) {
        address operator = address(uint160(0x0BE70000 + i));
        staked(operator, 30 ether);
        Receipt memory r = receiptOf(i);
        r.operator = operator;
        uint64 batchId = docket.anchor(operator, ENVIRONMENT, 1);
        return disputes.open{value: params.requiredBond(1)}(r, "", batchId, new bytes32[](0), "alt");
    }

    function drawsOnAllLevels(bytes32 id) private {
        for (uint256 i = 0; i < 3; ++i) {
            judged(id, 9);
        }
        that(disputes.dispute(id).verdict == Verdict.DRAW, "draw");
    }

    function finished(bytes32 id) private {
        toFinalize(id);
        disputes.finalize(id);
        inPhase(id, Phase.FINAL);
        for (uint16 round = 1; round <= disputes.roundsOf(id); ++round) {
            settlement.settleSeats(id, round, 255);
        }
        that(settlement.accountOf(id).paid, "paid");
        same(ledger.potOf(id), 0, "nothing stays in its pot");
    }

    /// @dev Its breaker trips after the change: it judges on, and closes nothing that is not its own any more.
    function test_an_old_court_ends_every_dispute_and_closes_nothing(uint256 salt) public {
        bytes32[3] memory ids;
        for (uint256 i = 0; i < 3; ++i) {
            ids[i] = openedAgainst(salt % 1_000 + i);
        }
        Court memory old = upgraded();
        before(old);
        for (uint256 i = 0; i < 3; ++i) {
            drawsOnAllLevels(ids[i]);
        }
        that(registry.item(ENVIRONMENT).status == Status.ACTIVE, "open for the new court");
        for (uint256 i = 0; i < 3; ++i) {
            finished(ids[i]);
        }
    }

    /// @dev One dispute of the old court and one of the new, about the same operator, step by step beside each other.
    function test_two_courts_share_stake_and_money(uint256 salt, uint8 choice) public {
        bytes32 mine = opened(salt);
        Court memory old = upgraded();
        bytes32 theirs = opened(salt);
        that(mine != theirs, "an id is of one court");
        same(vault.lockedOf(OPERATOR), 20 ether, "both bind the operator");
        judged(theirs, 1);
        Court memory new_ = present();
        before(old);
        judged(mine, choice % 4);
        finished(mine);
        before(new_);
        finished(theirs);
        same(vault.lockedOf(OPERATOR), 0, "nothing is bound any more");
        same(vault.stakeOf(OPERATOR), 100 ether - (choice % 4 == 0 ? 10 ether : 20 ether), "each took its own");
        uint256 sum = ledger.totalPots() + ledger.totalCredits() + ledger.treasury() + ledger.totalBurned();
        same(address(ledger).balance, sum, "every wei is somewhere");
    }

    /// @dev A pause stops the deadlines of both, and the guardian gives back what either has not moved.
    function test_two_courts_share_clock_and_guardian(uint256 salt, uint64 duration) public {
        duration = uint64(bound(duration, 1, 1 days));
        bytes32 mine = opened(salt);
        judged(mine, 1);
        uint64 ends = disputes.dispute(mine).airgapEnd;
        IDisputes court = disputes;
        upgraded();
        bytes32 theirs = opened(salt);
        judged(theirs, 1);
        uint64 clock = guardian.clock();
        guardian.pause(duration);
        vm.warp(block.timestamp + duration - 1);
        same(guardian.clock(), clock, "it stands still");
        vm.expectRevert(abi.encodeWithSelector(IGuardian.NotNow.selector, true));
        court.finalize(mine);
        vm.expectRevert(abi.encodeWithSelector(IGuardian.NotNow.selector, true));
        disputes.finalize(theirs);
        same(court.dispute(mine).airgapEnd, ends, "no deadline moved on the protocol clock");
        guardian.refund(court, mine);
        guardian.refund(disputes, theirs);
        that(court.dispute(mine).refunded && disputes.dispute(theirs).refunded, "both");
        same(vault.stakeOf(OPERATOR), 100 ether, "nobody is slashed");
    }

    /// @dev The one in force has the power that the old one lost.
    function test_the_new_courts_breaker_closes(uint256 salt) public {
        upgraded();
        for (uint256 i = 0; i < 3; ++i) {
            drawsOnAllLevels(openedAgainst(salt % 1_000 + i));
        }
        that(registry.item(ENVIRONMENT).status == Status.CLOSED, "closed");
    }
}
