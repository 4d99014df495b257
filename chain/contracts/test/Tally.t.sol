// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {TallyLib} from "../src/libraries/TallyLib.sol";
import {Outcome, StructHashes, Verdict} from "../src/libraries/Types.sol";
import {Check} from "./Vm.sol";

/// @title The verdict rule alone: as Python has it, and what follows from it for every tally
contract TallyTest is Check {
    struct Votes {
        uint256[] seats;
        uint256[] outcome;
        uint256[] code;
        bytes32[] tokensHash;
        bytes32[] traceRoot;
        bytes32[] roundDigest;
    }

    struct Cases {
        bytes32[] tokens; // tokensHash of the receipt
        uint256[] from;
        uint256[] count;
        uint256[] quorum;
        uint256[] verdict;
        bytes32[] replacement;
    }

    function test_verdicts_are_those_of_python() public view {
        string memory json = vm.readFile("../../tests/vectors/tally.json");
        bytes32[2] memory claimed;
        claimed[1] = vm.parseJsonBytes32(json, ".claimedOutHash");
        Votes memory v = votesOf(json);
        Cases memory c = casesOf(json);
        that(c.from.length >= 20, "cases");
        for (uint256 i = 0; i < c.from.length; ++i) {
            claimed[0] = c.tokens[i];
            IRounds.Tally memory t = counted(v, c.from[i], c.from[i] + c.count[i], claimed);
            TallyLib.Judgement memory j = TallyLib.judge(t, c.quorum[i]);
            same(uint256(j.verdict), c.verdict[i], "verdict");
            bytes32 other = j.verdict == Verdict.OVERTURNED ? t.leadOutHash : bytes32(0);
            same(other, c.replacement[i], "replacement");
        }
    }

    function casesOf(string memory json) private pure returns (Cases memory c) {
        c.tokens = vm.parseJsonBytes32Array(json, ".cases.claimedTokensHash");
        c.from = vm.parseJsonUintArray(json, ".cases.voteOffset");
        c.count = vm.parseJsonUintArray(json, ".cases.voteLength");
        c.quorum = vm.parseJsonUintArray(json, ".cases.quorum");
        c.verdict = vm.parseJsonUintArray(json, ".cases.verdict");
        c.replacement = vm.parseJsonBytes32Array(json, ".cases.replacement");
    }

    function votesOf(string memory json) private pure returns (Votes memory v) {
        v.seats = vm.parseJsonUintArray(json, ".votes.seats");
        v.outcome = vm.parseJsonUintArray(json, ".votes.outcome");
        v.code = vm.parseJsonUintArray(json, ".votes.code");
        v.tokensHash = vm.parseJsonBytes32Array(json, ".votes.tokensHash");
        v.traceRoot = vm.parseJsonBytes32Array(json, ".votes.traceRoot");
        v.roundDigest = vm.parseJsonBytes32Array(json, ".votes.roundDigest");
    }

    /// @dev Each vote with all that agree with it in everything; slow and plain.
    function counted(Votes memory v, uint256 from, uint256 to, bytes32[2] memory claimed)
        private
        pure
        returns (IRounds.Tally memory t)
    {
        for (uint256 i = from; i < to; ++i) {
            uint256 size = 0;
            for (uint256 k = from; k < to; ++k) {
                if (groupOf(v, i) == groupOf(v, k)) size += v.seats[k];
            }
            Outcome outcome = Outcome(v.outcome[i]);
            bytes32 outHash =
                outcome == Outcome.EXECUTED ? StructHashes.outHash(v.tokensHash[i], v.traceRoot[i]) : bytes32(0);
            if (outcome == Outcome.UNAVAILABLE) {
                t.unavailable += uint16(v.seats[i]);
            } else if (outcome == Outcome.EXECUTED && v.tokensHash[i] == claimed[0] && outHash == claimed[1]) {
                if (size > t.equal) t.equal = uint16(size);
            } else if ((outcome == Outcome.EXECUTED || outcome == Outcome.INVALID) && size > t.lead) {
                (t.lead, t.leadOutHash) = (uint16(size), outHash);
                t.leadVerdict = outcome == Outcome.INVALID ? Verdict.INVALID : Verdict.OVERTURNED;
            }
        }
    }

    function groupOf(Votes memory v, uint256 i) private pure returns (bytes32) {
        return
            TallyLib.groupOf(uint8(v.outcome[i]), uint8(v.code[i]), v.tokensHash[i], v.traceRoot[i], v.roundDigest[i]);
    }

    /// @dev Whoever is not a quorum decides nothing, and no two verdicts have one: a quorum is more than half.
    function test_a_verdict_is_what_a_quorum_says(uint8 seats_, uint8 more, uint8[3] memory said, bool invalid)
        public
        pure
    {
        uint256 seats = bound(seats_, 3, 255);
        uint256 quorum = bound(more, seats / 2 + 1, seats);
        IRounds.Tally memory t;
        t.equal = uint16(bound(said[0], 0, seats));
        t.lead = uint16(bound(said[1], 0, seats - t.equal));
        t.unavailable = uint16(bound(said[2], 0, seats - t.equal - t.lead));
        t.leadVerdict = invalid ? Verdict.INVALID : Verdict.OVERTURNED;
        TallyLib.Judgement memory j = TallyLib.judge(t, quorum);
        bool fault = t.lead >= quorum;
        bool withheld = t.unavailable >= quorum;
        bool between = !fault && !withheld && uint256(t.lead) + t.unavailable >= quorum;
        that((j.verdict == Verdict.UPHELD) == (t.equal >= quorum), "upheld");
        that((j.verdict == t.leadVerdict) == fault, "convicted");
        that((j.verdict == Verdict.UNAVAILABLE) == (withheld || between), "withheld");
        that(j.mixed == between, "some saw a fault, some saw nothing");
    }
}
