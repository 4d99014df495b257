// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IDisputes} from "./interfaces/IDisputes.sol";
import {Outcome, Verdict} from "./Types.sol";

/// @title TallyLib: what a round's votes say. Pure: the verdict rule of design section 9 in one place
library TallyLib {
    /// @notice Which votes were right: those with `main`, and in a mixed UNAVAILABLE also those with `second`.
    ///         A key is `keyOf` of what the vote says; 0 means nobody.
    struct Judgement {
        Verdict verdict;
        bytes32 main;
        bytes32 second;
    }

    /// @notice What a vote says, round digest left out: comparable across rounds.
    function keyOf(Outcome outcome, uint8 code, bytes32 outHash) internal pure returns (bytes32) {
        return keccak256(abi.encode(outcome, code, outHash));
    }

    /// @notice Count the seats of a round. `claimed` is the receipt's outHash.
    function count(IDisputes.Member[] memory members, bytes32 claimed)
        internal
        pure
        returns (IDisputes.Tally memory t)
    {
        for (uint256 i = 0; i < members.length; ++i) {
            IDisputes.Member memory m = members[i];
            if (m.commitment == bytes32(0)) t.absent += m.seats;
            else if (!m.revealed) t.notRevealed += m.seats;
            else if (m.outcome == Outcome.UNAVAILABLE) t.unavailable += m.seats;
            else if (m.outcome == Outcome.NO_KEY) t.noKey += m.seats;
            else if (m.outcome == Outcome.CANNOT_EXECUTE) t.cannotExecute += m.seats;
            else _countGroup(t, members, m, claimed);
        }
    }

    /// @notice The verdict of a tally. NONE means inconclusive.
    /// @param quorum seats that make a verdict
    /// @param paperRule slash whenever the equal votes fall short, as the paper writes
    function judge(IDisputes.Tally memory t, bytes32 claimed, uint256 quorum, bool paperRule)
        internal
        pure
        returns (Judgement memory j)
    {
        bytes32 lead = t.lead == 0 ? bytes32(0) : keyOf(t.leadOutcome, t.leadCode, t.leadOutHash);
        if (t.equal >= quorum) return Judgement(Verdict.UPHELD, keyOf(Outcome.EXECUTED, 0, claimed), 0);
        if (t.lead >= quorum || paperRule) {
            // Under the paper's rule silence convicts too, and then there is no other answer to replace the claim.
            return Judgement(t.leadOutcome == Outcome.INVALID ? Verdict.INVALID : Verdict.OVERTURNED, lead, 0);
        }
        bytes32 missing = keyOf(Outcome.UNAVAILABLE, 0, 0);
        if (t.unavailable >= quorum) return Judgement(Verdict.UNAVAILABLE, missing, 0);
        // Without a seat that saw no bytes there is nothing to add to the leading fault, which fell short alone.
        if (uint256(t.lead) + t.unavailable >= quorum) return Judgement(Verdict.UNAVAILABLE, missing, lead);
    }

    /// @notice The output that replaces the claim: the one that a quorum found, else none.
    function replacementOf(IDisputes.Tally memory t, Judgement memory j, uint256 quorum)
        internal
        pure
        returns (bytes32)
    {
        return j.verdict == Verdict.OVERTURNED && t.lead >= quorum ? t.leadOutHash : bytes32(0);
    }

    /// @notice The largest group of a round that says `key`; the first drawn of equals. Seats whose round digest is
    ///         another are not in it: they did not do the work.
    function largest(IDisputes.Member[] memory members, bytes32 key)
        internal
        pure
        returns (bytes32 group, uint256 seats)
    {
        if (key == bytes32(0)) return (0, 0);
        for (uint256 i = 0; i < members.length; ++i) {
            IDisputes.Member memory m = members[i];
            if (!m.revealed || m.group == group || keyOf(m.outcome, m.code, m.outHash) != key) continue;
            uint256 size = groupSeats(members, m.group);
            if (size > seats) (group, seats) = (m.group, size);
        }
    }

    /// @notice Seats of a group.
    function groupSeats(IDisputes.Member[] memory members, bytes32 group) internal pure returns (uint256 seats) {
        for (uint256 i = 0; i < members.length; ++i) {
            if (members[i].revealed && members[i].group == group) seats += members[i].seats;
        }
    }

    function _countGroup(
        IDisputes.Tally memory t,
        IDisputes.Member[] memory members,
        IDisputes.Member memory m,
        bytes32 claimed
    ) private pure {
        // Narrowing is safe: a round has at most 255 seats.
        uint16 size = uint16(groupSeats(members, m.group));
        if (m.outcome == Outcome.EXECUTED && m.outHash == claimed) {
            if (size > t.equal) t.equal = size;
        } else if (size > t.lead) {
            (t.lead, t.leadOutcome, t.leadCode, t.leadOutHash) = (size, m.outcome, m.code, m.outHash);
        }
    }
}
