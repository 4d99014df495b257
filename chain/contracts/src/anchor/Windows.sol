// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Reports} from "../demands/Reports.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IReceiptAnchor} from "../interfaces/IReceiptAnchor.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";

/// @title Windows: until when a receipt can be questioned and a demand be answered, and what stands still meanwhile
abstract contract Windows is Reports {
    /// @notice The protocol clock.
    IGuardian public immutable GUARDIAN;
    /// @notice Operators, environments, models, pools.
    IRegistry public immutable REGISTRY;

    modifier running() {
        _checkRunning();
        _;
    }

    constructor(IGuardian guardian, IRegistry registry) {
        GUARDIAN = guardian;
        REGISTRY = registry;
    }

    /// @inheritdoc IReceiptAnchor
    function windowEnd(bytes32 receiptId_, uint64 batchId) public view returns (uint64) {
        return SafeCast.toUint64(_batchEnd(batchId) + _heldFor(receiptId_));
    }

    /// @inheritdoc IReceiptAnchor
    function disputable(bytes32 receiptId_, uint64 batchId) external view returns (uint64, uint32, bytes32) {
        Stored storage b = _known(batchId);
        return (windowEnd(receiptId_, batchId), b.paramsVersion, _service(b.service).pool);
    }

    /// @dev Last second to question any receipt of a batch but those whose envelopes were demanded.
    function _batchEnd(uint64 batchId) internal view returns (uint256) {
        Stored storage b = _known(batchId);
        // The clock less the pool's stops never goes back, so a window that was over stays over.
        // Nothing overflows: times are of 40 bits.
        unchecked {
            uint256 stopped = _stoppedSeconds(_service(b.service).pool) - b.stoppedAtStart;
            return uint256(b.startedAt) + PARAMS.window(b.paramsVersion) + stopped + _heldFor(listSubject(batchId));
        }
    }

    /// @dev Seconds for which a demand made a window stand still: at most up to its deadline.
    function _heldFor(bytes32 subject) internal view returns (uint256) {
        StoredDemand storage d = _demands[subject];
        if (d.state == State.NONE) return 0;
        uint256 end = d.state == State.OPEN ? Math.min(_clock(), _deadline(d)) : d.closedAt;
        // Neither clock nor end lie before the beginning.
        unchecked {
            return end - d.openedAt;
        }
    }

    function _deadline(StoredDemand storage d) internal view returns (uint256) {
        (uint256 maxAnchorDelay, uint256 cure) = _demandTimes(d.paramsVersion);
        return uint256(d.openedAt) + (d.kind == Kind.ANCHOR ? maxAnchorDelay : cure);
    }

    function _checkWindow(uint64 end) internal view {
        uint256 clock = _clock();
        if (clock > end) revert WindowClosed(clock, end);
    }

    function _demandTimes(uint32 version) internal view returns (uint256 maxAnchorDelay, uint256 cure) {
        return PARAMS.demandTimes(version);
    }

    function _clock() internal view returns (uint64) {
        return GUARDIAN.clock();
    }

    function _stoppedSeconds(bytes32 pool) internal view returns (uint64) {
        return REGISTRY.stoppedSeconds(pool);
    }

    function _checkRunning() private view {
        if (GUARDIAN.pausedUntil() != 0) revert IGuardian.NotNow(true);
    }
}
