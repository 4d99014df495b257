// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {Commit, Outcome, Phase, Vote} from "../src/libraries/Types.sol";
import {Checks} from "./Checks.sol";

/// @title How members vote, each for itself, and how some of them cheat
/// @dev Checks I20 OWN VOTE.
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
        bool together = luck(id, round, 0, "together") % 4 == 0;
        for (uint256 i = 0; i < list.length; ++i) {
            uint256 own = luck(id, round, i, "reveal");
            if (own % 8 == 1) _lies(id, list[i], uint8(own >> 8));
            if (own % 16 != 0 && !together) _reveals(id, list[i]);
        }
        if (together) _revealTogether(id, list, round);
    }

    /// @dev All that may be opened, the first of them twice: in one call, whatever is open already.
    function _revealTogether(bytes32 id, IRounds.Member[] memory list, uint16 round) private {
        Vote[] memory votes = new Vote[](list.length + 1);
        bytes[] memory quotes = new bytes[](list.length + 1);
        uint256 used = 0;
        for (uint256 i = 0; i < list.length; ++i) {
            bool has = list[i].commitment != 0 || list[i].group != 0;
            if (list[i].voter == address(0) || !has || luck(id, round, i, "reveal") % 16 == 0) continue;
            (votes[used], quotes[used]) = (voteOf(id, list[i], actOf(id, list[i].voter, 0)), "quote");
            if (used++ == 0) (votes[used], quotes[used++]) = (votes[0], "quote");
        }
        assembly ("memory-safe") {
            mstore(votes, used)
            mstore(quotes, used)
        }
        bytes memory data = abi.encodeCall(rounds.revealMany, (votes, quotes));
        may(address(this), address(rounds), 0, data, "revealMany");
    }

    /// @dev Another vote than the one committed to does not open.
    function _lies(bytes32 id, IRounds.Member memory m, uint8 what) private {
        Act memory act = choice(what);
        if (m.voter == address(0) || _same(act, actOf(id, m.voter, what))) return;
        bytes memory data = abi.encodeCall(rounds.reveal, (voteOf(id, m, act), "quote"));
        that(!_tries(m.voter, address(rounds), data), "another vote than was committed");
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
        if (!may(to.voter, address(rounds), 0, data, "copied")) return;
        until(uint256(roundOf(id).commitEnd) + 1);
        (v.voter, v.seatMask) = (to.voter, to.seatMask);
        data = abi.encodeCall(rounds.reveal, (v, "quote"));
        that(!_tries(to.voter, address(rounds), data), "a copied commitment was opened");
    }

    /// @dev Seats of another, seats in part, votes for another round, outsiders: each refused whatever the phase.
    function _cheat(bytes32 id, uint256 who, uint8 how) private {
        IRounds.Member[] memory list = members(id);
        IRounds.Member memory m = list[who % list.length];
        IRounds.Member memory n = list[(who % list.length + 1) % list.length];
        if (m.voter == address(0) || n.voter == m.voter) return;
        bytes32 commitment = rounds.hashVote(voteOf(id, m, equal()));
        uint256 mask = how % 3 == 0 ? n.seatMask : how % 3 == 1 ? m.seatMask | n.seatMask : 0;
        address by = how % 4 == 3 ? challengerAt(who) : m.voter;
        bytes memory data = abi.encodeCall(rounds.commit, (id, mask, commitment));
        that(!_tries(by, address(rounds), data), "seats of another");
        // With the word of somebody else.
        data = _relayed(id, m, n.voter, commitment);
        that(!_tries(n.voter, address(rounds), data), "a commitment without its voter's word");
        data = abi.encodeCall(disputes.refund, (id));
        that(!_tries(challengerAt(who), address(disputes), data), "anybody refunds");
        data = abi.encodeCall(disputes.finalize, (id));
        that(!_tries(m.voter, address(disputes), data), "ends before it is decided");
    }

    function _tries(address who, address to, bytes memory data) internal returns (bool ok) {
        _hear();
        vm.prank(who);
        (ok,) = to.call(data);
        vm.getRecordedLogs();
    }

    /// @dev One of four sends its commitment by somebody else.
    function _commits(bytes32 id, IRounds.Member memory m, uint8 what) internal {
        if (m.voter == address(0)) return;
        bytes32 commitment = rounds.hashVote(voteOf(id, m, actOf(id, m.voter, what)));
        uint256 own = luck(id, disputes.roundsOf(id), m.seatMask, "relay");
        if (own % 4 == 0) {
            bytes memory relay = _relayed(id, m, m.voter, commitment);
            may(personAt(own >> 8), address(rounds), 0, relay, "commitFor");
            return;
        }
        bytes memory data = abi.encodeCall(rounds.commit, (id, m.seatMask, commitment));
        may(m.voter, address(rounds), 0, data, "commit");
    }

    /// @dev A member's commitment for its seats, signed by whoever.
    function _relayed(bytes32 id, IRounds.Member memory m, address by, bytes32 commitment)
        private
        view
        returns (bytes memory)
    {
        (Commit[] memory list, address[] memory voters) = (new Commit[](1), new address[](1));
        (list[0], voters[0]) = (Commit(id, disputes.roundsOf(id), m.seatMask, commitment), m.voter);
        bytes[] memory sigs = new bytes[](1);
        sigs[0] = signed(secretOf[by], rounds.hashCommit(list[0]));
        return abi.encodeCall(rounds.commitFor, (list, voters, sigs));
    }

    function _reveals(bytes32 id, IRounds.Member memory m) internal {
        if (m.voter == address(0)) return;
        bytes memory data = abi.encodeCall(rounds.reveal, (voteOf(id, m, actOf(id, m.voter, 0)), "quote"));
        may(address(this), address(rounds), 0, data, "reveal");
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
