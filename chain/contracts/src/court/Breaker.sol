// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManaged} from "@openzeppelin/contracts/access/manager/AccessManaged.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {BreakerLib} from "../libraries/BreakerLib.sol";
import {Status} from "../libraries/Types.sol";
import {Wired} from "../libraries/Wired.sol";
import {IBreaker} from "../interfaces/IBreaker.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";

/// @title Breaker: holds the convictions of an environment that looks faulty, or closes it to new batches
/// @dev States of an environment: free -(convictions of more than `breakerOperators` operators within `breakerTime`)-> held
///        -(resetBreaker, governance)-> free. Draws of as many operators close it in the registry and change nothing here.
///      Money: none.
///      Invariants (`docs/contracts.md` section 6): I13 what is held is not finalized; I14 from everywhere the end can be reached in
///        time: governance resets what is held, and the guardian can refund it meanwhile.
contract Breaker is IBreaker, AccessManaged, Wired {
    using BreakerLib for BreakerLib.Entry[];

    IParams public immutable PARAMS;
    IGuardian public immutable GUARDIAN;
    IRegistry public immutable REGISTRY;

    /// @notice The court.
    address public disputes;
    /// @inheritdoc IBreaker
    mapping(bytes32 environment => bool) public isHeld;
    mapping(bytes32 environment => BreakerLib.Entry[]) private _convicted;
    mapping(bytes32 environment => BreakerLib.Entry[]) private _drawn;

    modifier onlyCourt() {
        if (msg.sender != disputes) revert NotAuthorised(msg.sender);
        _;
    }

    constructor(address authority, IParams params, IGuardian guardian, IRegistry registry) AccessManaged(authority) {
        (PARAMS, GUARDIAN, REGISTRY) = (params, guardian, registry);
    }

    /// @notice Name the court. Once, by the deployer.
    function wire(address disputes_) external wiring {
        disputes = _nonZero(disputes_);
    }

    /// @inheritdoc IBreaker
    function noteConviction(bytes32 environment, address operator, uint32 paramsVersion) external onlyCourt {
        if (isHeld[environment]) return;
        if (_trips(_convicted[environment], environment, operator, paramsVersion, false)) isHeld[environment] = true;
    }

    /// @inheritdoc IBreaker
    function noteDraw(bytes32 environment, address operator, uint32 paramsVersion) external onlyCourt {
        if (!_trips(_drawn[environment], environment, operator, paramsVersion, true)) return;
        // A court that another has replaced ends its disputes and closes nothing any more.
        bool named = REGISTRY.court() == address(this);
        if (named && REGISTRY.item(environment).status == Status.ACTIVE) REGISTRY.close(environment);
    }

    /// @inheritdoc IBreaker
    function resetBreaker(bytes32 environment) external restricted {
        isHeld[environment] = false;
        emit BreakerReset(environment);
    }

    function _trips(
        BreakerLib.Entry[] storage list,
        bytes32 environment,
        address operator,
        uint32 paramsVersion,
        bool closes
    ) private returns (bool) {
        uint256 span = PARAMS.times(paramsVersion).breakerTime;
        uint256 operators = list.note(operator, SafeCast.toUint40(GUARDIAN.clock()), span);
        if (operators <= PARAMS.committee(paramsVersion).breakerOperators) return false;
        list.clear();
        emit BreakerTripped(environment, operators, closes);
        return true;
    }
}
