// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IStakeTree} from "./IStakeTree.sol";
import {Status} from "../libraries/Types.sol";

/// @title IRegistry: who takes part, in which pool, on which platform, and what may be run
/// @notice A pool is the verifiers among whom a dispute draws: one per arithmetic profile under exact-1, one per environment
///         under pinned-1. Each has a stake tree, in which a verifier weighs its stake, or nothing below `minVerifierStake`.
interface IRegistry {
    struct Verifier {
        bytes32 pool; // 0: not a verifier
        bytes32 platformId; // of its machine: no two verifiers have one
        bytes32 measurement; // of its enclave, one of the allowed
        uint64 joinedAt; // block
    }

    /// @notice An environment or a model.
    struct Item {
        Status status;
        bytes32 pool; // who judges it; 0 for a model
        bytes32 vectors; // digest of the golden vectors' results: what certifiers say they reproduced
        uint64 certified; // units of the verifiers that did; of a model: in all pools
        uint64 certifyUntil; // last second (protocol clock) to certify, so that no stake can leave, come back and count twice
        uint64 anchorUntil; // last second (protocol clock) to anchor batches of it: the greatest number while ACTIVE, 0 before
    }

    event OperatorRegistered(address indexed operator, string endpoint);
    /// @notice Batches of `operator` are taken until `until` (protocol clock): it is suspended, or readmitted (the greatest number).
    event OperatorMoved(address indexed operator, uint64 until);
    event PoolAdded(bytes32 indexed pool, address tree);
    event VerifierJoined(address indexed verifier, bytes32 indexed pool, bytes32 platformId, bytes32 measurement);
    event VerifierLeft(address indexed verifier, bytes32 indexed pool);
    /// @notice Which machine it is shows when `account` joins with it.
    event PlatformAnnounced(address indexed account, bytes32 announcement);
    /// @notice `document` hashes to `digest` off-chain.
    event ItemProposed(bytes32 indexed digest, bytes32 indexed pool, bytes32 vectors, bytes document);
    event ItemCertified(bytes32 indexed digest, address indexed verifier, uint32 units, uint64 certified);
    event ItemMoved(bytes32 indexed digest, Status from, Status to);
    event MeasurementSet(bytes32 indexed measurement, bool allowed);
    event PolicySet(bytes32 indexed digest, uint64 indexed serial, bytes document);
    /// @notice A pool became too small to judge, or large enough again; `stopped` seconds of its windows stood still in all.
    event PoolStopped(bytes32 indexed pool, uint64 since);
    event PoolResumed(bytes32 indexed pool, uint64 stopped);

    error UnknownPool(bytes32 pool);
    error PoolExists(bytes32 pool);
    /// @notice Some things walk through all pools.
    error TooManyPools(uint256 most);
    error AlreadyVerifier(address who, bytes32 pool);
    error NotVerifier(address who);
    error StakeTooSmall(address who, uint256 have, uint256 want);
    /// @notice That machine is another verifier's, or was until `freeAt`.
    error PlatformTaken(bytes32 platformId, address holder, uint64 freeAt);
    /// @notice A machine has an id.
    error NoPlatform(address who);
    /// @notice The stake is less than one unit of the pool's tree.
    error NoUnit(address who, uint256 stake);
    error MeasurementNotAllowed(bytes32 measurement);
    /// @notice Nothing keeps this account from posting as an operator, or it never was one.
    error NotSuspended(address who);
    error BadStatus(bytes32 digest, Status have, Status want);
    error AlreadyCertified(bytes32 digest, address who);
    error CertifyOver(bytes32 digest, uint64 until);
    /// @notice The certifier reproduced other results than were proposed.
    error OtherVectors(bytes32 have, bytes32 want);
    error TooFewCertified(bytes32 digest, uint256 have, uint256 want);
    error SerialNotGrowing(uint64 have, uint64 given);

