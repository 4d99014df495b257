// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";
import {Hashes as Pairs} from "@openzeppelin/contracts/utils/cryptography/Hashes.sol";
import {BatchStore} from "./BatchStore.sol";
import {EmptyLeaf, Hashes, Receipt} from "./Types.sol";
import {IReceiptAnchor} from "./interfaces/IReceiptAnchor.sol";

/// @title Members: what a signed receipt is, and of which batch it is a member
abstract contract Members is BatchStore, EIP712 {
    uint8 private constant MODE_PLAIN = 2;
    uint8 private constant CLIENT_SIGNED = 1;
    uint8 private constant CLIENT_DELEGATED = 2;

    /// @inheritdoc IReceiptAnchor
    function receiptId(Receipt calldata r) public view returns (bytes32) {
        return _hashTypedDataV4(Hashes.receipt(r));
    }

    /// @inheritdoc IReceiptAnchor
    function emptyLeafId(EmptyLeaf calldata e) public view returns (bytes32) {
        return _hashTypedDataV4(Hashes.emptyLeaf(e));
    }

    /// @inheritdoc IReceiptAnchor
    function checkMember(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        public
        view
        returns (bytes32 id)
    {
        Stored storage b = _known(batchId);
        id = _checkReceipt(r, sig, b);
        if (!MerkleProof.verifyCalldata(proof, b.root, Hashes.batchLeaf(id, r.seq))) revert BadProof(b.root);
    }

    /// @dev All leaves of a batch, in order: as many as it says, each signed, and the root is theirs. So none is left that nobody saw.
    ///      A receipt of mode 0 stands for the empty leaf of its operator, number and chain.
    function _checkLeaves(Stored storage b, Receipt[] calldata receipts, bytes[] calldata sigs) internal view {
        uint256 count = b.count;
        if (receipts.length != count || sigs.length != count) {
            revert LeavesMissing(receipts.length, sigs.length, count);
        }
        bytes32[] memory level = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            Receipt calldata r = receipts[i];
            if (r.seq != b.firstSeq + i) revert SequenceGap(r.seq, uint64(b.firstSeq + i));
            bytes32 id = r.mode == 0 ? _checkEmpty(r, sigs[i], b) : _checkReceipt(r, sigs[i], b);
            level[i] = Hashes.batchLeaf(id, r.seq);
        }
        if (_rootOf(level) != b.root) revert BadProof(b.root);
    }

    function _signedReceipt(Receipt calldata r, bytes calldata sig) internal view returns (bytes32 id) {
        _checkChain(r.chainId);
        id = receiptId(r);
        _checkSigner(id, sig, r.operator);
    }

    function _signedEmptyLeaf(EmptyLeaf calldata e, bytes calldata sig) internal view returns (bytes32 id) {
        _checkChain(e.chainId);
        id = emptyLeafId(e);
        _checkSigner(id, sig, e.operator);
    }

    function _checkReceipt(Receipt calldata r, bytes calldata sig, Stored storage b) private view returns (bytes32) {
        _checkModes(r);
        _checkHeader(r, b);
        return _signedReceipt(r, sig);
    }

    function _checkEmpty(Receipt calldata r, bytes calldata sig, Stored storage b) private view returns (bytes32 id) {
        if (r.operator != b.operator) revert HeaderMismatch("operator");
        _checkChain(r.chainId);
        id = _hashTypedDataV4(Hashes.emptyLeaf(EmptyLeaf(r.operator, r.seq, r.chainId)));
        _checkSigner(id, sig, r.operator);
    }

    /// @dev Pairs in order, a lone last node unchanged; `level` is written over.
    function _rootOf(bytes32[] memory level) private pure returns (bytes32) {
        uint256 nodes = level.length;
        while (nodes > 1) {
            uint256 pairs = nodes / 2;
            for (uint256 i = 0; i < pairs; ++i) {
                level[i] = Pairs.commutativeKeccak256(level[2 * i], level[2 * i + 1]);
            }
            if (nodes % 2 == 1) level[pairs] = level[nodes - 1];
            nodes = pairs + nodes % 2;
        }
        return level[0];
    }

    function _checkModes(Receipt calldata r) private pure {
        // Who wants the mark of an enclave must bring its signature; nothing here could check one yet.
        if (r.mode != MODE_PLAIN || r.enclaveKey != address(0)) revert UnsupportedMode(r.mode, r.enclaveKey);
        if (r.clientMode != CLIENT_SIGNED && r.clientMode != CLIENT_DELEGATED) revert UnknownClientMode(r.clientMode);
    }

    function _checkHeader(Receipt calldata r, Stored storage b) private view {
        Service storage s = _service(b);
        if (r.operator != b.operator) revert HeaderMismatch("operator");
        if (r.environment != s.environment) revert HeaderMismatch("environment");
        if (r.modelId != s.modelId) revert HeaderMismatch("modelId");
        if (r.keyEpoch != s.keyEpoch) revert HeaderMismatch("keyEpoch");
        if (r.seq < b.firstSeq || r.seq - b.firstSeq >= b.count) {
            revert SequenceOutsideBatch(r.seq, b.firstSeq, b.count);
        }
    }

    function _checkChain(uint256 chainId) private view {
        if (chainId != block.chainid) revert ForeignChain(chainId, block.chainid);
    }

    function _checkSigner(bytes32 digest, bytes calldata sig, address operator) private pure {
        // A malformed signature recovers to nobody; an operator of zero would then match it.
        (address recovered, ECDSA.RecoverError err,) = ECDSA.tryRecoverCalldata(digest, sig);
        if (err != ECDSA.RecoverError.NoError || recovered != operator) revert BadSignature(recovered, operator);
    }
}
