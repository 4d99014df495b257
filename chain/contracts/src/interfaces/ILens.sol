// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IDisputes} from "./IDisputes.sol";
import {IReceiptAnchor} from "./IReceiptAnchor.sol";
import {ParamSet, Phase, Verdict} from "../Types.sol";

/// @title ILens: one call per decision, so that everything read belongs to one block
interface ILens {
    /// @notice A member of the current round.
    struct MemberView {
        address voter;
        uint256 seatMask;
        bytes32 commitment;
        bool revealed;
        uint8 outcome;
        uint8 code;
        bytes32 outHash;
    }

    /// @notice A dispute with its current round.
    struct DisputeView {
        bytes32 id;
        bytes32 receiptId;
        uint64 batchId;
        address operator;
        address challenger;
        bytes32 claimedOutHash;
        uint64 keyEpoch;
        uint8 phase; // by this block's time
        uint16 round;
        uint16 seats;
        uint64 seedBlock;
        bytes32 roundSeed;
        uint64 openedAt;
        uint64 commitEnd;
        uint64 revealEnd;
        uint256 bond;
        uint8 verdict;
        bytes32 replacement;
        MemberView[] members;
    }

    /// @notice A verifier.
    struct VerifierView {
        address verifier;
        uint256 stake;
        uint256 locked;
        uint64 joinedAt; // block
    }

    /// @notice Everything one decision of `who` needs.
    struct Snapshot {
        uint64 number;
        uint64 timestamp;
        ParamSet params;
        uint256 requiredBond;
        uint256 disputeCount;
        DisputeView[] disputes;
        VerifierView[] verifiers;
        uint256 whoStake;
        uint256 whoLocked;
        uint256 whoCredit;
        uint64 activeEpoch;
        bytes32 policyDigest;
        uint64 policySerial;
    }

    /// @notice All money of the network, in wei. vaultBalance == totalStake + totalUnbonding, and
    ///         ledgerBalance == totalBonds + totalCredits + totalBurned.
    struct Money {
        uint256 vaultBalance;
        uint256 ledgerBalance;
        uint256 totalStake;
        uint256 totalUnbonding;
        uint256 totalBonds;
        uint256 totalCredits;
        uint256 totalBurned;
    }

    /// @notice State of the network at this block, with disputes `fromDispute` to `fromDispute + maxDisputes - 1`.
    function snapshot(address who, uint256 fromDispute, uint256 maxDisputes) external view returns (Snapshot memory);
    /// @notice One dispute.
    function disputeView(bytes32 id) external view returns (DisputeView memory);
    /// @notice Members of any round of a dispute.
    function membersOf(bytes32 id, uint16 round) external view returns (IDisputes.Member[] memory);
    /// @notice What became of a receipt. Phase NONE: never disputed.
    function receiptStatus(bytes32 receiptId)
        external
        view
        returns (bytes32 id, Phase phase, Verdict verdict, bytes32 replacement);
    /// @notice A batch.
    function batch(uint64 batchId) external view returns (IReceiptAnchor.Batch memory);
    /// @notice All verifiers in registry order.
    function verifiers() external view returns (VerifierView[] memory);
    /// @notice All money.
    function money() external view returns (Money memory);
}
