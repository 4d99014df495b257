// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ICourt} from "./ICourt.sol";
import {Receipt} from "../libraries/Types.sol";

/// @title IProceedings: how a dispute begins, moves on and ends. See `IDisputes`
interface IProceedings is ICourt {
    /// @notice Question a receipt: member of its batch, inside its window, never disputed, not by its operator, `requiredBond`
    ///         sent along. The operator's stake is locked, the seed block named.
    /// @param altCommit `altCommitOf` of the answer that the challenger expects to win and a salt: alpha is for who knew it
    function open(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof, bytes32 altCommit)
        external
        payable
        returns (bytes32 id);
    /// @notice Draw up to `count` seats once the seed is known, in its epoch, paused or not; at least one or revert. All parts together
    ///         are the draw.
    function draw(bytes32 id, uint256 count) external;
    /// @notice Name a new seed block because the old one was lost or its epoch is over. Too often: the dispute ends as after a
    ///         last inconclusive round.
    function rearm(bytes32 id) external;
    /// @notice Count the round: decided, or the next level, or a rerun.
    function settle(bytes32 id) external;
    /// @notice Ask for the next level, once, for `appealBond`. Anybody may, for the loser.
    function appeal(bytes32 id) external payable;
    /// @notice Show that the challenger committed to what the verdict says. Anybody who knows the salt, before the airgap ends.
    function openAlt(bytes32 id, bytes32 salt) external;
    /// @notice End the dispute and move its money. Anybody, after the airgap, unless held.
    function finalize(bytes32 id) external;
    /// @notice Give everybody its own back. The guardian only, between verdict and end, held or not.
    function refund(bytes32 id) external;
    /// @notice Convictions of an environment may go on. Governance.
    function resetBreaker(bytes32 environment) external;
    /// @notice What a challenger commits to: chain, court, dispute, its own account, what it expects, a salt.
    function altCommitOf(bytes32 id, address challenger, bytes32 key, bytes32 salt) external view returns (bytes32);
    /// @notice Wei to send with `appeal`: twice the fees of the next level.
    function appealBond(bytes32 id) external view returns (uint256);
}
