// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Finding, Vote} from "../src/Types.sol";
import {Vm} from "../test/Vm.sol";
import {Committee, Phase, Standing, Verdict} from "../src/Types.sol";
import {ICourt} from "../src/interfaces/ICourt.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {IRegistry} from "../src/interfaces/IRegistry.sol";
import {ISettlement} from "../src/interfaces/ISettlement.sol";
import {IStakeSource} from "../src/interfaces/IStakeSource.sol";
import {Mirror} from "./Mirror.sol";
import {People} from "./People.sol";
import {Recount} from "./Recount.sol";
import {Table} from "./Table.sol";

/// @title After every call: each dispute that it touched moved along the table, by a count made a second time; events are kept as books
abstract contract Watch is People, Recount {
    Mirror public mirror;
    /// @notice How often each row of the table was seen.
    mapping(Table.Move => uint256) public moved;
    /// @notice Disputes that ended so.
    mapping(Verdict => uint256) public ended;

    mapping(bytes32 id => Table.Look) internal looks;
    mapping(bytes32 id => mapping(uint16 round => mapping(uint16 seat => bool))) private _seatSettled;
    mapping(bytes32 id => uint256) public seatPay;
    mapping(bytes32 id => uint256) public seatPenalty;
    mapping(uint32 version => Table.Limits) private _limits;
    mapping(bytes32 id => Verdict) public appealedVerdict;
    bytes32[] public demanded;
    /// @notice Disputes with nothing left to pay or to charge.
    mapping(bytes32 id => bool) public allSettled;
    /// @notice Disputes that have not ended, or whose money is still moving.
    bytes32[] internal live;
    /// @dev Disputes that events named and nobody has looked at since; those whose money moved; whether anything was heard.
    bytes32[] private _stirred;
    bytes32[] internal paidOrCharged;
    bool internal heard;
    bool internal ruled;
    /// @dev Verifiers who entered or left the pool since the last check.
    address[] internal movers;
    mapping(bytes32 id => address operator) internal accused;
    /// @dev Seats that a certificate was made for.
    mapping(bytes32 id => mapping(uint16 round => uint256)) internal signedFor;
    uint256 private _stopped;
    uint256 private _pausedFrom;
    uint256 private _pauseEnd;

    error Wrong(string what, bytes32 id, uint256 have, uint256 want);

    function _hear() internal override {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        if (logs.length == 0) return;
        heard = true;
        uint64 clock = guardian.clock();
        for (uint256 i = 0; i < logs.length; ++i) {
            address by = logs[i].emitter;
            if (by == address(ledger)) mirror.ofLedger(logs[i], clock);
            else if (by == address(vault)) _ofVault(logs[i]);
            else if (by == address(registry)) _ofRegistry(logs[i]);
            else if (by == address(disputes)) _ofCourt(logs[i]);
            else if (by == address(settlement)) _ofSettlement(logs[i]);
            else if (by == address(guardian)) _ofGuardian(logs[i]);
            else if (by == address(params)) ruled = true;
            else if (logs[i].topics[0] == IReceiptAnchor.Demanded.selector) demanded.push(logs[i].topics[1]);
            else _ofOthers(logs[i]);
        }
    }

    function _ofVault(Vm.Log memory e) private {
        mirror.ofVault(e);
        if (e.topics[0] != IStakeSource.Released.selector) return;
        uint64 batchId = uint64(uint256(e.topics[2]));
        for (uint256 i = 0; i < unreleased.length; ++i) {
            if (receipts[unreleased[i]].batchId != batchId) continue;
            that(anchor.batch(batchId).released, "collateral leaves an open batch");
            unreleased[i] = unreleased[unreleased.length - 1];
            unreleased.pop();
            return;
        }
        revert Failed("collateral leaves twice");
    }

    function _ofRegistry(Vm.Log memory e) private {
        bool moved_ = e.topics[0] == IRegistry.VerifierJoined.selector || e.topics[0] == IRegistry.VerifierLeft.selector;
        if (moved_) movers.push(address(uint160(uint256(e.topics[1]))));
    }

    /// @dev What later parts of the campaign keep books of.
    function _ofOthers(Vm.Log memory e) internal virtual {}

    /// @dev Everything since the last look: events first, then every dispute that they named.
    function _watch() internal override {
        _hear();
        while (_stirred.length != 0) {
            bytes32 id = _stirred[_stirred.length - 1];
            _stirred.pop();
            bool again = false;
            for (uint256 i = 0; i < _stirred.length; ++i) {
                again = again || _stirred[i] == id;
            }
            if (!again) _look(id);
        }
    }

    function _look(bytes32 id) internal {
        IDisputes.Dispute memory d = disputes.dispute(id);
        Table.Look memory a = looks[id];
        Table.Look memory b = _seen(id, d);
        Table.Limits memory limits = _limits[d.paramsVersion];
        if (limits.rounds == 0) {
            Committee memory c = params.committee(d.paramsVersion);
            limits = _limits[d.paramsVersion] = Table.Limits(c.rounds, c.maxReruns);
        }
        // What the clock alone does comes first: a settled round had its commits closed before.
        if (a.phase == Phase.COMMIT && b.phase != Phase.COMMIT && b.phase != Phase.REVEAL) {
            moved[Table.Move.COMMITS_CLOSE] += 1;
            a.phase = Phase.REVEAL;
        }
        if (a.phase == Phase.APPEAL && b.phase == Phase.FINAL && !b.refunded) {
            moved[Table.Move.APPEAL_ENDS] += 1;
            a.phase = Phase.AIRGAP;
        }
        Table.Move m = Table.move(a, b, limits);
        if (a.phase == Phase.REVEAL && b.phase != Phase.REVEAL) m = _judged(id, d, a, b, m);
        if (m == Table.Move.GIVE_UP) _undecided(id, a, b);
        if (m == Table.Move.APPEAL) appealedVerdict[id] = a.verdict;
        moved[m] += 1;
        if (m == Table.Move.DRAW_LAST) _seated(id, d);
        if (b.phase == Phase.FINAL && a.phase != Phase.FINAL) {
            ended[b.verdict] += 1;
            paidOrCharged.push(id);
        }
        looks[id] = b;
    }

    function _seen(bytes32 id, IDisputes.Dispute memory d) private view returns (Table.Look memory b) {
        IDisputes.Round memory r = disputes.roundOf(id, d.round);
        (address[] memory who,) = disputes.challengersOf(id);
        b.phase = disputes.phaseOf(id);
        (b.level, b.round, b.reruns) = (d.level, d.round, d.reruns);
        (b.appealed, b.refunded, b.verdict) = (d.appealed, d.refunded, d.verdict);
        (b.airgapEnd, b.rearms, b.drawn, b.seats) = (d.airgapEnd, r.rearms, r.drawn, r.seats);
        (b.challengers, b.clock, b.held) = (who.length, guardian.clock(), disputes.isHeld(d.environment));
        b.fixed_ = keccak256(
            abi.encode(
                d.receiptId,
                d.claimedOutHash,
                d.environment,
                d.operator,
                d.challenger,
                d.batchId,
                d.openedAt,
                d.keyEpoch,
                d.paramsVersion
            )
        );
    }

    /// @dev Every seat has one holder, with a weight before anybody knew the seed, and nobody judges a case of its own.
    function _seated(bytes32 id, IDisputes.Dispute memory d) private view {
        IDisputes.Member[] memory list = disputes.membersOf(id, d.round);
        IDisputes.Round memory r = disputes.roundOf(id, d.round);
        uint32 epoch = tree.epoch();
        while (tree.epochStart(epoch) > r.seedBlock) {
            --epoch;
        }
        (uint256 all, uint256 sum) = (0, 0);
        for (uint256 i = 0; i < list.length; ++i) {
            that(list[i].voter != d.challenger, "the challenger judges");
            that(list[i].voter == address(0) || tree.unitsAt(list[i].voter, epoch) != 0, "a seat without a weight");
            that(list[i].seats == ones(list[i].seatMask), "seats of a member");
            (all, sum) = (all | list[i].seatMask, sum + list[i].seats);
        }
        that(all == (1 << r.seats) - 1 && sum == r.seats, "each seat once");
    }

    /// @dev A round was settled: what it led to is what a plain count says.
    function _judged(bytes32 id, IDisputes.Dispute memory d, Table.Look memory a, Table.Look memory b, Table.Move m)
        private
        returns (Table.Move)
    {
        IDisputes.Tally memory t =
            recount(id, a.round, d.claimedOutHash, a.seats, disputes.roundOf(id, a.round).committedMask);
        IDisputes.Tally memory have = disputes.tallyOf(id, a.round);
        same(keccak256(abi.encode(have)), keccak256(abi.encode(t)), "tally");
        uint256 quorum = params.quorum(d.paramsVersion, a.seats);
        that(t.equal < quorum || t.lead < quorum, "two verdicts at once");
        Verdict v = verdictOf(t, quorum);
        bool noKey = v == Verdict.NONE && t.noKey > a.seats - quorum;
        bool rerun = noKey && a.reruns < params.committee(d.paramsVersion).maxReruns;
        if (v != Verdict.NONE) {
            that(m == Table.Move.DECIDE || m == Table.Move.DECIDE_LAST, "a verdict was passed over");
            same(uint8(b.verdict), uint8(v), "verdict of the count");
        } else if (m == Table.Move.DECIDE_LAST) {
            that(!rerun && a.level == params.committee(d.paramsVersion).rounds, "levels are left");
            _undecided(id, a, b);
            return Table.Move.UNDECIDED;
        } else {
            that((m == Table.Move.RERUN) == rerun && m != Table.Move.DECIDE, "rerun or larger");
        }
        return m;
    }

    /// @dev The earlier verdict stands, or nothing does.
    function _undecided(bytes32 id, Table.Look memory a, Table.Look memory b) private pure {
        Verdict want = a.verdict == Verdict.NONE ? Verdict.DRAW : a.verdict;
        if (b.verdict != want) revert Wrong("undecided", id, uint8(b.verdict), uint8(want));
    }

    function _ofCourt(Vm.Log memory e) private {
        if (e.topics.length < 2) return; // of its authority
        bytes32 kind = e.topics[0];
        if (kind == ICourt.DisputeOpened.selector) {
            ids.push(e.topics[1]);
            live.push(e.topics[1]);
            accused[e.topics[1]] = address(uint160(uint256(e.topics[3])));
        } else if (looks[e.topics[1]].phase == Phase.NONE && !_isStirred(e.topics[1])) {
            return; // of a receipt or an environment
        } else {
            that(looks[e.topics[1]].phase != Phase.FINAL, "an ended dispute moves");
        }
        _stirred.push(e.topics[1]);
        if (kind == ICourt.Revealed.selector) {
            (Vote memory v,) = abi.decode(e.data, (Vote, bytes));
            _heard(v);
        } else if (kind == ICourt.Certified.selector) {
            (Finding memory f, uint256 seats,) = abi.decode(e.data, (Finding, uint256, uint16));
            same(seats, signedFor[f.dispute][f.round], "seats of a certificate");
            _heard(f, seats);
        }
    }

    function _isStirred(bytes32 id) private view returns (bool found) {
        for (uint256 i = 0; i < _stirred.length; ++i) {
            found = found || _stirred[i] == id;
        }
    }

    /// @dev Pauses, kept by hand: none longer than allowed, no two nearer than a dispute is long.
    function _ofGuardian(Vm.Log memory e) private {
        if (e.topics[0] == IGuardian.Paused.selector) {
            if (_pauseEnd != 0) _stopped += _pauseEnd - _pausedFrom;
            // A version that is long over may have had longer disputes.
            uint256 longest = params.longestDispute(params.version());
            that(_pauseEnd == 0 || block.timestamp >= _pauseEnd + longest, "two pauses in one dispute");
            (_pauseEnd,) = abi.decode(e.data, (uint256, address));
            _pausedFrom = block.timestamp;
            that(_pauseEnd - _pausedFrom <= params.times(1).maxPause, "a long pause");
        } else if (e.topics[0] == IGuardian.Unpaused.selector) {
            _pauseEnd = block.timestamp;
        }
    }

    /// @notice Wall time without pauses.
    function expectedClock() public view returns (uint256) {
        uint256 now_ = block.timestamp < _pauseEnd ? _pausedFrom : block.timestamp;
        return now_ - _stopped - (block.timestamp < _pauseEnd ? 0 : _pauseEnd - _pausedFrom);
    }

    function _ofSettlement(Vm.Log memory e) private {
        paidOrCharged.push(e.topics[1]);
        if (e.topics[0] != ISettlement.SeatsSettled.selector) return;
        (bytes32 id, uint16 round) = (e.topics[1], uint16(uint256(e.topics[2])));
        (uint16 from, uint16 seats, Standing standing, uint256 pay, uint256 penalty) =
            abi.decode(e.data, (uint16, uint16, Standing, uint256, uint256));
        for (uint16 seat = from; seat < from + seats; ++seat) {
            that(!_seatSettled[id][round][seat], "a seat was settled twice");
            _seatSettled[id][round][seat] = true;
            same(uint8(standing), uint8(standingOf(id, round, seat)), "standing");
        }
        seatPay[id] += pay;
        seatPenalty[id] += penalty;
    }

    /// @notice What a seat is worth, from what was said.
    function standingOf(bytes32 id, uint16 round, uint16 seat) internal view returns (Standing) {
        IDisputes.Dispute memory d = disputes.dispute(id);
        IDisputes.Round memory r = disputes.roundOf(id, round);
        if (r.drawn < r.seats || r.commitEnd == 0) return Standing.NONE;
        Said[] memory list = said[id][round];
        bool mild = d.verdict == Verdict.DRAW || d.verdict == Verdict.REFUNDED;
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].seats & (1 << seat) == 0) continue;
            if (list[i].outcome == 4) return Standing.NEUTRAL;
            if (list[i].outcome == 5) return mild ? Standing.NEUTRAL : Standing.ABSENT;
            if (mild) return Standing.WORKED;
            bytes32 key = keyOf(list[i]);
            (bytes32 group,) = largest(id, round, key);
            bool right = (key == d.key || (d.secondKey != 0 && key == d.secondKey)) && list[i].group == group;
            return right ? Standing.RIGHT : Standing.WRONG;
        }
        (address holder,) = disputes.standingOf(id, round, seat);
        if (holder == address(0)) return Standing.NONE;
        if (mild) return Standing.NEUTRAL;
        return r.committedMask & (1 << seat) == 0 ? Standing.ABSENT : Standing.NOT_REVEALED;
    }
}
