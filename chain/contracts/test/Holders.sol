// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Shares} from "../src/keys/KeyShares.sol";
import {IKeyEpochs} from "../src/interfaces/IKeyEpochs.sol";
import {Check} from "./Vm.sol";

/// @title Who has shares of a key, and what they sign for them
abstract contract Holders is Check {
    uint256 internal constant HOLDER_KEY = 0x5EC4E700; // + index
    bytes32 internal constant TRANSCRIPT = "log";

    /// @dev Shards of an epoch, from the `first` on.
    function holders(uint256 n, uint256 first) internal pure returns (address[] memory list) {
        list = new address[](n);
        for (uint256 i = 0; i < n; ++i) {
            list[i] = vm.addr(HOLDER_KEY + first + i);
        }
    }

    /// @dev Commitments as the chain sees them: so many points, the first of them the key.
    function points(bytes memory key, uint256 n) internal pure returns (bytes memory all) {
        for (uint256 i = 0; i < n; ++i) {
            all = bytes.concat(all, key);
        }
    }

    function signed(uint256 key, bytes32 digest) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    /// @dev Of `n` holders from the `first` on: a signature of each whose bit is set.
    function words(uint256 n, uint256 first, uint256 mask, bytes32 digest) internal pure returns (bytes[] memory list) {
        list = new bytes[](n);
        for (uint256 i = 0; i < n; ++i) {
            if ((mask >> i) & 1 == 1) list[i] = signed(HOLDER_KEY + first + i, digest);
        }
    }

    /// @dev What is signed for shares as they are in an epoch now.
    function wordOf(IKeyEpochs epochs, uint64 epoch) internal view returns (bytes32) {
        IKeyEpochs.Epoch memory e = epochs.epochInfo(epoch);
        bytes32 who = keccak256(abi.encodePacked(e.shards));
        return epochs.hashShares(Shares(epoch, e.version, keccak256(e.commitments), who, TRANSCRIPT));
    }

    /// @dev All of the `n` first holders show that they signed for the epoch's shares: now it may be in force.
    function vouch(IKeyEpochs epochs, uint64 epoch, uint256 n) internal {
        bytes[] memory list = words(n, 0, type(uint256).max, wordOf(epochs, epoch));
        epochs.confirm(epoch, TRANSCRIPT, list);
    }
}