    /// @notice Register the caller as operator, or move its endpoint.
    function registerOperator(string calldata endpoint) external;
    /// @notice Announce the machine that the caller joins with in a later block, within 7,200 blocks:
    ///         keccak256(abi.encode(caller, platformId)). Whoever reads the id from the pool of transactions and joins with it first does
    ///         not keep it.
    function announce(bytes32 announcement) external;
    /// @notice Make the caller a verifier of one pool. It must hold `minVerifierStake`. Another verifier with its machine leaves, if the
    ///         caller announced the machine before that one announced it, or joined with it.
    function join(bytes32 pool, bytes32 platformId, bytes32 measurement) external;
    /// @notice The caller weighs nothing from the next epoch on; its platform stays taken for `unbondDelay`.
    function quit() external;
    /// @notice Weigh a verifier again by what the vault says now, and its pool by the parameters in force. Anybody may, and
    ///         somebody should after a change of parameters or measurements, or after the vault said `WeightStale`.
    function refresh(address account) external;
    /// @notice Propose an environment (with its pool) or a model (pool 0). Anybody; `certified` begins at 0. The curator may put
    ///         another proposal in the place of one that waits, and anybody in the place of one that nobody can certify any more.
    function propose(bytes32 digest, bytes32 pool, bytes32 vectors, bytes calldata document) external;
    /// @notice The caller reproduced vectors and artifact: its units count for the item, once.
    function certify(bytes32 digest, bytes32 vectors) external;
    /// @notice PROPOSED or CLOSED -> ACTIVE. Curator role; enough units must have certified a proposed one (a model: of any one
    ///         pool).
    function activate(bytes32 digest) external;
    /// @notice ACTIVE -> CLOSED. Curator role or the court's breaker, whose call changes nothing if it is not ACTIVE. Batches of what was
    ///         signed before are taken for `maxAnchorDelay` more.
    function close(bytes32 digest) external;
    /// @notice Take no batches of an operator that are signed from now on: what was signed before can be anchored for
    ///         `maxAnchorDelay`. The court's breaker only; changes nothing for who is suspended already.
    function suspend(address who) external;
    /// @notice Take batches of a suspended operator again. Curator role.
    function readmit(address who) external;
    /// @notice Curator role.
    function addPool(bytes32 pool, IStakeTree tree) external;
    /// @notice Curator role.
    function setMeasurement(bytes32 measurement, bool allowed) external;
    /// @notice Curator role; serials grow, so that an old policy cannot come back.
    function setPolicy(bytes32 digest, uint64 serial, bytes calldata document) external;
    /// @notice The stake of `account` is now `stake`. The vault only; never reverts for a known account.
    function onStake(address account, uint256 stake) external;

    /// @notice Last second (protocol clock) in which batches of this operator are taken: the greatest number unless it is suspended, 0
    ///         for who never registered.
    function operatorUntil(address who) external view returns (uint64);
    function verifier(address who) external view returns (Verifier memory);
    /// @notice The verifiers of a pool that ever joined, by the place of its tree: `IStakeTree.accountAt`.
    function treeOf(bytes32 pool) external view returns (IStakeTree);
    function item(bytes32 digest) external view returns (Item memory);
    /// @notice The pool that judges an environment, and the last second (protocol clock) in which batches are taken as far as the
    ///         operator (`ownUntil`) and each of these is concerned: the greatest number while it is open, ACTIVE or judges,
    ///         `maxAnchorDelay` after it was suspended, closed or stopped, so that what was signed before can still be anchored; 0 for
    ///         what was never open.
    function anchorable(address operator, bytes32 environment, bytes32 modelId)
        external
        view
        returns (bytes32 pool, uint64 ownUntil, uint64 environmentUntil, uint64 modelUntil, uint64 poolUntil);
    function policyDigest() external view returns (bytes32);
    function policySerial() external view returns (uint64);
    /// @notice Verifiers of a pool that weigh something from the next epoch on.
    function weighing(bytes32 pool) external view returns (uint32);
    /// @notice Whether a pool can seat the largest round: `minPool` verifiers with weight, when one of them last changed.
    function isSeatable(bytes32 pool) external view returns (bool);
    /// @notice Seconds of the protocol clock for which the windows of a pool have stood still in all.
    function stoppedSeconds(bytes32 pool) external view returns (uint64);
    /// @notice Seconds for which the windows of all pools together have stood still, each since it first judged: no window has stood still for longer.
    function stoppedInAll() external view returns (uint64);
    /// @notice The court whose breaker closes environments. One before it still ends its disputes.
    function court() external view returns (address);
}
