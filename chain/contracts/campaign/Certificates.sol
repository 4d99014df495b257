// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Bls} from "../src/Bls.sol";
import {Certificate} from "../src/Certificate.sol";
import {Finding, Outcome} from "../src/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {Ballots} from "./Ballots.sol";
import {BlsSecret} from "./BlsSecret.sol";

/// @title Certificates: committees formed, signatures of some members in one, and forgeries of them
abstract contract Certificates is Ballots {
    bytes32 private constant ROOT = keccak256("commitments");
    bytes32 private constant OTHER_ROOT = keccak256("other commitments");

    /// @dev The root of commitments made off the chain, another that anybody may post, and the committee's keys.
    function _form(bytes32 id) internal {
        IDisputes.Round memory r = roundOf(id);
        if (r.committee != 0) return;
        may(personAt(r.seedBlock), address(disputes), 0, abi.encodeCall(disputes.postCommitRoot, (id, ROOT)), "root");
        bytes memory data = abi.encodeCall(disputes.postCommitRoot, (id, OTHER_ROOT));
        may(personAt(r.seedBlock), address(disputes), 0, data, "root");
        (uint256 seated, Bls.G1[] memory keys,) = _sum(id, type(uint256).max);
        data = abi.encodeCall(disputes.formCommittee, (id, seated, keys));
        may(personAt(r.seedBlock), address(disputes), 0, data, "form");
    }

    /// @dev Most members that have not committed sign what the round is in the mood for.
    function _certify(bytes32 id, uint256 salt) internal {
        IDisputes.Round memory r = roundOf(id);
        if (r.committee == 0 || r.certifiedGroup != 0) return;
        uint16 round = disputes.roundsOf(id);
        Act memory act = choice(_moodOf(id, round, salt));
        Finding memory f = Finding(id, round, uint8(act.outcome), act.code, act.tokens, act.trace, act.digest);
        uint256 signers = _signers(id, round);
        Certificate.Proof memory p = _proofOf(signers, signers, f, ROOT);
        _forge(f, p, salt);
        _joinIn(f, signers, salt);
        signedFor[id][round] = signers;
        may(personAt(salt), address(disputes), 0, abi.encodeCall(disputes.certify, (f, ROOT, p)), "certify");
    }

    /// @dev Another finding, another signer, another root: none of them was signed. And a root that was, but nobody posted: its
    ///      commitments can be made after votes were seen.
    function _forge(Finding memory f, Certificate.Proof memory p, uint256 salt) private {
        Finding memory g = abi.decode(abi.encode(f), (Finding));
        // In a form that nothing but the signature refuses, whatever was found.
        (g.outcome, g.code, g.traceRoot) = (uint8(Outcome.EXECUTED), 0, keccak256(abi.encode(f)));
        that(!_tries(personAt(salt), abi.encodeCall(disputes.certify, (g, ROOT, p))), "a finding that nobody signed");
        that(!_tries(personAt(salt), abi.encodeCall(disputes.certify, (f, OTHER_ROOT, p))), "a root that nobody signed");
        Certificate.Proof memory late = _proofOf(p.signers, p.signers, f, "late");
        that(!_tries(personAt(salt), abi.encodeCall(disputes.certify, (f, "late", late))), "a root that nobody posted");
        if (p.signers == p.seated) return;
        // Some sign for all seats, whether they show whose keys are missing or not.
        Certificate.Proof memory q = _proofOf(p.seated, p.signers, f, ROOT);
        q.signers = q.seated;
        that(!_tries(personAt(salt), abi.encodeCall(disputes.certify, (f, ROOT, q))), "who did not sign is counted");
        q.absentKeys = new Bls.G1[](0);
        that(!_tries(personAt(salt), abi.encodeCall(disputes.certify, (f, ROOT, q))), "who did not sign is counted");
    }

    /// @dev Who did nothing adds its signature to a certificate that it has seen; who committed itself signs with the others.
    function _joinIn(Finding memory f, uint256 signers, uint256 salt) private {
        bytes32 id = f.dispute;
        uint256 committed = roundOf(id).committedMask;
        (uint256 seated,,) = _sum(id, type(uint256).max);
        uint256 both = signers | seated & ~committed;
        Certificate.Proof memory q;
        if (both != signers) {
            q = _proofOf(signers, both, f, ROOT);
            that(
                !_tries(personAt(salt), abi.encodeCall(disputes.certify, (f, ROOT, q))), "a seen certificate was joined"
            );
        }
        if (committed == 0) return;
        q = _proofOf(signers | committed, signers | committed, f, ROOT);
        that(!_tries(personAt(salt), abi.encodeCall(disputes.certify, (f, ROOT, q))), "who committed is certified");
    }

    function _signers(bytes32 id, uint16 round) private view returns (uint256 mask) {
        IDisputes.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter != address(0) && luck(id, round, i, "signs") % 8 != 0) mask |= list[i].seatMask;
        }
        return mask & ~roundOf(id).committedMask;
    }

    /// @param said the seats that everybody signed for
    /// @param signers those whose signatures are in the sum
    function _proofOf(uint256 said, uint256 signers, Finding memory f, bytes32 root)
        private
        view
        returns (Certificate.Proof memory p)
    {
        bytes32 digest = Certificate.digestOf(disputes.domainSeparator(), f, root, said);
        (uint256 seated,, uint256 all) = _sum(f.dispute, type(uint256).max);
        (,, uint256 some) = _sum(f.dispute, signers);
        (, Bls.G1[] memory absent,) = _sum(f.dispute, ~signers);
        p = Certificate.Proof(
            seated, signers, BlsSecret.publicKey(all), BlsSecret.sign(some, digest, Bls.SIGNATURE), absent
        );
    }

    /// @dev Of the seats in `mask` that somebody holds: which they are, their keys lowest first, the sum of the secrets.
    function _sum(bytes32 id, uint256 mask)
        private
        view
        returns (uint256 seated, Bls.G1[] memory keys, uint256 secret)
    {
        IDisputes.Member[] memory list = members(id);
        uint256 seats = roundOf(id).seats;
        keys = new Bls.G1[](seats);
        uint256 used = 0;
        for (uint256 seat = 0; seat < seats; ++seat) {
            address holder = _holder(list, seat);
            if (holder == address(0) || mask & (1 << seat) == 0) continue;
            seated |= 1 << seat;
            keys[used++] = blsKeyOf[holder];
            secret = addmod(secret, secretOf[holder], BlsSecret.ORDER);
        }
        assembly ("memory-safe") {
            mstore(keys, used)
        }
    }

    function _holder(IDisputes.Member[] memory list, uint256 seat) private pure returns (address) {
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].seatMask & (1 << seat) != 0) return list[i].voter;
        }
        return address(0);
    }
}
