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
///      -(resetBreaker, curator)-> free. Draws of as many operators close it in the registry, and as many draws of one operator
///      suspend that operator there: neither changes anything here.
///      Money: none.
///      Invariants (docs/reference/contracts.md, section 6):
///
///      I13 TABLE: What is held is not finalized.
///      I14 ENDS: The curator resets what is held, and the guardian can refund it meanwhile.
///      I31 SUSPENDED: More than `breakerOperators` draws of one operator within `breakerTime` suspend it.
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
    mapping(address operator => BreakerLib.Entry[]) private _drawsOf;

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
        uint256 operators = _note(_convicted[environment], operator, paramsVersion);
        if (operators == 0) return;
        isHeld[environment] = true;
        emit BreakerTripped(environment, operators, false);
    }

    /// @inheritdoc IBreaker
    function noteDraw(bytes32 id, bytes32 environment, address operator, uint32 paramsVersion) external onlyCourt {
        // A court that another has replaced ends its disputes, and closes and suspends nothing any more.
        bool named = REGISTRY.court() == address(this);
        uint256 operators = _note(_drawn[environment], operator, paramsVersion);
        if (operators != 0) {
            emit BreakerTripped(environment, operators, true);
            if (named && REGISTRY.item(environment).status == Status.ACTIVE) REGISTRY.close(environment);
        }
        // A dispute is drawn once: its first 20 bytes stand for it.
        uint256 draws = _note(_drawsOf[operator], address(bytes20(id)), paramsVersion);
        if (draws == 0) return;
        emit OperatorTripped(operator, draws);
        if (named) REGISTRY.suspend(operator);
    }

    /// @inheritdoc IBreaker
    function resetBreaker(bytes32 environment) external restricted {
        isHeld[environment] = false;
        emit BreakerReset(environment);
    }

    /// @dev How many of `list` happened within the time, if they are more than the limit: then the list begins anew. Else 0.
    function _note(BreakerLib.Entry[] storage list, address subject, uint32 paramsVersion) private returns (uint256) {
        uint256 span = PARAMS.times(paramsVersion).breakerTime;
        uint256 count = list.note(subject, SafeCast.toUint40(GUARDIAN.clock()), span);
        if (count <= PARAMS.committee(paramsVersion).breakerOperators) return 0;
        list.clear();
        return count;
    }
}
