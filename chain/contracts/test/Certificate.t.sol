// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Bls} from "../src/libraries/Bls.sol";
import {Certificate} from "../src/libraries/Certificate.sol";
import {Finding, Outcome} from "../src/libraries/Signed.sol";
import {BlsSigner, Court} from "./BlsSigner.sol";

/// @title Certificates: worth the votes that they stand for, and no other's
/// forge-config: default.fuzz.runs = 20
contract CertificateTest is BlsSigner {
    uint256 private constant POOL = 9;

    Bls.G1[] private publicKeys;
    uint256[] private secrets;
    uint256[] private seats;
    uint256 private all;

    // --- a committee ---

    /// @dev Keys once, because a registration is the dearest step; what is drawn of them is each test's own.
    function setUp() public override {
        super.setUp();
        for (uint256 i = 0; i < POOL; ++i) {
            publicKeys.push(publicKey(secret(0, i)));
            register(member(i), secret(0, i));
        }
    }

    /// @dev 2 to 9 members with 1 to 4 seats each, all with keys.
    function seated(uint256 salt) private {
        for (uint256 i = 0; i < 2 + salt % (POOL - 1); ++i) {
            join(i, 1 + uint256(keccak256(abi.encode(salt, i))) % 4);
        }
        all = (1 << secrets.length) - 1;
        court.form(block.number, seatsIn(all), points(all));
    }

    function join(uint256 i, uint256 size) private {
        secrets.push(secret(0, i));
        seats.push(size);
        court.seat(member(i), size);
    }

    /// @dev Of each member in the mask its key, once per seat.
    function points(uint256 mask) private view returns (Bls.G1[] memory out) {
        out = new Bls.G1[](seatsOf(mask));
        uint256 next = 0;
        for (uint256 i = 0; i < secrets.length; ++i) {
            for (uint256 k = 0; k < seats[i] && mask & (1 << i) != 0; ++k) {
                out[next++] = publicKeys[i];
            }
        }
    }

    /// @dev The seats of members; members sit one after the other.
    function seatsIn(uint256 mask) private view returns (uint256 out) {
        uint256 from = 0;
        for (uint256 i = 0; i < seats.length; ++i) {
            if (mask & (1 << i) != 0) out |= ((1 << seats[i]) - 1) << from;
            from += seats[i];
        }
    }

    function seatsOf(uint256 mask) private view returns (uint256 n) {
        for (uint256 i = 0; i < seats.length; ++i) {
            if (mask & (1 << i) != 0) n += seats[i];
        }
    }

    /// @dev Some of the committee, not nobody.
    function some(uint256 salt) private view returns (uint256) {
        return bound(uint256(keccak256(abi.encode("some", salt))), 1, all);
    }

    /// @dev Some, but not all.
    function few(uint256 salt) private view returns (uint256) {
        return bound(uint256(keccak256(abi.encode("few", salt))), 1, all - 1);
    }

    function finding(uint256 salt) private pure returns (Finding memory) {
        bytes32 word = keccak256(abi.encode("finding", salt));
        return Finding(word, uint16(1 + salt % 2), uint8(Outcome.EXECUTED), 0, word, word, word);
    }

    function committeeKey() private view returns (Bls.G1 memory) {
        uint256 sum = 0;
        for (uint256 i = 0; i < secrets.length; ++i) {
            sum = addmod(sum, mulmod(secrets[i], seats[i], ORDER), ORDER);
        }
        return publicKey(sum);
    }

    /// @dev What the members in the mask sign.
    function said(Finding memory f, uint256 signers) private view returns (bytes32) {
        return court.digest(f, seatsIn(signers));
    }

    function proofOf(uint256 signers, bytes32 digest) private view returns (Certificate.Proof memory) {
        Bls.G2 memory signature = aggregate(secrets, seats, signers, digest);
        return Certificate.Proof(seatsIn(all), seatsIn(signers), committeeKey(), signature, points(all & ~signers));
    }

    function refused(Finding memory f, Certificate.Proof memory p) private {
        bytes32 digest = court.digest(f, p.signers);
        vm.expectRevert(abi.encodeWithSelector(Certificate.BadCertificate.selector, digest, p.signers));
        court.certify(f, p);
    }

    // --- what it is worth ---

    /// @dev Fails when an absent member's key is taken away once instead of once per seat.
    function test_a_certificate_speaks_for_the_seats_of_its_signers(uint256 salt) public {
        seated(salt);
        Finding memory f = finding(salt);
        uint256 signers = some(salt);
        same(court.certify(f, proofOf(signers, said(f, signers))), seatsOf(signers), "seats");
    }

    /// @dev Fails when signers are not compared with the seated.
    function test_members_without_a_key_are_left_out(uint256 salt, uint8 who) public {
        uint256 keyless = who % POOL;
        for (uint256 i = 0; i < POOL; ++i) {
            if (i != keyless) {
                join(i, 1 + (salt >> i) % 3);
                continue;
            }
            court.seat(member(POOL), 3);
            secrets.push(0);
            seats.push(3);
        }
        all = ((1 << POOL) - 1) ^ (1 << keyless);
        court.form(block.number, seatsIn(all), points(all));
        Finding memory f = finding(salt);
        Certificate.Proof memory p = proofOf(all, said(f, all));
        same(court.certify(f, p), seatsOf(all), "seats");
        p.signers |= seatsIn(1 << keyless);
        vm.expectRevert(abi.encodeWithSelector(Certificate.NotSeated.selector, p.signers, seatsIn(all)));
        court.certify(f, p);
    }

    // --- whom it does not bind ---

    function test_a_member_who_did_not_sign_is_not_counted(uint256 salt) public {
        seated(salt);
        Finding memory f = finding(salt);
        // Whichever of the two they signed for.
        for (uint256 i = 0; i < 2; ++i) {
            uint256 signers = few(salt);
            Certificate.Proof memory p = proofOf(signers, said(f, i == 0 ? signers : all));
            p.signers = seatsIn(all);
            p.absentKeys = new Bls.G1[](0);
            refused(f, p);
        }
    }

    /// @dev The others add their signatures over the very digest that the signers signed. Fails for a digest without the mask.
    function test_nobody_is_added_to_what_was_signed(uint256 salt) public {
        seated(salt);
        Finding memory f = finding(salt);
        Certificate.Proof memory p = proofOf(all, said(f, few(salt)));
        refused(f, p);
    }

    /// @dev All signed, and somebody takes the signature of one (its own, say) away again.
    function test_nobody_is_left_out_of_what_was_signed(uint256 salt) public {
        seated(salt);
        Finding memory f = finding(salt);
        Certificate.Proof memory p = proofOf(few(salt), said(f, all));
        refused(f, p);
    }

    /// @dev Fails when the mask of absent members is not taken from `signers`.
    function test_a_member_who_signed_cannot_be_dropped_from_the_mask_alone(uint256 salt) public {
        seated(salt);
        Finding memory f = finding(salt);
        uint256 signers = few(salt);
        Certificate.Proof memory p = proofOf(signers, said(f, signers));
        p.signature = proofOf(all, said(f, signers)).signature;
        refused(f, p);
    }

    function test_a_signature_counts_once_per_seat(uint256 salt) public {
        seated(salt);
        Finding memory f = finding(salt);
        Certificate.Proof memory p = proofOf(all, said(f, all));
        uint256[] memory once = new uint256[](secrets.length);
        for (uint256 i = 0; i < once.length; ++i) {
            once[i] = 1;
        }
        vm.assume(seatsOf(all) != once.length);
        p.signature = aggregate(secrets, once, all, said(f, all));
        refused(f, p);
    }

    /// @dev Each field in turn. Fails for a digest that leaves one out.
    function test_a_certificate_is_for_one_finding(uint256 salt, uint8 field) public {
        seated(salt);
        Finding memory f = finding(salt);
        Certificate.Proof memory p = proofOf(some(salt), said(f, some(salt)));
        if (field % 8 == 7) court.collect(keccak256(abi.encode(salt, "other commitments")));
        else if (field % 8 == 0) f.dispute = keccak256(abi.encode(f.dispute));
        else if (field % 8 == 1) ++f.round;
        else if (field % 8 == 2) f.outcome = uint8(Outcome.INVALID);
        else if (field % 8 == 3) ++f.code;
        else if (field % 8 == 4) f.tokensHash = ~f.tokensHash;
        else if (field % 8 == 5) f.traceRoot = ~f.traceRoot;
        else if (field % 8 == 6) f.roundDigest = ~f.roundDigest;
        refused(f, p);
    }

    function test_a_certificate_is_for_one_court_and_one_chain(uint256 salt, uint32 chain) public {
        seated(salt);
        Finding memory f = finding(salt);
        vm.assume(chain != block.chainid && chain != 0);
        Certificate.Proof memory p = proofOf(some(salt), said(f, some(salt)));
        Court twin = new Court(keys);
        for (uint256 i = 0; i < secrets.length; ++i) {
            twin.seat(member(i), seats[i]);
        }
        twin.form(block.number, seatsIn(all), points(all));
        bytes32 digest = twin.digest(f, p.signers);
        vm.expectRevert(abi.encodeWithSelector(Certificate.BadCertificate.selector, digest, p.signers));
        twin.certify(f, p);
        vm.chainId(chain);
        refused(f, p);
    }

    /// @dev A possession proof is over another type, under another tag: a vote signed as one convinces nobody.
    function test_signatures_under_the_possession_tag_are_no_votes(uint256 salt) public {
        seated(salt);
        Finding memory f = finding(salt);
        Certificate.Proof memory p = proofOf(all, said(f, all));
        uint256 sum = 0;
        for (uint256 i = 0; i < secrets.length; ++i) {
            sum = addmod(sum, mulmod(secrets[i], seats[i], ORDER), ORDER);
        }
        p.signature = times(Bls.hashToG2(said(f, all), Bls.POSSESSION), sum);
        refused(f, p);
    }

    // --- malformed ---

    function test_nobody_says_nothing(uint256 salt) public {
        seated(salt);
        Finding memory f = finding(salt);
        Certificate.Proof memory p = proofOf(0, said(f, 0));
        vm.expectRevert(Certificate.NobodySigned.selector);
        court.certify(f, p);
    }

    /// @dev Two members whose keys cancel: anybody could write their signature. Fails without the check of infinity.
    function test_keys_that_cancel_sign_nothing(uint256 salt) public {
        join(0, 1);
        register(member(POOL), ORDER - secrets[0]);
        secrets.push(ORDER - secrets[0]);
        seats.push(1);
        court.seat(member(POOL), 1);
        all = 3;
        Bls.G1[] memory both = new Bls.G1[](2);
        (both[0], both[1]) = (publicKeys[0], publicKey(secrets[1]));
        court.form(block.number, seatsIn(all), both);
        Finding memory f = finding(salt);
        Certificate.Proof memory p = proofOf(all, said(f, all));
        same(uint256(p.signature.x0Low), 0, "signature at infinity");
        refused(f, p);
    }

    /// @dev Fails when one of the two is not committed to.
    function test_the_committee_is_the_one_that_was_formed(uint256 salt, uint8 what) public {
        seated(salt);
        Finding memory f = finding(salt);
        Certificate.Proof memory p = proofOf(all, said(f, all));
        if (what % 2 == 0) p.seated ^= 1 << (salt % 256);
        else p.committeeKey = publicKey(secret(salt, 99));
        bytes32 shown = Certificate.commitment(p.committeeKey, p.seated);
        vm.expectRevert(abi.encodeWithSelector(Certificate.NotTheCommittee.selector, shown, court.committee()));
        court.certify(f, p);
    }

    /// @dev Fails without the owner's check: the attacker takes away all keys but its own.
    function test_only_an_absent_members_own_key_is_taken_away(uint256 salt) public {
        seated(salt);
        Finding memory f = finding(salt);
        Certificate.Proof memory p = proofOf(1, said(f, 1));
        p.absentKeys[0] = publicKey(secret(salt, 99));
        bytes32 have = hashOf(p.absentKeys[0]);
        vm.expectRevert(abi.encodeWithSelector(Certificate.WrongKey.selector, member(1), have));
        court.certify(f, p);
    }

    function test_absent_keys_are_neither_missing_nor_too_many(uint256 salt, bool more) public {
        seated(salt);
        Finding memory f = finding(salt);
        uint256 signers = few(salt);
        Certificate.Proof memory p = proofOf(signers, said(f, signers));
        uint256 want = p.absentKeys.length;
        uint256 have = more ? want + 1 : want - 1;
        Bls.G1[] memory changed = new Bls.G1[](have);
        for (uint256 i = 0; i < have; ++i) {
            changed[i] = i < want ? p.absentKeys[i] : publicKey(secret(salt, 99));
        }
        p.absentKeys = changed;
        vm.expectRevert(abi.encodeWithSelector(Certificate.KeyCount.selector, have, want));
        court.certify(f, p);
    }

    /// @dev Any bit of the signature: most are no point of the curve, none is the signature.
    function test_a_signature_with_one_other_bit_is_refused(uint256 salt, uint16 bit) public {
        seated(salt);
        Finding memory f = finding(salt);
        Certificate.Proof memory p = proofOf(some(salt), said(f, some(salt)));
        bytes32[8] memory w = abi.decode(abi.encode(p.signature), (bytes32[8]));
        w[(bit >> 8) % 8] ^= bytes32(1 << (bit % 256));
        p.signature = abi.decode(abi.encode(w), (Bls.G2));
        refused(f, p);
    }

    // --- forming ---

    /// @dev Fails when `form` reads the newest key instead of the one of its block.
    function test_a_later_key_does_not_change_the_committee(uint256 salt) public {
        seated(salt);
        uint256 before = block.number;
        vm.roll(before + 1 + salt % 1_000);
        register(member(0), secret(salt, 99));
        bytes32 formed = court.committee();
        court.form(before, seatsIn(all), points(all));
        same(court.committee(), formed, "as of the earlier block");
        Finding memory f = finding(salt);
        uint256 signers = few(salt);
        same(court.certify(f, proofOf(signers, said(f, signers))), seatsOf(signers), "seats");
        Bls.G1[] memory stale = points(all);
        vm.expectRevert(abi.encodeWithSelector(Certificate.WrongKey.selector, member(0), hashOf(stale[0])));
        court.form(block.number, seatsIn(all), stale);
    }

    function test_a_committee_is_formed_of_its_members_keys(uint256 salt, bool more) public {
        seated(salt);
        Bls.G1[] memory right = points(all);
        uint256 have = more ? right.length + 1 : right.length - 1;
        Bls.G1[] memory changed = new Bls.G1[](have);
        for (uint256 i = 0; i < have; ++i) {
            changed[i] = right[i % right.length];
        }
        vm.expectRevert(abi.encodeWithSelector(Certificate.KeyCount.selector, have, right.length));
        court.form(block.number, seatsIn(all), changed);
    }

    /// @dev Fails when `form` believes the mask.
    function test_no_member_with_a_key_is_left_out_of_the_committee(uint256 salt) public {
        seated(salt);
        uint256 kept = few(salt);
        uint256 first = 0;
        while (kept & (1 << first) != 0) {
            ++first;
        }
        vm.expectRevert(abi.encodeWithSelector(Certificate.LeftOut.selector, member(first)));
        court.form(block.number, seatsIn(kept), points(kept));
    }

    /// @dev Nobody's seat with a key that was never proven. Fails when account 0 may own what nobody registered.
    function test_a_seat_that_nobody_holds_is_not_seated(uint256 salt) public {
        seated(salt);
        court.seat(address(0), 1);
        uint256 last = seatsOf(all);
        Bls.G1[] memory known = points(all);
        Bls.G1[] memory keysAndOne = new Bls.G1[](last + 1);
        for (uint256 i = 0; i < last; ++i) {
            keysAndOne[i] = known[i];
        }
        keysAndOne[last] = publicKey(secret(salt, 99));
        bytes32 unknown = hashOf(keysAndOne[last]);
        vm.expectRevert(abi.encodeWithSelector(Certificate.WrongKey.selector, address(0), unknown));
        court.form(block.number, seatsIn(all) | (1 << last), keysAndOne);
        court.form(block.number, seatsIn(all), points(all));
    }

    function test_a_mask_beyond_the_last_seat_is_refused(uint256 salt, uint8 bit) public {
        seated(salt);
        uint256 wide = seatsIn(all) | (1 << bound(bit, seatsOf(all), 255));
        bytes memory want = abi.encodeWithSelector(Certificate.NoSuchSeat.selector, wide, seatsOf(all));
        vm.expectRevert(want);
        court.form(block.number, wide, points(all));
    }

    function test_a_committee_without_keys_has_no_certificate(uint16 size) public {
        for (uint256 i = 0; i < size % 20; ++i) {
            court.seat(member(POOL + i), 1);
        }
        vm.expectRevert(Certificate.NobodyHasKey.selector);
        court.form(block.number, 0, new Bls.G1[](0));
    }
}
