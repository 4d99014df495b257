// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {LabelLib} from "../libraries/LabelLib.sol";
import {EmptyLeaf, Receipt, StructHashes} from "../libraries/Types.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";

/// @title Leaves: what signed leaves say, alone and together
/// @dev What stores nothing of `ReceiptAnchor`'s calls of the same names, apart because of the size limit of EIP-170. The anchor,
///      which deploys it, sends it the call as it came.
contract Leaves {
    bytes32 private constant DOMAIN =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");

    /// @notice Reverts unless list and leaves are those of the batch of the calling anchor. A receipt of mode 0 stands for the
    ///         empty leaf of its operator, number and chain.
    function answerList(uint64 batchId, bytes calldata list, Receipt[] calldata receipts, bytes[] calldata sigs)
        external
        view
    {
        _checkEncoding(abi.encode(batchId, list, receipts, sigs));
        IReceiptAnchor.Batch memory b = IReceiptAnchor(msg.sender).batch(batchId);
        bytes32 digest = LabelLib.list(list);
        if (digest != b.listHash) revert IReceiptAnchor.BadAnswer(digest, b.listHash);
        if (receipts.length != b.count || sigs.length != b.count) {
            revert IReceiptAnchor.LeavesMissing(receipts.length, sigs.length, b.count);
        }
        bytes32[] memory level = new bytes32[](b.count);
        bytes32 domain = _domain();
        for (uint64 i = 0; i < level.length; ++i) {
            level[i] = _leaf(receipts[i], sigs[i], b, b.firstSeq + i, domain);
        }
        if (_rootOf(level) != b.root) revert IReceiptAnchor.BadProof(b.root);
    }

    /// @notice Reverts unless one operator signed two different receipts with one number.
    /// @return operator who did, `seq` the number, `first` and `second` the leaves' ids
    function equivocation(Receipt calldata r1, bytes calldata sig1, Receipt calldata r2, bytes calldata sig2)
        external
        view
        returns (address operator, uint64 seq, bytes32 first, bytes32 second)
    {
        bytes32 domain = _domain();
        (operator, seq) = (r1.operator, r1.seq);
        first = _signed(StructHashes.receipt(r1), sig1, operator, r1.chainId, domain);
        second = _signed(StructHashes.receipt(r2), sig2, r2.operator, r2.chainId, domain);
        if (operator != r2.operator || seq != r2.seq || first == second) revert IReceiptAnchor.NoEquivocation();
    }

    /// @dev The answer is an event as it came: whoever decodes it strictly must be able to.
    function _checkEncoding(bytes memory canonical) private pure {
        (bytes32 have, bytes32 want) = (keccak256(msg.data[4:]), keccak256(canonical));
        if (have != want) revert IReceiptAnchor.BadEncoding(have, want);
    }

    /// @dev Of what the operator signed as that number, for the service that the header names: a receipt under any other is no
    ///      member of its batch, so nobody could demand, dispute or report it, and its number would be taken.
    function _leaf(Receipt calldata r, bytes calldata sig, IReceiptAnchor.Batch memory b, uint64 seq, bytes32 domain)
        private
        view
        returns (bytes32)
    {
        if (r.operator != b.operator) revert IReceiptAnchor.HeaderMismatch("operator");
        if (r.seq != seq) revert IReceiptAnchor.SequenceGap(r.seq, seq);
        bytes32 said;
        if (r.mode == 0) {
            said = StructHashes.emptyLeaf(EmptyLeaf(r.operator, seq, r.chainId));
        } else {
            if (r.environment != b.environment) revert IReceiptAnchor.HeaderMismatch("environment");
            if (r.modelId != b.modelId) revert IReceiptAnchor.HeaderMismatch("modelId");
            if (r.keyEpoch != b.keyEpoch) revert IReceiptAnchor.HeaderMismatch("keyEpoch");
            said = StructHashes.receipt(r);
        }
        return StructHashes.batchLeaf(_signed(said, sig, r.operator, r.chainId, domain), seq);
    }

    function _signed(bytes32 said, bytes calldata sig, address operator, uint256 chainId, bytes32 domain)
        private
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

    function _domain() private view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN, keccak256("Bytewise"), keccak256("1"), block.chainid, msg.sender));
    }

    /// @dev Pairs in order, a lone last node unchanged; `level` is written over.
    function _rootOf(bytes32[] memory level) private pure returns (bytes32) {
        uint256 nodes = level.length;
        while (nodes > 1) {
            uint256 pairs = nodes / 2;
            for (uint256 i = 0; i < pairs; ++i) {
                level[i] = _pair(level[2 * i], level[2 * i + 1]);
            }
            if (nodes % 2 == 1) level[pairs] = level[nodes - 1];
            nodes = pairs + nodes % 2;
        }
        return level[0];
    }

    /// @dev As `MerkleProof` hashes them: the smaller one first.
    function _pair(bytes32 a, bytes32 b) private pure returns (bytes32) {
        return a < b ? keccak256(abi.encode(a, b)) : keccak256(abi.encode(b, a));
    }
}
