// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Strings} from "@openzeppelin/contracts/utils/Strings.sol";

/// @title LabelLib: the labelled SHA-256 of `bytewise/protocol/digests.py`, for what both Python and contracts must hash
/// @dev SHA-256(len(label) | label | len(part) | part ...), lengths as 8 bytes big-endian.
library LabelLib {
    bytes private constant LIST = "bytewise/v1/receipt-list";
    bytes private constant AUDIT_DRAW = "bytewise/v1/audit-draw";

    /// @notice Digest of the bytes of a batch's list: `BatchHeader.listHash`.
    function list(bytes calldata data) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(uint64(LIST.length), LIST, uint64(data.length), data));
    }

    /// @notice What a light audit's draw compares. Python hashes an account as its lower-case 0x-hex.
    function auditDraw(bytes32 beacon, bytes32 receiptId, address verifier) internal pure returns (bytes32) {
        bytes memory who = bytes(Strings.toHexString(verifier));
        return sha256(
            abi.encodePacked(
                uint64(AUDIT_DRAW.length),
                AUDIT_DRAW,
                uint64(32),
                beacon,
                uint64(32),
                receiptId,
                uint64(who.length),
                who
            )
        );
    }
}
