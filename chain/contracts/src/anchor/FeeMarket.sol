// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManaged} from "@openzeppelin/contracts/access/manager/AccessManaged.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Wired} from "../libraries/Wired.sol";
import {IAudits} from "../interfaces/IAudits.sol";
import {IFeeMarket} from "../interfaces/IFeeMarket.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";

/// @title FeeMarket: one price, moved once for each epoch that is over
/// @dev No states: one price for each epoch, between the limits of governance.
///
///      | transition | who pays     | what                 | to whom         |
///      |------------|--------------|----------------------|-----------------|
///      | `use`      | the operator | `price` each receipt | the audit pool  |
///
///      Invariants (docs/reference/contracts.md, section 6):
///
///      I1 SUMS: Every fee is in the audit pool, and none stays here.
contract FeeMarket is IFeeMarket, AccessManaged, Wired {
    /// @dev As in EIP-1559: the price moves by at most an eighth from one epoch to the next.
    uint256 private constant STEP = 8;
    /// @dev Hard bounds, as `ParamLaw` has for parameters. A price that no operator can pay would leave every receipt unanchored, and an
    ///      epoch that never ends would keep the price whatever is anchored.
    uint256 private constant MAX_PRICE = 1 ether;
    uint256 private constant MAX_EPOCH = 14 days;

    /// @dev `target` is the receipts of an epoch at which the price stands still.
    struct Limits {
        uint96 least;
        uint96 most;
        uint32 target;
        uint32 epochSeconds;
    }

    struct State {
        uint96 price;
        uint64 epoch;
        uint48 startedAt; // of the epoch, protocol clock
        uint48 used; // receipts in the epoch so far
    }

    /// @notice The protocol clock.
    IGuardian public immutable GUARDIAN;
    /// @notice Who anchors and pays.
    address public anchor;
    /// @notice Where fees go.
    IAudits public audits;

    Limits private _limits;
    State private _state;

    constructor(address authority_, IGuardian guardian, uint96 least, uint96 most, uint32 target, uint32 epochSeconds)
        AccessManaged(authority_)
    {
        GUARDIAN = guardian;
        _state.price = least;
        _state.startedAt = SafeCast.toUint48(guardian.clock());
        _setLimits(Limits(least, most, target, epochSeconds));
    }

    /// @notice Name the anchor and the audit pool. Once, by the deployer.
    function wire(address anchor_, IAudits audits_) external wiring {
        anchor = _nonZero(anchor_);
        audits = IAudits(_nonZero(address(audits_)));
    }

    /// @inheritdoc IFeeMarket
    function use(uint256 receipts) external payable {
        if (msg.sender != anchor) revert NotAuthorised(msg.sender);
        State memory s = _roll();
        s.used += SafeCast.toUint48(receipts);
        _state = s;
        audits.feed{value: msg.value}();
    }

    /// @inheritdoc IFeeMarket
    function setLimits(uint96 least, uint96 most, uint32 target, uint32 epochSeconds) external restricted {
        // What is over was under the old limits.
        _state = _roll();
        _setLimits(Limits(least, most, target, epochSeconds));
    }

    /// @inheritdoc IFeeMarket
    function price() public view returns (uint256) {
        return _now().price;
    }

    /// @inheritdoc IFeeMarket
    function feeFor(uint256 receipts) external view returns (uint256) {
        return receipts * price();
    }

    /// @notice The limits in force.
    function limits() external view returns (Limits memory) {
        return _limits;
    }

    function _setLimits(Limits memory l) private {
        bool within = l.least != 0 && l.least <= l.most && l.most <= MAX_PRICE;
        if (!within || l.target == 0 || l.epochSeconds == 0 || l.epochSeconds > MAX_EPOCH) {
            revert BadLimits(l.least, l.most, l.target, l.epochSeconds);
        }
        _limits = l;
        _state.price = uint96(Math.max(l.least, Math.min(l.most, _state.price)));
        emit LimitsSet(l.least, l.most, l.target, l.epochSeconds);
    }

    /// @dev The state now, and an event if an epoch is over.
    function _roll() private returns (State memory s) {
        s = _now();
        if (s.epoch != _state.epoch) emit PriceMoved(s.epoch, s.price, _state.used);
    }

    function _now() private view returns (State memory s) {
        Limits memory l = _limits;
        s = _state;
        uint256 over = (GUARDIAN.clock() - s.startedAt) / l.epochSeconds;
        if (over == 0) return s;
        uint256 p = _next(s.price, s.used, l.target);
        // Nobody anchored since. The least price is reached in about 310 steps from any, so the walk is bounded.
        for (uint256 i = 1; i < over && p > l.least; ++i) {
            p = _next(p, 0, l.target);
        }
        s.price = uint96(Math.max(l.least, Math.min(l.most, p)));
        s.epoch += SafeCast.toUint64(over);
        s.startedAt += SafeCast.toUint48(over * l.epochSeconds);
        s.used = 0;
    }

    /// @dev Use beyond twice the target counts as twice. A price that should move moves by a wei at least.
    function _next(uint256 p, uint256 used, uint256 target) private pure returns (uint256) {
        if (used == target) return p;
        uint256 away = used > target ? Math.min(used - target, target) : target - used;
        uint256 step = Math.ceilDiv(p * away, target * STEP);
        return used > target ? p + step : p - step;
    }
}
