// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Checkpoints} from "@openzeppelin/contracts/utils/structs/Checkpoints.sol";
import {ILedger} from "./interfaces/ILedger.sol";
import {IParams} from "./interfaces/IParams.sol";
import {IStakeSource} from "./interfaces/IStakeSource.sol";
import {Wired} from "./Wired.sol";

/// @title StakeVault: native stake
/// @dev Held wei == totalStake + totalUnbonding. For every account: locked <= active + unbonding.
contract StakeVault is IStakeSource, Wired, ReentrancyGuardTransient {
    using Checkpoints for Checkpoints.Trace208;

    struct Account {
        uint128 active; // counts for draws and posting
        uint128 unbonding; // on its way out, still slashable
        uint128 locked; // bound by open disputes; may bind either of the two above
        uint64 finishAt; // earliest time to finish unbonding
    }

    /// @notice The network's parameters.
    IParams public immutable PARAMS;
    /// @notice Where slashed stake goes.
    ILedger public immutable LEDGER;

    /// @notice The dispute court.
    address public disputes;
    /// @notice The receipt anchor, which punishes equivocation.
    address public anchor;
    /// @inheritdoc IStakeSource
    uint256 public totalStake;
    /// @inheritdoc IStakeSource
    uint256 public totalUnbonding;

    mapping(address account => Account) private _accounts;
    mapping(address account => Checkpoints.Trace208) private _history;

    modifier onlySlashers() {
        if (msg.sender != disputes && msg.sender != anchor) revert NotAuthorised(msg.sender);
        _;
    }

    constructor(IParams params, ILedger ledger) {
        PARAMS = params;
        LEDGER = ledger;
    }

    /// @notice Name the contracts that may lock and slash. Once, by the deployer.
    function wire(address disputes_, address anchor_) external wiring {
        disputes = _nonZero(disputes_);
        anchor = _nonZero(anchor_);
    }

    /// @inheritdoc IStakeSource
    function deposit() external payable {
        if (msg.value == 0) revert ZeroAmount();
        Account storage a = _accounts[msg.sender];
        a.active += SafeCast.toUint128(msg.value);
        totalStake += msg.value;
        _record(msg.sender, a.active);
        emit Deposited(msg.sender, msg.value, a.active);
    }

    /// @inheritdoc IStakeSource
    function requestUnbond(uint256 amount) external {
        if (amount == 0) revert ZeroAmount();
        Account storage a = _accounts[msg.sender];
        if (a.unbonding != 0) revert UnbondPending(a.finishAt);
        if (a.active < amount) revert StakeTooSmall(msg.sender, a.active, amount);
        // No check of locks here: unbonding stake stays lockable and slashable until it is paid out.
        a.active -= SafeCast.toUint128(amount);
        a.unbonding = SafeCast.toUint128(amount);
        a.finishAt = SafeCast.toUint64(block.timestamp + PARAMS.get().unbondDelay);
        totalStake -= amount;
        totalUnbonding += amount;
        _record(msg.sender, a.active);
        emit UnbondRequested(msg.sender, amount, a.finishAt);
    }

    /// @inheritdoc IStakeSource
    function finishUnbond() external nonReentrant returns (uint256 amount) {
        Account storage a = _accounts[msg.sender];
        amount = a.unbonding;
        if (amount == 0) revert NothingUnbonding(msg.sender);
        if (block.timestamp < a.finishAt) revert TooEarly(SafeCast.toUint64(block.timestamp), a.finishAt);
        if (a.locked > a.active) revert StakeLocked(msg.sender, a.locked, a.active);
        a.unbonding = 0;
        a.finishAt = 0;
        totalUnbonding -= amount;
        emit Unbonded(msg.sender, amount);
        (bool ok,) = msg.sender.call{value: amount}("");
        if (!ok) revert PaymentRefused(msg.sender);
    }

    /// @inheritdoc IStakeSource
    function lock(address account, uint256 want, bytes32 ref) external onlySlashers returns (uint256 locked) {
        Account storage a = _accounts[account];
        locked = Math.min(want, uint256(a.active) + a.unbonding - a.locked);
        a.locked += SafeCast.toUint128(locked);
        emit Locked(account, ref, want, locked);
    }

    /// @inheritdoc IStakeSource
    function unlock(address account, uint256 amount, bytes32 ref) external onlySlashers {
        _accounts[account].locked -= SafeCast.toUint128(amount);
        emit Unlocked(account, ref, amount);
    }

    /// @inheritdoc IStakeSource
    function slash(address account, uint256 boundBefore, uint256 want, bytes32 ref)
        external
        onlySlashers
        returns (uint256 taken)
    {
        Account storage a = _accounts[account];
        a.locked -= SafeCast.toUint128(boundBefore);
        taken = Math.min(want, uint256(a.active) + a.unbonding - a.locked);
        uint256 fromActive = Math.min(taken, a.active);
        // Both casts are safe: each part is at most the uint128 it is taken from.
        a.active -= uint128(fromActive);
        a.unbonding -= uint128(taken - fromActive);
        totalStake -= fromActive;
        totalUnbonding -= taken - fromActive;
        _record(account, a.active);
        emit Slashed(account, ref, want, taken);
        if (taken != 0) LEDGER.takeSlash{value: taken}(ref, account);
    }

    /// @inheritdoc IStakeSource
    function stakeOf(address account) external view returns (uint256) {
        return _accounts[account].active;
    }

    /// @inheritdoc IStakeSource
    function stakeAt(address account, uint256 blockNumber) external view returns (uint256) {
        return _history[account].upperLookupRecent(SafeCast.toUint48(blockNumber));
    }

    /// @inheritdoc IStakeSource
    function lockedOf(address account) external view returns (uint256) {
        return _accounts[account].locked;
    }

    /// @inheritdoc IStakeSource
    function freeStakeOf(address account) external view returns (uint256) {
        Account storage a = _accounts[account];
        return a.active > a.locked ? a.active - a.locked : 0;
    }

    /// @inheritdoc IStakeSource
    function unbondingOf(address account) external view returns (uint256 amount, uint64 finishAt) {
        Account storage a = _accounts[account];
        return (a.unbonding, a.finishAt);
    }

    function _record(address account, uint128 active) private {
        _history[account].push(SafeCast.toUint48(block.number), active);
    }
}
