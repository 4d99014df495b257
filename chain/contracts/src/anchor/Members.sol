// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Address} from "@openzeppelin/contracts/utils/Address.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";
import {BatchStore} from "./BatchStore.sol";
import {Leaves} from "../demands/Leaves.sol";
import {EmptyLeaf, Receipt, StructHashes} from "../libraries/Types.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";

/// @title Members: what a signed receipt is, and of which batch it is a member
abstract contract Members is BatchStore, EIP712 {
    uint8 private constant MODE_PLAIN = 2;
    uint8 private constant CLIENT_SIGNED = 1;
    uint8 private constant CLIENT_DELEGATED = 2;
    /// @dev `Leaves`, which knows what signed leaves say.
    address internal immutable LEAVES = address(new Leaves());

    /// @inheritdoc IReceiptAnchor
    function receiptId(Receipt calldata r) public view returns (bytes32) {
        return _hashTypedDataV4(StructHashes.receipt(r));
    }

    /// @inheritdoc IReceiptAnchor
    function emptyLeafId(EmptyLeaf memory e) public view returns (bytes32) {
        return _hashTypedDataV4(StructHashes.emptyLeaf(e));
    }

    /// @inheritdoc IReceiptAnchor
    function checkMember(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        public
        view
        returns (bytes32 id)
    {
        Stored storage b = _known(batchId);
        _checkModes(r);
        _checkHeader(r, b);
        id = _signedReceipt(r, sig);
        _checkLeaf(id, r.seq, proof, b);
    }

    /// @dev What was signed as `id` is the leaf of number `seq`.
    function _checkLeaf(bytes32 id, uint64 seq, bytes32[] calldata proof, Stored storage b) internal view {
        if (!MerkleProof.verifyCalldata(proof, b.root, StructHashes.batchLeaf(id, seq))) revert BadProof(b.root);
    }

    function _checkNumber(uint64 seq, Stored storage b) internal view {
        if (seq < b.firstSeq || seq - b.firstSeq >= b.count) revert SequenceOutsideBatch(seq, b.firstSeq, b.count);
    }

    /// @dev What a contract without storage answers to the call as it came.
    function _asked(address reader) internal view returns (bytes memory) {
        return Address.functionStaticCall(reader, msg.data);
    }

    function _signedReceipt(Receipt calldata r, bytes calldata sig) internal view returns (bytes32 id) {
        if (r.chainId != block.chainid) revert ForeignChain(r.chainId, block.chainid);
        id = receiptId(r);
        // A malformed signature recovers to nobody; an operator of zero would then match it.
        (address recovered, ECDSA.RecoverError err,) = ECDSA.tryRecoverCalldata(id, sig);
        if (err != ECDSA.RecoverError.NoError || recovered != r.operator) revert BadSignature(recovered, r.operator);
    }

    function _checkModes(Receipt calldata r) internal pure {
        // Who wants the mark of an enclave must bring its signature; nothing here could check one yet.
        if (r.mode != MODE_PLAIN || r.enclaveKey != address(0)) revert UnsupportedMode(r.mode, r.enclaveKey);
        if (r.clientMode != CLIENT_SIGNED && r.clientMode != CLIENT_DELEGATED) revert UnknownClientMode(r.clientMode);
    }

    function _checkHeader(Receipt calldata r, Stored storage b) private view {
        Service storage s = _service(b.service);
        if (r.operator != b.operator) revert HeaderMismatch("operator");
        if (r.environment != s.environment) revert HeaderMismatch("environment");
        if (r.modelId != s.modelId) revert HeaderMismatch("modelId");
        if (r.keyEpoch != s.keyEpoch) revert HeaderMismatch("keyEpoch");
        _checkNumber(r.seq, b);
    }
}
