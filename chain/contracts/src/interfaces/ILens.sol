// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IDemands} from "./IDemands.sol";
import {IDisputes} from "./IDisputes.sol";
import {IRounds} from "./IRounds.sol";
import {IReceiptAnchor} from "./IReceiptAnchor.sol";
import {IRegistry} from "./IRegistry.sol";
import {ISettlement} from "./ISettlement.sol";
import {Phase} from "../libraries/Types.sol";

/// @title ILens: one call per decision, so that everything read belongs to one block
/// @notice Lists come in pages: up to `most` entries from `from` on, fewer at the end.
interface ILens {
    /// @notice Whether the seed of the current round can be had.
    struct SeedView {
        bool lost; // it can never be read, or its stake epoch is over: rearm
        bool drawable; // its block is over, in its stake epoch: draw with its header
        uint64 epochEnd; // last block in which the tree draws by it
    }

    /// @notice Seats of one round after the end.
    struct RoundView {
        uint8 level;
        uint16 seats;
        uint16 settled; // paid or charged
    }

    /// @notice A dispute with its current round.
    struct DisputeView {
        bytes32 id;
        Phase phase; // by this block's clock
        IDisputes.Dispute dispute;
        IRounds.Round round;
        IRounds.Member[] members; // of the current round
        SeedView seed;
        uint32 commitTime; // of its parameters
        uint16 quorum; // of the current round
        uint256 appealBond; // 0 on its last level
        bool settleable;
        bool held; // the breaker holds convictions of its environment
        bool knew; // the challenger opened its altCommit
        ISettlement.Account account;
        uint256 pot; // wei that the ledger holds for it
        RoundView[] rounds;
    }

    /// @notice An account in its roles. Wei; times of the protocol clock.
    struct AccountView {
        uint256 balance;
        uint256 stake;
        uint256 locked;
        uint256 collateral;
        uint256 free;
        uint256 kept; // of stake and what is on its way out, all bound: what no `finishUnbond` pays
        uint256 unbonding;
        uint256 unbondDue; // what `finishUnbond` would pay
        uint64 unbondNextAt;
        uint256 credit;
        uint256 creditDue;
        uint64 creditNextAt;
        uint64 operatorUntil; // last second in which its batches are taken; 0: no operator
        uint64 lastSeq; // operators
        IRegistry.Verifier verifier;
        bool hasPlace; // in its pool's tree
        uint16 place;
        uint32 units; // in the running stake epoch
    }

    /// @notice A pool and its stake epoch.
    struct PoolView {
        bytes32 pool;
        address tree;
        uint32 epoch;
        uint64 epochStart; // block
        uint64 epochEnd; // last block
        uint256 units;
        uint32 weighing; // verifiers that weigh something from the next epoch on
        bool seatable;
        uint64 stopped; // seconds for which its windows have stood still
    }

    /// @notice A verifier at its place.
    struct VerifierView {
        address account;
        uint16 place;
        uint32 units; // in the running stake epoch
        uint256 stake;
        IRegistry.Verifier verifier;
    }

    /// @notice A batch, how long it can be questioned, and the demand for its list.
    struct BatchView {
        uint64 id;
        IReceiptAnchor.Batch batch;
        uint64 windowEnd; // of a receipt without a demand of its own
        IDemands.Demand listDemand;
    }

    /// @notice Everything one decision of an account needs.
    struct Snapshot {
        uint64 number;
        uint64 timestamp;
        uint64 clock;
        uint64 pausedUntil;
        uint32 paramsVersion; // `Params.get` of it never changes
        uint256 requiredBond;
        uint256 price; // of a place for one receipt
        AccountView account;
        DisputeView[] disputes;
        uint64 batchCount;
        uint64 activeEpoch;
        bytes32 policyDigest;
        uint64 policySerial;
    }

    /// @notice All money of the network, in wei. vaultBalance == totalStake + totalUnbonding, and
    ///         ledgerBalance == totalPots + totalCredits + treasury + totalBurned, but for wei that were forced upon them.
    struct MoneyView {
        uint256 vaultBalance;
        uint256 ledgerBalance;
        uint256 totalStake;
        uint256 totalUnbonding;
        uint256 totalPots;
        uint256 totalCredits;
        uint256 treasury;
        uint256 totalBurned;
        uint256 auditPool;
    }

    /// @notice State of the network for `who` at this block, with these disputes.
    function snapshot(address who, bytes32[] calldata ids) external view returns (Snapshot memory);
    /// @notice Disputes by id; their ids are in `DisputeOpened`.
    function disputes(bytes32[] calldata ids) external view returns (DisputeView[] memory);
    /// @notice One dispute. Phase NONE: there is none.
    function disputeView(bytes32 id) external view returns (DisputeView memory);
    /// @notice An account.
    function accountView(address who) external view returns (AccountView memory);
    /// @notice A pool.
    function poolView(bytes32 pool) external view returns (PoolView memory);
    /// @notice A page of the accounts that ever joined a pool, by place.
    function verifiers(bytes32 pool, uint16 from, uint256 most) external view returns (VerifierView[] memory);
    /// @notice A page of batches, by id.
    function batches(uint64 from, uint256 most) external view returns (BatchView[] memory);
    /// @notice Demands by subject.
    function demands(bytes32[] calldata subjects) external view returns (IDemands.Demand[] memory);
    /// @notice All money.
    function money() external view returns (MoneyView memory);
}
