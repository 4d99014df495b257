// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Bls} from "../src/libraries/Bls.sol";

/// @title Signing, which the contracts never do: products by secret scalars, on the precompiles too
library BlsSecret {
    uint256 internal constant ORDER = 0x73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001;

    error NoProduct();

    function publicKey(uint256 secret) internal view returns (Bls.G1 memory) {
        Bls.G1 memory generator = Bls.G1(
            bytes32(uint256(0x17f1d3a73197d7942695638c4fa9ac0f)),
            bytes32(0xc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb),
            bytes32(uint256(0x08b3f481e3aaa0f1a09e30ed741d8ae4)),
            bytes32(0xfcf5e095d5d00af600db18cb2c04b3edd03cc744a2888ae40caa232946c5e7e1)
        );
        return abi.decode(_product(address(0x0c), abi.encode(generator, secret)), (Bls.G1));
    }

    /// @notice The signature of one secret, or of a sum of secrets: of all their owners together.
    function sign(uint256 secret, bytes32 digest, bytes memory tag) internal view returns (Bls.G2 memory) {
        return abi.decode(_product(address(0x0e), abi.encode(Bls.hashToG2(digest, tag), secret)), (Bls.G2));
    }

    function _product(address precompile, bytes memory input) private view returns (bytes memory) {
        (bool ok, bytes memory out) = precompile.staticcall(input);
        if (!ok) revert NoProduct();
        return out;
    }
}
