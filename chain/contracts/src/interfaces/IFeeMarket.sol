// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title IFeeMarket: what a place for one receipt costs, rising with use (the paper's fee market for audit capacity)
/// @notice As EIP-1559: the price of an epoch follows from the one before, by at most an eighth for each step that use was
///         away from the target, within bounds of governance. All of it goes to the pool that pays light audits.
interface IFeeMarket {
    event PriceMoved(uint64 indexed epoch, uint256 price, uint256 used);
    event LimitsSet(uint96 least, uint96 most, uint32 target, uint32 epochSeconds);

    error BadLimits(uint256 least, uint256 most, uint256 target, uint256 epochSeconds);

    /// @notice Price of one receipt now, in wei.
    function price() external view returns (uint256);
    function feeFor(uint256 receipts) external view returns (uint256);
    /// @notice Receipts were anchored and paid for. Anchor only; forwards the wei to the audit pool.
    function use(uint256 receipts) external payable;
    /// @notice Governance. Prices are at most 1 ether, an epoch is at most 14 days.
    function setLimits(uint96 least, uint96 most, uint32 target, uint32 epochSeconds) external;
}
