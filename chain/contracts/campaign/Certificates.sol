// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {Bls} from "../src/libraries/Bls.sol";
import {Certified, StructHashes} from "../src/libraries/Signed.sol";
import {Finding, Outcome, Vote} from "../src/libraries/Types.sol";
import {CommitTrees} from "../test/CommitTrees.sol";
import {Ballots} from "./Ballots.sol";
import {BlsSecret} from "./BlsSecret.sol";

/// @title Certificates: roots of commitments, signatures of some members in one, and forgeries of them
/// @dev Checks I20 OWN VOTE, I23 CERTIFICATE.
abstract contract Certificates is Ballots {
    /// @notice What is shown beside a finding and a root: a key for each seat, lowest first.
    struct Proof {
        uint256 signers;
        Bls.G1[] keys;
        Bls.G2 signature;
    }

    /// @dev Root of what members handed in for a round, and one of other votes of theirs, posted after it.
    mapping(bytes32 id => mapping(uint16 round => bytes32)) private _rootOf;
    mapping(bytes32 id => mapping(uint16 round => bytes32)) private _otherRootOf;

    /// @dev The root of commitments made off the chain, and another that any member may post.
    function _postRoots(bytes32 id, uint256 salt) internal {
        uint16 round = disputes.roundsOf(id);
        if (rooted[id][round]) return;
        _choose(id, round, salt);
        (bytes32 root,) = CommitTrees.proven(_leavesOf(id, false), 0);
        (bytes32 other,) = CommitTrees.proven(_leavesOf(id, true), 0);
        (_rootOf[id][round], _otherRootOf[id][round]) = (root, other);
        bytes memory data = abi.encodeCall(rounds.postCommitRoot, (id, root));
        // Rather not a member, which is in vain.
        may(personAt(salt), address(rounds), 0, data, "root");
        IRounds.Member[] memory list = members(id);
        address by = list[salt % list.length].voter;
        may(by, address(rounds), 0, data, "root");
        data = abi.encodeCall(rounds.postCommitRoot, (id, other));
        may(by, address(rounds), 0, data, "root");
    }

    /// @dev Every member chooses its vote, whether it will commit to it on the chain too or not.
    function _choose(bytes32 id, uint16 round, uint256 salt) private {
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            uint256 own = luck(id, round, i, "commit");
            actOf(id, list[i].voter, own % 8 == 1 ? uint8(own >> 8) : _moodOf(id, round, salt));
        }
    }

    /// @dev Commitments of all members by their first seats; `other`: to votes that they would like to have as well.
    function _leavesOf(bytes32 id, bool other) private returns (bytes32[256] memory leaves) {
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter == address(0)) continue;
            Vote memory v = _rooted(id, list[i], other);
            leaves[_place(list[i])] = keccak256(abi.encode(rounds.hashVote(v), v.voter, v.seatMask));
        }
    }

    function _rooted(bytes32 id, IRounds.Member memory m, bool other) private returns (Vote memory v) {
        v = voteOf(id, m, actOf(id, m.voter, 0));
        if (other) v.salt = "another";
    }

    function _place(IRounds.Member memory m) private pure returns (uint256 place) {
        while (m.seatMask & (1 << place) == 0) {
            ++place;
        }
    }

    /// @dev Who has not committed on the chain opens what the root has of it, before or after a certificate; some never do.
    function _openRooted(bytes32 id, uint256 salt) internal {
        if (_rootOf[id][disputes.roundsOf(id)] == 0) return;
        IRounds.Member[] memory list = members(id);
        bytes32[256] memory leaves = _leavesOf(id, false);
        for (uint256 i = 0; i < list.length; ++i) {
            uint256 own = spread(salt ^ i);
            if (own % 3 == 0 || list[i].voter == address(0) || list[i].group != 0) continue;
            if (own % 4 == 1) _openOther(id, list[i], own);
            (, bytes32[8] memory proof) = CommitTrees.proven(leaves, _place(list[i]));
            bytes memory data = abi.encodeCall(rounds.revealUnderRoot, (_rooted(id, list[i], false), "quote", proof));
            if (own % 4 == 2) {
                that(!_tries(challengerAt(own), address(rounds), data), "a vote was shown by somebody else");
            }
            may(list[i].voter, address(rounds), 0, data, "rooted");
        }
    }

    /// @dev What the first root does not have of a member does not open, under that root or another.
    function _openOther(bytes32 id, IRounds.Member memory m, uint256 salt) private {
        (, bytes32[8] memory proof) = CommitTrees.proven(_leavesOf(id, salt % 8 == 1), _place(m));
        bytes memory data = abi.encodeCall(rounds.revealUnderRoot, (_rooted(id, m, true), "quote", proof));
        that(!_tries(m.voter, address(rounds), data), "a second commitment of a member");
    }

    /// @dev Most members that have not committed sign what the round is in the mood for. With a quorum of them, in time, it
    ///      counts.
    function _certify(bytes32 id, uint256 salt) internal {
        uint16 round = disputes.roundsOf(id);
        IRounds.Round memory r = roundOf(id);
        if (!rooted[id][round] || r.certifiedGroup != 0) return;
        Act memory act = choice(_moodOf(id, round, salt));
        Finding memory f = Finding(id, round, uint8(act.outcome), act.code, act.tokens, act.trace, act.digest);
        uint256 signers = _signers(id, round);
        (uint256 seated,) = _seatsOf(id, ~r.committedMask);
        bytes32 root = _rootOf[id][round];
        _forge(f, seated, salt);
        _addSeats(f, signers, salt);
        _joinIn(f, signers, salt);
        _anotherTime(f, seated, salt);
        // Who has opened its vote is counted for that.
        signedFor[id][round] = signers & ~r.revealedMask;
        bool counts = ones(signers) >= params.quorum(disputes.dispute(id).paramsVersion, r.seats)
            && signedFor[id][round] != 0 && guardian.runningClock() > r.commitEnd
            && guardian.runningClock() <= r.revealEnd;
        bytes memory data = _certificate(f, root, _proofOf(signers, signers, f, root));
        that(may(personAt(salt), address(rounds), 0, data, "certify") == counts, "what all of them signed");
    }

    function _certificate(Finding memory f, bytes32 root, Proof memory p) private view returns (bytes memory) {
        return abi.encodeCall(rounds.certify, (f, root, p.signers, p.keys, p.signature));
    }

    /// @dev In vain, whoever brings it.
    function _refused(Finding memory f, bytes32 root, Proof memory p, uint256 salt, string memory what) private {
        that(!_tries(personAt(salt), address(rounds), _certificate(f, root, p)), what);
    }

    /// @dev Another finding, another root: neither was signed, and nobody signs without them. And a root that was signed, but
    ///      that nobody posted: its commitments can be made after votes were seen.
    function _forge(Finding memory f, uint256 seats, uint256 salt) private {
        (bytes32 root, bytes32 other) = (_rootOf[f.dispute][f.round], _otherRootOf[f.dispute][f.round]);
        Proof memory p = _proofOf(seats, seats, f, root);
        Finding memory g = abi.decode(abi.encode(f), (Finding));
        // In a form that nothing but the signature refuses, whatever was found.
        (g.outcome, g.code, g.traceRoot) = (uint8(Outcome.EXECUTED), 0, keccak256(abi.encode(f)));
        _refused(g, root, p, salt, "a finding that nobody signed");
        _refused(f, other, p, salt, "a root that nobody signed");
        _refused(f, "late", _proofOf(seats, seats, f, "late"), salt, "a root that nobody posted");
        (, address[] memory who) = _seatsOf(f.dispute, seats);
        p.signature = _signatureOf(f, who, _digest(0, root, seats));
        _refused(g, root, p, salt, "a finding that nobody signed");
        p.signature = _signatureOf(f, who, _digest(StructHashes.finding(f), 0, seats));
        _refused(f, other, p, salt, "a root that nobody signed");
    }

    /// @dev Some sign for all seats: the first alone, or with their own keys alone, with keys of others whose signatures are
    ///      missing, with none for those, with one of theirs for each of those.
    function _addSeats(Finding memory f, uint256 signers, uint256 salt) private {
        (uint256 seated, address[] memory all) = _seatsOf(f.dispute, type(uint256).max);
        (, address[] memory own) = _seatsOf(f.dispute, signers);
        bytes32 root = _rootOf[f.dispute][f.round];
        _alone(f, root, salt);
        if (signers == seated || own.length == 0) return;
        Proof memory q = _proofOf(seated, signers, f, root);
        q.signers = seated;
        _refused(f, root, q, salt, "who did not sign is counted");
        q.keys = _keysOf(f, all);
        _refused(f, root, q, salt, "who did not sign is counted");
        for (uint256 i = 0; i < all.length; ++i) {
            if (!_isOf(own, all[i])) q.keys[i] = Bls.G1(0, 0, 0, 0);
        }
        _refused(f, root, q, salt, "who did not sign is counted");
        for (uint256 i = 0; i < all.length; ++i) {
            if (!_isOf(own, all[i])) all[i] = own[0];
        }
        (q.keys, q.signature) = (_keysOf(f, all), _signatureOf(f, all, _digest(StructHashes.finding(f), root, seated)));
        _refused(f, root, q, salt, "who did not sign is counted");
    }

    function _alone(Finding memory f, bytes32 root, uint256 salt) private {
        (uint256 seats,) = _seatsOf(f.dispute, ~roundOf(f.dispute).committedMask);
        if (ones(seats) < 2) return;
        uint256 first = seats & (~seats + 1);
        Proof memory p = _proofOf(seats, first, f, root);
        p.signers = seats;
        _refused(f, root, p, salt, "who did not sign is counted");
    }

    /// @dev Who did nothing adds its signature to a certificate that it has seen; who committed itself signs with the others.
    function _joinIn(Finding memory f, uint256 signers, uint256 salt) private {
        bytes32 id = f.dispute;
        bytes32 root = _rootOf[id][f.round];
        uint256 committed = roundOf(id).committedMask;
        (uint256 both, address[] memory who) = _seatsOf(id, ~committed);
        Proof memory p = _proofOf(signers, both, f, root);
        if (both != signers) _refused(f, root, p, salt, "a seen certificate was joined");
        p.signature = _signatureOf(f, who, _digest(StructHashes.finding(f), root, 0));
        _refused(f, root, p, salt, "a seen certificate was joined");
        if (committed == 0) return;
        Proof memory q = _proofOf(signers | committed, signers | committed, f, root);
        _refused(f, root, q, salt, "who committed is certified");
    }

    /// @dev Some sign with a key that they had before, or have by now, and not when nobody knew who would have seats.
    function _anotherTime(Finding memory f, uint256 seats, uint256 salt) private {
        Proof memory p = _proofOf(seats, seats, f, _rootOf[f.dispute][f.round]);
        (, address[] memory who) = _seatsOf(f.dispute, seats);
        uint256 number = _keyBlock(f);
        (uint256 secret, bool differs) = (0, false);
        for (uint256 i = 0; i < who.length; ++i) {
            BlsKey memory key = blsKeyAt(who[i], number);
            BlsKey memory other = blsKeysOf[who[i]][(salt >> 8) % blsKeysOf[who[i]].length];
            if (other.secret != key.secret) (key, differs) = (other, true);
            p.keys[i] = key.key;
            secret = addmod(secret, key.secret, BlsSecret.ORDER);
        }
        if (!differs) return;
        bytes32 digest = _digest(StructHashes.finding(f), _rootOf[f.dispute][f.round], seats);
        p.signature = BlsSecret.sign(secret, digest, Bls.SIGNATURE);
        _refused(f, _rootOf[f.dispute][f.round], p, salt, "a key of another time");
    }

    function _signers(bytes32 id, uint16 round) private view returns (uint256 mask) {
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter != address(0) && luck(id, round, i, "signs") % 8 != 0) mask |= list[i].seatMask;
        }
        return mask & ~roundOf(id).committedMask;
    }

    /// @param said the seats that everybody signed for
    /// @param signers those whose signatures are in the sum, and whose keys are shown
    function _proofOf(uint256 said, uint256 signers, Finding memory f, bytes32 root)
        private
        view
        returns (Proof memory)
    {
        (, address[] memory who) = _seatsOf(f.dispute, signers);
        return Proof(signers, _keysOf(f, who), _signatureOf(f, who, _digest(StructHashes.finding(f), root, said)));
    }

    function _digest(bytes32 finding, bytes32 root, uint256 said) private view returns (bytes32) {
        bytes32 signed_ = StructHashes.certified(Certified(finding, root, said));
        return MessageHashUtils.toTypedDataHash(rounds.domainSeparator(), signed_);
    }

    /// @dev Keys count as of the end of this block.
    function _keyBlock(Finding memory f) private view returns (uint256) {
        return uint256(rounds.roundOf(f.dispute, f.round).seedBlock) - 1;
    }

    /// @dev Of the seats in `mask` that somebody holds: which they are, and the holder of each, lowest first.
    function _seatsOf(bytes32 id, uint256 mask) private view returns (uint256 seated, address[] memory who) {
        IRounds.Member[] memory list = members(id);
        uint256 seats = roundOf(id).seats;
        who = new address[](seats);
        uint256 used = 0;
        for (uint256 seat = 0; seat < seats; ++seat) {
            address holder = _holder(list, seat);
            if (holder == address(0) || mask & (1 << seat) == 0) continue;
            seated |= 1 << seat;
            who[used++] = holder;
        }
        assembly ("memory-safe") {
            mstore(who, used)
        }
    }

    function _keysOf(Finding memory f, address[] memory who) private view returns (Bls.G1[] memory keys) {
        keys = new Bls.G1[](who.length);
        uint256 number = _keyBlock(f);
        for (uint256 i = 0; i < who.length; ++i) {
            keys[i] = blsKeyAt(who[i], number).key;
        }
    }

    /// @dev Of all of them together, each as often as it is named.
    function _signatureOf(Finding memory f, address[] memory who, bytes32 digest) private view returns (Bls.G2 memory) {
        (uint256 secret, uint256 number) = (0, _keyBlock(f));
        for (uint256 i = 0; i < who.length; ++i) {
            secret = addmod(secret, blsKeyAt(who[i], number).secret, BlsSecret.ORDER);
        }
        return BlsSecret.sign(secret, digest, Bls.SIGNATURE);
    }

    function _isOf(address[] memory list, address who) private pure returns (bool found) {
        for (uint256 i = 0; i < list.length; ++i) {
            found = found || list[i] == who;
        }
    }

    function _holder(IRounds.Member[] memory list, uint256 seat) private pure returns (address) {
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].seatMask & (1 << seat) != 0) return list[i].voter;
        }
        return address(0);
    }
}
