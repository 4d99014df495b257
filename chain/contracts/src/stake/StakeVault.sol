// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Checkpoints} from "@openzeppelin/contracts/utils/structs/Checkpoints.sol";
import {MaturityQueue} from "../libraries/MaturityQueue.sol";
import {StakeBook} from "./StakeBook.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {ILedger} from "../interfaces/ILedger.sol";
import {IStakeSource} from "../interfaces/IStakeSource.sol";

/// @title StakeVault: native stake
/// @dev A wei of an account:
///
///      OUTSIDE -deposit-> ACTIVE -requestUnbond-> LEAVING -finishUnbond, after `unbondDelay`-> OUTSIDE
///                         ACTIVE -slash-> TAKEN           LEAVING -slash-> TAKEN
///
///      | transition     | who pays      | what                             | to whom                        |
///      |----------------|---------------|----------------------------------|--------------------------------|
///      | `deposit`      | the account   | what it sends                    | its active stake               |
///      | `finishUnbond` | leaving stake | what is due and bound by nothing | the account                    |
///      | `slash`        | active, then leaving stake | `want`, or all there is | the ledger's pot `ref`     |
///
///      Locks, collateral and obligations (`StakeBook`) move nothing: they keep stake from leaving. Held wei == totalStake +
///      totalUnbonding (wei forced in are nobody's). Invariants (docs/reference/contracts.md, section 6):
///
///      I5 NOT BEFORE ITS TIME: Leaving stake is paid after its delay, on the protocol clock.
///      I9 LEAVING IS SLASHABLE: What is on its way out can be slashed to its last second.
///      I10 BOUND: What is bound cannot leave, and nothing else is bound.
///      I11 NO MORE THAN THERE IS: A slash takes at most what the account has, and nothing of anybody else.
contract StakeVault is StakeBook, ReentrancyGuardTransient {
    using Checkpoints for Checkpoints.Trace208;
    using MaturityQueue for MaturityQueue.Queue;
    using SafeCast for uint256;

    /// @notice Most requests of one account under way, by the hour in which they mature; only their owner adds any.
    uint256 public constant MAX_REQUESTS = 8;

    /// @inheritdoc IStakeSource
    uint256 public totalStake;
    /// @inheritdoc IStakeSource
    uint256 public totalUnbonding;

    mapping(address account => uint256) private _active; // counts for draws and posting
    mapping(address account => MaturityQueue.Queue) private _leaving; // still slashable
    mapping(address account => Checkpoints.Trace208) private _history;

    constructor(Parts memory parts) StakeBook(parts) {}

    /// @inheritdoc IStakeSource
    function deposit() external payable {
        if (msg.value == 0) revert ZeroAmount();
        uint256 active = _active[msg.sender] + msg.value;
        totalStake += msg.value;
        emit Deposited(msg.sender, msg.value, active);
        _set(msg.sender, active);
    }

    /// @inheritdoc IStakeSource
    function requestUnbond(uint256 amount) external {
        if (amount == 0) revert ZeroAmount();
        uint256 active = _active[msg.sender];
        if (active < amount) revert StakeTooSmall(msg.sender, active, amount);
        // What is bound is not looked at: unbonding stake can be locked and slashed until it is paid out.
        totalStake -= amount;
        totalUnbonding += amount;
        uint256 delay = PARAMS.times(PARAMS.version()).unbondDelay;
        MaturityQueue.Queue storage leaving = _leaving[msg.sender];
        uint64 finishAt = leaving.push(amount, GUARDIAN.clock(), delay);
        // So many entries a slash walks at most.
        if (leaving.length() > MAX_REQUESTS) revert QueueFull(MAX_REQUESTS);
        emit UnbondRequested(msg.sender, amount, finishAt);
        _set(msg.sender, active - amount);
    }

    /// @inheritdoc IStakeSource
    function finishUnbond() external nonReentrant returns (uint256 amount) {
        if (GUARDIAN.pausedUntil() != 0) revert IGuardian.NotNow(true);
        MaturityQueue.Queue storage leaving = _leaving[msg.sender];
        (uint256 due, uint64 nextAt) = leaving.due(GUARDIAN.clock());
        if (due == 0) revert NothingUnbonded(msg.sender, nextAt);
        uint256 all = _all(msg.sender);
        uint256 kept = keptOf(msg.sender);
        amount = Math.min(due, Math.saturatingSub(all, kept));
        if (amount == 0) revert StakeBound(msg.sender, kept, all);
        leaving.take(amount);
        totalUnbonding -= amount;
        emit Unbonded(msg.sender, amount);
        (bool ok,) = msg.sender.call{value: amount}("");
        if (!ok) revert PaymentRefused(msg.sender);
    }

    /// @inheritdoc IStakeSource
    function slash(address account, uint256 boundBefore, uint256 want, bytes32 ref)
        external
        onlyMovers
        returns (uint256 taken)
    {
        _unlock(account, boundBefore);
        taken = Math.min(want, _all(account));
        uint256 active = _active[account];
        uint256 fromActive = Math.min(taken, active);
        totalStake -= fromActive;
        totalUnbonding -= taken - fromActive;
        if (taken != fromActive) _leaving[account].take(taken - fromActive);
        emit Slashed(account, ref, want, taken);
        if (fromActive != 0) _set(account, active - fromActive);
        if (taken != 0) LEDGER.take{value: taken}(ref, account, ILedger.Source.SLASH);
    }

    /// @inheritdoc IStakeSource
    function stakeOf(address account) public view override returns (uint256) {
        return _active[account];
    }

    /// @inheritdoc IStakeSource
    function stakeAt(address account, uint256 blockNumber) external view returns (uint256) {
        return _history[account].upperLookupRecent(blockNumber.toUint48());
    }

    /// @inheritdoc IStakeSource
    function unbondingOf(address account) external view returns (uint256 amount, uint256 due, uint64 nextAt) {
        (due, nextAt) = _leaving[account].due(GUARDIAN.clock());
        if (GUARDIAN.pausedUntil() != 0) due = 0;
        amount = _leaving[account].total();
    }

    /// @dev The new active stake, remembered and weighed.
    function _set(address account, uint256 active) private {
        _active[account] = active;
        _history[account].push(block.number.toUint48(), active.toUint208());
        _weigh(account, active);
    }

    function _all(address account) internal view override returns (uint256) {
        return _active[account] + _leaving[account].total();
    }
}
