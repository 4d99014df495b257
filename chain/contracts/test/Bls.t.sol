// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Bls} from "../src/libraries/Bls.sol";
import {IBlsKeys} from "../src/interfaces/IBlsKeys.sol";
import {BlsSigner} from "./BlsSigner.sol";

/// @title Curve, hash and keys; `tests/vectors/bls.json` is what the Python libraries say
/// forge-config: default.fuzz.runs = 16
contract BlsTest is BlsSigner {
    /// @dev `_keys` in `chain/abi/layout/BlsKeys.json`.
    uint256 private constant KEYS_SLOT = 2;
    string private constant FILE = "../../tests/vectors/bls.json";

    function test_messages_hash_to_the_points_of_the_reference() public view {
        string memory json = vm.readFile(FILE);
        bytes32[] memory messages = vm.parseJsonBytes32Array(json, ".hashes.message");
        string[] memory tags = vm.parseJsonStringArray(json, ".hashes.tag");
        bytes[] memory points = vm.parseJsonBytesArray(json, ".hashes.point");
        for (uint256 i = 0; i < messages.length; ++i) {
            same(keccak256(abi.encode(Bls.hashToG2(messages[i], bytes(tags[i])))), keccak256(points[i]), "point");
        }
        that(messages.length > 3, "cases");
    }

    function test_keys_and_signatures_of_the_reference_verify() public view {
        string memory json = vm.readFile(FILE);
        Bls.G1 memory key = abi.decode(vm.parseJsonBytes(json, ".aggregate.key"), (Bls.G1));
        Bls.G2 memory signature = abi.decode(vm.parseJsonBytes(json, ".aggregate.signature"), (Bls.G2));
        bytes32 message = vm.parseJsonBytes32(json, ".aggregate.message");
        that(Bls.verify(key, signature, message, Bls.SIGNATURE), "aggregate");
        that(!Bls.verify(key, signature, message, Bls.POSSESSION), "other tag");
        bytes[] memory members = vm.parseJsonBytesArray(json, ".aggregate.members");
        uint256[] memory seats = vm.parseJsonUintArray(json, ".aggregate.seats");
        Bls.G1 memory sum;
        for (uint256 i = 0; i < members.length; ++i) {
            sum = addTimes(sum, abi.decode(members[i], (Bls.G1)), seats[i]);
        }
        same(hashOf(sum), hashOf(key), "sum");
    }

    function test_possession_of_the_reference_registers(uint8 other) public {
        string memory json = vm.readFile(FILE);
        vm.chainId(vm.parseJsonUint(json, ".possession.chainId"));
        address place = vm.parseJsonAddress(json, ".possession.contract");
        vm.etch(place, address(keys).code);
        Bls.G1 memory key = abi.decode(vm.parseJsonBytes(json, ".possession.key"), (Bls.G1));
        Bls.G2 memory proof = abi.decode(vm.parseJsonBytes(json, ".possession.proof"), (Bls.G2));
        address account = vm.parseJsonAddress(json, ".possession.account");
        vm.prank(member(other));
        vm.expectPartialRevert(IBlsKeys.BadPossession.selector);
        IBlsKeys(place).register(key, proof);
        vm.prank(account);
        IBlsKeys(place).register(key, proof);
        same(IBlsKeys(place).keyHashOf(account), hashOf(key), "key");
    }

    // --- the group ---

    function test_sums_are_products(uint256 a, uint256 b, uint8 n) public view {
        (a, b) = (secret(a, 0), secret(b, 1));
        uint256 sum = addmod(a, mulmod(b, n % 9, ORDER), ORDER);
        Bls.G1 memory got = addTimes(publicKey(a), publicKey(b), n % 9);
        same(hashOf(got), hashOf(publicKey(sum)), "a + n b");
        that(Bls.isInfinity(addTimes(publicKey(a), publicKey(ORDER - a), 1)), "a - a");
    }

    function test_a_signature_is_of_one_key_and_one_message(uint256 a, uint256 b, bytes32 m, bytes32 n) public view {
        (a, b) = (secret(a, 0), secret(b, 1));
        Bls.G2 memory signature = signed(a, m);
        that(Bls.verify(publicKey(a), signature, m, Bls.SIGNATURE), "right");
        that(!Bls.verify(publicKey(b), signature, m, Bls.SIGNATURE), "other key");
        that(m == n || !Bls.verify(publicKey(a), signature, n, Bls.SIGNATURE), "other message");
    }

    function test_points_off_the_curve_are_not_added(uint256 a, uint8 bit) public {
        Bls.G1 memory point = publicKey(secret(a, 0));
        point.yLow ^= bytes32(1 << uint256(bit));
        vm.expectRevert(abi.encodeWithSelector(Bls.PrecompileFailed.selector, address(0x0b)));
        this.added(point, generator());
    }

    function added(Bls.G1 memory sum, Bls.G1 calldata b) external view {
        Bls.addTo(sum, b);
    }

    // --- keys ---

    function refused(address account, Bls.G1 memory key, Bls.G2 memory proof) private {
        bytes32 digest = keys.hashPossession(account, hashOf(key));
        vm.prank(account);
        vm.expectRevert(abi.encodeWithSelector(IBlsKeys.BadPossession.selector, account, hashOf(key), digest));
        keys.register(key, proof);
        same(keys.keyHashOf(account), bytes32(0), "no key");
    }

    /// @dev The key that makes the sum with the victim's the attacker's own. Fails when nothing is proven.
    function test_a_rogue_key_is_refused(uint256 victim, uint256 attacker) public {
        (uint256 v, uint256 a) = (secret(victim, 0), secret(attacker, 1));
        Bls.G1 memory rogue = addTimes(publicKey(a), times(publicKey(v), ORDER - 1), 1);
        bytes32 digest = keys.hashPossession(member(1), hashOf(rogue));
        refused(member(1), rogue, times(Bls.hashToG2(digest, Bls.POSSESSION), a));
    }

    /// @dev Fails for a digest without account, chain or contract; and with the tag of votes.
    function test_a_possession_is_proven_for_one_account_chain_and_contract(uint256 salt, uint8 what) public {
        uint256 s = secret(salt, 0);
        Bls.G2 memory proof = possession(s, member(0));
        if (what % 4 == 0) {
            refused(member(1), publicKey(s), proof);
        } else if (what % 4 == 1) {
            vm.chainId(2 + salt % 1_000);
            refused(member(0), publicKey(s), proof);
        } else if (what % 4 == 2) {
            setUp();
            refused(member(0), publicKey(s), proof);
        } else {
            refused(member(0), publicKey(s), signed(s, keys.hashPossession(member(0), hashOf(publicKey(s)))));
        }
    }

    /// @dev On the curve, not in the subgroup: G1ADD takes it, the pairing does not.
    function test_a_key_outside_the_subgroup_is_refused(uint256 salt) public {
        bytes[] memory stray = vm.parseJsonBytesArray(vm.readFile(FILE), ".outsideSubgroup");
        Bls.G1 memory point = abi.decode(stray[salt % stray.length], (Bls.G1));
        that(!Bls.isInfinity(add(point, point)), "on the curve");
        refused(member(0), point, signed(secret(salt, 0), bytes32(salt)));
        // The stray part is killed by the cofactor only; added to an honest key it is as stray.
        Bls.G1 memory mixed = add(point, publicKey(secret(salt, 0)));
        bytes32 digest = keys.hashPossession(member(0), hashOf(mixed));
        refused(member(0), mixed, times(Bls.hashToG2(digest, Bls.POSSESSION), secret(salt, 0)));
    }

    function test_infinity_is_nobodys_key(address who) public {
        Bls.G1 memory key;
        Bls.G2 memory proof;
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(IBlsKeys.KeyAtInfinity.selector, who));
        keys.register(key, proof);
    }

    function test_a_key_with_one_other_bit_is_refused(uint256 salt, uint16 bit) public {
        uint256 s = secret(salt, 0);
        Bls.G2 memory proof = possession(s, member(0));
        bytes32[4] memory w = abi.decode(abi.encode(publicKey(s)), (bytes32[4]));
        w[(bit >> 8) % 4] ^= bytes32(1 << uint256(bit % 256));
        refused(member(0), abi.decode(abi.encode(w), (Bls.G1)), proof);
    }

    function test_a_key_is_registered_once_by_one_account(uint256 salt, bool replaced) public {
        uint256 s = secret(salt, 0);
        register(member(0), s);
        if (replaced) register(member(0), secret(salt, 1));
        for (uint256 i = 0; i < 2; ++i) {
            Bls.G2 memory proof = possession(s, member(i));
            Bls.G1 memory key = publicKey(s);
            vm.prank(member(i));
            vm.expectRevert(abi.encodeWithSelector(IBlsKeys.KeyTaken.selector, hashOf(key), member(0)));
            keys.register(key, proof);
        }
    }

    /// @dev Registrations at rising blocks, some of them in one. Fails when replacing does not end the old key's time.
    function test_keys_are_known_as_of_a_block(uint256 salt, uint8[4] memory gaps) public {
        bytes32[4] memory history;
        uint256[4] memory since;
        for (uint256 i = 0; i < 4; ++i) {
            vm.roll(block.number + 1 + gaps[i] % 3 - (i == 2 ? 1 : 0));
            register(member(0), secret(salt, i));
            (history[i], since[i]) = (hashOf(publicKey(secret(salt, i))), block.number);
            same(keys.keyHashOf(member(0)), history[i], "newest");
        }
        for (uint256 b = since[0] - 1; b <= since[3] + 1; ++b) {
            uint256 owners = 0;
            for (uint256 i = 0; i < 4; ++i) {
                bool its = since[i] <= b && (i == 3 || b < since[i + 1]);
                that(isKeyAt(history[i], b) == its, "key at");
                if (its) ++owners;
            }
            same(owners, b < since[0] ? 0 : 1, "one key at a time");
        }
    }

    /// @dev From the key's word, which no view shows: account, first block, first block after it.
    function isKeyAt(bytes32 keyHash, uint256 blockNumber) private view returns (bool) {
        uint256 word = uint256(vm.load(address(keys), keccak256(abi.encode(keyHash, KEYS_SLOT))));
        same(address(uint160(word)), member(0), "owner");
        (uint32 since, uint32 end) = (uint32(word >> 160), uint32(word >> 192));
        return since <= blockNumber && (end == 0 || blockNumber < end);
    }
}
