// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @notice An operator set of EigenLayer: the service it belongs to and the number it has there.
struct OperatorSet {
    address avs;
    uint32 id;
}

/// @notice How much of an operator's magnitude belongs to a set, and the change that is on its way.
struct Allocation {
    uint64 currentMagnitude;
    int128 pendingDiff;
    uint32 effectBlock;
}

/// @notice What `slashOperator` is asked to do.
struct SlashingParams {
    address operator;
    uint32 operatorSetId;
    address[] strategies; // ascending
    uint256[] wadsToSlash; // 1e18 is all that is allocated to the set
    string description;
}

/// @title The calls of EigenLayer's AllocationManager (v1.9 and later) that the adapter makes, and those that check a deployment
interface IAllocationManager {
    /// @notice Whether the service has a set of that number. Asked before a deployment, by no contract.
    function isOperatorSet(OperatorSet memory set) external view returns (bool);
    /// @notice The account that may slash the set from block `effectBlock` on; zero if no other was named. Asked by no contract.
    function getPendingSlasher(OperatorSet memory set)
        external
        view
        returns (address pendingSlasher, uint32 effectBlock);
    /// @notice The strategies whose shares the set can slash. Asked before a deployment, by no contract.
    function getStrategiesInOperatorSet(OperatorSet memory set) external view returns (address[] memory);
    /// @notice Slash; skips a strategy of which nothing is allocated. `shares` is what was taken of each strategy.
    function slashOperator(address avs, SlashingParams calldata params)
        external
        returns (uint256 slashId, uint256[] memory shares);
    /// @notice The DelegationManager that it works with.
    function delegation() external view returns (IDelegationManager);
    /// @notice Blocks for which a deallocation or deregistration stays slashable.
    function DEALLOCATION_DELAY() external view returns (uint32);
    /// @notice The one account that may slash the set.
    function getSlasher(OperatorSet memory set) external view returns (address);
    /// @notice Who gets what is slashed; fixed when the set is created.
    function getRedistributionRecipient(OperatorSet memory set) external view returns (address);
    /// @notice Whether the operator is registered for the set now.
    function isMemberOfOperatorSet(address operator, OperatorSet memory set) external view returns (bool);
    /// @notice Whether it is registered or left so lately that it can still be slashed.
    function isOperatorSlashable(address operator, OperatorSet memory set) external view returns (bool);
    /// @notice The least number of allocated shares between now and `futureBlock`; withdrawals in the queue are left out.
    function getMinimumSlashableStake(
        OperatorSet memory set,
        address[] memory operators,
        address[] memory strategies,
        uint32 futureBlock
    ) external view returns (uint256[][] memory);
    /// @notice The allocation as it stands at this block.
    function getAllocation(address operator, OperatorSet memory set, address strategy)
        external
        view
        returns (Allocation memory);
    /// @notice The magnitude of which allocations are parts; it falls with every slash.
    function getMaxMagnitude(address operator, address strategy) external view returns (uint64);
}

/// @title The calls of EigenLayer's DelegationManager that the adapter makes
interface IDelegationManager {
    /// @notice The StrategyManager that it works with.
    function strategyManager() external view returns (IStrategyManager);
    /// @notice Shares on their way out that a slash still reaches.
    function getSlashableSharesInQueue(address operator, address strategy) external view returns (uint256);
    /// @notice Blocks for which a withdrawal stays in the queue.
    function minWithdrawalDelayBlocks() external view returns (uint32);
}

/// @title The call of EigenLayer's StrategyManager that the adapter makes
interface IStrategyManager {
    /// @notice Pay out what a slash took of one strategy. Anybody may call it, and a pause or a delay may refuse it.
    function clearBurnOrRedistributableSharesByStrategy(OperatorSet calldata set, uint256 slashId, address strategy)
        external
        returns (uint256 amount);
}

/// @title The calls of an EigenLayer strategy that the adapter makes
interface IStrategy {
    /// @notice The token that is staked.
    function underlyingToken() external view returns (address);
    /// @notice What so many shares are worth in the token's units, rounded down.
    function sharesToUnderlyingView(uint256 shares) external view returns (uint256);
}

/// @title Wrapped ether
interface IWrappedEther {
    /// @notice Units of `account`.
    function balanceOf(address account) external view returns (uint256);
    /// @notice Turn `amount` units of the caller into wei.
    function withdraw(uint256 amount) external;
}
