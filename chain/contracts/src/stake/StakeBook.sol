// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManaged} from "@openzeppelin/contracts/access/manager/AccessManaged.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Wired} from "../libraries/Wired.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {ILedger} from "../interfaces/ILedger.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";
import {IStakeSource} from "../interfaces/IStakeSource.sol";

/// @title StakeBook: what is bound of an account's stake, who may bind and take it, and who is told of it
abstract contract StakeBook is IStakeSource, AccessManaged, Wired {
    using SafeCast for uint256;

    /// @notice What every stake source is deployed with.
    struct Parts {
        address authority;
        IGuardian guardian;
        IParams params;
        ILedger ledger;
    }

    /// @dev What an account cannot take out. A dispute locks `slashAmount` at most, which `ParamLaw` bounds by a million ether:
    ///      no number of disputes that anybody could pay for fills these words.
    struct Bound {
        uint96 locked; // wei, by disputes
        uint96 collateral; // wei, of open batches
        uint64 least; // gwei, rounded up, that stay whatever is bound; nothing without collateral
    }

    /// @notice Gas of one notice to the registry: three times what its dearest one takes.
    uint256 public constant NOTICE_GAS = 750_000;

    /// @notice The protocol clock.
    IGuardian public immutable GUARDIAN;
    /// @notice The network's parameters.
    IParams public immutable PARAMS;
    /// @notice Where slashed stake goes.
    ILedger public immutable LEDGER;

    /// @notice Who weighs verifiers by their stake.
    IRegistry public registry;
    /// @notice Contracts that may bind and slash: settlement, anchor and demands, and those of a new court beside them.
    mapping(address who => bool) public isMover;
    /// @dev One word: whoever is locked has batches that bind collateral.
    mapping(address account => Bound) private _bounds;
    /// @inheritdoc IStakeSource
    mapping(address account => uint256) public obligedOf;

    /// @notice `who` may lock and slash from now on, or no longer.
    event MoverSet(address indexed who, bool allowed);

    modifier onlyMovers() {
        if (!isMover[msg.sender]) revert NotAuthorised(msg.sender);
        _;
    }

    constructor(Parts memory parts) AccessManaged(parts.authority) {
        (GUARDIAN, PARAMS, LEDGER) = (parts.guardian, parts.params, parts.ledger);
    }

    /// @notice Name the registry and the first movers: settlement, anchor and demands. Once, by the deployer.
    function wire(IRegistry registry_, address settlement, address anchor_, address demands_) public virtual wiring {
        registry = IRegistry(_nonZero(address(registry_)));
        _setMover(_nonZero(settlement), true);
        _setMover(_nonZero(anchor_), true);
        _setMover(_nonZero(demands_), true);
    }

    /// @notice Let a new court's settlement, anchor and demands bind and slash, or old ones no longer. Governance, after a delay of at least
    ///         `unbondDelay`: whoever does not trust it can have left, and every dispute that is open has ended.
    function setMover(address who, bool allowed) external restricted {
        _setMover(who, allowed);
    }

    /// @inheritdoc IStakeSource
    function reserve(address account, uint64 batchId, uint256 amount, uint256 least) external onlyMovers {
        uint256 free = freeStakeOf(account);
        uint256 want = Math.max(amount, least);
        if (free < want) revert StakeTooSmall(account, free, want);
        Bound storage b = _bounds[account];
        // Of several batches that are open together the largest counts, until none of them is left.
        uint256 before = b.collateral == 0 ? 0 : b.least;
        b.least = Math.max(before, Math.ceilDiv(least, 1 gwei)).toUint64();
        b.collateral += amount.toUint96();
        emit Reserved(account, batchId, amount);
    }

    /// @inheritdoc IStakeSource
    function release(address account, uint64 batchId, uint256 amount) external onlyMovers {
        _bounds[account].collateral -= amount.toUint96();
        emit Released(account, batchId, amount);
    }

    /// @inheritdoc IStakeSource
    function lock(address account, uint256 want, bytes32 ref) external onlyMovers returns (uint256 locked) {
        locked = Math.min(want, _all(account));
        _bounds[account].locked += locked.toUint96();
        emit Locked(account, ref, want, locked);
    }

    /// @inheritdoc IStakeSource
    function unlock(address account, uint256 amount, bytes32 ref) external onlyMovers {
        _unlock(account, amount);
        emit Unlocked(account, ref, amount);
    }

    /// @inheritdoc IStakeSource
    function oblige(address account, uint256 amount, bytes32 ref) external onlyMovers {
        obligedOf[account] += amount;
        emit Obliged(account, ref, amount);
    }

    /// @inheritdoc IStakeSource
    function discharge(address account, uint256 amount, bytes32 ref) external onlyMovers {
        obligedOf[account] -= amount;
        emit Discharged(account, ref, amount);
    }

    /// @inheritdoc IStakeSource
    /// @dev Locks shield nothing from a slash, so they need not spare more than one. Were they to count in full, disputes that cost
    ///      little would stop an operator's posts, and who opened them would have it punished for not posting.
    function freeStakeOf(address account) public view returns (uint256) {
        Bound memory b = _bounds[account];
        uint256 locked = b.locked;
        if (locked != 0) {
            (, uint256 slashAmount) = PARAMS.feeAndSlash(PARAMS.version());
            locked = Math.min(locked, slashAmount);
        }
        return Math.saturatingSub(stakeOf(account), locked + b.collateral);
    }

    /// @inheritdoc IStakeSource
    function unlockedOf(address account) external view returns (uint256) {
        return Math.saturatingSub(_all(account), _bounds[account].locked);
    }

    /// @inheritdoc IStakeSource
    function lockedOf(address account) external view returns (uint256) {
        return _bounds[account].locked;
    }

    /// @inheritdoc IStakeSource
    function collateralOf(address account) external view returns (uint256) {
        return _bounds[account].collateral;
    }

    /// @inheritdoc IStakeSource
    /// @dev Windows stand still with their pool, for longer than stake takes to leave, and collateral alone is less than a lie
    ///      costs; so a whole operator's stake stays, of the parameters under which the receipts were anchored.
    function keptOf(address account) public view returns (uint256) {
        Bound memory b = _bounds[account];
        uint256 bound = uint256(b.locked) + b.collateral + obligedOf[account];
        return b.collateral == 0 ? bound : Math.max(bound, uint256(b.least) * 1 gwei);
    }

    /// @inheritdoc IStakeSource
    function stakeOf(address account) public view virtual returns (uint256);

    /// @dev All that a slash could take.
    function _all(address account) internal view virtual returns (uint256);

    function _unlock(address account, uint256 amount) internal {
        if (amount != 0) _bounds[account].locked -= amount.toUint96();
    }

    /// @dev Tells the registry. A registry or tree that fails, whatever it does, stops neither a slash nor an exit: the notice
    ///      has gas of its own and returns nothing. Nobody can make it fail: less gas than that is refused.
    function _weigh(address account, uint256 stake) internal {
        // The call gets 63/64 of what is left at most; the rest is for the call itself.
        uint256 need = NOTICE_GAS + NOTICE_GAS / 63 + 10_000;
        if (gasleft() < need) revert GasTooLow(gasleft(), need);
        try registry.onStake{gas: NOTICE_GAS}(account, stake) {}
        catch {
            emit WeightStale(account, stake);
        }
    }

    function _setMover(address who, bool allowed) private {
        isMover[who] = allowed;
        emit MoverSet(who, allowed);
    }
}
