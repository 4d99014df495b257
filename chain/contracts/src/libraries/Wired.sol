// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Wired: closes the cycles between contracts once, by the deployer, and never again
/// @dev After its one `wire` call the deployer has no power over the contract.
abstract contract Wired {
    /// @notice The account that deployed this contract; it may call `wire` once.
    address public immutable DEPLOYER = msg.sender;

    /// @notice True from the one `wire` call on.
    bool public wired;

    /// @notice Only the deployer wires.
    error NotDeployer(address caller);
    /// @notice Wiring happens once.
    error AlreadyWired();
    /// @notice A contract address was zero.
    error ZeroAddress();
    /// @notice The caller is not the contract that may do this.
    error NotAuthorised(address caller);

    modifier wiring() {
        if (msg.sender != DEPLOYER) revert NotDeployer(msg.sender);
        if (wired) revert AlreadyWired();
        wired = true;
        _;
    }

    function _nonZero(address a) internal pure returns (address) {
        if (a == address(0)) revert ZeroAddress();
        return a;
    }
}
