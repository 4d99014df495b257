// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {RLP} from "@openzeppelin/contracts/utils/RLP.sol";
import {Check} from "../test/Vm.sol";

/// @title Headers of blocks with a mix, as the chain hashes them
abstract contract Headers is Check {
    using RLP for RLP.Encoder;

    /// @dev A header in the form of today's chains: 21 fields. The mix follows from number and salt.
    function header(uint256 number, bytes32 salt) internal pure returns (bytes memory) {
        RLP.Encoder memory list = RLP.encoder();
        list.push(keccak256(abi.encode("parent", number))).push(keccak256("ommers")).push(address(0xFEE));
        list.push(keccak256("state")).push(keccak256("transactions")).push(keccak256("receipts"));
        list.push(new bytes(256)).push(uint256(0)).push(number).push(uint256(36_000_000)).push(uint256(1));
        list.push(uint256(1_800_000_000) + number).push(bytes("extra")).push(mixOf(number, salt));
        list.push(abi.encodePacked(bytes8(0))).push(uint256(7)).push(keccak256("withdrawals"));
        list.push(uint256(0)).push(uint256(0)).push(keccak256("beacon")).push(keccak256("requests"));
        return list.encode();
    }

    function mixOf(uint256 number, bytes32 salt) internal pure returns (bytes32) {
        return keccak256(abi.encode(salt, number));
    }

    /// @dev Block `number` is over, and the chain has this header of it.
    function minted(uint256 number, bytes32 salt) internal returns (bytes memory rlp) {
        rlp = header(number, salt);
        if (block.number <= number) vm.roll(number + 1);
        vm.setBlockhash(number, keccak256(rlp));
    }
}
