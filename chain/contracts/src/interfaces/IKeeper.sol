// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title IKeeper: several calls in one transaction
/// @notice For steps of one moment, as `finalize` and `settleSeats`. It has no right anywhere, no state and no money.
interface IKeeper {
    /// @notice One call of a contract.
    struct Call {
        address target;
        bytes data;
    }

    /// @notice The call at `index` reverted with `reason`.
    error CallFailed(uint256 index, address target, bytes4 selector, bytes reason);
    /// @notice The call at `index` is to an account without code, or has no selector.
    error NoFunction(uint256 index, address target, uint256 size);

    /// @notice Make all calls in order, or none.
    function run(Call[] calldata calls) external;
}
