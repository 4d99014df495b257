// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IStakeTree} from "../src/interfaces/IStakeTree.sol";
import {DrawnAccounts} from "../test/DrawnAccounts.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {Committee, Outcome, Phase, Receipt, Standing, Times, Verdict} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {Deadlines} from "./Deadlines.sol";
import {Owing} from "./Owing.sol";
import {Table} from "./Table.sol";

/// @title After every call: each dispute that it touched moved along the table, by a count made a second time
/// @dev Checks I16 DRAWN FIRST, I18 ONE VERDICT, I19 QUORUM, I31 SUSPENDED.
abstract contract Watch is Owing {
    using DrawnAccounts for IStakeTree;

    /// @notice An operator convicted of a wrong answer.
    struct Conviction {
        address operator;
        uint64 since;
    }

    /// @notice How often each row of the table was seen.
    mapping(Table.Move => uint256) public moved;
    /// @notice Disputes that ended so.
    mapping(Verdict => uint256) public ended;

    mapping(uint32 version => Table.Limits) private _limits;
    mapping(bytes32 id => Verdict) public appealedVerdict;
    /// @dev The round whose count is the verdict that stands.
    mapping(bytes32 id => uint16 round) private _decidedIn;
    /// @notice Disputes with nothing left to pay or to charge.
    mapping(bytes32 id => bool) public allSettled;
    Conviction[] private _convictions;
    /// @dev When disputes of an operator ended in a DRAW, since it was last suspended for them.
    mapping(address operator => uint256[]) private _draws;

    error Wrong(string what, bytes32 id, uint256 have, uint256 want);

    /// @dev Everything since the last look: events first, then every dispute that they named.
    function _watch() internal override {
        _hear();
        while (stirred.length != 0) {
            bytes32 id = stirred[stirred.length - 1];
            stirred.pop();
            bool again = false;
            for (uint256 i = 0; i < stirred.length; ++i) {
                again = again || stirred[i] == id;
            }
            if (!again) _look(id);
        }
    }

    function _look(bytes32 id) internal {
        IDisputes.Dispute memory d = disputes.dispute(id);
        Table.Look memory a = looks[id];
        Table.Look memory b = _seen(id, d, a.seedBlock);
        Table.Limits memory limits = _limitsOf(d.paramsVersion);
        // What the clock alone does comes first.
        Phase now_ = Deadlines.aged(a, b.clock);
        if (a.phase != now_) moved[now_ == Phase.REVEAL ? Table.Move.COMMITS_CLOSE : Table.Move.APPEAL_ENDS] += 1;
        a.phase = now_;
        Table.Move m = Table.move(a, b, limits);
        if (a.phase == Phase.REVEAL && b.phase != Phase.REVEAL) m = _judged(id, d, a, b, m);
        Deadlines.check(m, a, b, limits);
        if (m == Table.Move.GIVE_UP) _undecided(id, a, b);
        if (m == Table.Move.OPEN) _filed(id, d);
        if (m == Table.Move.APPEAL) appealedVerdict[id] = a.verdict;
        if (m == Table.Move.DRAW_LAST) _seated(id, d);
        // An earlier verdict that stands after all is noted again.
        bool decided = m == Table.Move.DECIDE || m == Table.Move.DECIDE_LAST || m == Table.Move.UNDECIDED
            || m == Table.Move.GIVE_UP;
        if (decided && b.verdict == Verdict.OVERTURNED) _convict(Conviction(d.operator, b.clock), limits);
        that(b.held == holds, "breaker");
        if (m == Table.Move.UNDECIDED && b.verdict == Verdict.DRAW) _drawn(d.operator, b.clock, limits);
        uint256 until = suspendedUntil[d.operator];
        that(registry.operatorUntil(d.operator) == (until == 0 ? type(uint64).max : until), "suspension");
        moved[m] += 1;
        if (b.phase == Phase.FINAL && a.phase != Phase.FINAL) {
            ended[b.verdict] += 1;
            paidOrCharged.push(id);
        }
        looks[id] = b;
    }

    function _limitsOf(uint32 version) private returns (Table.Limits memory limits) {
        limits = _limits[version];
        if (limits.rounds != 0) return limits;
        (Committee memory c, Times memory t) = (params.committee(version), params.times(version));
        limits = Table.Limits(
            c.rounds, c.maxReruns, t.commitTime, t.revealTime, t.appealTime, t.airgap, t.breakerTime, c.breakerOperators
        );
        _limits[version] = limits;
    }

    /// @dev Convictions of more operators than allowed, within the time, and the breaker holds until it is reset.
    function _convict(Conviction memory c, Table.Limits memory p) private {
        if (holds) return;
        _convictions.push(c);
        uint256 operators = 0;
        for (uint256 i = 0; i < OPERATORS; ++i) {
            bool lately = false;
            for (uint256 k = 0; k < _convictions.length; ++k) {
                bool counts = uint256(_convictions[k].since) + p.breakerTime >= c.since;
                lately = lately || (counts && _convictions[k].operator == people[i]);
            }
            if (lately) ++operators;
        }
        if (operators <= p.breakerOperators) return;
        holds = true;
        delete _convictions;
    }

    /// @dev More draws of one operator than allowed, within the time, and it is suspended until it is readmitted.
    function _drawn(address operator, uint256 clock, Table.Limits memory p) private {
        uint256[] storage draws = _draws[operator];
        draws.push(clock);
        uint256 lately = 0;
        for (uint256 i = 0; i < draws.length; ++i) {
            if (draws[i] + p.breakerTime >= clock) ++lately;
        }
        if (lately <= p.breakerOperators) return;
        delete _draws[operator];
        (uint256 delay,) = params.demandTimes(params.version());
        if (suspendedUntil[operator] == 0) suspendedUntil[operator] = clock + delay;
    }

    function _seen(bytes32 id, IDisputes.Dispute memory d, uint256 oldSeed) private view returns (Table.Look memory b) {
        IRounds.Round memory r = rounds.roundOf(id, d.round);
        b.phase = disputes.phaseOf(id);
        (b.level, b.round, b.reruns) = (d.level, d.round, d.reruns);
        (b.appealed, b.refunded, b.verdict) = (d.appealed, d.refunded, d.verdict);
        (b.airgapEnd, b.rearms, b.drawn, b.seats) = (d.airgapEnd, r.rearms, r.drawn, r.seats);
        (b.clock, b.held) = (guardian.clock(), breaker.isHeld(d.environment));
        (b.seedBlock, b.commitEnd, b.revealEnd, b.appealEnd) = (r.seedBlock, r.commitEnd, r.revealEnd, d.appealEnd);
        (b.committed, b.revealed, b.block_) = (r.committedMask, r.revealedMask, block.number);
        b.promised = rooted[id][d.round];
        // Its epoch is over, or the chain has forgotten its hash.
        b.lost = block.number > oldSeed + 256 || oldSeed / EPOCH_BLOCKS < block.number / EPOCH_BLOCKS;
        b.fixed_ = keccak256(
            abi.encode(d.claim, d.environment, d.operator, d.challenger, d.batchId, d.keyEpoch, d.paramsVersion)
        );
    }

    /// @dev Every seat has one holder, with a weight before anybody knew the seed, and nobody judges a case of its own.
    function _seated(bytes32 id, IDisputes.Dispute memory d) private view {
        IRounds.Member[] memory list = rounds.membersOf(id, d.round);
        IRounds.Round memory r = rounds.roundOf(id, d.round);
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
        _drawnAtOnce(id, d, r, list);
    }

    /// @dev Drawn in parts or at once: the same seats.
    function _drawnAtOnce(bytes32 id, IDisputes.Dispute memory d, IRounds.Round memory r, IRounds.Member[] memory list)
        private
        view
    {
        address[] memory excluded = new address[](1);
        excluded[0] = d.challenger;
        that(saltOf[r.seedBlock] != 0, "drawn before anybody had seen the seed block");
        bytes32 mix = mixOf(r.seedBlock, saltOf[r.seedBlock]);
        bytes32 seed = keccak256(abi.encode(mix, block.chainid, r.seedBlock));
        same(r.roundSeed, keccak256(abi.encode(seed, id, d.round)), "seed of the round");
        address[] memory want = tree.draw(seed, r.seedBlock, id, d.round, excluded, 0, r.seats);
        for (uint256 i = 0; i < list.length; ++i) {
            for (uint256 seat = 0; seat < r.seats; ++seat) {
                bool has = list[i].seatMask & (1 << seat) != 0;
                that(!has || want[seat] == list[i].voter, "another seat than was drawn");
            }
        }
    }

    /// @dev A round was settled: what it led to is what a plain count says.
    function _judged(bytes32 id, IDisputes.Dispute memory d, Table.Look memory a, Table.Look memory b, Table.Move m)
        private
        returns (Table.Move)
    {
        IRounds.Tally memory t = recount(id, a.round, _signedIn(id), a.seats, rounds.roundOf(id, a.round).committedMask);
        IRounds.Tally memory have = rounds.tallyOf(id, a.round);
        _equals(id, a.round, _signedIn(id), have.equal);
        same(keccak256(abi.encode(have)), keccak256(abi.encode(t)), "tally");
        uint256 quorum = params.quorum(d.paramsVersion, a.seats);
        that(t.equal < quorum || t.lead < quorum, "two verdicts at once");
        Verdict v = verdictOf(t, quorum);
        bool noKey = v == Verdict.NONE && t.noKey > a.seats - quorum;
        bool rerun = noKey && a.reruns < params.committee(d.paramsVersion).maxReruns;
        if (v != Verdict.NONE) {
            that(m == Table.Move.DECIDE || m == Table.Move.DECIDE_LAST, "a verdict was passed over");
            same(uint8(b.verdict), uint8(v), "verdict of the count");
            _decidedIn[id] = a.round;
            _says(d, v, t, t.unavailable < quorum);
        } else if (m == Table.Move.DECIDE_LAST) {
            that(!rerun && a.level == params.committee(d.paramsVersion).rounds, "levels are left");
            _undecided(id, a, b);
            return Table.Move.UNDECIDED;
        } else {
            that((m == Table.Move.RERUN) == rerun && m != Table.Move.DECIDE, "rerun or larger");
        }
        return m;
    }

    /// @dev Whoever was counted as equal said what the receipt says, in each field that its operator signed of the answer: UPHELD
    ///      is a quorum of them.
    function _equals(bytes32 id, uint16 round, bytes32[2] memory signed_, uint16 equal_) private view {
        Said[] memory list = said[id][round];
        bool found = equal_ == 0;
        for (uint256 i = 0; i < list.length; ++i) {
            found = found || (list[i].tokensHash == signed_[0] && list[i].outHash == signed_[1]);
        }
        that(found, "equal beside other tokens");
    }

    /// @dev What a verdict says is what the count found.
    function _says(IDisputes.Dispute memory d, Verdict v, IRounds.Tally memory t, bool mixed) private pure {
        bool isLead = v == Verdict.OVERTURNED || v == Verdict.INVALID;
        bytes32 key = v == Verdict.UNAVAILABLE ? _keyOf(Outcome.UNAVAILABLE, 0) : isLead ? t.leadKey : bytes32(0);
        same(d.key, key, "what a verdict says");
        same(d.secondKey, v == Verdict.UNAVAILABLE && mixed ? t.leadKey : bytes32(0), "what a verdict says too");
        same(d.replacement, v == Verdict.OVERTURNED ? t.leadOutHash : bytes32(0), "replacement");
    }

    function _keyOf(Outcome outcome, bytes32 outHash) private pure returns (bytes32) {
        return keyOf(Said(uint8(outcome), 0, 0, outHash, 0, 0));
    }

    /// @dev A dispute is about the receipt that it was opened for.
    function _filed(bytes32 id, IDisputes.Dispute memory d) private view {
        same(id, keccak256(abi.encode(block.chainid, disputes, receiptIdOf[id])), "id of a dispute");
        same(d.claim, keccak256(abi.encode(_signedIn(id))), "claim");
        Receipt memory r = receipts[placeOf[receiptIdOf[id]]].r;
        that(d.operator == accused[id] && d.operator == r.operator, "the accused");
        that(d.environment == r.environment && d.keyEpoch == r.keyEpoch && d.batchId == batchOf[id], "another batch");
    }

    /// @dev tokensHash and outHash as the operator signed them.
    function _signedIn(bytes32 id) private view returns (bytes32[2] memory) {
        Receipt memory r = receipts[placeOf[receiptIdOf[id]]].r;
        return [r.tokensHash, r.outHash];
    }

    /// @dev The earlier verdict stands, or nothing does.
    function _undecided(bytes32 id, Table.Look memory a, Table.Look memory b) private pure {
        Verdict want = a.verdict == Verdict.NONE ? Verdict.DRAW : a.verdict;
        if (b.verdict != want) revert Wrong("undecided", id, uint8(b.verdict), uint8(want));
    }

    /// @notice What a seat is worth, from what was said.
    function standingOf(bytes32 id, uint16 round, uint16 seat) internal view override returns (Standing) {
        IDisputes.Dispute memory d = disputes.dispute(id);
        IRounds.Round memory r = rounds.roundOf(id, round);
        if (r.drawn < r.seats || r.commitEnd == 0) return Standing.NONE;
        Said[] memory list = said[id][round];
        bool mild = d.verdict == Verdict.DRAW || d.verdict == Verdict.REFUNDED;
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].seats & (1 << seat) == 0) continue;
            // A later committee had the key: this one could have had it.
            bool opened = round < _decidedIn[id] && d.verdict <= Verdict.INVALID;
            if (list[i].outcome == 4) return opened ? Standing.ABSENT : Standing.NEUTRAL;
            if (list[i].outcome == 5) return mild ? Standing.NEUTRAL : Standing.ABSENT;
            if (mild) return Standing.WORKED;
            bytes32 key = keyOf(list[i]);
            (bytes32 group,) = largest(id, round, key);
            // Of a claim that stands no key is kept: what the operator signed is right.
            bytes32 said_ = d.verdict == Verdict.UPHELD ? _keyOf(Outcome.EXECUTED, _signedIn(id)[1]) : d.key;
            bool right = (key == said_ || (d.secondKey != 0 && key == d.secondKey)) && list[i].group == group;
            return right ? Standing.RIGHT : Standing.WRONG;
        }
        (address[] memory holders,) = rounds.standingsOf(id, round, seat, 1);
        address holder = holders.length == 0 ? address(0) : holders[0];
        if (holder == address(0)) return Standing.NONE;
        if (mild) return Standing.NEUTRAL;
        // Whom a root binds nobody sees: it may be anybody.
        return r.committedMask & (1 << seat) == 0 && !rooted[id][round] ? Standing.ABSENT : Standing.NOT_REVEALED;
    }
}
