// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManaged} from "@openzeppelin/contracts/access/manager/AccessManaged.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {IStakeTree} from "../interfaces/IStakeTree.sol";
import {Wired} from "../libraries/Wired.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";
import {IStakeSource} from "../interfaces/IStakeSource.sol";

/// @title Verifiers: pools, who is in them on which machine, what each weighs, and when a pool is too small to judge
/// @dev A verifier: NONE -join-> MEMBER -quit, or another's claim of its machine-> NONE. A pool: NONE -addPool-> IDLE -enough weigh->
///      JUDGING -too few-> STOPPED -enough-> JUDGING. The registry is the writer of every tree. A verifier has a place in the tree of its pool from its joining on and
///      keeps it, so no later write can fail for want of one, and a committee can be stored as places.
abstract contract Verifiers is IRegistry, AccessManaged, Wired {
    struct Pool {
        IStakeTree tree;
        uint32 weighing; // verifiers with units from the next epoch on
        uint64 stoppedSince; // protocol clock; 0: the pool judges
        uint64 stopped; // seconds of all stops before
        uint64 idle; // of these, before it judged for the first time
        bool began; // it has judged
        uint64 anchorUntil; // last second (protocol clock) to anchor what it judges; the greatest number while it judges
        uint16 least; // verifiers without which it stops: a `minPool` that it has met
    }

    struct Platform {
        address holder;
        uint64 freeAt; // 0 while its holder is a verifier
        uint32 since; // block in which its holder announced it, or took it unannounced
    }

    /// @dev Acceptance of a model and the clock of keys walk through all pools.
    uint256 private constant MAX_POOLS = 128;
    /// @dev How long an announcement counts: a day of main net.
    uint256 private constant ANNOUNCED_BLOCKS = 7_200;

    /// @notice The network's parameters.
    IParams public immutable PARAMS;
    /// @notice The protocol clock.
    IGuardian public immutable GUARDIAN;
    /// @notice Where stakes are.
    IStakeSource public immutable VAULT;

    /// @notice Enclaves that a verifier may run.
    mapping(bytes32 measurement => bool) public isAllowed;

    bytes32[] internal _poolIds;
    mapping(bytes32 pool => Pool) internal _pools;
    mapping(IStakeTree tree => bytes32 pool) private _poolOf;
    mapping(address who => Verifier) internal _verifiers;
    mapping(bytes32 platformId => Platform) private _platforms;
    mapping(address who => mapping(bytes32 announcement => uint256)) private _announcedIn; // block
    /// @dev The `minVerifierStake` with which it joined.
    mapping(address who => uint256) private _least;

    constructor(IGuardian guardian, IParams params, IStakeSource vault) {
        (GUARDIAN, PARAMS, VAULT) = (guardian, params, vault);
    }

    /// @inheritdoc IRegistry
    function addPool(bytes32 pool, IStakeTree tree) external restricted {
        // Pool 0 is that of models and of who is no verifier.
        if (pool == 0) revert UnknownPool(pool);
        if (_poolIds.length == MAX_POOLS) revert TooManyPools(MAX_POOLS);
        if (address(_pools[pool].tree) != address(0)) revert PoolExists(pool);
        if (_poolOf[tree] != 0) revert PoolExists(_poolOf[tree]);
        // Changes nothing, and fails if another contract is the tree's writer.
        tree.setStake(address(this), 0);
        _pools[pool].tree = tree;
        _poolOf[tree] = pool;
        _poolIds.push(pool);
        emit PoolAdded(pool, address(tree));
        _watch(pool);
    }

    /// @inheritdoc IRegistry
    function setMeasurement(bytes32 measurement, bool allowed) external restricted {
        isAllowed[measurement] = allowed;
        emit MeasurementSet(measurement, allowed);
    }

    /// @inheritdoc IRegistry
    function announce(bytes32 announcement) external {
        _announcedIn[msg.sender][announcement] = block.number;
        emit PlatformAnnounced(msg.sender, announcement);
    }

    /// @inheritdoc IRegistry
    function join(bytes32 pool, bytes32 platformId, bytes32 measurement) external {
        IStakeTree tree = treeOf(pool);
        if (_verifiers[msg.sender].pool != 0) revert AlreadyVerifier(msg.sender, _verifiers[msg.sender].pool);
        if (!isAllowed[measurement]) revert MeasurementNotAllowed(measurement);
        _takePlatform(platformId);
        uint256 stake = VAULT.stakeOf(msg.sender);
        uint256 least = PARAMS.money(PARAMS.version()).minVerifierStake;
        if (stake < least) revert StakeTooSmall(msg.sender, stake, least);
        if (tree.unitsFor(stake) == 0) revert NoUnit(msg.sender, stake);
        _least[msg.sender] = least;
        _verifiers[msg.sender] = Verifier(pool, platformId, measurement, uint64(block.number));
        emit VerifierJoined(msg.sender, pool, platformId, measurement);
        _write(pool, msg.sender, stake);
    }

    /// @inheritdoc IRegistry
    function quit() external {
        Verifier storage v = _verifiers[msg.sender];
        if (v.pool == 0) revert NotVerifier(msg.sender);
        // Until its weight and every seat it was drawn for are gone, a second voter on its machine would be one too many.
        _platforms[v.platformId].freeAt = GUARDIAN.clock() + PARAMS.times(PARAMS.version()).unbondDelay;
        _leave(msg.sender);
    }

    /// @inheritdoc IRegistry
    function onStake(address account, uint256 stake) external {
        if (msg.sender != address(VAULT)) revert NotAuthorised(msg.sender);
        _weigh(account, stake);
    }

    /// @inheritdoc IRegistry
    function refresh(address account) external {
        if (_verifiers[account].pool == 0) revert NotVerifier(account);
        _weigh(account, VAULT.stakeOf(account));
    }

    /// @inheritdoc IRegistry
    function verifier(address who) external view returns (Verifier memory) {
        return _verifiers[who];
    }

    /// @inheritdoc IRegistry
    function weighing(bytes32 pool) external view returns (uint32) {
        return _pools[pool].weighing;
    }

    /// @inheritdoc IRegistry
    function isSeatable(bytes32 pool) external view returns (bool) {
        return address(_pools[pool].tree) != address(0) && _pools[pool].stoppedSince == 0;
    }

    /// @inheritdoc IRegistry
    function stoppedInAll() external view returns (uint64 all) {
        // At most `MAX_POOLS`.
        for (uint256 i = 0; i < _poolIds.length; ++i) {
            Pool storage p = _pools[_poolIds[i]];
            if (p.began) all += stoppedSeconds(_poolIds[i]) - p.idle;
        }
    }

    /// @inheritdoc IRegistry
    function stoppedSeconds(bytes32 pool) public view returns (uint64) {
        Pool memory p = _pools[pool];
        return p.stoppedSince == 0 ? p.stopped : p.stopped + GUARDIAN.clock() - p.stoppedSince;
    }

    /// @inheritdoc IRegistry
    function treeOf(bytes32 pool) public view returns (IStakeTree tree) {
        tree = _pools[pool].tree;
        if (address(tree) == address(0)) revert UnknownPool(pool);
    }

    /// @dev The machine becomes the caller's: it is free, or it was the caller's last, or the caller announced it before its holder did
    ///      or had it. That one read its id in the pool of transactions, and goes.
    function _takePlatform(bytes32 platformId) private {
        if (platformId == 0) revert NoPlatform(msg.sender);
        Platform memory p = _platforms[platformId];
        uint256 since = _announcedIn[msg.sender][keccak256(abi.encode(msg.sender, platformId))];
        if (since == 0 || since + ANNOUNCED_BLOCKS < block.number) since = block.number;
        if (p.holder == msg.sender && p.since < since) since = p.since;
        bool free = p.holder == address(0) || p.holder == msg.sender || (p.freeAt != 0 && p.freeAt <= GUARDIAN.clock());
        if (!free && since >= p.since) revert PlatformTaken(platformId, p.holder, p.freeAt);
        if (!free && _verifiers[p.holder].platformId == platformId) _leave(p.holder);
        // Safe: no block has such a number for centuries.
        _platforms[platformId] = Platform(msg.sender, 0, uint32(since));
    }

    function _leave(address who) private {
        bytes32 pool = _verifiers[who].pool;
        delete _verifiers[who];
        emit VerifierLeft(who, pool);
        _write(pool, who, 0);
    }

    /// @dev Nothing below the least stake, nothing with an enclave that is not allowed any more. Who joined with less than a vote asks
    ///      later still counts: or that vote would empty every pool, and all stake would stay under windows that stand still.
    function _weigh(address account, uint256 stake) private {
        Verifier storage v = _verifiers[account];
        bytes32 pool = v.pool;
        if (pool == 0) return;
        uint256 least = Math.min(_least[account], PARAMS.money(PARAMS.version()).minVerifierStake);
        bool counts = stake >= least && isAllowed[v.measurement];
        _write(pool, account, counts ? stake : 0);
    }

    function _write(bytes32 pool, address account, uint256 weight) private {
        Pool storage p = _pools[pool];
        IStakeTree tree = p.tree;
        uint32 had = tree.unitsAt(account, tree.epoch() + 1) == 0 ? 0 : 1;
        uint32 has = tree.unitsFor(weight) == 0 ? 0 : 1;
        tree.setStake(account, weight);
        if (had != has) p.weighing = p.weighing - had + has;
        _watch(pool);
    }

    /// @dev Until when what was signed before a closure that happens now can be anchored: as long as an operator may take at most.
    function _drainsUntil() internal view returns (uint64) {
        (uint256 maxAnchorDelay,) = PARAMS.demandTimes(PARAMS.version());
        return SafeCast.toUint64(GUARDIAN.clock() + maxAnchorDelay);
    }

    /// @dev Stops a pool that became too small, and lets one go on that is large enough. Verifiers who leave stop it, never a vote: a
    ///      larger `minPool` is asked of a pool that judges once it has twice as many.
    function _watch(bytes32 pool) private {
        Pool storage p = _pools[pool];
        uint64 since = p.stoppedSince;
        uint16 minPool = PARAMS.committee(PARAMS.version()).minPool;
        uint16 least = p.began && p.least < minPool && p.weighing / 2 < minPool ? p.least : minPool;
        if (p.least != least) p.least = least;
        bool small = p.weighing < least;
        if (small == (since != 0)) return;
        uint64 now_ = GUARDIAN.clock();
        if (small) {
            p.stoppedSince = now_;
            // A pool that has never judged has nothing waiting.
            if (p.began) p.anchorUntil = _drainsUntil();
            emit PoolStopped(pool, now_);
        } else {
            p.stopped += now_ - since;
            p.stoppedSince = 0;
            p.anchorUntil = type(uint64).max;
            if (!p.began) (p.began, p.idle) = (true, p.stopped);
            emit PoolResumed(pool, p.stopped);
        }
    }
}
