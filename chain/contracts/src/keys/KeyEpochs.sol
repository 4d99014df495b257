// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManaged} from "@openzeppelin/contracts/access/manager/AccessManaged.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {IGuardian} from "../interfaces/IGuardian.sol";
import {IKeyEpochs} from "../interfaces/IKeyEpochs.sol";
import {IParams} from "../interfaces/IParams.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";
import {KeyShares, Shares} from "./KeyShares.sol";
import {TestChains} from "../libraries/TestChains.sol";

/// @title KeyEpochs: the life of the network's encryption keys
/// @dev An epoch:
///
///      NONE -openEpoch-> PENDING -confirm (the shards), activate-> ACTIVE -drain, or the next activate-> DRAINING -retire-> RETIRED
///
///      and from any of them -compromise-> COMPROMISED. `reshare` gives the key of a PENDING, ACTIVE or DRAINING epoch other shares,
///      by consent of a threshold of those who have them. No money moves. Invariants (docs/reference/contracts.md, section 6):
///
///      I30 DRAINED: A batch of an epoch is taken while it is ACTIVE and for `maxAnchorDelay` after.
///      I32 VOUCHED: No shares are in force but those that their holders signed for, and no epoch comes back.
contract KeyEpochs is IKeyEpochs, AccessManaged, EIP712 {
    uint256 private constant MAX_SHARDS = 64;
    uint256 private constant POINT_BYTES = 65;

    /// @notice The network's parameters.
    IParams public immutable PARAMS;
    /// @notice The protocol clock.
    IGuardian public immutable GUARDIAN;
    /// @notice Whose pools, while they are too small, make windows stand still.
    IRegistry public immutable REGISTRY;

    /// @inheritdoc IKeyEpochs
    uint64 public activeEpoch;

    mapping(uint64 epoch => Epoch) private _epochs;
    /// @dev Seconds for which pools had stood still when no receipt was issued in the epoch any more.
    mapping(uint64 epoch => uint64) private _stoppedAtEnd;

    constructor(address authority_, IParams params, IGuardian guardian, IRegistry registry)
        AccessManaged(authority_)
        EIP712("Bytewise", "1")
    {
        PARAMS = params;
        GUARDIAN = guardian;
        REGISTRY = registry;
    }

    /// @inheritdoc IKeyEpochs
    function openEpoch(
        uint64 epoch,
        bytes calldata publicKey,
        bytes calldata commitments,
        address[] calldata shards,
        uint8 threshold,
        Assurance assurance,
        bytes32 policyDigest
    ) external restricted {
        Epoch storage e = _epochs[epoch];
        // Epoch 0 stays free: it means "none" in `activeEpoch`.
        if (epoch == 0 || e.state != EpochState.NONE) revert EpochExists(epoch);
        if (publicKey.length != POINT_BYTES || publicKey[0] != 0x04) revert BadPublicKey(publicKey.length);
        _checkAssurance(assurance);
        _checkShards(shards, threshold);
        e.state = EpochState.PENDING;
        e.assurance = assurance;
        e.threshold = threshold;
        e.openedAt = GUARDIAN.clock();
        e.policyDigest = policyDigest;
        e.publicKey = publicKey;
        e.commitments = commitments;
        e.shards = shards;
        emit EpochOpened(epoch, publicKey, commitments, shards, threshold, assurance, policyDigest);
    }

    /// @inheritdoc IKeyEpochs
    function confirm(uint64 epoch, bytes32 transcript, bytes[] calldata signatures) external {
        Epoch storage e = _epochs[epoch];
        if (e.state != EpochState.PENDING) revert BadTransition(epoch, e.state, EpochState.PENDING);
        if (!KeyShares.fit(e.publicKey, e.commitments, e.threshold)) {
            revert BadCommitments(epoch, e.commitments.length);
        }
        bytes32 digest = _digestOf(epoch, e.version, keccak256(e.commitments), e.shards, transcript);
        _checkSigned(epoch, digest, transcript, signatures);
        emit SharesConfirmed(epoch, e.version, transcript);
    }

    /// @inheritdoc IKeyEpochs
    function reshare(
        uint64 epoch,
        bytes calldata commitments,
        address[] calldata shards,
        uint8 threshold,
        bytes32 transcript,
        bytes[] calldata signatures,
        bytes[] calldata consents
    ) external restricted {
        bytes32 digest = _checkDealt(epoch, commitments, shards, threshold, transcript);
        // Before they are replaced.
        _checkAgreed(epoch, digest, consents);
        Epoch storage e = _epochs[epoch];
        (e.commitments, e.shards, e.threshold) = (commitments, shards, threshold);
        ++e.version;
        _checkSigned(epoch, digest, transcript, signatures);
        emit SharesDealt(epoch, e.version, commitments, shards, threshold, transcript);
    }

    /// @inheritdoc IKeyEpochs
    function activate(uint64 epoch) external restricted {
        _move(epoch, EpochState.PENDING, EpochState.ACTIVE);
        Epoch storage e = _epochs[epoch];
        if (e.transcript == 0) revert NotConfirmed(epoch);
        e.activatedAt = GUARDIAN.clock();
        if (activeEpoch != 0) _drain(activeEpoch);
        activeEpoch = epoch;
    }

    /// @inheritdoc IKeyEpochs
    function drain(uint64 epoch) external restricted {
        _drain(epoch);
        activeEpoch = 0;
    }

    /// @inheritdoc IKeyEpochs
    function retire(uint64 epoch) external restricted {
        uint256 until = _retainedUntil(epoch);
        _move(epoch, EpochState.DRAINING, EpochState.RETIRED);
        if (GUARDIAN.clock() < until) revert RetentionNotOver(epoch, until);
    }

    /// @inheritdoc IKeyEpochs
    function compromise(uint64 epoch) external restricted {
        EpochState from = _epochs[epoch].state;
        if (from == EpochState.COMPROMISED) revert BadTransition(epoch, from, EpochState.COMPROMISED);
        _move(epoch, from, EpochState.COMPROMISED);
        if (from < EpochState.DRAINING) _end(epoch);
        if (activeEpoch == epoch) activeEpoch = 0;
    }

    /// @inheritdoc IKeyEpochs
    function epochInfo(uint64 epoch) external view returns (Epoch memory) {
        return _epochs[epoch];
    }

    /// @inheritdoc IKeyEpochs
    function isOpenForInclusion(uint64 epoch) external view returns (bool) {
        return GUARDIAN.clock() <= inclusionEnd(epoch);
    }

    /// @inheritdoc IKeyEpochs
    function inclusionEnd(uint64 epoch) public view returns (uint256) {
        Epoch storage e = _epochs[epoch];
        if (e.state == EpochState.ACTIVE) return type(uint256).max;
        // What was signed before can be anchored, whatever ended the epoch. Before it was ACTIVE nothing was.
        if (e.activatedAt == 0) return 0;
        return uint256(e.drainedAt) + PARAMS.times(e.paramsVersion).maxAnchorDelay;
    }

    /// @inheritdoc IKeyEpochs
    function isOpenForAudits(uint64 epoch) external view returns (bool) {
        EpochState state = _epochs[epoch].state;
        return state == EpochState.ACTIVE || state == EpochState.DRAINING;
    }

    /// @inheritdoc IKeyEpochs
    function isOpenForDisputes(uint64 epoch) external view returns (bool) {
        Epoch storage e = _epochs[epoch];
        if (e.state == EpochState.ACTIVE || e.state == EpochState.DRAINING) return true;
        return e.state == EpochState.COMPROMISED && GUARDIAN.clock() < _retainedUntil(epoch);
    }

    /// @inheritdoc IKeyEpochs
    function hashShares(Shares memory shares) public view returns (bytes32) {
        return _hashTypedDataV4(KeyShares.hash(shares));
    }

    function _drain(uint64 epoch) private {
        _move(epoch, EpochState.ACTIVE, EpochState.DRAINING);
        _end(epoch);
    }

    /// @dev No receipt is issued in the epoch from now on.
    function _end(uint64 epoch) private {
        _epochs[epoch].drainedAt = GUARDIAN.clock();
        _epochs[epoch].paramsVersion = PARAMS.version();
        _stoppedAtEnd[epoch] = REGISTRY.stoppedInAll();
    }

    /// @dev By the version in force now: `Params` takes none whose retention ends before the disputes of those before it.
    ///      Windows that stand still with their pool end so much later: stops of all pools count as if they came one after
    ///      another, which is too long rather than too short.
    function _retainedUntil(uint64 epoch) private view returns (uint256) {
        uint256 stopped = REGISTRY.stoppedInAll() - _stoppedAtEnd[epoch];
        return _epochs[epoch].drainedAt + PARAMS.times(PARAMS.version()).keyRetention + stopped;
    }

    function _move(uint64 epoch, EpochState from, EpochState to) private {
        EpochState have = _epochs[epoch].state;
        if (have == EpochState.NONE) revert UnknownKeyEpoch(epoch);
        if (have != from) revert BadTransition(epoch, have, to);
        _epochs[epoch].state = to;
        emit EpochMoved(epoch, from, to);
    }

    /// @dev What has to be signed for new shares that fit the epoch.
    function _checkDealt(
        uint64 epoch,
        bytes calldata commitments,
        address[] calldata shards,
        uint8 threshold,
        bytes32 transcript
    ) private view returns (bytes32) {
        Epoch storage e = _epochs[epoch];
        if (e.state == EpochState.NONE || e.state > EpochState.DRAINING) {
            revert BadTransition(epoch, e.state, EpochState.ACTIVE);
        }
        _checkShards(shards, threshold);
        if (!KeyShares.fit(e.publicKey, commitments, threshold)) revert BadCommitments(epoch, commitments.length);
        return _digestOf(epoch, e.version + 1, keccak256(commitments), shards, transcript);
    }

    function _digestOf(uint64 epoch, uint32 version, bytes32 commitments, address[] memory shards, bytes32 transcript)
        private
        view
        returns (bytes32)
    {
        return hashShares(Shares(epoch, version, commitments, KeyShares.holdersHash(shards), transcript));
    }

    /// @dev By the shards in storage: those that have the shares now.
    function _checkSigned(uint64 epoch, bytes32 digest, bytes32 transcript, bytes[] calldata signatures) private {
        Epoch storage e = _epochs[epoch];
        uint256 need = KeyShares.needed(e.shards.length, e.threshold);
        uint256 have = KeyShares.signers(digest, e.shards, signatures);
        // A transcript of zero says that nobody signed.
        if (have < need || transcript == 0) revert TooFewSigned(epoch, have, need);
        e.transcript = transcript;
    }

    /// @dev By the shards in storage: those that had them until now. As many as could open anyhow, so that a key moves on
    ///      also when the others are gone.
    function _checkAgreed(uint64 epoch, bytes32 digest, bytes[] calldata consents) private view {
        Epoch storage e = _epochs[epoch];
        uint256 have = KeyShares.signers(digest, e.shards, consents);
        if (have < e.threshold) revert TooFewAgreed(epoch, have, e.threshold);
    }

    function _checkAssurance(Assurance assurance) private view {
        if (assurance == Assurance.NONE) revert BadAssurance();
        if (assurance != Assurance.SIMULATED) return;
        if (!TestChains.isOne(block.chainid)) revert SimulatedOnProductionChain(block.chainid);
    }

    function _checkShards(address[] calldata shards, uint256 threshold) private pure {
        uint256 n = shards.length;
        if (n == 0 || n > MAX_SHARDS || threshold == 0 || threshold > n) revert BadShards(n, threshold);
        for (uint256 i = 0; i < n; ++i) {
            if (shards[i] == address(0)) revert BadShards(n, threshold);
            for (uint256 j = 0; j < i; ++j) {
                if (shards[i] == shards[j]) revert BadShards(n, threshold);
            }
        }
    }
}
