// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Committee, Phase, Times, Verdict} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IDemands} from "../src/interfaces/IDemands.sol";
import {KeyActions} from "./KeyActions.sol";

/// @title Everybody goes home: from wherever a campaign stopped, every dispute ends and every wei can leave
/// @dev Checks I6 REFUSED PAYMENT, I11 NO MORE THAN THERE IS, I14 ENDS, I28 HELD.
///      Moves that anybody may make, and one of governance where the breaker holds. None of them may fail.
abstract contract Ending is KeyActions {
    /// @dev Rounds are ten at most; each takes nine moves at most, a lost seed included.
    uint256 private constant MOST_MOVES = 100;

    /// @notice Drive every dispute to its end, then let everybody take what is theirs.
    function goHome() external step {
        until(guardian.clock());
        for (uint256 i = 0; i < ids.length; ++i) {
            _toTheEnd(ids[i]);
        }
        _settleEverySeat();
        _openPool();
        _endDemands();
        _releaseAll();
        _emptyTheLedger();
        _emptyTheVault();
        _watch();
        for (uint256 i = 0; i < mirror.potCount(); ++i) {
            bool bounties = mirror.pots(i) == BOUNTIES;
            same(ledger.potOf(mirror.pots(i)), bounties ? ledger.totalPots() : 0, "a pot holds money for ever");
        }
    }

    function _toTheEnd(bytes32 id) private {
        uint256 last = guardian.clock() + _leftOf(id);
        for (uint256 n = 0; disputes.phaseOf(id) != Phase.FINAL; ++n) {
            that(n < MOST_MOVES && guardian.clock() <= last, "a dispute does not end");
            _onward(id);
            _watch();
        }
    }

    /// @dev Seconds by the law of its version from where a dispute stands, whoever waited before: the levels and reruns that are
    ///      left, each with an appeal, and one airgap.
    function _leftOf(bytes32 id) private view returns (uint256) {
        IDisputes.Dispute memory d = disputes.dispute(id);
        Times memory t = params.times(d.paramsVersion);
        Committee memory c = params.committee(d.paramsVersion);
        uint256 round = uint256(t.seedTime) + t.drawTime + t.commitTime + t.revealTime;
        return (c.rounds - d.level + 1) * (round + t.appealTime) + (c.maxReruns - d.reruns) * round + t.airgap;
    }

    function _onward(bytes32 id) private {
        Phase phase = disputes.phaseOf(id);
        IDisputes.Dispute memory d = disputes.dispute(id);
        if (phase == Phase.SEED || phase == Phase.DRAWING) return _drawOn(id);
        if (phase == Phase.COMMIT) return until(uint256(roundOf(id).commitEnd) + 1);
        if (phase == Phase.REVEAL && !disputes.isSettleable(id)) return until(uint256(roundOf(id).revealEnd) + 1);
        if (phase == Phase.REVEAL) {
            return must(personAt(0), address(disputes), abi.encodeCall(disputes.settle, (id)), "settle");
        }
        _openAlt(id, 0);
        until(uint256(d.airgapEnd) + 1);
        bool ends = d.verdict == Verdict.UPHELD || d.verdict == Verdict.DRAW;
        if (!ends && breaker.isHeld(d.environment)) breaker.resetBreaker(d.environment);
        must(personAt(1), address(disputes), abi.encodeCall(disputes.finalize, (id)), "finalize");
    }

    function _drawOn(bytes32 id) private {
        uint256 seedBlock = roundOf(id).seedBlock;
        reach(seedBlock + 1);
        if (tree.isOver(seedBlock) || randao.isExpired(seedBlock)) {
            return must(personAt(2), address(disputes), abi.encodeCall(disputes.rearm, (id)), "rearm");
        }
        bytes memory data = abi.encodeCall(disputes.draw, (id, 255, _headerOf(id, 0)));
        must(personAt(3), address(disputes), data, "draw");
    }

    function _settleEverySeat() private {
        for (uint256 i = 0; i < ids.length; ++i) {
            for (uint16 round = 1; round <= disputes.roundsOf(ids[i]); ++round) {
                if (settlement.settledSeats(ids[i], round) == rounds.roundOf(ids[i], round).seats) continue;
                bytes memory data = abi.encodeCall(settlement.settleSeats, (ids[i], round, 255));
                must(personAt(0), address(settlement), data, "settleSeats");
            }
        }
    }

    function _endDemands() private {
        for (uint256 i = 0; i < demanded.length; ++i) {
            IDemands.Demand memory d = demands.demand(demanded[i]);
            if (d.state != IDemands.State.OPEN) continue;
            until(uint256(d.deadline) + 1);
            must(personAt(0), address(demands), abi.encodeCall(demands.expire, (demanded[i])), "expire");
        }
    }

    /// @dev A pool that is too small holds windows open, and demands that are answered by a post; it is made large enough again.
    function _openPool() private {
        for (uint256 i = 0; i < VERIFIERS && !registry.isSeatable(POOL); ++i) {
            address v = verifierOf(i);
            if (registry.verifier(v).pool != 0) registry.refresh(v);
            if (registry.verifier(v).pool != 0 && vault.stakeOf(v) >= 5 ether) continue;
            stake(v, 5 ether);
            if (registry.verifier(v).pool != 0) continue;
            vm.prank(v);
            registry.join(POOL, keccak256(abi.encode("platform", i)), MEASUREMENT);
        }
        that(registry.isSeatable(POOL), "the pool judges again");
        _watch();
    }

    function _releaseAll() private {
        for (uint64 i = 0; i < anchor.batchCount(); ++i) {
            if (anchor.batch(i).released) continue;
            until(uint256(anchor.windowEnd(0, i)) + 1 + params.times(1).cure);
            must(personAt(4), address(anchor), abi.encodeCall(anchor.release, (i)), "release");
        }
        _watch();
    }

    function _emptyTheLedger() private {
        until(uint256(guardian.clock()) + 7 hours);
        for (uint256 i = 0; i < people.length; ++i) {
            address a = people[i];
            if (ledger.creditOf(a) == 0) continue;
            if (a == address(refuser)) {
                that(!may(a, address(ledger), 0, abi.encodeCall(ledger.withdraw, ()), "taken"), "it refuses");
                continue;
            }
            (uint256 due, uint256 had) = (ledger.creditOf(a), a.balance);
            must(a, address(ledger), abi.encodeCall(ledger.withdraw, ()), "withdraw");
            if (ledger.creditOf(a) == 0) same(a.balance - had, due, "withdrawn");
            same(ledger.creditOf(a), 0, "credit that cannot leave");
        }
        _watch();
        same(ledger.totalCredits(), ledger.creditOf(address(refuser)), "only who refuses keeps credit");
    }

    function _emptyTheVault() private {
        for (uint256 i = 0; i < people.length; ++i) {
            uint256 active = vault.stakeOf(people[i]);
            // What locks and obligations stay is counted after this.
            same(vault.collateralOf(people[i]), 0, "collateral stays for ever");
            // The queue may be full; what is due makes room.
            if (active != 0) may(people[i], address(vault), 0, abi.encodeCall(vault.requestUnbond, (active)), "home");
        }
        until(uint256(guardian.clock()) + params.times(params.version()).unbondDelay + 1 hours);
        for (uint256 i = 0; i < people.length; ++i) {
            (uint256 amount,,) = vault.unbondingOf(people[i]);
            if (amount == 0 || people[i] == address(refuser)) continue;
            must(people[i], address(vault), abi.encodeCall(vault.finishUnbond, ()), "finishUnbond");
            (amount,,) = vault.unbondingOf(people[i]);
            same(amount, 0, "stake that cannot leave");
        }
        _watch();
    }
}
