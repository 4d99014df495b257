// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManaged} from "@openzeppelin/contracts/access/manager/AccessManaged.sol";
import {IDisputes} from "../interfaces/IDisputes.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IParams} from "../interfaces/IParams.sol";

/// @title Guardian: one word says how far the protocol clock is behind wall time
/// @dev The clock:
///
///      RUNNING -pause-> STOPPED -unpause, or time-> RUNNING
///
///      No money moves here: `refund` asks a court, which takes that from nobody else. Every court of a network has this one clock, so
///      that a pause stops all of them, and what is closed for one is closed for the other in the same second. Invariants
///      (docs/reference/contracts.md, section 6):
///
///      I22 BOUNDED PAUSE: A pause stops the clock for at most `maxPause`, and the next one begins after the longest dispute.
contract Guardian is IGuardian, AccessManaged {
    /// @dev The last pause, running or over, and what all before it took. Wall time, seconds.
    struct Pause {
        uint64 from;
        uint64 until; // the clock runs again from here on, whether somebody says so or not
        uint64 stoppedBefore;
    }

    /// @notice The network's parameters.
    IParams public immutable PARAMS;

    Pause private _last;

    constructor(address authority_, IParams params) AccessManaged(authority_) {
        PARAMS = params;
    }

    /// @inheritdoc IGuardian
    function clock() external view returns (uint64) {
        Pause memory p = _last;
        return block.timestamp < p.until ? p.from - p.stoppedBefore : uint64(block.timestamp) - _stopped(p);
    }

    /// @inheritdoc IGuardian
    function runningClock() external view returns (uint64) {
        Pause memory p = _last;
        if (block.timestamp < p.until) revert NotNow(true);
        return uint64(block.timestamp) - _stopped(p);
    }

    /// @inheritdoc IGuardian
    function pausedUntil() public view returns (uint64) {
        uint64 until = _last.until;
        return block.timestamp < until ? until : 0;
    }

    /// @inheritdoc IGuardian
    function pause(uint64 duration) external restricted {
        Pause memory p = _last;
        uint256 most = PARAMS.pauseLimit();
        if (duration > most) revert PauseTooLong(duration, most);
        if (block.timestamp < p.until) revert NotNow(true);
        uint256 notBefore = p.until == 0 ? 0 : p.until + PARAMS.longestLive();
        if (block.timestamp < notBefore) revert CoolingDown(block.timestamp, notBefore);
        uint64 from = uint64(block.timestamp);
        _last = Pause(from, from + duration, _stopped(p));
        emit Paused(from + duration, msg.sender);
    }

    /// @inheritdoc IGuardian
    function unpause() external restricted {
        if (pausedUntil() == 0) revert NotNow(false);
        _last.until = uint64(block.timestamp);
        emit Unpaused(_stopped(_last), msg.sender);
    }

    /// @inheritdoc IGuardian
    function refund(IDisputes court, bytes32 dispute) external restricted {
        court.refund(dispute);
    }

    /// @dev Seconds that the clock has lost once the last pause is over.
    function _stopped(Pause memory p) private pure returns (uint64) {
        return p.stoppedBefore + p.until - p.from;
    }
}
