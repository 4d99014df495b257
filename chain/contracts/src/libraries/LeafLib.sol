// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {Hashes} from "@openzeppelin/contracts/utils/cryptography/Hashes.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Receipt} from "./Types.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";

/// @title LeafLib: what an operator signed, and the root over a batch's leaves
library LeafLib {
    uint8 private constant MODE_PLAIN = 2;
    uint8 private constant CLIENT_SIGNED = 1;
    uint8 private constant CLIENT_DELEGATED = 2;

    /// @notice The id of a struct that `operator` signed for this chain.
    /// @param domain EIP-712's of the anchor
    /// @param said hash of the struct
    function signed(bytes32 domain, bytes32 said, bytes calldata sig, address operator, uint256 chainId)
        internal
        view
        returns (bytes32 id)
    {
        if (chainId != block.chainid) revert IReceiptAnchor.ForeignChain(chainId, block.chainid);
        id = MessageHashUtils.toTypedDataHash(domain, said);
        // A malformed signature recovers to nobody; an operator of zero would then match it.
        (address recovered, ECDSA.RecoverError err,) = ECDSA.tryRecoverCalldata(id, sig);
        if (err != ECDSA.RecoverError.NoError || recovered != operator) {
            revert IReceiptAnchor.BadSignature(recovered, operator);
        }
    }

    /// @notice What no batch could prove.
    function checkModes(Receipt calldata r) internal pure {
        // Who wants the mark of an enclave must bring its signature; nothing here could check one yet.
        if (r.mode != MODE_PLAIN || r.enclaveKey != address(0)) {
            revert IReceiptAnchor.UnsupportedMode(r.mode, r.enclaveKey);
        }
        if (r.clientMode != CLIENT_SIGNED && r.clientMode != CLIENT_DELEGATED) {
            revert IReceiptAnchor.UnknownClientMode(r.clientMode);
        }
    }

    /// @notice The root, as `MerkleProof` proves it: pairs in order, a lone last node unchanged. `level` is written over.
    function rootOf(bytes32[] memory level) internal pure returns (bytes32) {
        uint256 nodes = level.length;
        while (nodes > 1) {
            uint256 pairs = nodes / 2;
            for (uint256 i = 0; i < pairs; ++i) {
                level[i] = Hashes.commutativeKeccak256(level[2 * i], level[2 * i + 1]);
            }
            if (nodes % 2 == 1) level[pairs] = level[nodes - 1];
            nodes = pairs + nodes % 2;
        }
        return level[0];
    }
}
