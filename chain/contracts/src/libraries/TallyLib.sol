// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ICourt} from "../interfaces/ICourt.sol";
import {Outcome, Verdict} from "./Types.sol";

/// @title TallyLib: what a round's votes say. Pure: the verdict rule of design section 9 in one place
library TallyLib {
    /// @notice What a tally leads to. NONE is inconclusive.
    struct Judgement {
        Verdict verdict;
        bool mixed; // UNAVAILABLE that needed the leading fault too: both votes were right
    }

    /// @notice What a vote says, round digest left out: comparable across rounds.
    function keyOf(Outcome outcome, uint8 code, bytes32 outHash) internal pure returns (bytes32) {
        return keccak256(abi.encode(outcome, code, outHash));
    }

    /// @notice Everything that a vote says: seats count together only if this is equal.
    function groupOf(uint8 outcome, uint8 code, bytes32 tokensHash, bytes32 traceRoot, bytes32 roundDigest)
        internal
        pure
        returns (bytes32)
    {
        return keccak256(abi.encode(outcome, code, tokensHash, traceRoot, roundDigest));
    }

    /// @notice The verdict of a tally.
    /// @param quorum seats that make a verdict
    function judge(ICourt.Tally memory t, uint256 quorum) internal pure returns (Judgement memory j) {
        if (t.equal >= quorum) return Judgement(Verdict.UPHELD, false);
        if (t.lead >= quorum) return Judgement(t.leadVerdict, false);
        if (t.unavailable >= quorum) return Judgement(Verdict.UNAVAILABLE, false);
        // Without a seat that saw no bytes there is nothing to add to the leading fault, which fell short alone.
        if (uint256(t.lead) + t.unavailable >= quorum) return Judgement(Verdict.UNAVAILABLE, true);
    }
}
