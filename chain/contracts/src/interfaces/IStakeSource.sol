// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title IStakeSource: stake that can be drawn by, bound and slashed
/// @notice What is unbonding is slashable to its last second. Binding keeps stake from leaving: locked + collateral + obliged <= what is
///         left after a payment. It never keeps stake from a verdict: several locks may bind the same wei, and the first slash
///         takes them. Or an operator could shield its stake by disputes with itself. So locks keep no more from being bound by
///         receipts than one slash takes: collateral + min(locked, `slashAmount`) <= active after `reserve`. Or others could
///         keep an operator from posting by disputes with it.
interface IStakeSource {
    event Deposited(address indexed account, uint256 amount, uint256 stake);
    /// @notice `amount` of `account` is on its way out and stops counting now; payable from `finishAt` (protocol clock).
    event UnbondRequested(address indexed account, uint256 amount, uint64 finishAt);
    event Unbonded(address indexed account, uint256 amount);
    /// @notice `amount` of `account` is bound by reference `ref`; `want` was asked for.
    event Locked(address indexed account, bytes32 indexed ref, uint256 want, uint256 amount);
    event Unlocked(address indexed account, bytes32 indexed ref, uint256 amount);
    /// @notice `amount` of `account` is bound by the open receipts of batch `batchId`, or free again.
    event Reserved(address indexed account, uint64 indexed batchId, uint256 amount);
    event Released(address indexed account, uint64 indexed batchId, uint256 amount);
    /// @notice `amount` of `account` stays until it has answered demand `ref`, or free again.
    event Obliged(address indexed account, bytes32 indexed ref, uint256 amount);
    event Discharged(address indexed account, bytes32 indexed ref, uint256 amount);
    /// @notice `taken` of the `want` wei were taken from `account`.
    event Slashed(address indexed account, bytes32 indexed ref, uint256 want, uint256 taken);
    /// @notice The registry failed to weigh `account` by its new `stake`; `IRegistry.refresh` does it when it can.
    event WeightStale(address indexed account, uint256 stake);

    error ZeroAmount();
    error StakeTooSmall(address account, uint256 have, uint256 want);
    /// @notice The queue of requests is full: finish one first.
    error QueueFull(uint256 size);
    /// @notice No request can be finished before `notBefore` (0: there is none).
    error NothingUnbonded(address account, uint64 notBefore);
    /// @notice Locks and collateral need this stake.
    error StakeBound(address account, uint256 bound, uint256 left);
    error PaymentRefused(address account);
    /// @notice Too little gas to tell a registry that fails from one that was starved.
    error GasTooLow(uint256 have, uint256 want);

    /// @notice Wei of `account` that count for draws and for posting: staked and not unbonding.
    function stakeOf(address account) external view returns (uint256);
    /// @notice What `stakeOf` was at the end of block `blockNumber`, which must be past to be final.
    function stakeAt(address account, uint256 blockNumber) external view returns (uint256);
    /// @notice Wei bound by open disputes; more than there is, if several bind the same or one was lost.
    function lockedOf(address account) external view returns (uint256);
    /// @notice Wei bound by open receipts.
    function collateralOf(address account) external view returns (uint256);
    /// @notice What receipts can bind: `stakeOf` minus collateral and what is locked, of which one `slashAmount` of the parameters
    ///         in force counts at most; or zero.
    function freeStakeOf(address account) external view returns (uint256);
    /// @notice Wei that a slash could take and no dispute has locked, unbonding stake included; or zero.
    function unlockedOf(address account) external view returns (uint256);
    /// @notice Wei that stay for demands to anchor that are open. They stop exits and nothing else: an operator must be able to post
    ///         its answer, and could have its own receipts demanded to leave no share for who reports it.
    function obligedOf(address account) external view returns (uint256);
    /// @notice Wei that a payment leaves: all that is bound, obligations included, and, while receipts are open, what `reserve` was told to keep.
    function keptOf(address account) external view returns (uint256);
    /// @notice Wei on their way out; `due` of them can be paid now but for what is bound; `nextAt` is when the next can.
    function unbondingOf(address account) external view returns (uint256 amount, uint256 due, uint64 nextAt);
    function totalStake() external view returns (uint256);
    function totalUnbonding() external view returns (uint256);

    /// @notice Add the sent wei to the caller's stake.
    function deposit() external payable;
    /// @notice Start the exit of `amount` wei. Several may be under way, up to a bound.
    function requestUnbond(uint256 amount) external;
    /// @notice Pay the caller what has waited long enough, and nothing of `keptOf`.
    function finishUnbond() external returns (uint256 amount);

    /// @notice Bind `amount` wei for the open receipts of a batch; reverts if less is free, or less than `least`. So many stay, rounded up
    ///         to gwei, until all collateral is free again: the largest of those that were named since. Movers only.
    function reserve(address account, uint64 batchId, uint256 amount, uint256 least) external;
    /// @notice Free what `reserve` bound. Movers only.
    function release(address account, uint64 batchId, uint256 amount) external;
    /// @notice Bind `want` wei of `account`, or all it has, unbonding stake and what is bound already included. Never reverts
    ///         for lack of stake. Movers only.
    function lock(address account, uint256 want, bytes32 ref) external returns (uint256 locked);
    /// @notice Free `amount` wei that `lock` returned. Movers only.
    function unlock(address account, uint256 amount, bytes32 ref) external;
    /// @notice Keep `amount` wei of `account`, or as many as there are, from leaving until `discharge`. Movers only.
    function oblige(address account, uint256 amount, bytes32 ref) external;
    /// @notice Free what `oblige` kept. Movers only.
    function discharge(address account, uint256 amount, bytes32 ref) external;
    /// @notice Free `boundBefore` wei that `lock` returned, then take `want` wei or all there is, whatever else binds
    ///         them, to the ledger's pot `ref`, at once or later. The draw weighs the rest from the next epoch on. Movers only.
    /// @return taken wei really taken; the pot may get them later (`Ledger.potOf` says whether it has)
    function slash(address account, uint256 boundBefore, uint256 want, bytes32 ref) external returns (uint256 taken);
}
