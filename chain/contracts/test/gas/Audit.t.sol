// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Hashes as Pairs} from "@openzeppelin/contracts/utils/cryptography/Hashes.sol";
import {AuditResult, Receipt, StructHashes, Verdict} from "../../src/libraries/Types.sol";
import {IReceiptAnchor} from "../../src/interfaces/IReceiptAnchor.sol";
import {GasBase} from "./GasBase.sol";

/// @title Light audits at their dearest: of a member of the largest batch that a dispute convicts meanwhile
/// forge-config: default.isolate = true
contract AuditGasTest is GasBase {
    bytes32 private constant FOUND = keccak256("found");
    uint8 private constant MISMATCH = 2;

    Receipt private audited;
    bytes32 private receiptId;
    bytes32[] private siblings;
    uint64 private batchId;

    function test_gas_of_light_audits() public {
        populated(40);
        anchoredDeep();
        audits.feed{value: 1 ether}();
        pass(3 * BLOCK_TIME);
        bytes32 id = disputed();
        for (uint256 i = 0; i < 2; ++i) {
            posts(auditor(i));
        }
        drawn(id, SALT);
        unanimous(id, other(FOUND));
        finalized(id);
        same(uint8(disputes.dispute(id).verdict), uint8(Verdict.OVERTURNED), "verdict");
        until(uint256(anchor.windowEnd(receiptId, batchId)) + 1);
        for (uint256 i = 0; i < 2; ++i) {
            bytes memory data = abi.encodeCall(audits.open, (receiptId, auditor(i), FOUND, TRACE, "salt"));
            told("audit_open", measured(address(audits), data, "open"));
        }
        for (uint256 i = 0; i < 2; ++i) {
            Receipt memory r = audited;
            bytes memory data = abi.encodeCall(audits.claim, (r, signature(r), siblings, auditor(i)));
            told("audit_claim", measured(address(audits), data, "claim"));
            same(ledger.creditOf(auditor(i)), params.money(1).bounty, "paid");
        }
    }

    /// @dev Of those that came after the dispute before, so that nobody paid them yet.
    function auditor(uint256 i) private pure returns (address) {
        return vm.addr(0xC0FFEE000000 + 20 + i);
    }

    /// @dev One of 188: eight siblings.
    function anchoredDeep() private {
        audited = receipt(operatorAt(0), anchor.lastSeq(operatorAt(0)) + 1, ENVIRONMENT);
        Receipt memory r = audited;
        receiptId = anchor.receiptId(r);
        bytes32 root = StructHashes.batchLeaf(receiptId, r.seq);
        for (uint256 i = 0; i < 8; ++i) {
            siblings.push(keccak256(abi.encode("sibling", i)));
            root = Pairs.commutativeKeccak256(root, siblings[i]);
        }
        batchId = anchor.batchCount();
        uint256 fee = market.feeFor(188);
        IReceiptAnchor.BatchHeader memory h = headerOf(r, 188, root);
        vm.prank(r.operator);
        anchor.post{value: fee}(h);
    }

    function disputed() private returns (bytes32) {
        Receipt memory r = audited;
        bytes memory data = abi.encodeCall(disputes.open, (r, signature(r), batchId, siblings, "alt"));
        (bool ok,) = address(disputes).call{value: params.requiredBond(1)}(data);
        told("open_member_of_188", spent());
        that(ok, "open");
        return disputes.disputeId(receiptId);
    }

    /// @dev While the dispute waits for its seed: later it is refused.
    function posts(address who) private {
        AuditResult memory a;
        (a.receiptId, a.verifier, a.result, a.auditedAt) = (receiptId, who, MISMATCH, uint64(block.timestamp));
        a.commitment = audits.commitmentOf(receiptId, who, FOUND, TRACE, "salt");
        bytes memory sig = signed(crowd.keyOf(who), audits.hashAudit(a));
        bytes memory data = abi.encodeCall(audits.post, (a, sig, batchId));
        told("audit_post", measured(address(audits), data, "post"));
    }
}
