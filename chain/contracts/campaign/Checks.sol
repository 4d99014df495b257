// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Phase, Standing, Verdict} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {ISettlement} from "../src/interfaces/ISettlement.sol";
import {Mirror} from "./Mirror.sol";
import {Rows} from "./Rows.sol";
import {Watch} from "./Watch.sol";

/// @title What must hold after every call, and everything counted anew now and then
/// @dev Checks I1 SUMS, I3 NO CREDIT OF NOBODY, I7 TREE, I8 WHOLE UNITS, I10 BOUND, I12 FROZEN WEIGHTS, I19 QUORUM,
///      I21 FIXED PARAMETERS, I27 ACCEPTED FOR GOOD.
///      After a call: all sums, and each account, pot and dispute that events named. `recount` looks at what no event named too.
abstract contract Checks is Watch {
    /// @notice Weights of a verifier in the running epoch and the next, as they were last seen.
    struct Weight {
        uint32 now_;
        uint32 next;
    }

    mapping(uint256 receipt => bool) private _accepted;
    uint32 private _epochSeen;
    mapping(address who => Weight) private _weights;
    mapping(address who => bool) private _touched;
    uint256 private _sumNow;
    uint256 private _sumNext;
    mapping(bytes32 id => bool) private _counted;
    uint256 private _checkCount;
    mapping(uint32 version => bytes32) private _paramsHash;

    /// @dev Of the campaign's parameters; computing them each time would take longer than the check.
    uint256 private constant MIN_VERIFIER_STAKE = 5 ether;
    uint256 private constant UNIT = 1 ether;

    /// @dev After every action. A handler of forge keeps what it remembers, a test that asks it does not.
    function _check() internal {
        (address[] memory who, bytes32[] memory refs) = mirror.touched();
        if (heard) {
            _sums();
            for (uint256 i = 0; i < who.length; ++i) {
                _account(who[i]);
                _boundBy(who[i]);
                _touched[who[i]] = true;
            }
            for (uint256 i = 0; i < refs.length; ++i) {
                same(ledger.potOf(refs[i]), mirror.potOf(refs[i]), "pot by events");
            }
            for (uint256 i = 0; i < movers.length; ++i) {
                _touched[movers[i]] = true;
            }
            _ends();
            _acceptance();
        }
        _weigh(who);
        for (uint256 i = 0; i < who.length; ++i) {
            _touched[who[i]] = false;
        }
        if (ruled) _versions();
        (heard, ruled) = (false, false);
        ++_checkCount;
        same(wealth(), supply, "wei were made or lost");
        same(guardian.clock(), expectedClock(), "the clock is wall time without pauses");
    }

    /// @notice Everything, whether an event named it or not. Each sum and each of its parts are those of the events, so the sum
    ///         is that of its parts; only credit can be given to somebody that nobody here knows.
    function recount() external {
        _sums();
        uint256 credits = 0;
        for (uint256 i = 0; i < people.length; ++i) {
            _account(people[i]);
            _boundBy(people[i]);
            credits += ledger.creditOf(people[i]);
        }
        for (uint256 i = 0; i < mirror.potCount(); ++i) {
            same(ledger.potOf(mirror.pots(i)), mirror.potOf(mirror.pots(i)), "pot by events");
        }
        same(ledger.creditOf(address(0)), 0, "credit of nobody");
        same(ledger.totalCredits(), credits + ledger.creditOf(address(this)), "credit of strangers");
        for (uint256 i = 0; i < ids.length; ++i) {
            _look(ids[i]);
            that(looks[ids[i]].phase != Phase.FINAL || settlement.accountOf(ids[i]).ended, "an end without its money");
        }
        _versions();
        same(wealth(), supply, "wei were made or lost");
    }

    /// @dev All sums by events, and the wei that are there for them.
    function _sums() private view {
        Mirror.Totals memory t = mirror.totals();
        same(ledger.totalPots(), t.pots, "pots by events");
        same(ledger.totalCredits(), t.credits, "credits by events");
        same(ledger.treasury(), t.treasury, "treasury by events");
        same(ledger.totalBurned(), t.burned, "burned by events");
        same(address(ledger).balance, t.pots + t.credits + t.treasury + t.burned, "ledger's wei");
        same(vault.totalStake(), t.stake, "stakes by events");
        same(vault.totalUnbonding(), t.unbonding, "unbonding by events");
        same(address(vault).balance, t.stake + t.unbonding, "vault's wei");
        uint256 passing = address(market).balance + address(anchor).balance + address(audits).balance;
        passing += address(demands).balance + address(disputes).balance + address(settlement).balance;
        same(passing, 0, "wei where none stays");
        string memory wrong = mirror.wrong();
        that(bytes(wrong).length == 0, wrong);
    }

    function _account(address a) private view {
        (uint256 out,,) = vault.unbondingOf(a);
        same(ledger.creditOf(a), mirror.creditOf(a), "credit by events");
        same(vault.stakeOf(a), mirror.stakeOf(a), "stake by events");
        same(out, mirror.unbondingOf(a), "unbonding by events");
        same(vault.lockedOf(a), mirror.lockedOf(a), "locks by events");
        same(vault.collateralOf(a), mirror.collateralOf(a), "collateral by events");
        same(vault.obligedOf(a), mirror.obligedOf(a), "obligations by events");
        same(vault.keptOf(a), mirror.keptOf(a), "what stays, by events");
        (, uint256 slash) = params.feeAndSlash(params.version());
        same(vault.freeStakeOf(a), mirror.freeOf(a, slash), "what receipts can bind, by events");
    }

    /// @dev Locks are those of open disputes, collateral is that of batches that were not released; only operators have any.
    function _boundBy(address a) private view {
        (uint256 locks, uint256 collateral) = (0, 0);
        for (uint256 i = 0; i < live.length; ++i) {
            if (accused[live[i]] != a || looks[live[i]].phase == Phase.FINAL) continue;
            locks += settlement.accountOf(live[i]).operatorLocked;
        }
        for (uint256 i = 0; i < unreleased.length; ++i) {
            Anchored storage one = receipts[unreleased[i]];
            if (one.r.operator != a) continue;
            IReceiptAnchor.Batch memory b = anchor.batch(one.batchId);
            if (!b.released) collateral += b.count * params.money(b.paramsVersion).receiptCollateral;
        }
        same(vault.obligedOf(a), _owedBy(a), "obligations are those of open demands to anchor");
        same(vault.lockedOf(a), locks, "locks are those of open disputes");
        same(vault.collateralOf(a), collateral, "collateral is that of open batches");
    }

    /// @dev The tree is the sum of its leaves in both epochs, a leaf is what its stake is worth next, and nothing that
    ///      anybody does moves a weight of the running epoch.
    function _weigh(address[] memory who) private {
        uint32 now_ = tree.epoch();
        if (_epochSeen != now_) _turnEpoch(now_);
        for (uint256 i = 0; i < who.length; ++i) {
            _weighOne(who[i], now_);
        }
        while (movers.length != 0) {
            _weighOne(movers[movers.length - 1], now_);
            _touched[movers[movers.length - 1]] = false;
            movers.pop();
        }
        same(tree.totalAt(now_), _sumNow, "tree now");
        same(tree.totalAt(now_ + 1), _sumNext, "tree next");
    }

    /// @dev What was promised for the next epoch holds in it, for whoever did nothing in between.
    function _turnEpoch(uint32 now_) private {
        (uint256 sumNow, uint256 sumNext) = (0, 0);
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            address v = verifierOf(i);
            uint32 has = tree.unitsAt(v, now_);
            if (_epochSeen != 0 && !_touched[v]) {
                same(has, _weights[v].next, "another weight than was promised");
            }
            _weights[v] = Weight(has, tree.unitsAt(v, now_ + 1));
            (sumNow, sumNext) = (sumNow + has, sumNext + _weights[v].next);
        }
        (_epochSeen, _sumNow, _sumNext) = (now_, sumNow, sumNext);
    }

    function _weighOne(address v, uint32 now_) private {
        bool counts = registry.verifier(v).pool != 0 && vault.stakeOf(v) >= MIN_VERIFIER_STAKE;
        uint32 will = tree.unitsAt(v, now_ + 1);
        same(will, counts ? vault.stakeOf(v) / UNIT : 0, "leaf of the next epoch");
        same(tree.unitsAt(v, now_), _weights[v].now_, "a weight of the running epoch moved");
        _sumNext = _sumNext + will - _weights[v].next;
        _weights[v].next = will;
    }

    /// @dev Money of every ended dispute by the table, once; pay and penalties of its seats when all are settled.
    function _ends() private {
        while (paidOrCharged.length != 0) {
            bytes32 id = paidOrCharged[paidOrCharged.length - 1];
            paidOrCharged.pop();
            if (looks[id].phase == Phase.FINAL && !allSettled[id]) _ended(id);
        }
    }

    function _ended(bytes32 id) private {
        ISettlement.Account memory a = settlement.accountOf(id);
        that(a.ended, "an end without its money");
        if (!_counted[id]) _checkRow(id, a);
        _counted[id] = true;
        same(seatPenalty[id], a.penalties, "penalties");
        if (!a.paid || !_allSettled(id)) return;
        same(seatPay[id], a.toVerifiers, "pay of all seats");
        same(ledger.potOf(id), 0, "a settled dispute holds nothing");
        same(ledger.potOf(settlement.penaltyPot(id)), 0, "penalties are burned");
        allSettled[id] = true;
        for (uint256 i = 0; i < live.length; ++i) {
            if (live[i] != id) continue;
            live[i] = live[live.length - 1];
            live.pop();
            return;
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
            for (uint16 seat = 0; seat < rounds.roundOf(id, round).seats; ++seat) {
                Standing s = standingOf(id, round, seat);
                if (s == Standing.RIGHT || s == Standing.WORKED) c.seats += 1;
            }
        }
        (, c.knew) = disputes.challengerOf(id);
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
            uint256 seats = rounds.roundOf(id, round).seats;
            if (size != 0 && 3 * size >= 2 * seats) found = true;
        }
        that(found, "a conviction without a quorum");
    }

    function _allSettled(bytes32 id) private view returns (bool) {
        for (uint16 round = 1; round <= disputes.roundsOf(id); ++round) {
            if (settlement.settledSeats(id, round) < rounds.roundOf(id, round).seats) return false;
        }
        return true;
    }

    /// @dev What was accepted once is accepted for good, whatever happens later. One receipt a time.
    function _acceptance() private {
        if (receipts.length == 0) return;
        uint256 i = _checkCount % receipts.length;
        Anchored memory a = receipts[i];
        bytes memory data = abi.encodeCall(anchor.isFinal, (a.r, a.sig, a.batchId, none()));
        (bool ok,) = address(anchor).staticcall(data);
        that(ok || !_accepted[i], "a receipt was accepted and is not any more");
        _accepted[i] = ok;
    }

    /// @dev No version of the parameters ever changes.
    function _versions() private {
        for (uint32 v = 1; v <= params.version(); ++v) {
            bytes32 hash = keccak256(abi.encode(params.get(v)));
            if (_paramsHash[v] == 0) _paramsHash[v] = hash;
            same(hash, _paramsHash[v], "parameters of a version changed");
        }
    }
}
