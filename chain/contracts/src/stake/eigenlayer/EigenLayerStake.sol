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
} from "./IEigenLayer.sol";
import {StakeBook} from "../StakeBook.sol";
import {ILedger} from "../../interfaces/ILedger.sol";
import {IRegistry} from "../../interfaces/IRegistry.sol";
import {IStakeSource} from "../../interfaces/IStakeSource.sol";

/// @title EigenLayerStake: an operator set's wrapped ether as stake
/// @notice Wrapped ether delegated to the operators of one operator set. The adapter is the set's slasher and the
///         recipient of what is slashed. Weights are recorded by `sync`, which anybody may call, and lose their effect
///         when they grow old: what counts stays slashable for the longest dispute, whatever its owner does next.
///         `totalStake` is the sum of the last records, old ones too. EigenLayer slashes in parts of 10^18 of a whole
///         allocation, and parts are rounded up: an account may lose so much more, and nobody is paid from it.
/// @dev The record of an account: NONE -sync-> YOUNG -`MAX_AGE` blocks-> OLD -sync-> YOUNG; an old one weighs nothing. A slash:
///
///      WANTED -slash-> TAKEN -EigenLayer pays, collect-> IN ITS POT
///      WANTED -slash, which EigenLayer refuses-> DUE -retry-> TAKEN
///
///      | transition | who pays          | what                    | to whom                            |
///      |------------|-------------------|-------------------------|------------------------------------|
///      | `slash`    | the operator set  | `want`, or all there is | on its way to this contract        |
///      | `collect`  | this contract     | what has arrived        | the ledger's pot of the slash      |
///      | `sweep`    | this contract     | what is owed to no pot  | the pot `LATE`, which pays nobody  |
///
///      A refusal of EigenLayer never stops a verdict: what was not taken or not paid is remembered and fetched later. Invariants
///      (docs/reference/contracts.md, section 6):
///
///      I11 NO MORE THAN THERE IS: A slash takes at most what the account has, and nothing of anybody else.
contract EigenLayerStake is StakeBook, ReentrancyGuardTransient {
    using Checkpoints for Checkpoints.Trace208;

    /// @notice `account` has `stake` wei that will stay slashable for `HORIZON` blocks.
    event Synced(address indexed account, uint256 stake);
    /// @notice EigenLayer refused a slash of `due` wei in all; `retry` takes it when it can.
    event SlashDeferred(address indexed account, bytes32 indexed ref, uint256 due);
    /// @notice `amount` wei were taken and could not be paid out; `collect(slashId)` brings them to their pot.
    event PaymentDeferred(address indexed account, bytes32 indexed ref, uint256 slashId, uint256 amount);
    /// @notice What slash `slashId` took arrived in pot `ref`.
    event Collected(uint256 indexed slashId, bytes32 indexed ref, uint256 amount);

    /// @notice Stake enters and leaves at EigenLayer, not here.
    error StakedElsewhere();
    /// @notice The token of the strategy is no wrapped ether: `withdraw` fails.
    error WrongToken(address token);
    /// @notice `what` lasts `have`, and must last `needs` at least: blocks, for "dispute" seconds.
    error DelayTooShort(bytes32 what, uint256 have, uint256 needs);
    /// @notice The set's slasher or recipient is another account.
    error WrongRole(bytes32 role, address have);
    /// @notice There is nothing to retry.
    error NothingDue(address account, bytes32 ref);
    /// @notice That slash took nothing, or its money has arrived.
    error NothingOwed(uint256 slashId);
    /// @notice EigenLayer has not paid: `have` wei of `want` lie here.
    error PaymentShort(uint256 slashId, uint256 have, uint256 want);
    /// @notice Wei come from wrapped ether only.
    error UnexpectedPayment(address from);

    /// @notice EigenLayer, which names its other contracts itself, and the strategy whose stake counts.
    struct Core {
        IAllocationManager allocations;
        IStrategy strategy;
    }

    /// @dev Money of a slash on its way to a pot.
    struct Owed {
        bytes32 ref;
        uint256 amount;
        address account;
    }

    /// @notice The pot of money that comes after its dispute was settled.
    bytes32 public constant LATE = keccak256("bytewise.EigenLayerStake.late");
    uint256 private constant WAD = 1e18;
    /// @dev EigenLayer counts blocks and disputes count seconds. A block takes at least a slot.
    uint256 private constant SLOT = 12 seconds;

    IAllocationManager public immutable ALLOCATIONS;
    IDelegationManager public immutable DELEGATION;
    IStrategyManager public immutable STRATEGIES;
    IStrategy public immutable STRATEGY;
    IWrappedEther public immutable TOKEN;
    address public immutable AVS;
    uint32 public immutable SET_ID;
    /// @notice Blocks for which a record counts.
    uint32 public immutable MAX_AGE;
    /// @notice Seconds of the longest dispute for which this stake answers. Under parameters with a longer one nothing counts.
    uint32 public immutable LONGEST;
    /// @notice Blocks for which recorded stake is slashable, from the record on: `MAX_AGE` and `LONGEST`.
    uint32 public immutable HORIZON;

    /// @inheritdoc IStakeSource
    uint256 public totalStake;
    /// @notice Wei of all slashes whose money has not arrived in its pot.
    uint256 public totalOwed;
    /// @notice Wei of `account` that EigenLayer refused to slash for `ref`.
    mapping(address account => mapping(bytes32 ref => uint256)) public dueOf;

    mapping(uint256 slashId => Owed) private _owed;
    /// @dev A value is the stake, shifted by 48 bits, and the block of its record, which is also the key.
    mapping(address account => Checkpoints.Trace208) private _records;

    /// @param longest seconds; at least the longest dispute that can run now
    constructor(Parts memory parts, Core memory core, OperatorSet memory set, uint32 maxAge, uint32 longest)
        StakeBook(parts)
    {
        (ALLOCATIONS, STRATEGY) = (core.allocations, core.strategy);
        DELEGATION = ALLOCATIONS.delegation();
        STRATEGIES = DELEGATION.strategyManager();
        TOKEN = IWrappedEther(STRATEGY.underlyingToken());
        (AVS, SET_ID, MAX_AGE, LONGEST) = (set.avs, set.id, maxAge, longest);
        HORIZON = SafeCast.toUint32(maxAge + Math.ceilDiv(longest, SLOT));
        try TOKEN.withdraw(0) {}
        catch {
            revert WrongToken(address(TOKEN));
        }
        _longEnough("dispute", longest, parts.params.longestLive());
        _longEnough("deallocation", ALLOCATIONS.DEALLOCATION_DELAY(), HORIZON);
        _longEnough("withdrawal", DELEGATION.minWithdrawalDelayBlocks(), HORIZON);
    }

    /// @dev Only wrapped ether pays wei in, when it is unwrapped.
    receive() external payable {
        if (msg.sender != address(TOKEN)) revert UnexpectedPayment(msg.sender);
    }

    /// @dev Once the operator set names this contract.
    function wire(IRegistry registry_, address settlement, address anchor_, address demands_) public override {
        super.wire(registry_, settlement, anchor_, demands_);
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

    /// @notice Record what `account` has now. Anybody may, and somebody should every `MAX_AGE` blocks.
    function sync(address account) public returns (uint256 stake) {
        stake = ALLOCATIONS.isMemberOfOperatorSet(account, _set())
            ? STRATEGY.sharesToUnderlyingView(_allocated(account, SafeCast.toUint32(block.number + HORIZON)))
            : 0;
        (,, uint208 last) = _records[account].latestCheckpoint();
        totalStake = totalStake - (last >> 48) + stake;
        uint48 now_ = SafeCast.toUint48(block.number);
        _records[account].push(now_, uint208(SafeCast.toUint128(stake)) << 48 | now_);
        emit Synced(account, stake);
        _weigh(account, stakeOf(account));
    }

    /// @inheritdoc IStakeSource
    function slash(address account, uint256 boundBefore, uint256 want, bytes32 ref)
        external
        onlyMovers
        nonReentrant
        returns (uint256 taken)
    {
        _unlock(account, boundBefore);
        uint256 all = _all(account);
        if (want != 0 && all != 0) taken = _take(account, Math.min(want, all), all, ref, ref);
        emit Slashed(account, ref, want, taken);
    }

    /// @notice Slash what was refused. Its dispute was settled without it: the money goes to the pot `LATE`, from which
    ///         nobody is paid.
    function retry(address account, bytes32 ref) external nonReentrant returns (uint256 taken) {
        uint256 due = dueOf[account][ref];
        if (due == 0) revert NothingDue(account, ref);
        dueOf[account][ref] = 0;
        uint256 all = _all(account);
        if (all != 0) taken = _take(account, Math.min(due, all), all, ref, LATE);
    }

    /// @notice Fetch what slash `slashId` took and bring it to its pot. Anybody; reverts as long as EigenLayer does not pay.
    function collect(uint256 slashId) external nonReentrant returns (uint256 amount) {
        amount = _owed[slashId].amount;
        if (amount == 0) revert NothingOwed(slashId);
        // Whether it pays now, paid when somebody else called it, or refuses: what counts is whether so much lies here.
        try STRATEGIES.clearBurnOrRedistributableSharesByStrategy(_set(), slashId, address(STRATEGY)) {} catch {}
        uint256 lying = TOKEN.balanceOf(address(this));
        if (lying < amount) revert PaymentShort(slashId, lying, amount);
        _pay(slashId);
    }

    /// @notice Bring what lies here and is owed to no pot to the pot `LATE`. Anybody.
    function sweep() external nonReentrant returns (uint256 amount) {
        amount = Math.saturatingSub(TOKEN.balanceOf(address(this)), totalOwed);
        if (amount != 0) _bring(LATE, address(this), amount);
    }

    /// @inheritdoc IStakeSource
    function stakeAt(address account, uint256 blockNumber) external view returns (uint256) {
        return _young(_records[account].upperLookupRecent(SafeCast.toUint48(blockNumber)), blockNumber);
    }

    /// @inheritdoc IStakeSource
    function unbondingOf(address) external pure returns (uint256, uint256, uint64) {
        return (0, 0, 0);
    }

    /// @inheritdoc IStakeSource
    function totalUnbonding() external pure returns (uint256) {
        return 0;
    }

    /// @notice What slash `slashId` took and for which pot, as long as it has not arrived there.
    function owedOf(uint256 slashId) external view returns (bytes32 ref, uint256 amount) {
        return (_owed[slashId].ref, _owed[slashId].amount);
    }

    /// @inheritdoc IStakeSource
    function stakeOf(address account) public view override returns (uint256) {
        if (PARAMS.longestLive() > LONGEST) return 0;
        (,, uint208 last) = _records[account].latestCheckpoint();
        return _young(last, block.number);
    }

    /// @notice Wei that a slash of `account` could take now: allocated and in the withdrawal queue.
    function slashableOf(address account) public view returns (uint256) {
        if (!ALLOCATIONS.isOperatorSlashable(account, _set())) return 0;
        uint256 most = ALLOCATIONS.getMaxMagnitude(account, address(STRATEGY));
        if (most == 0) return 0;
        uint256 part = ALLOCATIONS.getAllocation(account, _set(), address(STRATEGY)).currentMagnitude;
        // A slash takes the same part of what is in the queue.
        uint256 queued = Math.mulDiv(DELEGATION.getSlashableSharesInQueue(account, address(STRATEGY)), part, most);
        return STRATEGY.sharesToUnderlyingView(_allocated(account, SafeCast.toUint32(block.number)) + queued);
    }

    /// @dev Slashes `goal` of the `all` wei that could be, towards pot `pot`. Later draws see the loss at once.
    function _take(address account, uint256 goal, uint256 all, bytes32 ref, bytes32 pot)
        private
        returns (uint256 taken)
    {
        uint256 gasBefore = gasleft();
        try ALLOCATIONS.slashOperator(
            AVS, _slashing(account, Math.mulDiv(goal, WAD, all, Math.Rounding.Ceil))
        ) returns (
            uint256 slashId, uint256[] memory shares
        ) {
            // Rounded down now and again when they are paid, and a share of ether never loses worth: so much arrives.
            taken = shares.length == 0 ? 0 : Math.min(goal, STRATEGY.sharesToUnderlyingView(shares[0]));
            if (taken != 0) _owe(slashId, Owed(pot, taken, account));
        } catch {
            _notStarved(gasBefore);
            dueOf[account][ref] += goal;
            emit SlashDeferred(account, ref, dueOf[account][ref]);
        }
        sync(account);
    }

    /// @dev Remembers what a slash took, and brings it to its pot if EigenLayer pays at once.
    function _owe(uint256 slashId, Owed memory o) private {
        _owed[slashId] = o;
        totalOwed += o.amount;
        uint256 before = TOKEN.balanceOf(address(this));
        uint256 gasBefore = gasleft();
        try STRATEGIES.clearBurnOrRedistributableSharesByStrategy(_set(), slashId, address(STRATEGY)) {}
        catch {
            _notStarved(gasBefore);
        }
        if (TOKEN.balanceOf(address(this)) >= before + o.amount) _pay(slashId);
        else emit PaymentDeferred(o.account, o.ref, slashId, o.amount);
    }

    function _pay(uint256 slashId) private {
        Owed memory o = _owed[slashId];
        delete _owed[slashId];
        totalOwed -= o.amount;
        emit Collected(slashId, o.ref, o.amount);
        _bring(o.ref, o.account, o.amount);
    }

    function _bring(bytes32 ref, address from, uint256 amount) private {
        TOKEN.withdraw(amount);
        LEDGER.take{value: amount}(ref, from, ILedger.Source.SLASH);
    }

    function _all(address account) internal view override returns (uint256) {
        return slashableOf(account);
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

    function _young(uint256 record, uint256 blockNumber) private view returns (uint256) {
        return blockNumber - uint48(record) <= MAX_AGE ? record >> 48 : 0;
    }

    function _set() private view returns (OperatorSet memory) {
        return OperatorSet(AVS, SET_ID);
    }

    /// @dev A call that fails because its caller gave too little gas leaves 1/64 of it. Nobody may choose that a slash fails.
    function _notStarved(uint256 gasBefore) private view {
        if (gasleft() < gasBefore / 32) revert GasTooLow(gasleft(), gasBefore / 32);
    }

    function _longEnough(bytes32 what, uint256 have, uint256 needs) private pure {
        if (have < needs) revert DelayTooShort(what, have, needs);
    }

    function _isThis(bytes32 role, address have) private view {
        if (have != address(this)) revert WrongRole(role, have);
    }
}
