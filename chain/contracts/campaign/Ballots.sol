// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {Outcome, Vote} from "../src/libraries/Types.sol";
import {Phase} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {Checks} from "./Checks.sol";

/// @title How members vote, each for itself, and how some of them cheat
abstract contract Ballots is Checks {
    mapping(bytes32 id => mapping(uint16 round => mapping(address voter => uint256))) private _chosen;
    mapping(bytes32 id => mapping(uint16 round => uint256)) private _moods;

    /// @dev Events of one action; whatever they changed is looked at before the next.
    modifier step() {
        vm.recordLogs();
        _;
        _watch();
        _check();
    }

    /// @dev Votes one at a time, and those of cheats.
    function vote(uint256 what, uint256 which, uint256 who) external step {
        bytes32 id = pick(which);
        if (id == 0) return;
        what = spread(what) % 8;
        Phase phase = disputes.phaseOf(id);
        if (what >= 6 && phase == Phase.COMMIT) {
            if (what == 6) _copyCommitment(id, who, spread(who));
            else _cheat(id, who, uint8(spread(who)));
            return;
        }
        IRounds.Member[] memory list = members(id);
        if (list.length == 0) return;
        if (phase == Phase.REVEAL && what % 2 == 0) _reveals(id, list[who % list.length]);
        else _commits(id, list[who % list.length], uint8(spread(who)));
    }

    /// @dev Most members say the same, so that verdicts come up often; some say something else, some stay away.
    function _commitAll(bytes32 id, uint256 salt) internal {
        IRounds.Member[] memory list = members(id);
        uint16 round = disputes.roundsOf(id);
        bool signs = _byCertificate(id);
        for (uint256 i = 0; i < list.length; ++i) {
            uint256 own = luck(id, round, i, "commit");
            // Who is to sign a certificate commits under its root alone, but for a few that trust nobody to collect them all.
            if (own % 16 == 0 || (signs && own % 8 != 1)) continue;
            _commits(id, list[i], own % 8 == 1 ? uint8(own >> 8) : _moodOf(id, round, salt));
        }
    }

    function _revealAll(bytes32 id) internal {
        IRounds.Member[] memory list = members(id);
        uint16 round = disputes.roundsOf(id);
        for (uint256 i = 0; i < list.length; ++i) {
            uint256 own = luck(id, round, i, "reveal");
            if (own % 8 == 1) _lies(id, list[i], uint8(own >> 8));
            if (own % 16 != 0) _reveals(id, list[i]);
        }
    }

    /// @dev Another vote than the one committed to does not open.
    function _lies(bytes32 id, IRounds.Member memory m, uint8 what) private {
        Act memory act = choice(what);
        if (m.voter == address(0) || _same(act, actOf(id, m.voter, what))) return;
        bytes memory data = abi.encodeCall(rounds.reveal, (voteOf(id, m, act), "quote"));
        that(!_tries(m.voter, data), "another vote than was committed");
    }

    function _same(Act memory a, Act memory b) private pure returns (bool) {
        return keccak256(abi.encode(a)) == keccak256(abi.encode(b));
    }

    /// @dev Of four rounds one is to end with a certificate.
    function _byCertificate(bytes32 id) internal view returns (bool) {
        return luck(id, disputes.roundsOf(id), 0, "certificate") % 4 == 0;
    }

    /// @dev What most members of a round say: the first salt chooses.
    function _moodOf(bytes32 id, uint16 round, uint256 salt) internal returns (uint8) {
        // Half of the time what the dispute is prone to: what needs several like rounds comes up too.
        uint256 own = luck(id, 0, 0, "mood");
        if (_moods[id][round] == 0) _moods[id][round] = 256 + uint8(own % 2 == 0 ? own >> 8 : salt);
        return uint8(_moods[id][round]);
    }

    // --- what must never work ---

    /// @dev A member takes over another's commitment bytes: nobody can open it for the copier.
    function _copyCommitment(bytes32 id, uint256 a, uint256 b) private {
        IRounds.Member[] memory list = members(id);
        IRounds.Member memory from = list[a % list.length];
        IRounds.Member memory to = list[b % list.length];
        if (from.voter == to.voter || to.commitment != 0 || to.voter == address(0)) return;
        Vote memory v = voteOf(id, from, actOf(id, from.voter, uint8(a)));
        bytes memory data = abi.encodeCall(rounds.commit, (id, to.seatMask, rounds.hashVote(v)));
        if (!may(to.voter, address(disputes), 0, data, "copied")) return;
        until(uint256(roundOf(id).commitEnd) + 1);
        (v.voter, v.seatMask) = (to.voter, to.seatMask);
        that(!_tries(to.voter, abi.encodeCall(rounds.reveal, (v, "quote"))), "a copied commitment was opened");
    }

    /// @dev Seats of another, seats in part, votes for another round, outsiders: each refused whatever the phase.
    function _cheat(bytes32 id, uint256 who, uint8 how) private {
        IRounds.Member[] memory list = members(id);
        IRounds.Member memory m = list[who % list.length];
        IRounds.Member memory n = list[(who % list.length + 1) % list.length];
        if (m.voter == address(0) || n.voter == m.voter) return;
        bytes32 commitment = rounds.hashVote(voteOf(id, m, equal()));
        uint256 mask = how % 3 == 0 ? n.seatMask : how % 3 == 1 ? m.seatMask | n.seatMask : 0;
        that(
            !_tries(how % 4 == 3 ? challengerAt(who) : m.voter, abi.encodeCall(rounds.commit, (id, mask, commitment))),
            "seats of another"
        );
        that(!_tries(challengerAt(who), abi.encodeCall(disputes.refund, (id))), "anybody refunds");
        that(!_tries(m.voter, abi.encodeCall(disputes.finalize, (id))), "ends before it is decided");
    }

    function _tries(address who, bytes memory data) internal returns (bool ok) {
        _hear();
        vm.prank(who);
        (ok,) = address(disputes).call(data);
        vm.getRecordedLogs();
    }

    function _commits(bytes32 id, IRounds.Member memory m, uint8 what) internal {
        if (m.voter == address(0)) return;
        bytes32 commitment = rounds.hashVote(voteOf(id, m, actOf(id, m.voter, what)));
        bytes memory data = abi.encodeCall(rounds.commit, (id, m.seatMask, commitment));
        may(m.voter, address(disputes), 0, data, "commit");
    }

    function _reveals(bytes32 id, IRounds.Member memory m) internal {
        if (m.voter == address(0)) return;
        bytes memory data = abi.encodeCall(rounds.reveal, (voteOf(id, m, actOf(id, m.voter, 0)), "quote"));
        may(address(this), address(disputes), 0, data, "reveal");
    }

    /// @dev What a voter chose first counts.
    function actOf(bytes32 id, address voter, uint8 what) internal returns (Act memory) {
        uint16 round = disputes.roundsOf(id);
        uint256 kept = _chosen[id][round][voter];
        if (kept == 0) kept = _chosen[id][round][voter] = what % 11 + 1;
        return choice(kept - 1);
    }

    /// @dev In turn: two other answers, a third, a defect, three doubts, the claim by who skipped its leaves, the claim.
    function choice(uint256 what) internal pure returns (Act memory act) {
        what %= 11;
        if (what < 3) return what == 2 ? other("b") : other("a");
        if (what == 3) return defect(1);
        if (what == 4) return doubt(Outcome.UNAVAILABLE);
        if (what == 5) return doubt(Outcome.NO_KEY);
        if (what == 6) return doubt(Outcome.CANNOT_EXECUTE);
        act = equal();
        if (what == 7) act.digest = "lazy";
    }
}
