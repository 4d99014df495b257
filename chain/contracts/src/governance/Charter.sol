// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManager} from "@openzeppelin/contracts/access/manager/AccessManager.sol";
import {TimelockController} from "@openzeppelin/contracts/governance/TimelockController.sol";
import {IKeyEpochs} from "../interfaces/IKeyEpochs.sol";
import {Ledger} from "../stake/Ledger.sol";
import {ParamLaw} from "./ParamLaw.sol";
import {Registry} from "../stake/Registry.sol";
import {StakeBook} from "../stake/StakeBook.sol";
import {IBreaker} from "../interfaces/IBreaker.sol";
import {IFeeMarket} from "../interfaces/IFeeMarket.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";

/// @title Charter: which role may call what, who holds it, and after which delay; said once
/// @notice The manager is deployed with this contract as its only administrator. `establish` gives every role away, the
///         administration last, so that afterwards neither deployer nor charter has any power.
/// @dev DEPLOYED -establish-> ESTABLISHED, once. No money moves, and nothing is stored: the manager has the roles.
contract Charter {
    /// @notice Parameters and prices. By vote, after `SHORT_DELAY`. Its holder also names guardian and curator.
    uint64 public constant PARAMS = 1;
    /// @notice What moves stake and money. By vote, after every staker can have left.
    uint64 public constant SLASHER_ADMIN = 2;
    /// @notice What the audit pool is fed with.
    uint64 public constant TREASURY = 3;
    /// @notice Pause, refund in the airgap, a key epoch that is lost. At once.
    uint64 public constant GUARDIAN = 4;
    /// @notice What may be run: environments, models, measurements, key epochs, the breaker's reset.
    uint64 public constant CURATOR = 5;

    /// @notice Least delay of a vote on parameters.
    uint256 public constant SHORT_DELAY = 3 days;
    /// @notice Least delay of a vote on what moves stake.
    uint256 public constant LONG_DELAY = ParamLaw.LONGEST_EXIT;

    /// @notice The account that deployed this contract.
    address public immutable DEPLOYER = msg.sender;

    /// @notice The contracts that ask the manager.
    struct Governed {
        address params;
        address guardian;
        address ledger;
        address vault;
        address registry;
        address keyEpochs;
        address feeMarket;
        address breaker;
    }

    /// @notice Who holds what.
    struct Holders {
        TimelockController short; // PARAMS, TREASURY; proposes to `long`
        TimelockController long; // SLASHER_ADMIN, and the administration of all roles
        address guardian;
        address curator;
    }

    /// @notice All roles of `manager` are given away.
    event Established(AccessManager indexed manager, Governed governed, Holders holders);

    error NotDeployer(address caller);
    error ZeroAddress();
    /// @notice A timelock could be over before it protects anybody.
    error DelayTooShort(address timelock, uint256 have, uint256 want);
    /// @notice Nothing could ever be proposed to `long`.
    error NotProposer(address timelock, address proposer);

    /// @notice Map every restricted function to its role, and give the roles away. Once: no power is left for a second time.
    function establish(AccessManager manager, Governed calldata g, Holders calldata h) external {
        if (msg.sender != DEPLOYER) revert NotDeployer(msg.sender);
        _checkHolders(h);
        _assignMoney(manager, g);
        _assignWork(manager, g);
        _giveAway(manager, h);
        emit Established(manager, g, h);
    }

    function _checkHolders(Holders calldata h) private view {
        if (h.guardian == address(0) || h.curator == address(0)) revert ZeroAddress();
        uint256 delay = h.short.getMinDelay();
        if (delay < SHORT_DELAY) revert DelayTooShort(address(h.short), delay, SHORT_DELAY);
        delay = h.long.getMinDelay();
        if (delay < LONG_DELAY) revert DelayTooShort(address(h.long), delay, LONG_DELAY);
        if (!h.long.hasRole(h.long.PROPOSER_ROLE(), address(h.short))) {
            revert NotProposer(address(h.long), address(h.short));
        }
    }

    /// @dev Numbers and movers.
    function _assignMoney(AccessManager manager, Governed calldata g) private {
        _assign(manager, g.params, PARAMS, _one(IParams.set.selector));
        _assign(manager, g.feeMarket, TREASURY, _one(IFeeMarket.setLimits.selector));
        bytes4[] memory movers = new bytes4[](2);
        (movers[0], movers[1]) = (Ledger.setMover.selector, Ledger.setSource.selector);
        _assign(manager, g.ledger, SLASHER_ADMIN, movers);
        _assign(manager, g.vault, SLASHER_ADMIN, _one(StakeBook.setMover.selector));
        _assign(manager, g.registry, SLASHER_ADMIN, _one(Registry.setCourt.selector));
    }

    /// @dev What may be run, and what stops it.
    function _assignWork(AccessManager manager, Governed calldata g) private {
        bytes4[] memory stops = new bytes4[](3);
        (stops[0], stops[1], stops[2]) =
        (IGuardian.pause.selector, IGuardian.unpause.selector, IGuardian.refund.selector);
        _assign(manager, g.guardian, GUARDIAN, stops);
        _assign(manager, g.keyEpochs, GUARDIAN, _one(IKeyEpochs.compromise.selector));
        bytes4[] memory keys = new bytes4[](5);
        (keys[0], keys[1]) = (IKeyEpochs.openEpoch.selector, IKeyEpochs.activate.selector);
        (keys[2], keys[3], keys[4]) =
        (IKeyEpochs.drain.selector, IKeyEpochs.retire.selector, IKeyEpochs.reshare.selector);
        _assign(manager, g.keyEpochs, CURATOR, keys);
        bytes4[] memory items = new bytes4[](7);
        (items[0], items[1]) = (IRegistry.propose.selector, IRegistry.activate.selector);
        (items[2], items[3]) = (IRegistry.close.selector, IRegistry.addPool.selector);
        (items[4], items[5]) = (IRegistry.setMeasurement.selector, IRegistry.setPolicy.selector);
        items[6] = IRegistry.readmit.selector;
        _assign(manager, g.registry, CURATOR, items);
        _assign(manager, g.breaker, CURATOR, _one(IBreaker.resetBreaker.selector));
    }

    function _giveAway(AccessManager manager, Holders calldata h) private {
        manager.labelRole(PARAMS, "PARAMS");
        manager.labelRole(SLASHER_ADMIN, "SLASHER_ADMIN");
        manager.labelRole(TREASURY, "TREASURY");
        manager.labelRole(GUARDIAN, "GUARDIAN");
        manager.labelRole(CURATOR, "CURATOR");
        manager.grantRole(PARAMS, address(h.short), 0);
        manager.grantRole(TREASURY, address(h.short), 0);
        manager.grantRole(SLASHER_ADMIN, address(h.long), 0);
        manager.grantRole(GUARDIAN, h.guardian, 0);
        manager.grantRole(CURATOR, h.curator, 0);
        // A guardian or curator that fails is replaced by a vote of days, not of weeks.
        manager.setRoleAdmin(GUARDIAN, PARAMS);
        manager.setRoleAdmin(CURATOR, PARAMS);
        uint64 admin = manager.ADMIN_ROLE();
        manager.grantRole(admin, address(h.long), 0);
        manager.renounceRole(admin, address(this));
    }

    function _assign(AccessManager manager, address target, uint64 role, bytes4[] memory functions) private {
        if (target == address(0)) revert ZeroAddress();
        manager.setTargetFunctionRole(target, functions, role);
    }

    function _one(bytes4 selector) private pure returns (bytes4[] memory list) {
        list = new bytes4[](1);
        list[0] = selector;
    }
}
