// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {StakeTree} from "../src/stake/StakeTree.sol";
import {Rounds} from "../src/court/Rounds.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {Bls} from "../src/libraries/Bls.sol";
import {Finding, ParamSet, Phase, Standing, Verdict, Vote} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";
import {Certified, StructHashes} from "../src/libraries/Signed.sol";
import {IBlsKeys} from "../src/interfaces/IBlsKeys.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {CommitTrees} from "./CommitTrees.sol";
import {Courthouse} from "./Courthouse.sol";

/// @title Certificates in the court: worth the votes that they stand for
/// forge-config: default.fuzz.runs = 4
contract DisputeCertificateTest is Courthouse {
    bytes32 private constant ROOT = "commitments";

    struct Proof {
        uint256 signers;
        Bls.G1[] keys;
        Bls.G2 signature;
    }

    Bls.G1[] private publicKeys;
    bytes32 private id;
    IRounds.Member[] private list;
    bytes32 private signedRoot = ROOT;
    bytes32[256] private leaves;

    function setUp() public override {
        super.setUp();
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            publicKeys.push(publicKey(secret(0, i)));
            register(member(i), secret(0, i));
            keys.notePlace(hashOf(publicKeys[i]));
        }
    }

    function certifies(Finding memory f, bytes32 root, Proof memory p) private {
        rounds.certify(f, root, p.signers, p.keys, p.signature);
    }

    function parameters() internal pure override returns (ParamSet memory p) {
        p = super.parameters();
        p.committee.seats = [uint16(9), 15, 21];
    }

    // --- a committee that signs ---

    function all() private pure returns (uint256) {
        return (1 << 9) - 1;
    }

    function convened(uint256 salt) private {
        id = inCommit(salt);
        IRounds.Member[] memory drawn_ = members(id);
        for (uint256 i = 0; i < drawn_.length; ++i) {
            list.push(drawn_[i]);
        }
    }

    /// @dev A member posts it.
    function roots(bytes32 root) private {
        vm.prank(list[0].voter);
        rounds.postCommitRoot(id, root);
    }

    function formed(uint256 salt) private {
        convened(salt);
        roots(ROOT);
    }

    function indexOf(address who) private pure returns (uint256 i) {
        while (member(i) != who) {
            ++i;
        }
    }

    function holderOf(uint256 seat) private view returns (uint256) {
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].seatMask & (1 << seat) != 0) return indexOf(list[i].voter);
        }
        revert Failed("no such seat");
    }

    function ones(uint256 mask) private pure returns (uint256 n) {
        for (; mask != 0; mask &= mask - 1) {
            ++n;
        }
    }

    function keysOf(uint256 mask) private view returns (Bls.G1[] memory out) {
        out = new Bls.G1[](ones(mask));
        uint256 next = 0;
        for (uint256 seat = 0; seat < 9; ++seat) {
            if (mask & (1 << seat) != 0) out[next++] = publicKeys[holderOf(seat)];
        }
    }

    function scalarOf(uint256 mask) private view returns (uint256 sum) {
        for (uint256 seat = 0; seat < 9; ++seat) {
            if (mask & (1 << seat) != 0) sum = addmod(sum, secret(0, holderOf(seat)), ORDER);
        }
    }

    function findingOf(uint256 choice) private view returns (Finding memory) {
        Vote memory v = voteOf(id, list[0], choice);
        return Finding(id, v.round, v.outcome, v.code, v.tokensHash, v.traceRoot, v.roundDigest);
    }

    function proofOf(uint256 signers, Finding memory f) private view returns (Proof memory) {
        return joinedBy(signers, 0, f);
    }

    /// @dev Of what is signed for the seats of `signers`, with the signatures of those of `more` beside theirs.
    function joinedBy(uint256 signers, uint256 more, Finding memory f) private view returns (Proof memory) {
        return signedIn(rounds.domainSeparator(), signers, more, f);
    }

    function signedIn(bytes32 domain, uint256 signers, uint256 more, Finding memory f)
        private
        view
        returns (Proof memory)
    {
        bytes32 structHash = StructHashes.certified(Certified(StructHashes.finding(f), signedRoot, signers));
        bytes32 digest = MessageHashUtils.toTypedDataHash(domain, structHash);
        uint256 shown = signers | more;
        return Proof(shown, keysOf(shown), signed(scalarOf(shown), digest));
    }

    /// @dev Members without the last few, down to a quorum of 6 of 9 seats if one is wanted.
    function signersOf(uint256 salt, uint256 least) private view returns (uint256 mask) {
        mask = all();
        for (uint256 i = 0; i < list.length; ++i) {
            uint256 without = mask & ~list[i].seatMask;
            if ((salt >> i) & 1 == 1 && ones(without) >= least) mask = without;
        }
    }

    // --- worth the votes ---

    /// @dev Some sign `choice`; the others vote something else, or nothing. Then everybody votes the same directly: equal in
    ///      every count that a verdict or a payment rests on.
    function test_a_certificate_is_the_votes_of_its_signers(uint256 salt, uint8 choice, uint8 rest) public {
        (choice, rest) = (choice % 10, rest % 11);
        formed(salt);
        uint256 signers = signersOf(salt >> 16, 6);
        if (rest != 10) commits(all() & ~signers, rest);
        uint256 snapshot = vm.snapshotState();
        commits(signers, choice);
        toReveal(id);
        if (rest != 10) reveals(all() & ~signers, rest);
        reveals(signers, choice);
        bytes32 want = counted();
        vm.revertToState(snapshot);
        toReveal(id);
        Finding memory f = findingOf(choice);
        certifies(f, ROOT, proofOf(signers, f));
        if (rest != 10) reveals(all() & ~signers, rest);
        same(counted(), want, "the same count");
        same(rounds.roundOf(id, 1).certifiedMask, signers, "who");
    }

    function commits(uint256 seats, uint256 choice) private {
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].seatMask & seats != 0) committed(voteOf(id, list[i], choice));
        }
    }

    function reveals(uint256 seats, uint256 choice) private {
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].seatMask & seats != 0) rounds.reveal(voteOf(id, list[i], choice), "");
        }
    }

    function counted() private view returns (bytes32) {
        IRounds.Member[] memory now_ = rounds.membersOf(id, 1);
        bytes32[] memory groups = new bytes32[](now_.length);
        for (uint256 i = 0; i < now_.length; ++i) {
            groups[i] = now_[i].group;
        }
        (, uint16 worked) = rounds.paidSeats(id, 1);
        uint256 revealed = rounds.roundOf(id, 1).revealedMask;
        return keccak256(abi.encode(rounds.tallyOf(id, 1), groups, worked, revealed));
    }

    function test_a_certified_round_is_settled_and_its_signers_are_right(uint256 salt) public {
        formed(salt);
        uint256 signers = signersOf(salt >> 16, 6);
        toReveal(id);
        that(!disputes.isSettleable(id), "a root stands for commitments that are still closed");
        Finding memory f = findingOf(1);
        certifies(f, ROOT, proofOf(signers, f));
        that(disputes.isSettleable(id) == (signers == all()), "whoever is left out has its time");
        toSettle(id);
        disputes.settle(id);
        same(uint256(disputes.dispute(id).verdict), uint256(Verdict.OVERTURNED), "verdict");
        toFinalize(id);
        disputes.finalize(id);
        (uint16 right,) = rounds.paidSeats(id, 1);
        same(right, ones(signers), "paid");
        for (uint16 seat = 0; seat < 9; ++seat) {
            (address holder, Standing standing) = standingOf(id, 1, seat);
            same(holder, member(holderOf(seat)), "holder");
            that(standing == (signers & (1 << seat) != 0 ? Standing.RIGHT : Standing.NOT_REVEALED), "right or silent");
        }
    }

    /// @dev Who neither worked nor committed sees a certificate, adds its own signature, and is faster.
    function test_nobody_joins_a_certificate_that_is_seen(uint256 salt, uint256 who, uint8 choice) public {
        formed(salt);
        uint256 late = list[who % list.length].seatMask;
        uint256 signers = all() & ~late;
        vm.assume(ones(signers) >= 6);
        toReveal(id);
        Finding memory f = findingOf(choice % 10);
        Proof memory joined = joinedBy(signers, late, f);
        vm.expectPartialRevert(IBlsKeys.BadCertificate.selector);
        certifies(f, ROOT, joined);
        certifies(f, ROOT, proofOf(signers, f));
        same(rounds.roundOf(id, 1).certifiedMask, signers, "who");
    }

    /// @dev What the same members sign in another deployment, or on another chain, is no verdict here.
    function test_a_certificate_is_of_one_court_and_one_chain(uint256 salt, uint32 chain) public {
        vm.assume(chain != block.chainid);
        formed(salt);
        toReveal(id);
        Finding memory f = findingOf(1);
        (uint256 here, bytes32 domain) = (block.chainid, new Rounds(params, guardian, keys).domainSeparator());
        notIn(domain, f);
        vm.chainId(chain);
        domain = rounds.domainSeparator();
        vm.chainId(here);
        notIn(domain, f);
        certifies(f, ROOT, proofOf(all(), f));
        same(rounds.roundOf(id, 1).certifiedMask, all(), "who");
    }

    function notIn(bytes32 domain, Finding memory f) private {
        Proof memory p = signedIn(domain, all(), 0, f);
        vm.expectPartialRevert(IBlsKeys.BadCertificate.selector);
        certifies(f, ROOT, p);
    }

    // --- each member once ---

    /// @dev Who committed itself reveals itself: what it committed to is what it said, whatever else it signs.
    function test_who_committed_itself_is_not_certified(uint256 salt, uint256 who, bool reveals_) public {
        formed(salt);
        IRounds.Member memory m = list[who % list.length];
        vm.assume(9 - m.seats >= 6);
        committed(voteOf(id, m, 7));
        toReveal(id);
        if (reveals_) rounds.reveal(voteOf(id, m, 7), "");
        Finding memory f = findingOf(0);
        Proof memory p = proofOf(all(), f);
        vm.expectRevert(abi.encodeWithSelector(IRounds.CommittedThemselves.selector, id, 1, m.seatMask));
        certifies(f, ROOT, p);
        p = proofOf(all() & ~m.seatMask, f);
        certifies(f, ROOT, p);
        if (!reveals_) rounds.reveal(voteOf(id, m, 7), "");
        IRounds.Tally memory t = rounds.tallyOf(id, 1);
        that(t.equal == 9 - m.seats && t.unavailable == m.seats, "each once");
        vm.expectRevert(abi.encodeWithSelector(IRounds.AlreadyCertified.selector, id, 1));
        certifies(f, ROOT, p);
    }

    function test_who_is_certified_does_not_reveal_too(uint256 salt, uint256 who) public {
        formed(salt);
        uint256 i = who % list.length;
        toReveal(id);
        Finding memory f = findingOf(0);
        certifies(f, ROOT, proofOf(all(), f));
        Vote memory v = voteOf(id, list[i], 7);
        vm.expectRevert(abi.encodeWithSelector(IRounds.AlreadyRevealed.selector, id, 1, list[i].voter));
        rounds.reveal(v, "");
    }

    /// @dev Or the rest of its seats could neither be certified nor revealed, and would be charged.
    function test_no_member_signs_with_some_of_its_seats(uint256 salt) public {
        formed(salt);
        uint256 i = 0;
        while (i < list.length && list[i].seats < 2) {
            ++i;
        }
        vm.assume(i < list.length);
        uint256 own = list[i].seatMask;
        uint256 signers = all() & ~(own & (~own + 1));
        toReveal(id);
        Finding memory f = findingOf(0);
        Proof memory p = proofOf(signers, f);
        vm.expectRevert(abi.encodeWithSelector(IRounds.WrongSeatMask.selector, own & signers, own));
        certifies(f, ROOT, p);
    }

    // --- who is left out ---

    /// @dev Everybody's commitment to `choice` is under the first root of the round, and nobody's on the chain.
    function planted(uint256 salt, uint256 choice) private {
        convened(salt);
        for (uint256 i = 0; i < list.length; ++i) {
            leaves[placeOf(i)] = leafOf(voteOf(id, list[i], choice));
        }
        (signedRoot,) = CommitTrees.proven(leaves, 0);
        roots(signedRoot);
    }

    function placeOf(uint256 i) private view returns (uint256 place) {
        while (list[i].seatMask & (1 << place) == 0) {
            ++place;
        }
    }

    function leafOf(Vote memory v) private view returns (bytes32) {
        return keccak256(abi.encode(rounds.hashVote(v), v.voter, v.seatMask));
    }

    function opens(uint256 i, uint256 choice) private {
        Vote memory v = voteOf(id, list[i], choice);
        (, bytes32[8] memory proof) = CommitTrees.proven(leaves, placeOf(i));
        vm.prank(v.voter);
        rounds.revealUnderRoot(v, "", proof);
    }

    function opensNot(address by, Vote memory v, bytes32[8] memory proof, bytes memory refusal) private {
        vm.expectRevert(refusal);
        vm.prank(by);
        rounds.revealUnderRoot(v, "", proof);
    }

    /// @dev Whoever aggregates leaves one out, and it opens its vote itself: the same count as if all had voted directly.
    function test_who_is_left_out_of_a_certificate_votes_directly(uint256 salt, uint256 who, uint8 choice, bool first)
        public
    {
        (choice, who) = (choice % 10, who % 9);
        planted(salt, choice);
        uint256 snapshot = vm.snapshotState();
        commits(all(), choice);
        toReveal(id);
        reveals(all(), choice);
        bytes32 want = counted();
        vm.revertToState(snapshot);
        toReveal(id);
        who %= list.length;
        uint256 signers = all() & ~list[who].seatMask;
        vm.assume(ones(signers) >= 6);
        Finding memory f = findingOf(choice);
        Proof memory p = proofOf(signers, f);
        if (first) opens(who, choice);
        certifies(f, signedRoot, p);
        if (!first) that(!disputes.isSettleable(id), "a certificate ends nobody's time");
        if (!first) opens(who, choice);
        same(counted(), want, "the same count");
        that(disputes.isSettleable(id), "everybody has spoken");
        same(rounds.tallyOf(id, 1).absent, 0, "nobody is absent");
    }

    /// @dev Every member opens its own; who does not is absent when the time is over.
    function test_without_a_certificate_members_open_what_the_root_has(uint256 salt, uint16 who) public {
        planted(salt, 1);
        toReveal(id);
        uint256 spoken = 0;
        for (uint256 i = 0; i < list.length; ++i) {
            if ((who >> i) & 1 == 1) continue;
            opens(i, 1);
            spoken |= list[i].seatMask;
        }
        same(rounds.roundOf(id, 1).revealedMask, spoken, "who");
        that(disputes.isSettleable(id) == (spoken == all()), "until the last second");
        toSettle(id);
        disputes.settle(id);
        vm.assume(ones(spoken) >= 6);
        toFinalize(id);
        disputes.finalize(id);
        for (uint16 seat = 0; seat < 9; ++seat) {
            (, Standing standing) = standingOf(id, 1, seat);
            that(standing == (spoken & (1 << seat) != 0 ? Standing.RIGHT : Standing.NOT_REVEALED), "right or silent");
        }
    }

    /// @dev A signer that opens its vote first, the same or another than it signed, spoils nothing and counts once.
    function test_a_signer_that_opens_first_is_counted_for_what_it_opened(uint256 salt, uint256 who, uint8 choice)
        public
    {
        choice %= 10;
        planted(salt, choice);
        toReveal(id);
        who %= list.length;
        opens(who, choice);
        Finding memory f = findingOf(0);
        Proof memory p = proofOf(all(), f);
        certifies(f, signedRoot, p);
        IRounds.Tally memory t = rounds.tallyOf(id, 1);
        same(
            t.equal,
            choice == 0 ? 9 : choice == 4 && list[who].seats > 4 ? list[who].seats : 9 - list[who].seats,
            "equal"
        );
        same(t.absent, 0, "absent");
        same(rounds.roundOf(id, 1).certifiedMask, all() & ~list[who].seatMask, "who is certified");
        that(disputes.isSettleable(id), "everybody has spoken");
    }

    function test_a_certificate_that_counts_nobody_is_none(uint256 salt) public {
        planted(salt, 0);
        toReveal(id);
        Finding memory f = findingOf(0);
        Proof memory p = proofOf(all(), f);
        for (uint256 i = 0; i < list.length; ++i) {
            opens(i, 0);
        }
        vm.expectRevert(abi.encodeWithSelector(IRounds.NoProgress.selector, id));
        certifies(f, signedRoot, p);
    }

    /// @dev In turn: by somebody else, with other seats, another vote, from another place, a signer, who committed itself.
    function test_only_what_is_under_the_root_is_opened_by_its_voter(
        uint256 salt,
        uint256 who,
        uint8 how,
        address other
    ) public {
        planted(salt, 1);
        (who, how) = (who % list.length, how % 6);
        Vote memory v = voteOf(id, list[who], how == 2 ? 7 : 1);
        vm.assume(other != v.voter);
        (, bytes32[8] memory proof) = CommitTrees.proven(leaves, placeOf(who));
        bytes memory refusal = abi.encodeWithSelector(IRounds.NotVoter.selector, other, v.voter);
        if (how == 1) {
            v.seatMask ^= 1 << (salt % 9);
            refusal = abi.encodeWithSelector(IRounds.WrongSeatMask.selector, v.seatMask, list[who].seatMask);
        } else if (how == 4) {
            refusal = abi.encodeWithSelector(IRounds.AlreadyRevealed.selector, id, 1, v.voter);
        } else if (how == 5) {
            committed(v);
            refusal = abi.encodeWithSelector(IRounds.CommittedThemselves.selector, id, 1, v.seatMask);
        }
        if (how == 3) (, proof) = CommitTrees.proven(leaves, placeOf(who) ^ 1);
        if (how == 2 || how == 3) {
            refusal = abi.encodeWithSelector(IRounds.UnknownRoot.selector, reached(leafOf(v), placeOf(who), proof));
        }
        toReveal(id);
        Finding memory f = findingOf(0);
        if (how == 4) certifies(f, signedRoot, proofOf(all(), f));
        opensNot(how == 0 ? other : v.voter, v, proof, refusal);
    }

    /// @dev The root that a proof leads to, place by place.
    function reached(bytes32 leaf, uint256 place, bytes32[8] memory proof) private pure returns (bytes32 node) {
        node = leaf;
        for (uint256 i = 0; i < 8; (++i, place /= 2)) {
            node = place % 2 == 0 ? keccak256(abi.encode(node, proof[i])) : keccak256(abi.encode(proof[i], node));
        }
    }

    function test_strangers_open_nothing_under_a_root(uint256 salt, address stranger, bool early) public {
        vm.assume(stranger != address(0) && registry.verifier(stranger).pool == 0);
        planted(salt, 1);
        Vote memory v = voteOf(id, list[0], 1);
        v.voter = stranger;
        uint256 end = rounds.roundOf(id, 1).commitEnd;
        bytes32[8] memory proof;
        if (early) {
            opensNot(stranger, v, proof, abi.encodeWithSelector(IRounds.TooEarly.selector, guardian.clock(), end + 1));
        }
        toReveal(id);
        opensNot(stranger, v, proof, abi.encodeWithSelector(IRounds.NotMember.selector, id, 1, stranger));
    }

    /// @dev Who puts another commitment under another root could choose between the two when it sees what others say.
    function test_a_member_is_bound_to_what_the_first_root_has(uint256 salt, uint256 who, bool again) public {
        planted(salt, 1);
        who %= list.length;
        bytes32 first = signedRoot;
        leaves[placeOf(who)] = leafOf(voteOf(id, list[who], 7));
        (bytes32 second, bytes32[8] memory proof) = CommitTrees.proven(leaves, placeOf(who));
        roots(second);
        // Posting the first one again changes nothing, for either.
        if (again) roots(first);
        if (again) roots(second);
        toReveal(id);
        Vote memory v = voteOf(id, list[who], 7);
        opensNot(v.voter, v, proof, abi.encodeWithSelector(IRounds.UnknownRoot.selector, second));
        opens(who, 1);
        same(rounds.roundOf(id, 1).revealedMask, list[who].seatMask, "what the first root has");
    }

    // --- what is refused ---

    function test_fewer_than_a_quorum_say_nothing(uint256 salt) public {
        formed(salt);
        uint256 signers = signersOf(type(uint256).max, 1);
        toReveal(id);
        Finding memory f = findingOf(salt % 10);
        Proof memory p = proofOf(signers, f);
        vm.expectRevert(abi.encodeWithSelector(IRounds.QuorumNotMet.selector, ones(signers), 6));
        certifies(f, ROOT, p);
    }

    /// @dev In turn: another root than the posted, no root of this round at all, a finding of another round, malformed, early.
    function test_a_certificate_is_of_one_root_one_round_one_form(uint256 salt, uint8 how, bytes32 root) public {
        vm.assume(root != ROOT);
        formed(salt);
        Finding memory f = findingOf(0);
        bytes memory refusal = abi.encodeWithSelector(IRounds.UnknownRoot.selector, root);
        if (how % 4 == 0) {
            refusal = abi.encodeWithSelector(
                IRounds.TooEarly.selector, guardian.clock(), rounds.roundOf(id, 1).commitEnd + 1
            );
        } else {
            toReveal(id);
        }
        if (how % 4 == 1) {
            (f.round, refusal) = (2, abi.encodeWithSelector(IRounds.NotVoting.selector, id, 2));
        }
        if (how % 4 == 2) (f.code, refusal) = (1, abi.encodeWithSelector(IRounds.MalformedVote.selector, 1, 1));
        Proof memory p = proofOf(all(), f);
        vm.expectRevert(refusal);
        certifies(f, how % 4 == 3 ? root : ROOT, p);
    }

    /// @dev A certificate under one root is none under another, though both were posted: the digest binds it.
    function test_a_certificate_stays_with_its_root(uint256 salt, bytes32 root) public {
        vm.assume(root != ROOT && root != 0);
        formed(salt);
        roots(root);
        toReveal(id);
        Finding memory f = findingOf(0);
        Proof memory p = proofOf(all(), f);
        vm.expectPartialRevert(IBlsKeys.BadCertificate.selector);
        certifies(f, root, p);
        certifies(f, ROOT, p);
    }

    // --- whose keys ---

    function refusedBy(bytes4 selector, Finding memory f, Proof memory p) private {
        vm.expectPartialRevert(selector);
        certifies(f, ROOT, p);
    }

    /// @dev In turn: a key too few, one too many, another seat's, a stranger's. Fails without the check that it stands for.
    function test_the_keys_are_those_of_the_seats(uint256 salt, uint256 seat, uint8 how) public {
        formed(salt);
        toReveal(id);
        Finding memory f = findingOf(0);
        Proof memory p = proofOf(all(), f);
        Bls.G1[] memory right = p.keys;
        how %= 4;
        if (how < 2) {
            p.keys = new Bls.G1[](how == 0 ? 8 : 10);
            for (uint256 i = 0; i < p.keys.length; ++i) {
                p.keys[i] = right[i % 9];
            }
            return refusedBy(IBlsKeys.KeyCount.selector, f, p);
        }
        seat %= 9;
        uint256 mine = holderOf(seat);
        p.keys[seat] = how == 2 ? publicKeys[(mine + 1) % VERIFIERS] : publicKey(secret(7, seat));
        refusedBy(IBlsKeys.WrongKey.selector, f, p);
    }

    /// @dev Or a signer that sees the certificate on its way could move to another pool, note its place there, and spoil it.
    function test_a_signer_that_moves_to_another_pool_spoils_nothing(uint256 salt) public {
        formed(salt);
        toReveal(id);
        Finding memory f = findingOf(0);
        Proof memory p = proofOf(all(), f);
        StakeTree other = new StakeTree(EPOCH, LOOKAHEAD, 1 ether, 1_000);
        other.wire(address(registry));
        registry.addPool("other", other);
        uint256 mover = holderOf(0);
        bytes32 platform = registry.verifier(member(mover)).platformId;
        vm.prank(member(mover));
        registry.quit();
        vm.prank(member(mover));
        registry.join("other", platform, "enclave");
        bytes32 keyHash = hashOf(publicKeys[mover]);
        vm.expectRevert(abi.encodeWithSelector(IBlsKeys.NotedElsewhere.selector, keyHash, address(tree)));
        keys.notePlace(keyHash);
        // A key of the new pool is another one, and is not of the old pool.
        register(member(mover), secret(5, mover));
        (address where,) = keys.placeOf(keys.keyHashOf(member(mover)));
        same(where, address(0), "nothing noted yet");
        keys.notePlace(keys.keyHashOf(member(mover)));
        (where,) = keys.placeOf(keys.keyHashOf(member(mover)));
        same(where, address(other), "in the new pool");
        certifies(f, ROOT, p);
    }

    function test_a_later_key_has_the_place_and_a_stranger_none(uint256 salt) public {
        uint256 i = salt % VERIFIERS;
        register(member(i), secret(1, i));
        (address where, uint16 place) = keys.placeOf(keys.keyHashOf(member(i)));
        that(where == address(tree), "a later key inherits the note");
        (, uint16 want) = tree.placeOf(member(i));
        same(place, want, "the place");
        address stranger = vm.addr(0x57A4);
        register(stranger, secret(3, 3));
        bytes32 keyHash = keys.keyHashOf(stranger);
        vm.expectRevert(abi.encodeWithSelector(IBlsKeys.NoPlaceToNote.selector, stranger));
        keys.notePlace(keyHash);
        (where,) = keys.placeOf(keyHash);
        same(where, address(0), "nothing noted");
    }

    /// @dev Fails when seats beyond the last are counted into the quorum.
    function test_a_mask_beyond_the_last_seat_is_refused(uint256 salt, uint8 bit) public {
        formed(salt);
        toReveal(id);
        Finding memory f = findingOf(0);
        Proof memory p = proofOf(all(), f);
        p.signers |= 1 << bound(bit, 9, 255);
        vm.expectRevert(abi.encodeWithSelector(IRounds.NoSuchSeat.selector, p.signers, 9));
        certifies(f, ROOT, p);
    }

    /// @dev In turn: of another mask than the shown, each holder once instead of once per seat, under another tag, one other bit.
    function test_only_the_signature_of_exactly_these_seats_counts(uint256 salt, uint8 how, uint16 bit) public {
        formed(salt);
        toReveal(id);
        Finding memory f = findingOf(0);
        Proof memory p = proofOf(all(), f);
        if (how % 3 == 0) {
            p.signature = joinedBy(all(), 0, findingOf(1)).signature;
        } else if (how % 3 == 1) {
            p.signature = times(Bls.hashToG2(keccak256(abi.encode(f)), Bls.POSSESSION), scalarOf(all()));
        } else {
            bytes32[8] memory w = abi.decode(abi.encode(p.signature), (bytes32[8]));
            w[(bit >> 8) % 8] ^= bytes32(1 << (bit % 256));
            p.signature = abi.decode(abi.encode(w), (Bls.G2));
        }
        refusedBy(IBlsKeys.BadCertificate.selector, f, p);
    }

    /// @dev Keys count as they were before the seed: nobody changes a committee once it is known.
    function test_keys_of_a_committee_are_older_than_its_seed(uint256 salt, uint256 who) public {
        convened(salt);
        uint256 i = holderOf(who % 9);
        register(member(i), secret(1, i));
        roots(ROOT);
        toReveal(id);
        Finding memory f = findingOf(0);
        certifies(f, ROOT, proofOf(signersOf(salt, 6), f));
    }

    /// @dev A root of nothing, posted first, would keep everybody under another from opening its vote.
    function test_only_members_post_roots(uint256 salt, address stranger, bytes32 root, bool challenger) public {
        vm.assume(root != 0);
        convened(salt);
        if (challenger) stranger = disputes.dispute(id).challenger;
        for (uint256 i = 0; i < list.length; ++i) {
            vm.assume(list[i].voter != stranger);
        }
        vm.prank(stranger);
        vm.expectRevert(abi.encodeWithSelector(IRounds.NotMember.selector, id, 1, stranger));
        rounds.postCommitRoot(id, root);
        leaves[placeOf(0)] = leafOf(voteOf(id, list[0], 1));
        (signedRoot,) = CommitTrees.proven(leaves, 0);
        roots(signedRoot);
        toReveal(id);
        opens(0, 1);
        same(rounds.roundOf(id, 1).revealedMask, list[0].seatMask, "the member's root is the first");
    }

    /// @dev Who is under a root is bound, sees what others say, and is as silent as who committed on the chain. Who is under none cannot be told from it.
    function test_silence_beside_a_root_costs_what_silence_after_a_commitment_costs(
        uint256 salt,
        bool onChain,
        bool root
    ) public {
        convened(salt);
        uint256 silent = 0;
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].seats < list[silent].seats) silent = i;
        }
        for (uint256 i = 0; i < list.length; ++i) {
            if (i != silent || onChain) committed(voteOf(id, list[i], i == silent ? 7 : 1));
        }
        leaves[placeOf(silent)] = leafOf(voteOf(id, list[silent], 7));
        (signedRoot,) = CommitTrees.proven(leaves, 0);
        if (root && !onChain) roots(signedRoot);
        toReveal(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (i != silent) rounds.reveal(voteOf(id, list[i], 1), "");
        }
        toSettle(id);
        disputes.settle(id);
        toFinalize(id);
        disputes.finalize(id);
        (, Standing standing) = standingOf(id, 1, uint16(placeOf(silent)));
        that(standing == (onChain || root ? Standing.NOT_REVEALED : Standing.ABSENT), "standing");
    }

    function test_a_root_is_posted_before_anybody_reveals(uint256 salt, bytes32 root) public {
        vm.assume(root != 0);
        bytes32 early = opened(~salt);
        vm.expectRevert(abi.encodeWithSelector(IRounds.NotVoting.selector, early, 1));
        rounds.postCommitRoot(early, root);
        convened(salt);
        vm.expectRevert(IRounds.EmptyCommitment.selector);
        rounds.postCommitRoot(id, 0);
        toReveal(id);
        uint256 end = rounds.roundOf(id, 1).commitEnd;
        vm.expectRevert(abi.encodeWithSelector(IRounds.TooLate.selector, end + 1, end));
        rounds.postCommitRoot(id, root);
    }

    function test_certificates_wait_during_a_pause(uint256 salt) public {
        formed(salt);
        toReveal(id);
        Finding memory f = findingOf(0);
        Proof memory p = proofOf(all(), f);
        guardian.pause(1 hours);
        bytes memory refusal = abi.encodeWithSelector(IGuardian.NotNow.selector, true);
        vm.expectRevert(refusal);
        certifies(f, ROOT, p);
        vm.expectRevert(refusal);
        rounds.postCommitRoot(id, "root");
    }
}
