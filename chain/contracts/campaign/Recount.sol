// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {Finding, Outcome, StructHashes, Vote} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {Verdict} from "../src/libraries/Types.sol";

/// @title What voters said, in the order in which they said it, and a plain count of it: the second implementation
/// @dev Checks I17 TALLY, I23 CERTIFICATE.
abstract contract Recount {
    /// @notice Seats that spoke at once: one revealed vote, or one certificate.
    struct Said {
        uint8 outcome;
        uint8 code;
        bytes32 tokensHash; // 0 unless EXECUTED
        bytes32 outHash; // 0 unless EXECUTED
        bytes32 group;
        uint256 seats; // mask
    }

    mapping(bytes32 id => mapping(uint16 round => Said[])) internal said;

    function _heard(Vote memory v) internal {
        bytes32 out =
            v.outcome == uint8(Outcome.EXECUTED) ? StructHashes.outHash(v.tokensHash, v.traceRoot) : bytes32(0);
        bytes32 group = keccak256(abi.encode(v.outcome, v.code, v.tokensHash, v.traceRoot, v.roundDigest));
        said[v.dispute][v.round].push(Said(v.outcome, v.code, v.tokensHash, out, group, v.seatMask));
    }

    function _heard(Finding memory f, uint256 seats) internal {
        bytes32 out =
            f.outcome == uint8(Outcome.EXECUTED) ? StructHashes.outHash(f.tokensHash, f.traceRoot) : bytes32(0);
        bytes32 group = keccak256(abi.encode(f.outcome, f.code, f.tokensHash, f.traceRoot, f.roundDigest));
        said[f.dispute][f.round].push(Said(f.outcome, f.code, f.tokensHash, out, group, seats));
    }

    /// @dev Seats that have spoken, each once.
    function _spoke(bytes32 id, uint16 round) internal view returns (uint256 seats) {
        Said[] memory list = said[id][round];
        for (uint256 i = 0; i < list.length; ++i) {
            seats |= list[i].seats;
        }
    }

    function ones(uint256 mask) internal pure returns (uint256 n) {
        for (; mask != 0; mask &= mask - 1) {
            ++n;
        }
    }

    function keyOf(Said memory s) internal pure returns (bytes32) {
        return keccak256(abi.encode(s.outcome, s.code, s.outHash));
    }

    /// @dev Seats of the group of `list[i]` among the first `i + 1` that spoke.
    function _sizeAt(Said[] memory list, uint256 i) private pure returns (uint256 n) {
        for (uint256 k = 0; k <= i; ++k) {
            if (list[k].group == list[i].group) n += ones(list[k].seats);
        }
    }

    /// @notice The largest group of a round that says `key`: the first to get so large.
    function largest(bytes32 id, uint16 round, bytes32 key) internal view returns (bytes32 group, uint256 size) {
        Said[] memory list = said[id][round];
        for (uint256 i = 0; i < list.length; ++i) {
            if (keyOf(list[i]) != key) continue;
            uint256 n = _sizeAt(list, i);
            if (n > size) (group, size) = (list[i].group, n);
        }
    }

    /// @notice The tally of a round, counted plainly.
    /// @param claimed tokensHash and outHash of the receipt
    /// @param committed mask of seats that committed; certified seats count as revealed
    function recount(bytes32 id, uint16 round, bytes32[2] memory claimed, uint256 seats, uint256 committed)
        internal
        view
        returns (IRounds.Tally memory t)
    {
        Said[] memory list = said[id][round];
        uint256 spoke = 0;
        for (uint256 i = 0; i < list.length; ++i) {
            spoke |= list[i].seats;
            uint16 size = uint16(ones(list[i].seats));
            if (list[i].outcome == uint8(Outcome.UNAVAILABLE)) t.unavailable += size;
            else if (list[i].outcome == uint8(Outcome.NO_KEY)) t.noKey += size;
            else if (list[i].outcome == uint8(Outcome.CANNOT_EXECUTE)) t.cannotExecute += size;
            else _countGroup(t, list, i, claimed);
        }
        t.notRevealed = uint16(ones(committed & ~spoke));
        t.absent = uint16(seats - ones(committed | spoke));
    }

    function _countGroup(IRounds.Tally memory t, Said[] memory list, uint256 i, bytes32[2] memory claimed)
        private
        pure
    {
        uint16 size = uint16(_sizeAt(list, i));
        bool executed = list[i].outcome == uint8(Outcome.EXECUTED);
        if (executed && list[i].tokensHash == claimed[0] && list[i].outHash == claimed[1]) {
            if (size > t.equal) t.equal = size;
        } else if (size > t.lead) {
            (t.lead, t.leadKey, t.leadOutHash) = (size, keyOf(list[i]), list[i].outHash);
            t.leadVerdict = executed ? Verdict.OVERTURNED : Verdict.INVALID;
        }
    }

    /// @notice The verdict rule of design section 9 for the symmetric rule.
    function verdictOf(IRounds.Tally memory t, uint256 quorum) internal pure returns (Verdict) {
        if (t.equal >= quorum) return Verdict.UPHELD;
        if (t.lead >= quorum) return t.leadVerdict;
        if (uint256(t.lead) + t.unavailable >= quorum) return Verdict.UNAVAILABLE;
        return Verdict.NONE;
    }
}
