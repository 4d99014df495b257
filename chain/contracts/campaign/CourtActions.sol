// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Hashes, Outcome, Receipt, Vote} from "../src/Types.sol";
import {Phase, Verdict} from "../src/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {Watch} from "./Watch.sol";

/// @title What everybody does to disputes, allowed or not
abstract contract CourtActions is Watch {
    /// @dev Of one run: enough for the breaker, few enough to look at all of them after every call.
    uint256 private constant MOST_DISPUTES = 8;

    mapping(bytes32 id => mapping(uint16 round => mapping(address voter => uint256))) private _chosen;

    /// @dev Time and blocks go on, and whatever that changes is looked at before the next call.
    modifier step() {
        vm.recordLogs();
        _;
        _watch();
    }

    /// @dev One step of one dispute, at the right time or not.
    function meddle(uint256 what, uint256 which, uint256 who) external step {
        what = spread(what) % 11;
        if (what == 0) post(which, who);
        else if (what == 1) open(which, who, uint8(spread(who)));
        else if (what == 2) join(which, who, uint8(spread(who)));
        else if (what == 3) prove(which, bytes32(who));
        else if (what == 4) draw(which, who);
        else if (what == 5) rearm(which, rarely(who));
        else if (what == 6) appeal(which, who);
        else if (what == 7) openAlt(which, who);
        else if (what == 8) finalize(which, who % 2 == 0);
        else if (what == 9) settleSeats(which, spread(who), who);
        else payOut(which);
    }

    /// @dev Votes one at a time, and those of cheats.
    function vote(uint256 what, uint256 which, uint256 who) external step {
        what = spread(what) % 8;
        if (what < 2) commitOne(which, who, uint8(spread(who)));
        else if (what < 4) revealOne(which, who);
        else if (what == 4) playRound(which, uint8(spread(who)), who);
        else if (what == 5) settle(which, who % 2 == 0);
        else if (what == 6) copyCommitment(which, who, spread(who));
        else cheat(which, who, uint8(spread(who)));
    }

    // --- open, join ---

    function post(uint256 who, uint256 value) internal {
        _post(who, value);
    }

    /// @dev A receipt and somebody who questions it at once.
    function accuse(uint256 who, uint256 by, uint8 expects) external step {
        if (ids.length >= MOST_DISPUTES || !_post(who, 2)) return;
        _open(receipts.length - 1, by, expects);
        _watch();
        if (expects % 2 == 0) _join(ids.length - 1, by ^ 1, expects);
    }

    /// @dev For most disputes the step that comes next, by whoever is near: without it few would come far.
    function goOn(uint256 salt) external step {
        for (uint256 i = 0; i < ids.length; ++i) {
            if (looks[ids[i]].phase == Phase.FINAL && allSettled[ids[i]]) continue;
            if (spread(salt ^ i) % 4 != 0) _goOn(ids[i], spread(~salt ^ i));
            _watch();
        }
    }

    function _goOn(bytes32 id, uint256 salt) private {
        if (guardian.pausedUntil() != 0) return;
        Phase phase = disputes.phaseOf(id);
        if (_waits(id)) {
            _prove(id, bytes32(salt));
            _watch();
            // In parts or at once.
            _draw(id, salt, salt % 3 == 0 ? 2 : 9);
        } else if (phase == Phase.COMMIT) {
            _playRound(id, uint8(salt >> 8), salt);
        } else if (phase == Phase.REVEAL) {
            _settle(id, salt, true);
        } else if (phase == Phase.FINAL) {
            _settleSeats(id, salt >> 8, salt);
        } else if (phase == Phase.APPEAL && salt % 4 == 0) {
            _appeal(id, salt >> 8);
        } else {
            _openAlt(id, salt >> 8);
            _watch();
            _finalize(id, salt, true);
        }
    }

    function _post(uint256 who, uint256 value) private returns (bool ok) {
        address operator = operatorAt(who % OPERATORS);
        Receipt memory r = receipt(operator, anchor.lastSeq(operator) + 1, ENVIRONMENT);
        bytes32 leaf = Hashes.batchLeaf(anchor.receiptId(r), r.seq);
        uint64 batchId = anchor.batchCount();
        // More than the fee comes back, less is refused.
        uint256 fee = market.feeFor(1) + value % 3 - 1;
        ok = may(operator, address(anchor), fee, abi.encodeCall(anchor.post, (headerOf(r, 1, leaf))), "post");
        if (ok) {
            receipts.push(Anchored(r, signature(r), batchId));
        }
    }

    function open(uint256 which, uint256 who, uint8 expects) internal {
        _open(which, who, expects);
    }

    function _open(uint256 which, uint256 who, uint8 expects) private {
        if (receipts.length == 0 || ids.length >= MOST_DISPUTES) return;
        Anchored memory a = receipts[which % receipts.length];
        address by = who % 7 == 0 ? personAt(who) : challengerAt(who);
        bytes32 id = disputes.disputeId(anchor.receiptId(a.r));
        bytes32 alt = disputes.altCommitOf(id, by, _expected(expects), "salt");
        bytes memory data = abi.encodeCall(disputes.open, (a.r, a.sig, a.batchId, none(), alt));
        may(by, address(disputes), params.requiredBond(anchor.batch(a.batchId).paramsVersion), data, "open");
    }

    function join(uint256 which, uint256 who, uint8 expects) internal {
        _join(which, who, expects);
    }

    function _join(uint256 which, uint256 who, uint8 expects) private {
        bytes32 id = pick(which);
        if (id == 0) return;
        address by = who % 5 == 0 ? personAt(who) : challengerAt(who);
        bytes32 alt = disputes.altCommitOf(id, by, _expected(expects), "salt");
        uint256 bond = params.joinBond(disputes.dispute(id).paramsVersion);
        may(by, address(disputes), bond, abi.encodeCall(disputes.join, (id, alt)), "join");
    }

    // --- draw ---

    /// @dev Somebody waits for the seed block and brings its header, unless it is too late.
    function prove(uint256 which, bytes32 salt) internal {
        bytes32 id = pick(which);
        if (id == 0) return;
        _prove(id, salt);
    }

    function _prove(bytes32 id, bytes32 salt) private {
        if (!_waits(id) || guardian.pausedUntil() != 0) return;
        uint256 seedBlock = roundOf(id).seedBlock;
        if (block.number > seedBlock + 256 || randao.mixOf(seedBlock) != 0) return;
        reach(seedBlock + 1);
        _watch();
        must(
            address(this), address(randao), abi.encodeCall(randao.prove, (seedBlock, minted(seedBlock, salt))), "prove"
        );
    }

    function draw(uint256 which, uint256 count) internal {
        bytes32 id = pick(which);
        if (id == 0) return;
        _draw(id, count, count % 6);
    }

    function _draw(bytes32 id, uint256 who, uint256 count) private {
        may(personAt(who), address(disputes), 0, abi.encodeCall(disputes.draw, (id, count)), "draw");
    }

    function rearm(uint256 which, bool wait) internal {
        bytes32 id = pick(which);
        if (id == 0) return;
        if (wait && _waits(id)) {
            reach(uint256(roundOf(id).seedBlock) + EPOCH_BLOCKS);
            _watch();
        }
        may(personAt(which), address(disputes), 0, abi.encodeCall(disputes.rearm, (id)), "rearm");
    }

    // --- votes ---

    function commitOne(uint256 which, uint256 who, uint8 what) internal {
        bytes32 id = pick(which);
        if (id == 0 || disputes.phaseOf(id) != Phase.COMMIT) return;
        IDisputes.Member[] memory list = members(id);
        _commits(id, list[who % list.length], what);
    }

    function revealOne(uint256 which, uint256 who) internal {
        bytes32 id = pick(which);
        if (id == 0 || disputes.phaseOf(id) != Phase.REVEAL) return;
        IDisputes.Member[] memory list = members(id);
        _reveals(id, list[who % list.length]);
    }

    /// @dev A round with a drift: most members say the same, so that verdicts come up often.
    function playRound(uint256 which, uint8 what, uint256 salt) internal {
        bytes32 id = pick(which);
        if (id == 0) return;
        _playRound(id, what, salt);
    }

    function _playRound(bytes32 id, uint8 what, uint256 salt) private {
        if (disputes.phaseOf(id) != Phase.COMMIT || guardian.pausedUntil() != 0) return;
        IDisputes.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            uint256 own = uint256(keccak256(abi.encode(salt, i)));
            if (own % 16 == 0) continue;
            _commits(id, list[i], own % 8 == 1 ? uint8(own >> 8) : what);
        }
        if (disputes.phaseOf(id) == Phase.COMMIT) until(uint256(roundOf(id).commitEnd) + 1);
        _watch();
        for (uint256 i = 0; i < list.length; ++i) {
            if (uint256(keccak256(abi.encode(salt, "reveal", i))) % 16 != 0) _reveals(id, list[i]);
        }
        _watch();
        if (disputes.isSettleable(id)) {
            must(address(this), address(disputes), abi.encodeCall(disputes.settle, (id)), "settle");
        }
    }

    function settle(uint256 which, bool wait) internal {
        bytes32 id = pick(which);
        if (id == 0) return;
        _settle(id, which, wait);
    }

    function _settle(bytes32 id, uint256 who, bool wait) private {
        if (wait && disputes.phaseOf(id) == Phase.REVEAL) until(uint256(roundOf(id).revealEnd) + 1);
        _watch();
        may(personAt(who), address(disputes), 0, abi.encodeCall(disputes.settle, (id)), "settle");
    }

    // --- after the verdict ---

    function appeal(uint256 which, uint256 who) internal {
        bytes32 id = pick(which);
        if (id == 0) return;
        _appeal(id, who);
    }

    function _appeal(bytes32 id, uint256 who) private {
        if (disputes.phaseOf(id) != Phase.APPEAL) return;
        uint256 bond = disputes.appealBond(id);
        may(personAt(who), address(disputes), bond, abi.encodeCall(disputes.appeal, (id)), "appeal");
    }

    function openAlt(uint256 which, uint256 who) internal {
        bytes32 id = pick(which);
        if (id == 0) return;
        _openAlt(id, who);
    }

    function _openAlt(bytes32 id, uint256 who) private {
        address by = challengerAt(who);
        may(by, address(disputes), 0, abi.encodeCall(disputes.openAlt, (id, by, "salt")), "openAlt");
    }

    function finalize(uint256 which, bool wait) internal {
        bytes32 id = pick(which);
        if (id == 0) return;
        _finalize(id, which, wait);
    }

    function _finalize(bytes32 id, uint256 who, bool wait) private {
        Phase phase = disputes.phaseOf(id);
        if (wait && (phase == Phase.APPEAL || phase == Phase.AIRGAP)) {
            until(uint256(disputes.dispute(id).airgapEnd) + 1);
            _watch();
        }
        may(personAt(who), address(disputes), 0, abi.encodeCall(disputes.finalize, (id)), "finalize");
    }

    function settleSeats(uint256 which, uint256 round, uint256 count) internal {
        bytes32 id = pick(which);
        if (id == 0) return;
        _settleSeats(id, round, count);
    }

    function _settleSeats(bytes32 id, uint256 round, uint256 count) private {
        uint16 last = disputes.dispute(id).round;
        round = last == 0 ? 0 : 1 + round % last;
        bytes memory data = abi.encodeCall(settlement.settleSeats, (id, uint16(round), count % 8));
        may(personAt(count), address(settlement), 0, data, "settleSeats");
    }

    function payOut(uint256 which) internal {
        may(personAt(which), address(settlement), 0, abi.encodeCall(settlement.payOut, (pick(which))), "payOut");
    }

    // --- what must never work ---

    /// @dev A member takes over another's commitment bytes: nobody can open it for the copier.
    function copyCommitment(uint256 which, uint256 a, uint256 b) internal {
        bytes32 id = pick(which);
        if (id == 0 || disputes.phaseOf(id) != Phase.COMMIT) return;
        IDisputes.Member[] memory list = members(id);
        IDisputes.Member memory from = list[a % list.length];
        IDisputes.Member memory to = list[b % list.length];
        if (from.voter == to.voter || to.commitment != 0 || to.voter == address(0)) return;
        Vote memory v = voteOf(id, from, actOf(id, from.voter, uint8(a)));
        bytes memory data = abi.encodeCall(disputes.commit, (id, to.seatMask, disputes.hashVote(v)));
        if (!may(to.voter, address(disputes), 0, data, "copied")) return;
        until(uint256(roundOf(id).commitEnd) + 1);
        _watch();
        (v.voter, v.seatMask) = (to.voter, to.seatMask);
        that(!_tries(to.voter, abi.encodeCall(disputes.reveal, (v, "quote"))), "a copied commitment was opened");
    }

    /// @dev Seats of another, seats in part, votes for another round, outsiders: each refused whatever the phase.
    function cheat(uint256 which, uint256 who, uint8 how) internal {
        bytes32 id = pick(which);
        if (id == 0 || disputes.phaseOf(id) != Phase.COMMIT) return;
        IDisputes.Member[] memory list = members(id);
        IDisputes.Member memory m = list[who % list.length];
        IDisputes.Member memory n = list[(who % list.length + 1) % list.length];
        if (m.voter == address(0) || n.voter == m.voter) return;
        bytes32 commitment = disputes.hashVote(voteOf(id, m, equal()));
        uint256 mask = how % 3 == 0 ? n.seatMask : how % 3 == 1 ? m.seatMask | n.seatMask : 0;
        that(
            !_tries(
                how % 4 == 3 ? challengerAt(who) : m.voter, abi.encodeCall(disputes.commit, (id, mask, commitment))
            ),
            "seats of another"
        );
        that(!_tries(challengerAt(who), abi.encodeCall(disputes.refund, (id))), "anybody refunds");
        that(!_tries(m.voter, abi.encodeCall(disputes.finalize, (id))), "ends before it is decided");
    }

    // --- how ---

    /// @dev The answer that a challenger expects; the first is the one that most convictions find.
    function _expected(uint8 expects) private pure returns (bytes32) {
        if (expects % 4 == 0) return keccak256(abi.encode(Outcome.INVALID, uint8(1), bytes32(0)));
        return keccak256(abi.encode(Outcome.EXECUTED, uint8(0), Hashes.outHash("a", TRACE)));
    }

    function _tries(address who, bytes memory data) private returns (bool ok) {
        _hear();
        vm.prank(who);
        (ok,) = address(disputes).call(data);
        vm.getRecordedLogs();
    }

    function _waits(bytes32 id) internal view returns (bool) {
        Phase phase = disputes.phaseOf(id);
        return phase == Phase.SEED || phase == Phase.DRAWING;
    }

    function _commits(bytes32 id, IDisputes.Member memory m, uint8 what) internal {
        if (m.voter == address(0)) return;
        bytes32 commitment = disputes.hashVote(voteOf(id, m, actOf(id, m.voter, what)));
        bytes memory data = abi.encodeCall(disputes.commit, (id, m.seatMask, commitment));
        may(m.voter, address(disputes), 0, data, "commit");
    }

    function _reveals(bytes32 id, IDisputes.Member memory m) internal {
        if (m.voter == address(0)) return;
        bytes memory data = abi.encodeCall(disputes.reveal, (voteOf(id, m, actOf(id, m.voter, 0)), "quote"));
        may(address(this), address(disputes), 0, data, "reveal");
    }

    /// @dev What a voter chose first counts.
    function actOf(bytes32 id, address voter, uint8 what) internal returns (Act memory act) {
        uint16 round = disputes.dispute(id).round;
        uint256 kept = _chosen[id][round][voter];
        if (kept == 0) kept = _chosen[id][round][voter] = what % 11 + 1;
        if (kept < 4) return kept == 3 ? other("b") : other("a");
        if (kept == 4) return defect(1);
        if (kept == 5) return doubt(Outcome.UNAVAILABLE);
        if (kept == 6) return doubt(Outcome.NO_KEY);
        if (kept == 7) return doubt(Outcome.CANNOT_EXECUTE);
        act = equal();
        if (kept == 8) act.digest = "lazy";
    }
}
