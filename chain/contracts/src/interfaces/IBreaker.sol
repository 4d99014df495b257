// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title IBreaker: convictions and draws of many operators in one environment look like a fault of the environment
/// @notice OVERTURNED verdicts against more than `breakerOperators` operators hold every conviction there until the curator has
///         looked; DRAWs of as many operators close the environment to new batches. As many DRAWs of one operator, wherever, suspend
///         that operator: with stallers of its own it would lie for nothing. Nothing frees anybody from slashing.
interface IBreaker {
    /// @notice More than the limit of operators were convicted, or their disputes drawn, in one environment.
    event BreakerTripped(bytes32 indexed environment, uint256 operators, bool closed);
    /// @notice More than the limit of disputes with one operator ended in a DRAW.
    event OperatorTripped(address indexed operator, uint256 draws);
    event BreakerReset(bytes32 indexed environment);

    /// @notice A dispute with `operator` found another output. The court only.
    function noteConviction(bytes32 environment, address operator, uint32 paramsVersion) external;
    /// @notice Dispute `id` with `operator` ended in a DRAW. The court only, once for a dispute.
    function noteDraw(bytes32 id, bytes32 environment, address operator, uint32 paramsVersion) external;
    /// @notice Convictions of an environment may go on. Curator role.
    function resetBreaker(bytes32 environment) external;
    /// @notice Whether convictions of this environment wait.
    function isHeld(bytes32 environment) external view returns (bool);
}
