// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Bls} from "../src/libraries/Bls.sol";
import {Certificate} from "../src/libraries/Certificate.sol";
import {Finding, Outcome} from "../src/libraries/Signed.sol";
import {BlsSigner, Court} from "./BlsSigner.sol";

/// @title What certificates cost: transactions of their own, up to the largest committee that `Params` allows
/// @dev `forge test --match-contract CertificateGas -vv` prints the figures.
contract CertificateGasTest is BlsSigner {
    event log_named_uint(string key, uint256 val);

    uint256 private constant LARGEST = 255;
    /// @dev EIP-7825 caps a transaction at 2^24 gas.
    uint256 private constant CAP = 16_000_000;

    Bls.G1[] private publicKeys;
    uint256[] private secrets;

    function setUp() public override {
        super.setUp();
        for (uint256 i = 0; i < LARGEST; ++i) {
            secrets.push(secret(0, i));
            publicKeys.push(publicKey(secrets[i]));
            register(member(i), secrets[i]);
        }
    }

    /// @dev A committee of so many members with one seat each; the gas of forming it.
    function formed(uint256 size) private returns (Court place, uint256 gas) {
        place = new Court(keys);
        for (uint256 i = 0; i < size; ++i) {
            place.seat(member(i), 1);
        }
        Bls.G1[] memory points = keysOf(0, size);
        gas = gasleft();
        place.form(block.number, (1 << size) - 1, points);
        gas -= gasleft();
    }

    function keysOf(uint256 from, uint256 to) private view returns (Bls.G1[] memory out) {
        out = new Bls.G1[](to - from);
        for (uint256 i = from; i < to; ++i) {
            out[i - from] = publicKeys[i];
        }
    }

    function secretOf(uint256 size) private view returns (uint256 sum) {
        for (uint256 i = 0; i < size; ++i) {
            sum = addmod(sum, secrets[i], ORDER);
        }
    }

    /// @dev Gas of a certificate in which the last `absent` members are missing.
    function certified(Court place, uint256 size, uint256 absent, bytes32 salt) private view returns (uint256 gas) {
        Finding memory f = Finding(salt, 1, uint8(Outcome.EXECUTED), 0, ~salt, salt, ~salt);
        uint256 signers = (1 << (size - absent)) - 1;
        Certificate.Proof memory p = Certificate.Proof({
            seated: (1 << size) - 1,
            signers: signers,
            committeeKey: publicKey(secretOf(size)),
            signature: signed(secretOf(size - absent), place.digest(f, signers)),
            absentKeys: keysOf(size - absent, size)
        });
        gas = gasleft();
        place.check(f, p);
        gas -= gasleft();
        same(place.certify(f, p), size - absent, "seats");
    }

    function cheap(string memory what, uint256 gas, uint256 most) private {
        emit log_named_uint(what, gas);
        if (gas > most) revert Differ(what, gas, most);
    }

    function formedCheaply(string memory what, uint256 size, uint256 most) private returns (Court place) {
        uint256 gas;
        (place, gas) = formed(size);
        cheap(what, gas, most);
    }

    /// forge-config: default.isolate = true
    /// forge-config: default.fuzz.runs = 1
    function test_gas_of_a_registration(uint256 salt) public {
        (Bls.G1 memory key, Bls.G2 memory proof) = (publicKey(secret(salt, 1)), possession(secret(salt, 1), member(0)));
        vm.prank(member(0));
        uint256 gas = gasleft();
        keys.register(key, proof);
        cheap("register", gas - gasleft(), 260_000);
    }

    /// forge-config: default.isolate = true
    /// forge-config: default.fuzz.runs = 1
    function test_gas_with_everybody_present_does_not_depend_on_the_size(bytes32 salt) public {
        uint256 small = certified(formedCheaply("form_31", 31, 380_000), 31, 0, salt);
        uint256 large = certified(formedCheaply("form_63", 63, 720_000), 63, 0, salt);
        cheap("certificate_31", small, 200_000);
        cheap("certificate_63", large, small + 1_000);
    }

    /// forge-config: default.isolate = true
    /// forge-config: default.fuzz.runs = 1
    function test_gas_grows_by_a_few_thousand_per_absent_member(bytes32 salt) public {
        (Court place,) = formed(31);
        uint256 all = certified(place, 31, 0, salt);
        uint256 third = certified(place, 31, 10, salt);
        cheap("certificate_31, 10 absent", third, 285_000);
        cheap("each absent", (third - all) / 10, 8_800);
        (place,) = formed(63);
        cheap("certificate_63, 21 absent", certified(place, 63, 21, salt), all + 21 * 8_800);
    }

    /// forge-config: default.isolate = true
    /// forge-config: default.fuzz.runs = 1
    function test_gas_at_the_largest_committee_fits_a_transaction(bytes32 salt) public {
        Court place = formedCheaply("form_255", LARGEST, CAP);
        cheap("certificate_255, 254 absent", certified(place, LARGEST, 254, salt), CAP);
    }
}
