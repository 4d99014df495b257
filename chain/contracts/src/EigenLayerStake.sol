// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Checkpoints} from "@openzeppelin/contracts/utils/structs/Checkpoints.sol";
import {
    IAllocationManager,
    IDelegationManager,
    IStrategy,
    IStrategyManager,
    IWrappedEther,
    OperatorSet,
    SlashingParams
} from "./interfaces/IEigenLayer.sol";
import {IEigenLayerStake} from "./interfaces/IEigenLayerStake.sol";
import {ILedger} from "./interfaces/ILedger.sol";
import {IParams} from "./interfaces/IParams.sol";
import {IStakeSource} from "./interfaces/IStakeSource.sol";
import {Wired} from "./Wired.sol";

/// @title EigenLayerStake: an operator set's wrapped ether as stake
/// @dev A refusal of EigenLayer never stops a verdict: what was not taken or not paid is remembered and fetched later.
contract EigenLayerStake is IEigenLayerStake, Wired, ReentrancyGuardTransient {
    using Checkpoints for Checkpoints.Trace208;

    /// @notice The contracts of EigenLayer, the strategy, and its token.
    struct Core {
        IAllocationManager allocations;
        IDelegationManager delegation;
        IStrategyManager strategies;
        IStrategy strategy;
        IWrappedEther token;
    }

    /// @notice The pot of money that comes after its dispute was settled.
    bytes32 public constant LATE = keccak256("bytewise.EigenLayerStake.late");
    uint256 private constant WAD = 1e18;
    /// @dev EigenLayer counts blocks and disputes count seconds. A block takes at least a slot.
    uint256 private constant SLOT = 12 seconds;

    ILedger public immutable LEDGER;
    IAllocationManager public immutable ALLOCATIONS;
    IDelegationManager public immutable DELEGATION;
    IStrategyManager public immutable STRATEGIES;
    IStrategy public immutable STRATEGY;
    IWrappedEther public immutable TOKEN;
    address public immutable AVS;
    uint32 public immutable SET_ID;
    /// @notice Blocks for which a record counts.
    uint32 public immutable MAX_AGE;
    /// @notice Blocks for which recorded stake is slashable, from the record on: `MAX_AGE` and the longest dispute.
    uint32 public immutable HORIZON;

    /// @notice The dispute court.
    address public disputes;
    /// @notice The receipt anchor, which punishes equivocation.
    address public anchor;
    /// @inheritdoc IStakeSource
    uint256 public totalStake;
    /// @inheritdoc IStakeSource
    mapping(address account => uint256) public lockedOf;
    /// @inheritdoc IEigenLayerStake
    mapping(address account => mapping(bytes32 ref => uint256)) public dueOf;

    /// @dev A value is the stake, shifted by 48 bits, and the block of its record, which is also the key.
    mapping(address account => Checkpoints.Trace208) private _records;

    modifier onlySlashers() {
        if (msg.sender != disputes && msg.sender != anchor) revert NotAuthorised(msg.sender);
        _;
    }

    constructor(IParams params, ILedger ledger, Core memory core, OperatorSet memory set, uint32 maxAge) {
        LEDGER = ledger;
        (ALLOCATIONS, DELEGATION, STRATEGIES) = (core.allocations, core.delegation, core.strategies);
        (STRATEGY, TOKEN) = (core.strategy, core.token);
        (AVS, SET_ID, MAX_AGE) = (set.avs, set.id, maxAge);
        HORIZON = SafeCast.toUint32(maxAge + Math.ceilDiv(params.longestDispute(), SLOT));
        if (STRATEGY.underlyingToken() != address(TOKEN)) revert WrongToken(STRATEGY.underlyingToken());
        _longEnough("deallocation", ALLOCATIONS.DEALLOCATION_DELAY());
        _longEnough("withdrawal", DELEGATION.minWithdrawalDelayBlocks());
    }

    /// @dev Only wrapped ether pays wei in, when it is unwrapped.
    receive() external payable {
        if (msg.sender != address(TOKEN)) revert UnexpectedPayment(msg.sender);
    }

    /// @notice Name the contracts that may lock and slash, once the operator set names this one. By the deployer.
    function wire(address disputes_, address anchor_) external wiring {
        disputes = _nonZero(disputes_);
        anchor = _nonZero(anchor_);
        _isThis("slasher", ALLOCATIONS.getSlasher(_set()));
        _isThis("recipient", ALLOCATIONS.getRedistributionRecipient(_set()));
    }

    /// @inheritdoc IStakeSource
    function deposit() external payable {
        revert StakedElsewhere();
    }

    /// @inheritdoc IStakeSource
    function requestUnbond(uint256) external pure {
        revert StakedElsewhere();
    }

    /// @inheritdoc IStakeSource
    function finishUnbond() external pure returns (uint256) {
        revert StakedElsewhere();
    }

    /// @inheritdoc IEigenLayerStake
    function sync(address account) public returns (uint256 stake) {
        stake = ALLOCATIONS.isMemberOfOperatorSet(account, _set())
            ? STRATEGY.sharesToUnderlyingView(_allocated(account, SafeCast.toUint32(block.number + HORIZON)))
            : 0;
        (,, uint208 last) = _records[account].latestCheckpoint();
        totalStake = totalStake - (last >> 48) + stake;
        uint48 now_ = SafeCast.toUint48(block.number);
        _records[account].push(now_, uint208(SafeCast.toUint128(stake)) << 48 | now_);
        emit Synced(account, stake);
    }

    /// @inheritdoc IStakeSource
    function lock(address account, uint256 want, bytes32 ref) external onlySlashers returns (uint256 locked) {
        locked = Math.min(want, _free(account, slashableOf(account)));
        lockedOf[account] += locked;
        emit Locked(account, ref, want, locked);
    }

    /// @inheritdoc IStakeSource
    function unlock(address account, uint256 amount, bytes32 ref) external onlySlashers {
        lockedOf[account] -= amount;
        emit Unlocked(account, ref, amount);
    }

    /// @inheritdoc IStakeSource
    function slash(address account, uint256 boundBefore, uint256 want, bytes32 ref)
        external
        onlySlashers
        nonReentrant
        returns (uint256 taken)
    {
        lockedOf[account] -= boundBefore;
        uint256 arrived = _take(account, want, ref);
        // What rounding took beyond `want` goes to the pot too, and is burned when it closes.
        taken = Math.min(arrived, want);
        emit Slashed(account, ref, want, taken);
        if (arrived != 0) LEDGER.takeSlash{value: arrived}(ref, account);
    }

    /// @inheritdoc IEigenLayerStake
    function retry(address account, bytes32 ref) external nonReentrant returns (uint256 taken) {
        uint256 due = dueOf[account][ref];
        if (due == 0) revert NothingDue(account, ref);
        dueOf[account][ref] = 0;
        taken = _take(account, due, ref);
        _late(taken);
    }

    /// @inheritdoc IEigenLayerStake
    function collect(uint256 slashId) external nonReentrant returns (uint256 amount) {
        (, amount) = _fetch(slashId);
        // Anybody may have fetched it before: then the tokens lie here already.
        uint256 lying = TOKEN.balanceOf(address(this));
        if (lying != 0) TOKEN.withdraw(lying);
        amount += lying;
        _late(amount);
    }

    /// @inheritdoc IStakeSource
    function stakeOf(address account) public view returns (uint256) {
        (,, uint208 last) = _records[account].latestCheckpoint();
        return _young(last, block.number);
    }

    /// @inheritdoc IStakeSource
    function stakeAt(address account, uint256 blockNumber) external view returns (uint256) {
        return _young(_records[account].upperLookupRecent(SafeCast.toUint48(blockNumber)), blockNumber);
    }

    /// @inheritdoc IStakeSource
    function freeStakeOf(address account) external view returns (uint256) {
        return _free(account, stakeOf(account));
    }

    /// @inheritdoc IStakeSource
    function unbondingOf(address) external pure returns (uint256, uint64) {
        return (0, 0);
    }

    /// @inheritdoc IStakeSource
    function totalUnbonding() external pure returns (uint256) {
        return 0;
    }

    /// @inheritdoc IEigenLayerStake
    function slashableOf(address account) public view returns (uint256) {
        if (!ALLOCATIONS.isOperatorSlashable(account, _set())) return 0;
        uint256 most = ALLOCATIONS.getMaxMagnitude(account, address(STRATEGY));
        if (most == 0) return 0;
        uint256 part = ALLOCATIONS.getAllocation(account, _set(), address(STRATEGY)).currentMagnitude;
        // A slash takes the same part of what is in the queue.
        uint256 queued = Math.mulDiv(DELEGATION.getSlashableSharesInQueue(account, address(STRATEGY)), part, most);
        return STRATEGY.sharesToUnderlyingView(_allocated(account, SafeCast.toUint32(block.number)) + queued);
    }

    /// @dev Slashes up to `want` wei that no lock needs, and returns what was paid out. Later draws see the loss at once.
    function _take(address account, uint256 want, bytes32 ref) private returns (uint256 arrived) {
        uint256 all = slashableOf(account);
        uint256 goal = Math.min(want, _free(account, all));
        if (goal == 0) return 0;
        uint256 gasBefore = gasleft();
        try ALLOCATIONS.slashOperator(
            AVS, _slashing(account, Math.mulDiv(goal, WAD, all, Math.Rounding.Ceil))
        ) returns (
            uint256 slashId, uint256[] memory shares
        ) {
            bool paid;
            (paid, arrived) = _fetch(slashId);
            if (!paid) emit PaymentDeferred(account, ref, slashId, shares.length == 0 ? 0 : shares[0]);
        } catch {
            _notStarved(gasBefore);
            dueOf[account][ref] += goal;
            emit SlashDeferred(account, ref, dueOf[account][ref]);
        }
        sync(account);
    }

    /// @dev What a slash took, as wei of this contract. The difference counts: tokens may lie here already.
    function _fetch(uint256 slashId) private returns (bool paid, uint256 amount) {
        uint256 before = TOKEN.balanceOf(address(this));
        uint256 gasBefore = gasleft();
        try STRATEGIES.clearBurnOrRedistributableSharesByStrategy(_set(), slashId, address(STRATEGY)) {
            paid = true;
        } catch {
            _notStarved(gasBefore);
        }
        amount = TOKEN.balanceOf(address(this)) - before;
        if (amount != 0) TOKEN.withdraw(amount);
    }

    function _late(uint256 amount) private {
        emit LateMoney(amount);
        if (amount != 0) LEDGER.takeSlash{value: amount}(LATE, address(this));
    }

    function _slashing(address account, uint256 wad) private view returns (SlashingParams memory p) {
        (p.operator, p.operatorSetId, p.description) = (account, SET_ID, "bytewise verdict");
        (p.strategies, p.wadsToSlash) = (new address[](1), new uint256[](1));
        (p.strategies[0], p.wadsToSlash[0]) = (address(STRATEGY), wad);
    }

    function _allocated(address account, uint32 until) private view returns (uint256) {
        address[] memory operators = new address[](1);
        address[] memory strategies = new address[](1);
        (operators[0], strategies[0]) = (account, address(STRATEGY));
        return ALLOCATIONS.getMinimumSlashableStake(_set(), operators, strategies, until)[0][0];
    }

    function _free(address account, uint256 stake) private view returns (uint256) {
        return Math.saturatingSub(stake, lockedOf[account]);
    }

    function _young(uint256 record, uint256 blockNumber) private view returns (uint256) {
        return blockNumber - uint48(record) <= MAX_AGE ? record >> 48 : 0;
    }

    function _set() private view returns (OperatorSet memory) {
        return OperatorSet(AVS, SET_ID);
    }

    /// @dev A call that fails because its caller gave too little gas leaves 1/64 of it. Nobody may choose that a slash fails.
    function _notStarved(uint256 gasBefore) private view {
        if (gasleft() < gasBefore / 32) revert GasTooLow(gasleft());
    }

    function _longEnough(bytes32 what, uint256 have) private view {
        if (have < HORIZON) revert DelayTooShort(what, have, HORIZON);
    }

    function _isThis(bytes32 role, address have) private view {
        if (have != address(this)) revert WrongRole(role, have);
    }
}
