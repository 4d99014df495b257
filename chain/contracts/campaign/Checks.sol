// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Phase, Standing, Verdict} from "../src/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {ISettlement} from "../src/interfaces/ISettlement.sol";
import {OtherActions} from "./OtherActions.sol";
import {Rows} from "./Rows.sol";

/// @title What must hold whenever one looks
abstract contract Checks is OtherActions {
    mapping(uint256 receipt => bool) private _accepted;
    uint32 private _epochSeen;
    mapping(address who => uint32 units) private _unitsSeen;
    mapping(bytes32 id => bool) private _counted;
    uint256 private _turn;
    mapping(uint32 version => bytes32) private _paramsHash;

    /// @notice All of it. Not a view: what was accepted, and weights of the running epoch, are remembered.
    function check() external {
        _books();
        _stakes();
        _weights();
        _ends();
        _acceptance();
        _versions();
        ++_turn;
        same(wealth(), supply, "wei were made or lost");
        same(guardian.clock(), expectedClock(), "the clock is wall time without pauses");
    }

    /// @dev Events from genesis on give every balance of ledger and vault, and all of their sums.
    function _books() private view {
        uint256 credits = 0;
        for (uint256 i = 0; i < people.length; ++i) {
            same(ledger.creditOf(people[i]), mirror.creditOf(people[i]), "credit by events");
            credits += ledger.creditOf(people[i]);
        }
        uint256 pots = 0;
        for (uint256 i = 0; i < mirror.potCount(); ++i) {
            bytes32 ref = mirror.pots(i);
            same(ledger.potOf(ref), mirror.potOf(ref), "pot by events");
            pots += ledger.potOf(ref);
        }
        same(ledger.creditOf(address(0)), 0, "credit of nobody");
        same(ledger.totalPots(), pots, "pots");
        same(ledger.totalCredits(), credits + ledger.creditOf(address(this)), "credits");
        same(ledger.treasury(), mirror.treasury(), "treasury by events");
        same(ledger.totalBurned(), mirror.totalBurned(), "burned by events");
        uint256 sum = pots + ledger.totalCredits() + ledger.treasury() + ledger.totalBurned();
        same(address(ledger).balance, sum, "ledger's wei");
        string memory wrong = mirror.wrong();
        that(bytes(wrong).length == 0, wrong);
    }

    /// @dev Stakes by events; nothing is bound that is not there; locks and collateral are those of what is open.
    function _stakes() private view {
        uint256 active = 0;
        uint256 unbonding = 0;
        for (uint256 i = 0; i < people.length; ++i) {
            address a = people[i];
            (uint256 out,,) = vault.unbondingOf(a);
            same(vault.stakeOf(a), mirror.stakeOf(a), "stake by events");
            same(out, mirror.unbondingOf(a), "unbonding by events");
            same(vault.lockedOf(a), mirror.lockedOf(a), "locks by events");
            same(vault.collateralOf(a), mirror.collateralOf(a), "collateral by events");
            if (i < OPERATORS) _boundBy(a);
            else that(vault.lockedOf(a) + vault.collateralOf(a) == 0, "only operators' stake is bound");
            (active, unbonding) = (active + vault.stakeOf(a), unbonding + out);
        }
        same(vault.totalStake(), active, "stakes");
        same(vault.totalUnbonding(), unbonding, "unbonding");
        same(address(vault).balance, active + unbonding, "vault's wei");
    }

    /// @dev Locks are those of open disputes, collateral is that of batches that were not released.
    function _boundBy(address a) private view {
        uint256 sum = 0;
        for (uint256 i = 0; i < ids.length; ++i) {
            if (looks[ids[i]].phase == Phase.FINAL || disputes.dispute(ids[i]).operator != a) continue;
            sum += settlement.accountOf(ids[i]).operatorLocked;
        }
        same(vault.lockedOf(a), sum, "locks are those of open disputes");
        sum = 0;
        for (uint256 i = 0; i < receipts.length; ++i) {
            if (receipts[i].r.operator != a) continue;
            IReceiptAnchor.Batch memory b = anchor.batch(receipts[i].batchId);
            if (!b.released) sum += b.count * params.money(b.paramsVersion).receiptCollateral;
        }
        same(vault.collateralOf(a), sum, "collateral is that of open batches");
    }

    /// @dev The tree is the sum of its leaves in both epochs, a leaf is what its stake is worth next, and nothing that
    ///      anybody does moves a weight of the running epoch.
    function _weights() private {
        uint32 now_ = tree.epoch();
        uint256 total = 0;
        uint256 next = 0;
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            address v = verifierAt(i);
            (uint32 has, uint32 will) = (tree.unitsAt(v, now_), tree.unitsAt(v, now_ + 1));
            bool counts = registry.verifier(v).pool != 0 && vault.stakeOf(v) >= parameters().money.minVerifierStake;
            same(will, counts ? tree.unitsFor(vault.stakeOf(v)) : 0, "leaf of the next epoch");
            if (_epochSeen == now_) same(has, _unitsSeen[v], "a weight of the running epoch moved");
            _unitsSeen[v] = has;
            (total, next) = (total + has, next + will);
        }
        _epochSeen = now_;
        same(tree.totalAt(now_), total, "tree now");
        same(tree.totalAt(now_ + 1), next, "tree next");
    }

    /// @dev Money of every ended dispute by the table, once; pay and penalties of its seats when all are settled.
    function _ends() private {
        for (uint256 i = 0; i < ids.length; ++i) {
            if (looks[ids[i]].phase != Phase.FINAL || allSettled[ids[i]]) continue;
            ISettlement.Account memory a = settlement.accountOf(ids[i]);
            that(a.ended, "an end without its money");
            if (!_counted[ids[i]]) _checkRow(ids[i], a);
            _counted[ids[i]] = true;
            that(seatPay[ids[i]] <= a.toVerifiers, "more was paid to seats than set aside");
            same(seatPenalty[ids[i]], a.penalties, "penalties");
            if (!a.paid || !_allSettled(ids[i])) continue;
            same(seatPay[ids[i]], a.toVerifiers, "pay of all seats");
            same(ledger.potOf(ids[i]), 0, "a settled dispute holds nothing");
            same(ledger.potOf(settlement.penaltyPot(ids[i])), 0, "penalties are burned");
            allSettled[ids[i]] = true;
        }
    }

    function _checkRow(bytes32 id, ISettlement.Account memory a) private view {
        IDisputes.Dispute memory d = disputes.dispute(id);
        Rows.Case memory c;
        c.verdict = d.verdict;
        c.appellantWon = d.appealed && d.verdict != appealedVerdict[id];
        c.fee = params.money(d.paramsVersion).feePerSeat;
        (c.alphaBps, c.betaBps) = (params.shares(d.paramsVersion).alphaBps, params.shares(d.paramsVersion).betaBps);
        c.operatorShareBps = params.shares(d.paramsVersion).operatorShareBps;
        for (uint16 round = 1; round <= d.round; ++round) {
            for (uint16 seat = 0; seat < disputes.roundOf(id, round).seats; ++seat) {
                Standing s = standingOf(id, round, seat);
                if (s == Standing.RIGHT || s == Standing.WORKED) c.seats += 1;
            }
        }
        (, bool[] memory who) = disputes.challengersOf(id);
        for (uint256 i = 0; i < who.length; ++i) {
            if (who[i]) c.knew += 1;
        }
        that(a.slashed <= params.money(d.paramsVersion).slashAmount, "more than a slash");
        bool convicted = d.verdict == Verdict.OVERTURNED || d.verdict == Verdict.INVALID;
        if (convicted) _convictedByQuorum(id, d);
        Rows.check(a, c);
    }

    /// @dev Nobody is convicted but by a quorum of one round that says one and the same.
    function _convictedByQuorum(bytes32 id, IDisputes.Dispute memory d) private view {
        bool found = false;
        for (uint16 round = 1; round <= d.round; ++round) {
            (, uint256 size) = largest(id, round, d.key);
            uint256 seats = disputes.roundOf(id, round).seats;
            if (size != 0 && 3 * size >= 2 * seats) found = true;
        }
        that(found, "a conviction without a quorum");
    }

    function _allSettled(bytes32 id) private view returns (bool) {
        for (uint16 round = 1; round <= disputes.dispute(id).round; ++round) {
            if (settlement.settledSeats(id, round) < disputes.roundOf(id, round).seats) return false;
        }
        return true;
    }

    /// @dev What was accepted once is accepted for good, whatever happens later. One receipt a time.
    function _acceptance() private {
        if (receipts.length == 0) return;
        uint256 i = _turn % receipts.length;
        Anchored memory a = receipts[i];
        bytes memory data = abi.encodeCall(anchor.isFinal, (a.r, a.sig, a.batchId, none()));
        (bool ok,) = address(anchor).staticcall(data);
        that(ok || !_accepted[i], "a receipt was accepted and is not any more");
        _accepted[i] = ok;
    }

    /// @dev No version of the parameters ever changes. One version a time.
    function _versions() private {
        uint32 v = uint32(1 + _turn % params.version());
        bytes32 hash = keccak256(abi.encode(params.get(v)));
        if (_paramsHash[v] == 0) _paramsHash[v] = hash;
        same(hash, _paramsHash[v], "parameters of a version changed");
    }
}
