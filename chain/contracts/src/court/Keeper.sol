// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Keeper: sends the steps of one moment together
/// @notice For steps of one moment, as `finalize` and `settleSeats`. It has no right anywhere, no state and no money.
/// @dev No state: `run` makes all calls or none. No money: nothing is payable, nothing is sent. No right: a contract that asks who
///      calls sees this address, so that only steps which anybody may take go through it.
contract Keeper {
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
    function run(Call[] calldata calls) external {
        for (uint256 i = 0; i < calls.length; ++i) {
            (address target, bytes calldata data) = (calls[i].target, calls[i].data);
            // Such a call would succeed, and do nothing.
            if (target.code.length == 0 || data.length < 4) revert NoFunction(i, target, data.length);
            (bool succeeded, bytes memory reason) = target.call(data);
            if (!succeeded) revert CallFailed(i, target, bytes4(data[:4]), reason);
        }
    }
}
