// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EmptyLeaf, Receipt, StructHashes} from "../src/libraries/Types.sol";
import {IDemands} from "../src/interfaces/IDemands.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {AnchorBase} from "./AnchorBase.sol";
import {Trees} from "./Trees.sol";
import {Vm} from "./Vm.sol";

/// @title A batch whose list is demanded shows every leaf of its root
contract LeavesTest is AnchorBase {
    uint256 private constant BOND = 0.01 ether;

    /// @dev Receipts from number 1 on; every third number is an empty leaf if `gaps`.
    function leavesOf(uint256 count, bool gaps)
        private
        view
        returns (Receipt[] memory rs, bytes[] memory sigs, bytes32[] memory leaves)
    {
        (rs, sigs, leaves) = (new Receipt[](count), new bytes[](count), new bytes32[](count));
        for (uint64 i = 0; i < count; ++i) {
            if (gaps && i % 3 == 2) {
                EmptyLeaf memory e = EmptyLeaf(operator, i + 1, block.chainid);
                (rs[i].operator, rs[i].seq, rs[i].chainId) = (e.operator, e.seq, e.chainId);
                (sigs[i], leaves[i]) = (emptySignature(e), StructHashes.batchLeaf(anchor.emptyLeafId(e), e.seq));
            } else {
                rs[i] = receipt(i + 1);
                (sigs[i], leaves[i]) = (signature(rs[i]), leafOf(rs[i]));
            }
        }
    }

    function demanded(uint32 count, bytes32 root) private {
        posted(header(1, count, root));
        demands.demandList{value: BOND * count}(0);
    }

    /// @dev Who anchors what nobody else can open lets a window pass that nobody can use.
    function test_a_receipt_that_its_list_hides_is_never_final(bool shows) public {
        Receipt memory hidden = receipt(1);
        bytes memory sig = signature(hidden);
        anchored(hidden);
        demands.demandList{value: BOND}(0);
        // What was an answer once: bytes that say nothing of the root.
        (bool ok,) =
            address(demands).call(abi.encodeWithSignature("answerList(uint64,bytes)", uint64(0), bytes("list")));
        that(!ok, "a list alone");
        if (shows) {
            vm.recordLogs();
            answersList(0, "list");
            that(vm.getRecordedLogs().length != 0, "everybody has it");
            vm.warp(anchor.windowEnd(0, 0) + 1);
            that(anchor.isFinal(hidden, sig, 0, none()), "and had the window to question it");
            return;
        }
        vm.warp(demands.demand(demands.listSubject(0)).deadline + 1);
        demands.expire(demands.listSubject(0));
        vm.warp(anchor.windowEnd(0, 0) + 1);
        vm.expectRevert(err(IReceiptAnchor.BatchIsVoid.selector, 0));
        anchor.isFinal(hidden, sig, 0, none());
        same(vault.stakeOf(operator), 90 ether, "as dear as a lie");
    }

    function test_all_leaves_are_the_answer(uint8 count, bool gaps) public {
        uint32 n = uint32(bound(count, 1, 64));
        (Receipt[] memory rs, bytes[] memory sigs, bytes32[] memory leaves) = leavesOf(n, gaps);
        demanded(n, Trees.rootOf(leaves));
        vm.recordLogs();
        demands.answerList(0, "list", rs, sigs);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        same(logs[logs.length - 1].topics[0], IDemands.Answered.selector, "answered");
        (, address by, bytes memory shown) = abi.decode(logs[logs.length - 1].data, (uint8, address, bytes));
        same(by, address(this), "by");
        same(keccak256(shown), keccak256(abi.encode(uint64(0), bytes("list"), rs, sigs)), "all of them");
        same(uint8(demands.demand(demands.listSubject(0)).state), uint8(IDemands.State.ANSWERED), "state");
    }

    /// @dev More leaves under the root than the batch says: the last one would be everybody's surprise.
    function test_no_leaf_is_left_out(uint8 count) public {
        uint32 n = uint32(bound(count, 2, 20));
        (Receipt[] memory rs, bytes[] memory sigs, bytes32[] memory leaves) = leavesOf(n, false);
        bytes32 root = Trees.rootOf(leaves);
        demanded(n - 1, root);
        vm.expectRevert(
            abi.encodeWithSelector(IReceiptAnchor.LeavesMissing.selector, uint256(n), uint256(n), uint256(n - 1))
        );
        demands.answerList(0, "list", rs, sigs);
        assembly ("memory-safe") {
            mstore(rs, sub(n, 1))
            mstore(sigs, sub(n, 1))
        }
        vm.expectRevert(err(IReceiptAnchor.BadProof.selector, uint256(root)));
        demands.answerList(0, "list", rs, sigs);
    }

    function test_another_leaf_order_number_or_signature_is_no_answer(uint8 count, uint8 which) public {
        uint32 n = uint32(bound(count, 2, 9));
        uint256 i = which % n;
        (Receipt[] memory rs, bytes[] memory sigs, bytes32[] memory leaves) = leavesOf(n, false);
        bytes32 root = Trees.rootOf(leaves);
        demanded(n, root);
        bytes memory good = sigs[i];
        sigs[i] = signed(VERIFIER_KEY, anchor.receiptId(rs[i]));
        vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.BadSignature.selector, verifier(0), operator));
        demands.answerList(0, "list", rs, sigs);
        rs[i].tokensHash = "other";
        sigs[i] = signature(rs[i]);
        vm.expectRevert(err(IReceiptAnchor.BadProof.selector, uint256(root)));
        demands.answerList(0, "list", rs, sigs);
        (rs[i].tokensHash, sigs[i]) = (TOKENS, good);
        rs[i].seq += 1;
        vm.expectRevert(err(IReceiptAnchor.SequenceGap.selector, i + 2, i + 1));
        demands.answerList(0, "list", rs, sigs);
        rs[i].seq -= 1;
        demands.answerList(0, "list", rs, sigs);
    }

    /// @dev A receipt under the header of another open service, as at every rotation of keys, could be neither demanded nor disputed, and
    ///      its list would have been an answer: its number was gone and nothing slashed. Now nobody can answer for it.
    function test_a_receipt_under_a_foreign_header_voids_its_batch(bytes32 other, uint8 field) public {
        Receipt memory r = receipt(1);
        bytes memory sig = signature(r);
        IReceiptAnchor.BatchHeader memory h = header(1, 1, leafOf(r));
        if (field % 3 == 0) activate(h.environment = keccak256(abi.encode("environment", other)), POOL);
        else if (field % 3 == 1) activate(h.modelId = keccak256(abi.encode("model", other)), 0);
        else putInForce(h.keyEpoch = 2);
        anchored(r, h);
        bytes32 name = [bytes32("environment"), "modelId", "keyEpoch"][field % 3];
        vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.HeaderMismatch.selector, name));
        anchor.checkMember(r, sig, 0, none());
        demands.demandList{value: BOND}(0);
        vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.HeaderMismatch.selector, name));
        answersList(0, "list");
        vm.warp(demands.demand(demands.listSubject(0)).deadline + 1);
        demands.expire(demands.listSubject(0));
        that(anchor.batch(0).isVoid, "void");
        same(vault.stakeOf(operator), 90 ether, "as dear as a lie");
        same(ledger.creditOf(address(this)), BOND + 3 ether, "who saw it has its bond back, and its share");
    }

    /// @dev Whoever reads the event with a strict decoder must not stumble over what the contract's lets pass.
    function test_an_answer_is_shown_in_one_way_however_it_came(bytes memory more, uint8 padding) public {
        (Receipt[] memory rs, bytes[] memory sigs, bytes32[] memory leaves) = leavesOf(2, false);
        demanded(2, Trees.rootOf(leaves));
        bytes memory changed = bytes.concat(abi.encodeCall(demands.answerList, (0, "list", rs, sigs)), more);
        // The last signature leaves 31 bytes of its third word.
        if (more.length == 0) changed[changed.length - 1 - padding % 31] = 0x01;
        vm.recordLogs();
        (bool ok,) = address(demands).call(changed);
        that(ok, "taken");
        Vm.Log[] memory logs = vm.getRecordedLogs();
        (,, bytes memory shown) = abi.decode(logs[logs.length - 1].data, (uint8, address, bytes));
        same(keccak256(shown), keccak256(abi.encode(uint64(0), bytes("list"), rs, sigs)), "in this way");
    }

    function test_an_empty_leaf_is_the_operators_own(address other, uint64 chain) public {
        vm.assume(other != operator && chain != block.chainid);
        EmptyLeaf memory e = EmptyLeaf(operator, 1, block.chainid);
        demanded(1, StructHashes.batchLeaf(anchor.emptyLeafId(e), 1));
        (Receipt[] memory rs, bytes[] memory sigs) = (new Receipt[](1), new bytes[](1));
        (rs[0].operator, rs[0].seq, rs[0].chainId, sigs[0]) = (other, 1, block.chainid, emptySignature(e));
        vm.expectRevert(abi.encodeWithSelector(IReceiptAnchor.HeaderMismatch.selector, bytes32("operator")));
        demands.answerList(0, "list", rs, sigs);
        (rs[0].operator, rs[0].chainId) = (operator, chain);
        vm.expectRevert(err(IReceiptAnchor.ForeignChain.selector, chain, block.chainid));
        demands.answerList(0, "list", rs, sigs);
        rs[0].chainId = block.chainid;
        demands.answerList(0, "list", rs, sigs);
    }
}
