// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Receipt} from "../libraries/Types.sol";

/// @title IBondPool: one challenge whose bond several accounts pay together
/// @notice Anybody deploys a pool for one receipt. It belongs to no network and has no owner, no fee and no setting.
///         Compare its code, court, ledger, receipt and bond before you contribute: whoever deployed it chose them.
interface IBondPool {
    /// @notice `account` added `amount` wei to the bond.
    event Contributed(address indexed account, uint256 amount);
    /// @notice `account` took its `amount` wei back before the challenge.
    event TakenBack(address indexed account, uint256 amount);
    /// @notice The pool opened dispute `id`.
    event Challenged(bytes32 indexed id);
    /// @notice `account` was paid `amount` wei of what came back.
    event Claimed(address indexed account, uint256 amount);

    /// @notice The bond is complete, or nothing was sent.
    error NothingAccepted(uint256 sent, uint256 missing);
    /// @notice The bond lacks `missing` wei.
    error BondIncomplete(uint256 missing);
    /// @notice The pool has opened its dispute: contributions are part of its bond.
    error AlreadyChallenged(bytes32 id);
    /// @notice The pool has opened no dispute: contributions are taken back by `takeBack`.
    error NotChallenged(bytes32 id);
    /// @notice The receipt shown is not the receipt of this pool.
    error WrongReceipt(bytes32 have, bytes32 want);
    /// @notice Nothing is owed to `account` now.
    error NothingOwed(address account);
    /// @notice `account` refused `amount` wei; its claim is untouched.
    error PaymentRefused(address account, uint256 amount);
    /// @notice Plain payments come from the ledger only: contribute instead.
    error UnexpectedPayment(address from);

    /// @notice Add the sent wei to the bond. What exceeds the missing part is sent back in the same call.
    function contribute() external payable;
    /// @notice Take the caller's whole contribution back. At any time before the challenge.
    function takeBack() external returns (uint256 amount);
    /// @notice Open the dispute with the whole bond. Anybody may, and may send what is missing: the bond is then complete at the
    ///         moment of the challenge, whoever left before. What exceeds the missing part is sent back.
    function challenge(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        payable
        returns (bytes32 id);
    /// @notice Pay the caller its part of what came back so far. May be called again after each payment of the ledger.
    function claim() external returns (uint256 amount);

    /// @notice Wei of all contributions.
    function contributed() external view returns (uint256);
    /// @notice Contribution of `account`.
    function contributionOf(address account) external view returns (uint256);
    /// @notice Wei that `claim` would pay `account` of what lies here or is payable at the ledger.
    function claimable(address account) external view returns (uint256);
    /// @notice The dispute that a challenge of `RECEIPT` opens.
    function disputeId() external view returns (bytes32);
    /// @notice Whether the pool has opened that dispute.
    function isChallenged() external view returns (bool);
}
