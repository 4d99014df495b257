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
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {TestChains} from "../libraries/TestChains.sol";

/// @title BytewiseGovernor: votes of a token over what a timelock then does
/// @dev OpenZeppelin's parts, the overrides that putting them together needs, and bounds: no vote may end all votes.
contract BytewiseGovernor is
    Governor,
    GovernorSettings,
    GovernorCountingSimple,
    GovernorVotes,
    GovernorVotesQuorumFraction,
    GovernorTimelockControl
{
    /// @dev Blocks. Of two seconds: ten minutes to a week before a vote, two hours to a month for it. Test chains: from one block on.
    uint256 private constant MIN_DELAY = 300;
    uint256 private constant MAX_DELAY = 302_400;
    uint256 private constant MIN_PERIOD = 3_600;
    uint256 private constant MAX_PERIOD = 1_296_000;
    /// @dev Part of the supply.
    uint256 private constant MAX_THRESHOLD_PART = 20;
    /// @dev Percent of the supply.
    uint256 private constant MIN_QUORUM = 1;
    uint256 private constant MAX_QUORUM = 50;

    /// @notice With a larger value nobody could propose or carry anything any more; with a smaller one nobody would notice a vote.
    error OutOfBounds(bytes32 setting, uint256 have, uint256 least, uint256 most);
    /// @notice The roles are this timelock's. Another governor, with another timelock, is given them by a vote.
    error TimelockIsFixed(address other);

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
    {
        // `GovernorSettings` sets it before the token is known.
        _checkThreshold(threshold);
    }

    function proposalThreshold() public view override(Governor, GovernorSettings) returns (uint256) {
        return super.proposalThreshold();
    }

    /// @dev Refused: votes that another timelock queues can do nothing, and none could bring this one back.
    function updateTimelock(TimelockController newTimelock) public pure override {
        revert TimelockIsFixed(address(newTimelock));
    }

    function setProposalThreshold(uint256 newProposalThreshold) public override onlyGovernance {
        _checkThreshold(newProposalThreshold);
        _setProposalThreshold(newProposalThreshold);
    }

    function _setVotingDelay(uint48 delay) internal override {
        _bound("votingDelay", delay, MIN_DELAY, MAX_DELAY);
        super._setVotingDelay(delay);
    }

    function _setVotingPeriod(uint32 period) internal override {
        _bound("votingPeriod", period, MIN_PERIOD, MAX_PERIOD);
        super._setVotingPeriod(period);
    }

    function _updateQuorumNumerator(uint256 percent) internal override {
        _bound("quorum", percent, MIN_QUORUM, MAX_QUORUM);
        super._updateQuorumNumerator(percent);
    }

    function _checkThreshold(uint256 threshold) private view {
        // The supply is fixed.
        uint256 supply = IERC20(address(token())).totalSupply();
        _bound("proposalThreshold", threshold, 1, supply / MAX_THRESHOLD_PART);
    }

    function _bound(bytes32 setting, uint256 have, uint256 least, uint256 most) private view {
        if (TestChains.isOne(block.chainid)) least = 1;
        if (have < least || have > most) revert OutOfBounds(setting, have, least, most);
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
