// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Bls} from "../../src/libraries/Bls.sol";
import {IBlsKeys} from "../../src/interfaces/IBlsKeys.sol";
import {Vm} from "../Vm.sol";
import {IRegistry} from "../../src/interfaces/IRegistry.sol";
import {IStakeSource} from "../../src/interfaces/IStakeSource.sol";
import {BlsSecret} from "../../campaign/BlsSecret.sol";

/// @title Many verifiers at once; in a contract of its own, so that not each of their steps is a transaction
contract Crowd {
    Vm private constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
    uint256 private constant KEY = 0xC0FFEE000000;

    IStakeSource private immutable VAULT;
    IRegistry private immutable REGISTRY;
    IBlsKeys private immutable KEYS;

    uint256 public size;
    mapping(address who => uint256 key) public keyOf;
    mapping(address who => bool) private _registered;

    constructor(IStakeSource vault, IRegistry registry, IBlsKeys keys) {
        (VAULT, REGISTRY, KEYS) = (vault, registry, keys);
    }

    /// @notice Until there are `people`, with stakes between five and a thousand wei units.
    function grow(uint256 people, bytes32 pool, bytes32 measurement) external {
        for (; size < people; ++size) {
            address who = vm.addr(KEY + size);
            keyOf[who] = KEY + size;
            uint256 stake = (5 + uint256(keccak256(abi.encode(size))) % 995) * 1 ether;
            vm.deal(who, stake + 1 ether);
            vm.prank(who);
            VAULT.deposit{value: stake}();
            vm.prank(who);
            REGISTRY.join(pool, keccak256(abi.encode("crowd", size)), measurement);
        }
    }

    /// @notice A BLS key for everybody named who has none.
    function register(address[] calldata list) external {
        for (uint256 i = 0; i < list.length; ++i) {
            if (_registered[list[i]]) continue;
            _registered[list[i]] = true;
            Bls.G1 memory key = BlsSecret.publicKey(secretOf(list[i]));
            bytes32 digest = KEYS.hashPossession(list[i], keccak256(abi.encode(key)));
            Bls.G2 memory proof = BlsSecret.sign(secretOf(list[i]), digest, Bls.POSSESSION);
            vm.prank(list[i]);
            KEYS.register(key, proof);
            KEYS.notePlace(keccak256(abi.encode(key)));
        }
    }

    function secretOf(address who) public pure returns (uint256) {
        return 1 + uint256(keccak256(abi.encode("bls", who))) % (BlsSecret.ORDER - 1);
    }

    /// @notice The keys of `list`, in order.
    function keysOf(address[] memory list) external view returns (Bls.G1[] memory points) {
        points = new Bls.G1[](list.length);
        for (uint256 i = 0; i < list.length; ++i) {
            points[i] = BlsSecret.publicKey(secretOf(list[i]));
        }
    }

    /// @notice The secret that signs for all of `list`, each as often as it is named.
    function together(address[] memory list) external pure returns (uint256 sum) {
        for (uint256 i = 0; i < list.length; ++i) {
            sum = addmod(sum, secretOf(list[i]), BlsSecret.ORDER);
        }
    }
}
