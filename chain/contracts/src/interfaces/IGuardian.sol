// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IDisputes} from "./IDisputes.sol";

/// @title IGuardian: the protocol clock, which a bounded pause stops, and the refund of a dispute in its airgap
/// @notice A pause moves every deadline at once and ends by itself. Nothing here can choose a winner or move a stake.
interface IGuardian {
    /// @notice The clock stands still until `until` (wall time).
    event Paused(uint64 until, address by);
    /// @notice The clock runs again; `stopped` seconds lie between it and wall time in all.
    event Unpaused(uint64 stopped, address by);

    /// @notice Longer than `Times.maxPause`.
    error PauseTooLong(uint256 have, uint256 most);
    /// @notice The next pause can begin at `notBefore`: one pause at most falls into any dispute.
    error CoolingDown(uint256 now_, uint256 notBefore);
    /// @notice A pause runs already, or none does.
    error NotNow(bool paused);

    /// @notice Seconds of the protocol: wall time without pauses. Every deadline of every contract is on it.
    function clock() external view returns (uint64);
    /// @notice The clock, or `NotNow(true)` while it is stopped: one question instead of two.
    function runningClock() external view returns (uint64);
    /// @notice Wall time at which the running pause ends; 0 without one.
    function pausedUntil() external view returns (uint64);
    /// @notice Stop the clock for `duration` seconds. Guardian role.
    function pause(uint64 duration) external;
    /// @notice End a pause early. Guardian role.
    function unpause() external;
    /// @notice Give everybody its own back in a dispute of `court` whose money has not moved. Guardian role, once per dispute.
    function refund(IDisputes court, bytes32 dispute) external;
}
