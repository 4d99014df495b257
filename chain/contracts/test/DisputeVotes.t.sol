// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {Commit, Outcome, Phase, StructHashes, Verdict, Vote} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";
import {Courthouse} from "./Courthouse.sol";

/// @title Commitments and votes, and that counting as they come is counting
/// forge-config: default.fuzz.runs = 8
contract DisputeVotesTest is Courthouse {
    uint256 private constant HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;

    /// @dev Somebody who holds a seat.
    function someone(bytes32 id, uint256 salt) private view returns (IRounds.Member memory m) {
        IRounds.Member[] memory list = members(id);
        return list[salt % list.length];
    }

    function nobody(bytes32 id) private view returns (address) {
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            bool seated = false;
            for (uint256 k = 0; k < list.length; ++k) {
                seated = seated || list[k].voter == member(i);
            }
            if (!seated) return member(i);
        }
        return address(0xDEAD);
    }

    function choiceOf(uint256 choices, uint256 i) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(choices, i))) % 12;
    }

    // --- counting ---

    /// @dev Twelve choices: ten votes, not to reveal, not to commit. Fails when a group is counted across round digests, when
    ///      ties go to the later, when a mask is forgotten.
    function test_votes_counted_as_they_come_are_a_plain_count(uint256 salt, uint256 choices) public {
        bytes32 id = inCommit(salt);
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (choiceOf(choices, i) < 11) committed(voteOf(id, list[i], choiceOf(choices, i) % 10));
        }
        toReveal(id);
        IRounds.Tally memory want;
        uint256[10] memory sizes;
        for (uint256 i = 0; i < list.length; ++i) {
            uint256 choice = choiceOf(choices, i);
            if (choice == 10) want.notRevealed += list[i].seats;
            if (choice == 11) want.absent += list[i].seats;
            if (choice >= 10) continue;
            rounds.reveal(voteOf(id, list[i], choice), "");
            sizes[choice] += list[i].seats;
            _plain(want, sizes, choice);
        }
        same(keccak256(abi.encode(rounds.tallyOf(id, 1))), keccak256(abi.encode(want)), "tally");
    }

    /// @dev The sizes of all groups after one more vote, looked at anew.
    function _plain(IRounds.Tally memory t, uint256[10] memory sizes, uint256 last) private pure {
        t.equal = uint16(sizes[0] > sizes[4] ? sizes[0] : sizes[4]);
        (t.unavailable, t.noKey, t.cannotExecute) = (uint16(sizes[7]), uint16(sizes[8]), uint16(sizes[9]));
        bool leads = last != 0 && last != 4 && last < 7 && sizes[last] > t.lead;
        if (!leads) return;
        t.lead = uint16(sizes[last]);
        t.leadVerdict = last <= 3 ? Verdict.OVERTURNED : Verdict.INVALID;
        t.leadOutHash = last <= 3 ? StructHashes.outHash(keccak256(abi.encode("other", last)), "trace") : bytes32(0);
        Outcome outcome = last <= 3 ? Outcome.EXECUTED : Outcome.INVALID;
        t.leadKey = keccak256(abi.encode(outcome, last <= 3 ? 0 : last, t.leadOutHash));
    }

    function test_a_member_is_shown_as_it_stands(uint256 salt, uint256 who) public {
        bytes32 id = inCommit(salt);
        IRounds.Member memory m = someone(id, who);
        same(m.commitment | m.group, bytes32(0), "nothing yet");
        Vote memory v = voteOf(id, m, 0);
        committed(v);
        bytes32 sealed_ = keccak256(abi.encode(rounds.hashVote(v), m.voter, m.seatMask));
        same(someone(id, who).commitment, sealed_, "sealed");
        same(rounds.roundOf(id, 1).committedMask, m.seatMask, "committed");
        toReveal(id);
        inPhase(id, Phase.REVEAL);
        rounds.reveal(v, "");
        m = someone(id, who);
        same(m.commitment, bytes32(0), "open");
        same(m.group, keccak256(abi.encode(v.outcome, v.code, v.tokensHash, v.traceRoot, v.roundDigest)), "group");
        same(rounds.roundOf(id, 1).revealedMask, m.seatMask, "revealed");
        that(disputes.isSettleable(id), "every commitment is open");
    }

    function test_commits_end_early_when_all_have_come(uint256 salt, uint16 later) public {
        bytes32 id = inCommit(salt);
        passes(later % 3_600);
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            inPhase(id, Phase.COMMIT);
            committed(voteOf(id, list[i], 0));
        }
        inPhase(id, Phase.REVEAL);
        same(rounds.roundOf(id, 1).revealEnd, guardian.clock() + 30 minutes, "reveals from now on");
        rounds.reveal(voteOf(id, list[0], 0), "");
    }

    // --- what commits are refused ---

    function test_only_a_holder_commits_and_with_all_its_seats(uint256 salt, uint256 who, uint256 mask) public {
        bytes32 id = inCommit(salt);
        IRounds.Member memory m = someone(id, who);
        vm.assume(mask != m.seatMask);
        vm.expectRevert(abi.encodeWithSelector(IRounds.WrongSeatMask.selector, mask, m.seatMask));
        vm.prank(m.voter);
        rounds.commit(id, mask, "commitment");
        address stranger = nobody(id);
        vm.expectRevert(abi.encodeWithSelector(IRounds.NotMember.selector, id, 1, stranger));
        vm.prank(stranger);
        rounds.commit(id, m.seatMask, "commitment");
        vm.expectRevert(IRounds.EmptyCommitment.selector);
        vm.prank(m.voter);
        rounds.commit(id, m.seatMask, 0);
    }

    function test_a_commitment_is_final_and_in_time(uint256 salt, uint256 who) public {
        bytes32 id = opened(salt);
        vm.expectRevert(abi.encodeWithSelector(IRounds.NotVoting.selector, id, 1));
        rounds.commit(id, 1, "commitment");
        drawn(id, bytes32(salt));
        IRounds.Member memory m = someone(id, who);
        committed(voteOf(id, m, 0));
        vm.expectRevert(abi.encodeWithSelector(IRounds.AlreadyCommitted.selector, id, 1, m.voter));
        vm.prank(m.voter);
        rounds.commit(id, m.seatMask, "another");
        toReveal(id);
        uint256 end = rounds.roundOf(id, 1).commitEnd;
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter == m.voter) continue;
            vm.expectRevert(abi.encodeWithSelector(IRounds.TooLate.selector, guardian.clock(), end));
            vm.prank(list[i].voter);
            rounds.commit(id, list[i].seatMask, "late");
        }
    }

    // --- what reveals are refused ---

    /// @dev Another holder commits what it saw of the first: neither it nor anybody else can open it for its seats.
    function test_a_copied_commitment_opens_for_nobody(uint256 salt) public {
        bytes32 id = inCommit(salt);
        IRounds.Member[] memory list = members(id);
        vm.assume(list.length > 1);
        Vote memory v = voteOf(id, list[0], 0);
        bytes32 commitment = rounds.hashVote(v);
        vm.prank(list[1].voter);
        rounds.commit(id, list[1].seatMask, commitment);
        committed(v);
        toReveal(id);
        rounds.reveal(v, "");
        same(rounds.roundOf(id, 1).revealedMask, list[0].seatMask, "only its own seats");
        v.seatMask = list[1].seatMask;
        bytes32 want = keccak256(abi.encode(commitment, list[1].voter, list[1].seatMask));
        bytes32 have = keccak256(abi.encode(rounds.hashVote(v), v.voter, v.seatMask));
        vm.expectRevert(abi.encodeWithSelector(IRounds.BadReveal.selector, have, want));
        rounds.reveal(v, "");
    }

    /// @dev Each field in turn, and a mask that takes others' seats along.
    function test_what_was_committed_is_what_opens(uint256 salt, uint256 who, uint8 field) public {
        bytes32 id = inCommit(salt);
        IRounds.Member memory m = someone(id, who);
        Vote memory v = voteOf(id, m, 0);
        committed(v);
        toReveal(id);
        if (field % 6 == 0) v.voter = address(uint160(v.voter) + 1);
        else if (field % 6 == 1) v.seatMask |= 1 << 200;
        else if (field % 6 == 2) v.tokensHash = ~v.tokensHash;
        else if (field % 6 == 3) v.traceRoot = ~v.traceRoot;
        else if (field % 6 == 4) v.roundDigest = ~v.roundDigest;
        else v.salt = ~v.salt;
        vm.expectPartialRevert(IRounds.BadReveal.selector);
        rounds.reveal(v, "");
        v = voteOf(id, m, 0);
        rounds.reveal(v, "");
        vm.expectRevert(abi.encodeWithSelector(IRounds.AlreadyRevealed.selector, id, 1, m.voter));
        rounds.reveal(v, "");
    }

    function test_a_vote_belongs_to_its_round_and_its_time(uint256 salt, uint256 who, uint16 round) public {
        vm.assume(round != 1);
        bytes32 id = inCommit(salt);
        IRounds.Member memory m = someone(id, who);
        Vote memory v = voteOf(id, m, 0);
        committed(v);
        uint256 end = rounds.roundOf(id, 1).commitEnd;
        vm.assume(guardian.clock() <= end);
        vm.expectRevert(abi.encodeWithSelector(IRounds.TooEarly.selector, guardian.clock(), end + 1));
        rounds.reveal(v, "");
        toReveal(id);
        v.round = round;
        vm.expectRevert(abi.encodeWithSelector(IRounds.NotVoting.selector, id, round));
        rounds.reveal(v, "");
        v.round = 1;
        v.seatMask = salt % 2 == 0 ? 0 : 1 << 77;
        vm.expectRevert(abi.encodeWithSelector(IRounds.NotCommitted.selector, id, 1, m.voter));
        rounds.reveal(v, "");
        v.seatMask = m.seatMask;
        end = rounds.roundOf(id, 1).revealEnd;
        passes(end + 1 - guardian.clock());
        vm.expectRevert(abi.encodeWithSelector(IRounds.TooLate.selector, end + 1, end));
        rounds.reveal(v, "");
    }

    /// @dev The same bytes committed in two disputes count in one: the digest names the dispute.
    function test_a_vote_is_for_one_dispute(uint256 salt) public {
        bytes32 id = opened(salt);
        bytes32 twin = opened(~salt);
        drawn(id, "mix");
        drawn(twin, "mix");
        IRounds.Member[] memory list = members(twin);
        Vote memory v = voteOf(id, members(id)[0], 0);
        bytes32 commitment = rounds.hashVote(v);
        vm.prank(list[0].voter);
        rounds.commit(twin, list[0].seatMask, commitment);
        toReveal(twin);
        v.dispute = twin;
        (v.voter, v.seatMask) = (list[0].voter, list[0].seatMask);
        vm.expectPartialRevert(IRounds.BadReveal.selector);
        rounds.reveal(v, "");
    }

    /// @dev One form per finding: whatever else is said with an outcome is refused before it is counted.
    function test_findings_have_one_form(uint256 salt, uint8 outcome, uint8 code, bool full) public {
        bytes32 id = inCommit(salt);
        Vote memory v = voteOf(id, members(id)[0], 0);
        (v.outcome, v.code) = (outcome % 8, code);
        if (!full) (v.tokensHash, v.traceRoot, v.roundDigest) = (0, 0, 0);
        bool coded = v.outcome == 2 || v.outcome == 5;
        bool known = v.outcome > 0 && v.outcome < 6;
        bool good = known && (v.outcome == 1 || !full) && (coded || code == 0);
        committed(v);
        toReveal(id);
        if (!good) vm.expectRevert(abi.encodeWithSelector(IRounds.MalformedVote.selector, v.outcome, code));
        rounds.reveal(v, "");
    }

    function test_a_quote_is_the_one_that_was_committed(uint256 salt, bytes calldata quote) public {
        vm.assume(quote.length != 0);
        bytes32 id = inCommit(salt);
        Vote memory v = voteOf(id, members(id)[0], 0);
        v.quoteHash = keccak256(quote);
        committed(v);
        toReveal(id);
        vm.expectRevert(abi.encodeWithSelector(IRounds.BadQuote.selector, bytes32(0), v.quoteHash));
        rounds.reveal(v, "");
        bytes memory changed = bytes.concat(quote, hex"00");
        vm.expectRevert(abi.encodeWithSelector(IRounds.BadQuote.selector, keccak256(changed), v.quoteHash));
        rounds.reveal(v, changed);
        rounds.reveal(v, quote);
    }

    // --- relayed ---

    struct Relay {
        Commit[] commits;
        address[] voters;
        bytes[] sigs;
    }

    /// @dev The commitments of all members, each signed by its own.
    function relayOf(bytes32 id, uint256 choice) private view returns (Relay memory r) {
        IRounds.Member[] memory list = members(id);
        (r.commits, r.voters, r.sigs) =
        (new Commit[](list.length), new address[](list.length), new bytes[](list.length));
        for (uint256 i = 0; i < list.length; ++i) {
            bytes32 commitment = rounds.hashVote(voteOf(id, list[i], choice));
            r.commits[i] = Commit(id, disputes.dispute(id).round, list[i].seatMask, commitment);
            (r.voters[i], r.sigs[i]) = (list[i].voter, signature(list[i].voter, rounds.hashCommit(r.commits[i])));
        }
    }

    function signature(address who, bytes32 digest) private pure returns (bytes memory) {
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            if (member(i) != who) continue;
            (uint8 v, bytes32 r, bytes32 s) = vm.sign(0xB150000 + i, digest);
            return abi.encodePacked(r, s, v);
        }
        revert Failed("no such member");
    }

    /// @dev Who runs ahead of the relay with its own commitment does not stop the others.
    function test_others_may_bring_commitments(uint256 salt, uint256 ahead) public {
        bytes32 id = inCommit(salt);
        Relay memory r = relayOf(id, 0);
        IRounds.Member memory m = someone(id, ahead);
        committed(voteOf(id, m, 7));
        rounds.commitFor(r.commits, r.voters, r.sigs);
        inPhase(id, Phase.REVEAL);
        rounds.reveal(voteOf(id, m, 7), "");
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter != m.voter) rounds.reveal(voteOf(id, list[i], 0), "");
        }
        that(disputes.isSettleable(id), "all open");
    }

    /// @dev In turn: another's signature, a high s, a changed byte, another court, another chain.
    function test_a_relayed_commitment_is_the_voters_own(uint256 salt, uint8 how, uint256 bit) public {
        bytes32 id = inCommit(salt);
        Relay memory r = relayOf(id, 0);
        (bytes memory sig, address voter) = (r.sigs[0], r.voters[0]);
        if (how % 5 == 0) r.voters[0] = nobody(id);
        else if (how % 5 == 1) r.sigs[0] = malleated(sig);
        else if (how % 5 == 2) r.commits[0].commitment ^= bytes32(1 << (bit % 256));
        else if (how % 5 == 3) r.sigs[0] = signature(voter, newCourt().ROUNDS().hashCommit(r.commits[0]));
        else vm.chainId(1 + bit % 1_000);
        vm.expectPartialRevert(IRounds.BadSignature.selector);
        rounds.commitFor(r.commits, r.voters, r.sigs);
    }

    function malleated(bytes memory sig) private pure returns (bytes memory) {
        (bytes32 r, uint256 s, uint8 v) = (bytes32(0), 0, uint8(sig[64]));
        assembly ("memory-safe") {
            r := mload(add(sig, 32))
            s := mload(add(sig, 64))
        }
        return abi.encodePacked(r, 2 * HALF_ORDER + 1 - s, v == 27 ? uint8(28) : uint8(27));
    }

    function test_a_relayed_commitment_is_for_one_round(uint256 salt, uint16 round) public {
        bytes32 id = inCommit(salt);
        Relay memory r = relayOf(id, 0);
        vm.assume(round != 1);
        r.commits[0].round = round;
        r.sigs[0] = signature(r.voters[0], rounds.hashCommit(r.commits[0]));
        vm.expectRevert(abi.encodeWithSelector(IRounds.NotVoting.selector, id, round));
        rounds.commitFor(r.commits, r.voters, r.sigs);
        r.voters = new address[](r.commits.length + 1);
        bytes memory refusal = abi.encodeWithSelector(
            IRounds.LengthMismatch.selector, r.commits.length, r.commits.length + 1, r.sigs.length
        );
        vm.expectRevert(refusal);
        rounds.commitFor(r.commits, r.voters, r.sigs);
    }

    /// @dev What is refused is the list, before anything of it is read.
    function test_relayed_commitments_are_at_most_so_many(uint256 salt, uint8 more) public {
        bytes32 id = inCommit(salt);
        Relay memory r = relayOf(id, 0);
        uint256 count = 201 + uint256(more);
        r.commits = new Commit[](count);
        (r.voters, r.sigs) = (new address[](count), new bytes[](count));
        vm.expectRevert(abi.encodeWithSelector(IRounds.TooManyCommits.selector, count, 200));
        rounds.commitFor(r.commits, r.voters, r.sigs);
    }

    // --- pauses ---

    function test_votes_wait_during_a_pause(uint256 salt) public {
        bytes32 id = inCommit(salt);
        Relay memory r = relayOf(id, 0);
        IRounds.Round memory before = rounds.roundOf(id, 1);
        bytes memory refusal = abi.encodeWithSelector(IGuardian.NotNow.selector, true);
        guardian.pause(20 hours);
        passes(10 hours);
        vm.expectRevert(refusal);
        rounds.commit(id, 1, "commitment");
        vm.expectRevert(refusal);
        rounds.commitFor(r.commits, r.voters, r.sigs);
        Vote memory v = voteOf(id, members(id)[0], 0);
        vm.expectRevert(refusal);
        rounds.reveal(v, "");
        vm.expectRevert(refusal);
        disputes.settle(id);
        passes(10 hours);
        that(guardian.clock() <= before.commitEnd, "no deadline passed");
        rounds.commitFor(r.commits, r.voters, r.sigs);
    }

    // --- revealed together ---

    /// @dev Fails when a vote that is open already stops the others, or is counted twice.
    function test_votes_of_a_round_are_revealed_together(uint256 salt, uint256 choices, uint256 ahead) public {
        bytes32 id = inCommit(salt);
        IRounds.Member[] memory list = members(id);
        Vote[] memory votes = new Vote[](list.length);
        for (uint256 i = 0; i < list.length; ++i) {
            votes[i] = voteOf(id, list[i], choiceOf(choices, i) % 10);
            committed(votes[i]);
        }
        toReveal(id);
        // Of two answers that as many say the one leads that had them first: both times the same two are shown ahead.
        uint256 next = ahead % 2 == 0 ? ahead % list.length : 0;
        if (ahead % 2 == 0 && next == 0) next = list.length - 1;
        rounds.reveal(votes[0], "");
        if (next != 0) rounds.reveal(votes[next], "");
        uint256 before = vm.snapshotState();
        for (uint256 i = 1; i < list.length; ++i) {
            if (i != next) rounds.reveal(votes[i], "");
        }
        bytes32 apart = keccak256(abi.encode(rounds.tallyOf(id, 1), members(id)));
        vm.revertToState(before);
        rounds.revealMany(votes, new bytes[](votes.length));
        same(apart, keccak256(abi.encode(rounds.tallyOf(id, 1), members(id))), "as one by one");
    }

    function test_votes_of_two_rounds_are_not_revealed_together(uint256 salt) public {
        bytes32 id = inCommit(salt);
        Vote memory v = voteOf(id, someone(id, salt), 0);
        committed(v);
        toReveal(id);
        Vote[] memory votes = new Vote[](2);
        (votes[0], votes[1]) = (v, voteOf(id, someone(id, salt + 1), 0));
        votes[1].round = 2;
        vm.expectRevert(abi.encodeWithSelector(IRounds.ForeignVote.selector, id, 2, votes[1].voter));
        rounds.revealMany(votes, new bytes[](2));
        vm.expectRevert(abi.encodeWithSelector(IRounds.LengthMismatch.selector, 2, 1, 1));
        rounds.revealMany(votes, new bytes[](1));
        vm.expectRevert(abi.encodeWithSelector(IRounds.LengthMismatch.selector, 0, 0, 0));
        rounds.revealMany(new Vote[](0), new bytes[](0));
        (votes[1].round, votes[1].seatMask) = (1, 0);
        votes[0].tokensHash = "another";
        vm.expectPartialRevert(IRounds.BadReveal.selector);
        rounds.revealMany(votes, new bytes[](2));
    }
}
