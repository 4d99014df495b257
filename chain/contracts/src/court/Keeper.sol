// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IKeeper} from "../interfaces/IKeeper.sol";

/// @title Keeper: sends the steps of one moment together
/// @dev No state: `run` makes all calls or none. No money: nothing is payable, nothing is sent. No right: a contract that asks who
///      calls sees this address, so that only steps which anybody may take go through it.
contract Keeper is IKeeper {
    /// @inheritdoc IKeeper
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
