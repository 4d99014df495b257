// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Phase, Receipt, Verdict} from "../libraries/Types.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";

/// @title Finality: whether a receipt is accepted for good
/// @dev `ReceiptAnchor.isFinal`, which only reads, apart because of the size limit of EIP-170. The anchor, which deploys it, sends
///      it the call as it came, and answers what it is asked.
contract Finality {
    /// @notice The protocol clock.
    IGuardian public immutable GUARDIAN;

    constructor(IGuardian guardian) {
        GUARDIAN = guardian;
    }

    /// @notice Reverts with the reason unless the receipt is accepted by the calling anchor.
    function isFinal(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof) external view {
        IReceiptAnchor anchor = IReceiptAnchor(msg.sender);
        bytes32 id = anchor.checkMember(r, sig, batchId, proof);
        bytes32 list = anchor.listSubject(batchId);
        IReceiptAnchor.State state = anchor.demand(list).state;
        if (state == IReceiptAnchor.State.EXPIRED) revert IReceiptAnchor.BatchIsVoid(batchId);
        _checkNoDemand(list, state);
        _checkNoDemand(id, anchor.demand(id).state);
        (bytes32 dispute, Phase phase, Verdict verdict,) = anchor.disputes().receiptStatus(id);
        if (phase != Phase.NONE && phase != Phase.FINAL) revert IReceiptAnchor.DisputePending(dispute);
        if (phase == Phase.FINAL && verdict != Verdict.UPHELD) {
            revert IReceiptAnchor.ReceiptVoid(dispute, uint8(verdict));
        }
        // Upheld early, a receipt could still fall with its list: accepted is for good.
        uint64 end = anchor.windowEnd(id, batchId);
        if (GUARDIAN.clock() <= end) revert IReceiptAnchor.WindowOpen(end);
    }

    function _checkNoDemand(bytes32 subject, IReceiptAnchor.State state) private pure {
        if (state == IReceiptAnchor.State.OPEN) revert IReceiptAnchor.DemandPending(subject);
    }
}
