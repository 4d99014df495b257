// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {TallyLib} from "../src/libraries/TallyLib.sol";
import {Verdict} from "../src/libraries/Types.sol";

/// @title Proofs of the verdict rule for every tally: `make prove` (halmos)
/// @dev A function whose name begins with `check_` holds for all arguments that pass its first lines, or halmos shows some
///      for which it does not.
contract TallyProofs {
    /// @notice Nobody is convicted but by a quorum of seats that say one and the same, and against no quorum that upholds.
    function check_only_a_quorum_convicts(uint16 equal, uint16 lead, uint16 unavailable, bool invalid, uint256 quorum)
        public
        pure
    {
        TallyLib.Judgement memory j = _judged(equal, lead, unavailable, invalid, quorum);
        if (!_convicts(j.verdict)) return;
        assert(lead >= quorum && equal < quorum);
        assert((j.verdict == Verdict.INVALID) == invalid);
    }

    /// @notice Seats that saw no bytes convict nobody, however many.
    function check_doubt_never_convicts(
        uint16 equal,
        uint16 lead,
        uint16 unavailable,
        uint16 more,
        bool invalid,
        uint256 quorum
    ) public pure {
        if (lead >= quorum) return;
        assert(!_convicts(_judged(equal, lead, unavailable, invalid, quorum).verdict));
        assert(!_convicts(_judged(equal, lead, more, invalid, quorum).verdict));
    }

    /// @notice Every tally has one verdict: upheld by its quorum, and without any quorum none.
    function check_each_verdict_has_its_quorum(
        uint16 equal,
        uint16 lead,
        uint16 unavailable,
        bool invalid,
        uint256 quorum
    ) public pure {
        TallyLib.Judgement memory j = _judged(equal, lead, unavailable, invalid, quorum);
        assert((j.verdict == Verdict.UPHELD) == (equal >= quorum));
        if (j.verdict == Verdict.UNAVAILABLE) assert(j.mixed == (unavailable < quorum));
        bool none = equal < quorum && lead < quorum && uint256(lead) + unavailable < quorum;
        assert((j.verdict == Verdict.NONE) == none);
    }

    function _convicts(Verdict v) private pure returns (bool) {
        return v == Verdict.OVERTURNED || v == Verdict.INVALID;
    }

    function _judged(uint16 equal, uint16 lead, uint16 unavailable, bool invalid, uint256 quorum)
        private
        pure
        returns (TallyLib.Judgement memory)
    {
        IRounds.Tally memory t;
        (t.equal, t.lead, t.unavailable) = (equal, lead, unavailable);
        t.leadVerdict = invalid ? Verdict.INVALID : Verdict.OVERTURNED;
        return TallyLib.judge(t, quorum);
    }
}
