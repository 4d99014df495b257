// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {
    Allocation,
    IAllocationManager,
    IDelegationManager,
    IStrategy,
    IStrategyManager,
    OperatorSet,
    SlashingParams
} from "../../src/stake/eigenlayer/IEigenLayer.sol";
import {WrappedEther} from "./WrappedEther.sol";

/// @title One operator set with one strategy, as EigenLayer's documentation says that they behave
/// @dev The six behaviours that the adapter must live with: deallocations, deregistrations and withdrawals stay slashable for
///      a number of blocks; a slash is a part of the allocated magnitude; it skips what has no allocation left; its money
///      comes by a second call of anybody; there is one slasher; slashes and payments can be paused, payments delayed.
contract FakeEigenLayer is IAllocationManager, IDelegationManager, IStrategyManager, IStrategy {
    struct Operator {
        uint256 shares;
        uint256[] queue; // shares on their way out ...
        uint256[] until; // ... and the last block at which they can be slashed
        uint64 most;
        Allocation allocation;
        bool registered;
        uint256 slashableUntil;
    }

    uint256 private constant WAD = 1e18;
    uint32 public immutable DEALLOCATION_DELAY;
    uint32 public immutable minWithdrawalDelayBlocks;
    WrappedEther public immutable TOKEN;

    address public slasher;
    address public recipient;
    address public pending;
    bool public slashPaused;
    bool public payPaused;
    uint256 public payDelay;
    uint256 public work;
    uint256 public totalShares;
    uint256 public slashes;

    mapping(address who => Operator) private _operators;
    mapping(uint256 slashId => uint256 shares) private _owed;
    mapping(uint256 slashId => uint256 block_) private _slashedAt;

    error CurrentlyPaused();
    error InvalidCaller();
    error OperatorNotSlashable();
    error InvalidWad(uint256 wad);
    error InvalidSet();
    error DelayNotElapsed();

    constructor(WrappedEther token, uint32 deallocationDelay, uint32 withdrawalDelay) {
        (TOKEN, DEALLOCATION_DELAY, minWithdrawalDelayBlocks) = (token, deallocationDelay, withdrawalDelay);
    }

    modifier known(OperatorSet memory set) {
        if (set.avs != address(this) || set.id != 7) revert InvalidSet();
        _;
    }

    // --- what its governance, its operators and their stakers do ---

    function create(address slasher_, address recipient_) external {
        (slasher, recipient) = (slasher_, recipient_);
    }

    /// @dev The service names another slasher; that it takes effect is `create` again.
    function name(address pending_) external {
        pending = pending_;
    }

    function pause(bool slashes_, bool payments, uint256 delay) external {
        (slashPaused, payPaused, payDelay) = (slashes_, payments, delay);
    }

    /// @dev A slash takes so much gas more.
    function labour(uint256 work_) external {
        work = work_;
    }

    function stake(address who) external payable {
        TOKEN.deposit{value: msg.value}();
        Operator storage o = _operators[who];
        if (o.most == 0) o.most = uint64(WAD);
        o.shares += msg.value;
        totalShares += msg.value;
    }

    /// @dev The strategy earns: each share is worth more.
    function earn() external payable {
        TOKEN.deposit{value: msg.value}();
    }

    function queueWithdrawal(address who, uint256 shares) external {
        Operator storage o = _operators[who];
        o.shares -= shares;
        o.queue.push(shares);
        o.until.push(block.number + minWithdrawalDelayBlocks);
    }

    function allocate(address who, uint64 magnitude) external {
        Operator storage o = _operators[who];
        o.allocation = _current(o);
        require(o.allocation.pendingDiff == 0, "pending");
        require(magnitude <= o.most, "too much");
        if (magnitude < o.allocation.currentMagnitude && _slashable(o)) {
            o.allocation.pendingDiff = int128(uint128(magnitude)) - int128(uint128(o.allocation.currentMagnitude));
            o.allocation.effectBlock = uint32(block.number) + DEALLOCATION_DELAY + 1;
        } else {
            o.allocation.currentMagnitude = magnitude;
        }
    }

    function register(address who, bool in_) external {
        Operator storage o = _operators[who];
        if (o.registered && !in_) o.slashableUntil = block.number + DEALLOCATION_DELAY;
        o.registered = in_;
    }

    // --- what the adapter calls ---

    function slashOperator(address avs, SlashingParams calldata p)
        external
        known(OperatorSet(avs, p.operatorSetId))
        returns (uint256 slashId, uint256[] memory shares)
    {
        if (slashPaused) revert CurrentlyPaused();
        if (msg.sender != slasher) revert InvalidCaller();
        Operator storage o = _operators[p.operator];
        if (!_slashable(o)) revert OperatorNotSlashable();
        if (p.strategies.length != 1 || p.strategies[0] != address(this)) revert InvalidSet();
        uint256 wad = p.wadsToSlash[0];
        if (wad == 0 || wad > WAD) revert InvalidWad(wad);
        uint256 start = gasleft();
        while (start - gasleft() < work) {}
        slashId = ++slashes;
        shares = new uint256[](1);
        o.allocation = _current(o);
        if (o.allocation.currentMagnitude == 0) return (slashId, shares);
        shares[0] = _reduce(o, wad);
        (_owed[slashId], _slashedAt[slashId]) = (shares[0], block.number);
    }

    function clearBurnOrRedistributableSharesByStrategy(OperatorSet calldata set, uint256 slashId, address strategy)
        external
        known(set)
        returns (uint256 amount)
    {
        if (payPaused) revert CurrentlyPaused();
        if (strategy != address(this)) revert InvalidSet();
        if (block.number < _slashedAt[slashId] + payDelay) revert DelayNotElapsed();
        uint256 shares = _owed[slashId];
        _owed[slashId] = 0;
        amount = sharesToUnderlyingView(shares);
        totalShares -= shares;
        TOKEN.transfer(recipient, amount);
    }

    // --- what it reads ---

    function delegation() external view returns (IDelegationManager) {
        return this;
    }

    function strategyManager() external view returns (IStrategyManager) {
        return this;
    }

    function getPendingSlasher(OperatorSet memory set)
        external
        view
        known(set)
        returns (address pendingSlasher, uint32 effectBlock)
    {
        return (pending, pending == address(0) ? 0 : uint32(block.number) + 1);
    }

    function isOperatorSet(OperatorSet memory set) external view returns (bool) {
        return set.avs == address(this) && set.id == 7 && slasher != address(0);
    }

    function getStrategiesInOperatorSet(OperatorSet memory set)
        external
        view
        known(set)
        returns (address[] memory strategies)
    {
        strategies = new address[](1);
        strategies[0] = address(this);
    }

    function getSlasher(OperatorSet memory set) external view known(set) returns (address) {
        return slasher;
    }

    function getRedistributionRecipient(OperatorSet memory set) external view known(set) returns (address) {
        return recipient;
    }

    function isMemberOfOperatorSet(address who, OperatorSet memory set) external view known(set) returns (bool) {
        return _operators[who].registered;
    }

    function isOperatorSlashable(address who, OperatorSet memory set) external view known(set) returns (bool) {
        return _slashable(_operators[who]);
    }

    function getMinimumSlashableStake(
        OperatorSet memory set,
        address[] memory operators,
        address[] memory strategies,
        uint32 futureBlock
    ) external view known(set) returns (uint256[][] memory stakes) {
        require(operators.length == 1 && strategies.length == 1 && strategies[0] == address(this), "one of one");
        stakes = new uint256[][](1);
        stakes[0] = new uint256[](1);
        Operator storage o = _operators[operators[0]];
        if (o.most == 0) return stakes;
        Allocation memory a = _current(o);
        uint256 magnitude = a.currentMagnitude;
        if (a.pendingDiff < 0 && a.effectBlock <= futureBlock) magnitude -= uint128(-a.pendingDiff);
        stakes[0][0] = o.shares * (magnitude * WAD / o.most) / WAD;
    }

    function getAllocation(address who, OperatorSet memory set, address strategy)
        external
        view
        known(set)
        returns (Allocation memory)
    {
        require(strategy == address(this), "strategy");
        return _current(_operators[who]);
    }

    function getMaxMagnitude(address who, address) external view returns (uint64) {
        return _operators[who].most;
    }

    function getSlashableSharesInQueue(address who, address) external view returns (uint256 shares) {
        Operator storage o = _operators[who];
        for (uint256 i = 0; i < o.queue.length; ++i) {
            if (block.number <= o.until[i]) shares += o.queue[i];
        }
    }

    function underlyingToken() external view returns (address) {
        return address(TOKEN);
    }

    function sharesToUnderlyingView(uint256 shares) public view returns (uint256) {
        return totalShares == 0 ? shares : shares * TOKEN.balanceOf(address(this)) / totalShares;
    }

    function sharesOf(address who) external view returns (uint256) {
        return _operators[who].shares;
    }

    // --- how ---

    function _slashable(Operator storage o) private view returns (bool) {
        return o.registered || block.number <= o.slashableUntil;
    }

    function _current(Operator storage o) private view returns (Allocation memory a) {
        a = o.allocation;
        if (a.pendingDiff < 0 && block.number >= a.effectBlock) {
            a.currentMagnitude -= uint64(uint128(-a.pendingDiff));
            (a.pendingDiff, a.effectBlock) = (0, 0);
        }
    }

    function _reduce(Operator storage o, uint256 wad) private returns (uint256 taken) {
        uint64 less = _up(o.allocation.currentMagnitude, wad);
        uint64 before = o.most;
        o.allocation.currentMagnitude -= less;
        if (o.allocation.pendingDiff < 0) {
            o.allocation.pendingDiff += int128(uint128(_up(uint64(uint128(-o.allocation.pendingDiff)), wad)));
        }
        o.most -= less;
        taken = o.shares * less / before;
        o.shares -= taken;
        for (uint256 i = 0; i < o.queue.length; ++i) {
            if (block.number > o.until[i]) continue;
            uint256 part = o.queue[i] * less / before;
            o.queue[i] -= part;
            taken += part;
        }
    }

    function _up(uint64 magnitude, uint256 wad) private pure returns (uint64) {
        return uint64((magnitude * wad + WAD - 1) / WAD);
    }
}
