// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Committee, Money, ParamSet, Shares, SplitTerms, Times} from "../libraries/Types.sol";

/// @title IParams: every number that governs the network, in versions that never change
/// @notice A new version counts for what begins after it. Each is checked against hard bounds and the static law, and
///         against the longest dispute that an older version can still have.
interface IParams {
    /// @notice A version came into force.
    event ParamsSet(uint32 indexed version, bytes32 hash, ParamSet params);

    /// @notice A parameter is outside its hard bounds.
    /// @param key name of the parameter
    error ParamOutOfBounds(bytes32 key);
    /// @notice The static law is broken: a delay would end before the longest possible dispute (design section 9).
    error StaticLawBroken(bytes32 limit, uint256 have, uint256 longest);
    /// @notice There is no such version.
    error UnknownVersion(uint32 version);

    /// @notice The version in force; the first is 1.
    function version() external view returns (uint32);
    /// @notice Put a new version into force. PARAMS role.
    function set(ParamSet calldata p) external returns (uint32);
    /// @notice All parameters of a version.
    function get(uint32 version_) external view returns (ParamSet memory);
    /// @notice One part of a version: what a contract needs, for the price of its storage.
    function times(uint32 version_) external view returns (Times memory);
    function committee(uint32 version_) external view returns (Committee memory);
    function money(uint32 version_) external view returns (Money memory);
    function shares(uint32 version_) external view returns (Shares memory);
    /// @notice Seconds from the issue of a receipt to the end of its last possible dispute under a version.
    function longestDispute(uint32 version_) external view returns (uint256);
    /// @notice The longest dispute that the version in force, or one before it, can still have: what no delay may undercut.
    function longestLive() external view returns (uint256);
    /// @notice The longest pause that every version allows whose disputes can still run.
    function pauseLimit() external view returns (uint256);
    /// @notice The fee of one seat and the slash of a conviction: what every dispute reads, for the price of two words.
    function feeAndSlash(uint32 version_) external view returns (uint256 feePerSeat, uint256 slashAmount);
    /// @notice The bond of a demand, and what one costs that nobody answered: for each receipt of a list, and for one to anchor.
    function demandMoney(uint32 version_)
        external
        view
        returns (uint256 bond, uint256 withheldPenalty, uint256 unanchoredPenalty);
    /// @notice What a reported fault costs, and the share of who reported it.
    function reportTerms(uint32 version_) external view returns (uint256 slashAmount, uint16 alphaBps);
    /// @notice Wei that a seat loses by its standing.
    function penalties(uint32 version_) external view returns (uint256 absent, uint256 noReveal, uint256 wrong);
    /// @notice Seconds to question a receipt. These four: parts of `times` for the price of a word or two.
    function window(uint32 version_) external view returns (uint32);
    /// @notice Seconds to anchor, and to answer a demand.
    function demandTimes(uint32 version_) external view returns (uint32 maxAnchorDelay, uint32 cure);
    /// @notice What opening a dispute asks for: `requiredBond`, and how much of the operator's stake is locked.
    function openTerms(uint32 version_) external view returns (uint256 bond, uint256 slashAmount);
    /// @notice What the money of a dispute is split by.
    function splitTerms(uint32 version_) external view returns (SplitTerms memory);
    /// @notice Seats of a level, and the times of its rounds.
    function roundTerms(uint32 version_, uint8 level)
        external
        view
        returns (uint8 seats, uint32 commitTime, uint32 revealTime);
    /// @notice Seconds to appeal, and from a last verdict to the first movement of money.
    function endTimes(uint32 version_) external view returns (uint32 appealTime, uint32 airgap);
    /// @notice What an operator needs to anchor: free stake, collateral for each receipt; and receipts of a batch.
    function postTerms(uint32 version_) external view returns (uint256 minStake, uint256 collateral, uint256 maxBatch);
    /// @notice Seconds that a credit waits under the version in force.
    function withdrawDelay() external view returns (uint256);
    /// @notice Bond that opens a dispute: the fees of the first round and the privacy price.
    function requiredBond(uint32 version_) external view returns (uint256);
    /// @notice Seats that make a verdict among `seats`: ceil(seats * tauNum / tauDen).
    function quorum(uint32 version_, uint256 seats) external view returns (uint256);
}
