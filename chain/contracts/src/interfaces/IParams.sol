// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ParamSet} from "../Types.sol";

/// @title The numbers that govern the network, checked once and fixed at deployment
interface IParams {
    /// @notice A parameter is outside its hard bounds.
    /// @param key name of the parameter
    error ParamOutOfBounds(bytes32 key);

    /// @notice The static law is broken: a delay would end before the longest possible dispute (design section 9).
    /// @param limit name of the delay that is too short
    /// @param have its length in seconds
    /// @param longest seconds from the issue of a receipt to the end of its last possible dispute
    error StaticLawBroken(bytes32 limit, uint256 have, uint256 longest);

    /// @notice The whole parameter set.
    function get() external view returns (ParamSet memory);

    /// @notice Seconds from the issue of a receipt to the end of its last possible dispute.
    function longestDispute() external view returns (uint256);

    /// @notice Bond that opens a dispute, in wei: the fees of every seat of every round, plus the privacy price.
    function requiredBond() external view returns (uint256);

    /// @notice Seats that make a verdict among `seats`: ceil(seats * tauNum / tauDen).
    function quorum(uint256 seats) external view returns (uint256);
}
