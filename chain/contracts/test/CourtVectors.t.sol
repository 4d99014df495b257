// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Rounds} from "../src/court/Rounds.sol";
import {Commit} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {Courthouse} from "./Courthouse.sol";

/// @title What Python hashes for the court: `tests/vectors/eip712.json`
contract CourtVectorsTest is Courthouse {
    function test_relayed_commitments_hash_as_in_python() public {
        string memory json = vm.readFile("../../tests/vectors/eip712.json");
        vm.chainId(vm.parseJsonUint(json, ".chainId"));
        // Rounds compute the domain of the court that they are of.
        Rounds given = new Rounds(params, guardian, keys);
        given.wire(IDisputes(vm.parseJsonAddress(json, ".contract")));
        same(given.domainSeparator(), vm.parseJsonBytes32(json, ".domainSeparator"), "domain");
        bytes32[] memory ids = vm.parseJsonBytes32Array(json, ".Commit.dispute");
        uint256[] memory numbers = vm.parseJsonUintArray(json, ".Commit.round");
        uint256[] memory masks = vm.parseJsonUintArray(json, ".Commit.seatMask");
        bytes32[] memory commitments = vm.parseJsonBytes32Array(json, ".Commit.commitment");
        bytes32[] memory digests = vm.parseJsonBytes32Array(json, ".Commit.digest");
        that(digests.length > 3, "cases");
        for (uint256 i = 0; i < digests.length; ++i) {
            Commit memory c = Commit(ids[i], uint16(numbers[i]), masks[i], commitments[i]);
            same(given.hashCommit(c), digests[i], "digest");
        }
    }
}
