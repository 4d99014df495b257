// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Bls} from "../src/libraries/Bls.sol";
import {BlsKeys} from "../src/keys/BlsKeys.sol";
import {IRegistry} from "../src/interfaces/IRegistry.sol";
import {Check} from "./Vm.sol";

/// @title Signing, which the contracts never do: products by secret scalars, on the precompiles too
abstract contract BlsSigner is Check {
    uint256 internal constant ORDER = 0x73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001;

    BlsKeys internal keys;

    function setUp() public virtual {
        keys = new BlsKeys(IRegistry(address(0)));
    }

    /// @dev The secret of the i-th member; the fuzzer chooses the salt.
    function secret(uint256 salt, uint256 i) internal pure returns (uint256) {
        return 1 + uint256(keccak256(abi.encode("bls secret", salt, i))) % (ORDER - 1);
    }

    function member(uint256 i) internal pure returns (address) {
        return vm.addr(0xB150000 + i);
    }

    function generator() internal pure returns (Bls.G1 memory) {
        return Bls.G1(
            bytes32(uint256(0x17f1d3a73197d7942695638c4fa9ac0f)),
            bytes32(0xc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb),
            bytes32(uint256(0x08b3f481e3aaa0f1a09e30ed741d8ae4)),
            bytes32(0xfcf5e095d5d00af600db18cb2c04b3edd03cc744a2888ae40caa232946c5e7e1)
        );
    }

    function times(Bls.G1 memory point, uint256 scalar) internal view returns (Bls.G1 memory) {
        (bool ok, bytes memory out) = address(0x0c).staticcall(abi.encode(point, scalar));
        that(ok, "product in G1");
        return abi.decode(out, (Bls.G1));
    }

    function times(Bls.G2 memory point, uint256 scalar) internal view returns (Bls.G2 memory) {
        (bool ok, bytes memory out) = address(0x0e).staticcall(abi.encode(point, scalar));
        that(ok, "product in G2");
        return abi.decode(out, (Bls.G2));
    }

    function publicKey(uint256 scalar) internal view returns (Bls.G1 memory) {
        return times(generator(), scalar);
    }

    function hashOf(Bls.G1 memory key) internal pure returns (bytes32) {
        return keccak256(abi.encode(key));
    }

    function signed(uint256 scalar, bytes32 digest) internal view returns (Bls.G2 memory) {
        return times(Bls.hashToG2(digest, Bls.SIGNATURE), scalar);
    }

    function possession(uint256 scalar, address account) internal view returns (Bls.G2 memory) {
        bytes32 digest = keys.hashPossession(account, hashOf(publicKey(scalar)));
        return times(Bls.hashToG2(digest, Bls.POSSESSION), scalar);
    }

    function register(address account, uint256 scalar) internal {
        (Bls.G1 memory key, Bls.G2 memory proof) = (publicKey(scalar), possession(scalar, account));
        vm.prank(account);
        keys.register(key, proof);
    }

    /// @dev Everybody's signatures at once: the sum of the products is the product by the sum.
    function aggregate(uint256[] memory secrets, uint256[] memory seats, uint256 signers, bytes32 digest)
        internal
        view
        returns (Bls.G2 memory)
    {
        uint256 sum = 0;
        for (uint256 i = 0; i < secrets.length; ++i) {
            if (signers & (1 << i) != 0) sum = addmod(sum, mulmod(secrets[i], seats[i], ORDER), ORDER);
        }
        return signed(sum, digest);
    }

    /// @dev On the precompile, which knows points off the curve.
    function add(Bls.G1 memory a, Bls.G1 memory b) internal view returns (Bls.G1 memory) {
        (bool ok, bytes memory out) = address(0x0b).staticcall(abi.encode(a, b));
        that(ok, "sum in G1");
        return abi.decode(out, (Bls.G1));
    }

    /// @dev a + times * b.
    function addTimes(Bls.G1 memory a, Bls.G1 memory b, uint256 count) internal view returns (Bls.G1 memory sum) {
        sum = a;
        for (uint256 i = 0; i < count; ++i) {
            sum = add(sum, b);
        }
    }
}
