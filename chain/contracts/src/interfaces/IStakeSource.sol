// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title IStakeSource: stake that can be drawn by, locked and slashed
/// @notice Native stake now; an adapter to another source of stake can stand behind the same interface later.
interface IStakeSource {
    /// @notice `account` added `amount`; it now has `stake` wei that count.
    event Deposited(address indexed account, uint256 amount, uint256 stake);
    /// @notice `account` asked for `amount` back. It stays slashable and stops counting for draws now.
    event UnbondRequested(address indexed account, uint256 amount, uint64 finishAt);
    /// @notice `account` got `amount` back.
    event Unbonded(address indexed account, uint256 amount);
    /// @notice `amount` of `account` is bound by reference `ref`; `want` was asked for.
    event Locked(address indexed account, bytes32 indexed ref, uint256 want, uint256 amount);
    /// @notice `amount` of `account` is free again.
    event Unlocked(address indexed account, bytes32 indexed ref, uint256 amount);
    /// @notice `taken` of the `want` wei were taken from `account`.
    event Slashed(address indexed account, bytes32 indexed ref, uint256 want, uint256 taken);

    /// @notice An amount of zero means a mistake.
    error ZeroAmount();
    /// @notice More was asked than is staked.
    error StakeTooSmall(address account, uint256 have, uint256 want);
    /// @notice One request at a time.
    error UnbondPending(uint64 finishAt);
    /// @notice There is no request.
    error NothingUnbonding(address account);
    /// @notice The unbonding delay is not over.
    error TooEarly(uint64 now_, uint64 notBefore);
    /// @notice An open dispute needs this stake.
    error StakeLocked(address account, uint256 locked, uint256 left);
    /// @notice The account refused its payment; nothing changed.
    error PaymentRefused(address account);

    /// @notice Wei of `account` that count for draws and for posting: staked and not unbonding.
    function stakeOf(address account) external view returns (uint256);
    /// @notice What `stakeOf` was at the end of block `blockNumber`, which must be past to be final.
    function stakeAt(address account, uint256 blockNumber) external view returns (uint256);
    /// @notice Wei of `account` bound by open disputes.
    function lockedOf(address account) external view returns (uint256);
    /// @notice `stakeOf` minus `lockedOf`, or zero.
    function freeStakeOf(address account) external view returns (uint256);
    /// @notice The pending request of `account`: wei and the time from which it can be finished.
    function unbondingOf(address account) external view returns (uint256 amount, uint64 finishAt);
    /// @notice Sum of `stakeOf`.
    function totalStake() external view returns (uint256);
    /// @notice Sum of all pending requests.
    function totalUnbonding() external view returns (uint256);

    /// @notice Add the sent wei to the caller's stake.
    function deposit() external payable;
    /// @notice Start the exit of `amount` wei.
    function requestUnbond(uint256 amount) external;
    /// @notice Pay out the caller's request: after the delay, and only what no open dispute needs.
    function finishUnbond() external returns (uint256 amount);

    /// @notice Bind up to `want` wei of `account`, unbonding stake included. Never reverts for lack of stake.
    /// @return locked wei really bound
    function lock(address account, uint256 want, bytes32 ref) external returns (uint256 locked);
    /// @notice Free `amount` wei that `lock` returned.
    function unlock(address account, uint256 amount, bytes32 ref) external;
    /// @notice Free `boundBefore` wei that `lock` returned, then take up to `want` wei that no other lock needs and
    ///         send them to the ledger's pot `ref`. Unbonding stake is slashable to its last second.
    /// @return taken wei really taken
    function slash(address account, uint256 boundBefore, uint256 want, bytes32 ref) external returns (uint256 taken);
}
