// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Governor} from "@openzeppelin/contracts/governance/Governor.sol";
import {TimelockController} from "@openzeppelin/contracts/governance/TimelockController.sol";
import {GovernorCountingSimple} from "@openzeppelin/contracts/governance/extensions/GovernorCountingSimple.sol";
import {GovernorSettings} from "@openzeppelin/contracts/governance/extensions/GovernorSettings.sol";
import {GovernorTimelockControl} from "@openzeppelin/contracts/governance/extensions/GovernorTimelockControl.sol";
import {GovernorVotes} from "@openzeppelin/contracts/governance/extensions/GovernorVotes.sol";
import {
    GovernorVotesQuorumFraction
} from "@openzeppelin/contracts/governance/extensions/GovernorVotesQuorumFraction.sol";
import {IVotes} from "@openzeppelin/contracts/governance/utils/IVotes.sol";

/// @title BytewiseGovernor: votes of a token over what a timelock then does
/// @dev OpenZeppelin's parts, and the overrides that putting them together needs.
contract BytewiseGovernor is
    Governor,
    GovernorSettings,
    GovernorCountingSimple,
    GovernorVotes,
    GovernorVotesQuorumFraction,
    GovernorTimelockControl
{
    /// @param delay blocks from a proposal to its vote
    /// @param period blocks of a vote
    /// @param threshold votes that a proposer needs
    /// @param percent of the supply that must take part
    constructor(
        IVotes token_,
        TimelockController timelock_,
        uint48 delay,
        uint32 period,
        uint256 threshold,
        uint256 percent
    )
        Governor("BytewiseGovernor")
        GovernorSettings(delay, period, threshold)
        GovernorVotes(token_)
        GovernorVotesQuorumFraction(percent)
        GovernorTimelockControl(timelock_)
    {}

    function proposalThreshold() public view override(Governor, GovernorSettings) returns (uint256) {
        return super.proposalThreshold();
    }

    function state(uint256 id) public view override(Governor, GovernorTimelockControl) returns (ProposalState) {
        return super.state(id);
    }

    function proposalNeedsQueuing(uint256 id) public view override(Governor, GovernorTimelockControl) returns (bool) {
        return super.proposalNeedsQueuing(id);
    }

    function _queueOperations(
        uint256 id,
        address[] memory targets,
        uint256[] memory values,
        bytes[] memory calls,
        bytes32 description
    ) internal override(Governor, GovernorTimelockControl) returns (uint48) {
        return super._queueOperations(id, targets, values, calls, description);
    }

    function _executeOperations(
        uint256 id,
        address[] memory targets,
        uint256[] memory values,
        bytes[] memory calls,
        bytes32 description
    ) internal override(Governor, GovernorTimelockControl) {
        super._executeOperations(id, targets, values, calls, description);
    }

    function _cancel(address[] memory targets, uint256[] memory values, bytes[] memory calls, bytes32 description)
        internal
        override(Governor, GovernorTimelockControl)
        returns (uint256)
    {
        return super._cancel(targets, values, calls, description);
    }

    function _executor() internal view override(Governor, GovernorTimelockControl) returns (address) {
        return super._executor();
    }
}
