// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManaged} from "@openzeppelin/contracts/access/manager/AccessManaged.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {IStakeTree} from "../interfaces/IStakeTree.sol";
import {Verifiers} from "./Verifiers.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";
import {IStakeSource} from "../interfaces/IStakeSource.sol";
import {Status} from "../libraries/Types.sol";

/// @title Registry: operators, environments and models on their way to ACTIVE and out of it, attestation policy
/// @dev An environment or a model:
///
///      NONE -propose-> PROPOSED -certify*, activate-> ACTIVE -close (curator or breaker)-> CLOSED -activate-> ACTIVE
///
///      An operator:
///
///      NONE -registerOperator-> OPEN -suspend (breaker)-> SUSPENDED -readmit (curator)-> OPEN
///
///      What is CLOSED or SUSPENDED drains: batches are taken for `maxAnchorDelay` more. Pools and verifiers are `Verifiers`. No money
///      moves. Invariants (docs/reference/contracts.md, section 6):
///
///      I30 DRAINED: Nothing is anchored of what was closed, stopped or suspended for longer than `maxAnchorDelay`.
///      I31 SUSPENDED: An operator is suspended by more than `breakerOperators` draws within `breakerTime`, and by nothing else.
contract Registry is Verifiers {
    uint256 private constant BPS = 10_000;

    /// @inheritdoc IRegistry
    address public court;
    /// @inheritdoc IRegistry
    bytes32 public policyDigest;
    /// @inheritdoc IRegistry
    uint64 public policySerial;

    mapping(bytes32 digest => Item) private _items;
    /// @dev Last second (protocol clock) in which batches of an operator are taken; the greatest number unless it is suspended.
    mapping(address who => uint64) private _operators;
    /// @dev How often an item was proposed; what certified one proposal says nothing about the next.
    mapping(bytes32 digest => uint256) private _proposals;
    mapping(bytes32 proposal => mapping(address who => bool)) private _hasCertified;
    mapping(bytes32 proposal => mapping(bytes32 pool => uint256 units)) private _certifiedIn;

    /// @notice Another court's breaker closes environments from now on.
    event CourtSet(address court);

    constructor(address authority_, IGuardian guardian, IParams params, IStakeSource vault)
        AccessManaged(authority_)
        Verifiers(guardian, params, vault)
    {}

    /// @notice Name the court. Once, by the deployer.
    function wire(address court_) external wiring {
        _setCourt(court_);
    }

    /// @notice Name a new version of the court. Governance.
    function setCourt(address court_) external restricted {
        _setCourt(court_);
    }

    /// @inheritdoc IRegistry
    function setPolicy(bytes32 digest, uint64 serial, bytes calldata document) external restricted {
        if (serial <= policySerial) revert SerialNotGrowing(policySerial, serial);
        policySerial = serial;
        policyDigest = digest;
        emit PolicySet(digest, serial, document);
    }

    /// @inheritdoc IRegistry
    function registerOperator(string calldata endpoint) external {
        // Who is suspended does not come back by this.
        if (_operators[msg.sender] == 0) _operators[msg.sender] = type(uint64).max;
        emit OperatorRegistered(msg.sender, endpoint);
    }

    /// @inheritdoc IRegistry
    function suspend(address who) external {
        if (msg.sender != court) revert NotAuthorised(msg.sender);
        // A verdict must not fail because the operator was suspended before, and a second trip leaves it no more time.
        if (_operators[who] == type(uint64).max) _setOperator(who, _drainsUntil());
    }

    /// @inheritdoc IRegistry
    function readmit(address who) external restricted {
        if (_operators[who] == 0 || _operators[who] == type(uint64).max) revert NotSuspended(who);
        _setOperator(who, type(uint64).max);
    }

    /// @inheritdoc IRegistry
    function propose(bytes32 digest, bytes32 pool, bytes32 vectors, bytes calldata document) external {
        Item memory old = _items[digest];
        if (old.status > Status.PROPOSED) revert BadStatus(digest, old.status, Status.NONE);
        uint64 now_ = GUARDIAN.clock();
        // Or whoever proposes first, with other vectors or pool, could keep the right proposal out for a long time.
        if (old.status == Status.PROPOSED && now_ <= old.certifyUntil) _checkCanCall(msg.sender, msg.data);
        if (pool != 0) treeOf(pool);
        uint64 until = now_ + PARAMS.times(PARAMS.version()).unbondDelay;
        _items[digest] = Item(Status.PROPOSED, pool, vectors, 0, until, 0);
        ++_proposals[digest];
        emit ItemMoved(digest, old.status, Status.PROPOSED);
        emit ItemProposed(digest, pool, vectors, document);
    }

    /// @inheritdoc IRegistry
    function certify(bytes32 digest, bytes32 vectors) external {
        if (GUARDIAN.pausedUntil() != 0) revert IGuardian.NotNow(true);
        Item storage i = _items[digest];
        if (i.status != Status.PROPOSED) revert BadStatus(digest, i.status, Status.PROPOSED);
        if (GUARDIAN.clock() > i.certifyUntil) revert CertifyOver(digest, i.certifyUntil);
        if (vectors != i.vectors) revert OtherVectors(vectors, i.vectors);
        bytes32 pool = _verifiers[msg.sender].pool;
        if (pool == 0 || (i.pool != 0 && i.pool != pool)) revert NotVerifier(msg.sender);
        bytes32 proposal = _proposal(digest);
        if (_hasCertified[proposal][msg.sender]) revert AlreadyCertified(digest, msg.sender);
        uint32 units = _lasting(_pools[pool].tree, msg.sender);
        if (units == 0) revert NoUnit(msg.sender, VAULT.stakeOf(msg.sender));
        _hasCertified[proposal][msg.sender] = true;
        _certifiedIn[proposal][pool] += units;
        i.certified += units;
        emit ItemCertified(digest, msg.sender, units, i.certified);
    }

    /// @inheritdoc IRegistry
    function activate(bytes32 digest) external restricted {
        Item storage i = _items[digest];
        // What was active was certified. Nobody can certify it again, so a pool that grew since must not keep it closed.
        if (i.status != Status.CLOSED) {
            if (i.status != Status.PROPOSED) revert BadStatus(digest, i.status, Status.PROPOSED);
            if (!_isCertified(digest, i.pool)) revert TooFewCertified(digest, i.certified, _wanted(i.pool));
        }
        _move(digest, Status.ACTIVE);
    }

    /// @inheritdoc IRegistry
    function close(bytes32 digest) external {
        Status have = _items[digest].status;
        // A verdict must not fail because somebody closed it before.
        if (msg.sender == court && have != Status.ACTIVE) return;
        if (msg.sender != court) _checkCanCall(msg.sender, msg.data);
        if (have != Status.ACTIVE) revert BadStatus(digest, have, Status.ACTIVE);
        _move(digest, Status.CLOSED);
    }

    /// @inheritdoc IRegistry
    function item(bytes32 digest) external view returns (Item memory) {
        return _items[digest];
    }

    /// @inheritdoc IRegistry
    function operatorUntil(address who) external view returns (uint64) {
        return _operators[who];
    }

    /// @inheritdoc IRegistry
    function anchorable(address operator, bytes32 environment, bytes32 modelId)
        external
        view
        returns (bytes32 pool, uint64 ownUntil, uint64 environmentUntil, uint64 modelUntil, uint64 poolUntil)
    {
        Item storage i = _items[environment];
        pool = i.pool;
        // A model is an item too, without a pool.
        if (pool != 0) environmentUntil = i.anchorUntil;
        return (pool, _operators[operator], environmentUntil, _items[modelId].anchorUntil, _pools[pool].anchorUntil);
    }

    /// @notice Units of a pool's verifiers that certified the present proposal of an item.
    function certifiedIn(bytes32 digest, bytes32 pool) external view returns (uint256) {
        return _certifiedIn[_proposal(digest)][pool];
    }

    /// @dev An environment by its pool; a model by any one pool: there are at most `MAX_POOLS`.
    function _isCertified(bytes32 digest, bytes32 pool) private view returns (bool) {
        bytes32 proposal = _proposal(digest);
        if (pool != 0) return _certifiedIn[proposal][pool] >= _wanted(pool);
        for (uint256 i = 0; i < _poolIds.length; ++i) {
            if (_certifiedIn[proposal][_poolIds[i]] >= _wanted(_poolIds[i])) return true;
        }
        return false;
    }

    /// @dev Units of a pool that must have certified: at least one, also of an empty pool. Pool 0 has no number of its own.
    function _wanted(bytes32 pool) private view returns (uint256) {
        if (pool == 0) return 0;
        IStakeTree tree = _pools[pool].tree;
        uint256 share = PARAMS.committee(PARAMS.version()).certifyBps;
        return Math.max(1, Math.ceilDiv(tree.totalAt(tree.epoch()) * share, BPS));
    }

    /// @dev Units that count now and still in the next epoch: neither of who just came nor of who just left.
    function _lasting(IStakeTree tree, address who) private view returns (uint32) {
        uint32 now_ = tree.epoch();
        (uint32 has, uint32 will) = (tree.unitsAt(who, now_), tree.unitsAt(who, now_ + 1));
        return has < will ? has : will;
    }

    function _proposal(bytes32 digest) private view returns (bytes32) {
        return keccak256(abi.encode(digest, _proposals[digest]));
    }

    function _move(bytes32 digest, Status to) private {
        Item storage i = _items[digest];
        emit ItemMoved(digest, i.status, to);
        i.status = to;
        i.anchorUntil = to == Status.ACTIVE ? type(uint64).max : _drainsUntil();
    }

    function _setOperator(address who, uint64 until) private {
        _operators[who] = until;
        emit OperatorMoved(who, until);
    }

    function _setCourt(address court_) private {
        court = _nonZero(court_);
        emit CourtSet(court_);
    }
}
