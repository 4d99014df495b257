// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Shares} from "../keys/KeyShares.sol";

/// @title IKeyEpochs: which public key receipts are sealed to, and who holds its shares
/// @notice An epoch's shard keys are the network's keys per epoch; accounts and BLS keys do not change with epochs.
interface IKeyEpochs {
    /// @notice Life of an epoch: PENDING, ACTIVE, DRAINING, RETIRED; COMPROMISED from any of them.
    enum EpochState {
        NONE,
        PENDING,
        ACTIVE,
        DRAINING,
        RETIRED,
        COMPROMISED
    }
    /// @notice What stands behind the enclaves of an epoch.
    enum Assurance {
        NONE,
        SIMULATED,
        HARDWARE
    }

    /// @notice An epoch. Times are of the protocol clock, 0 where it has not happened.
    struct Epoch {
        EpochState state;
        Assurance assurance;
        uint8 threshold;
        uint64 openedAt;
        uint64 activatedAt;
        uint64 drainedAt; // or when it was compromised: no receipt is issued in it any more
        uint32 paramsVersion; // in force then: for how long its batches are still taken
        bytes32 policyDigest;
        bytes publicKey;
        bytes commitments;
        address[] shards;
        uint32 version; // how often the shares were dealt again
        bytes32 transcript; // of the ceremony that enough shards signed for; 0 if nobody showed that
    }

    /// @notice A new epoch waits for its activation.
    event EpochOpened(
        uint64 indexed epoch,
        bytes publicKey,
        bytes commitments,
        address[] shards,
        uint8 threshold,
        Assurance assurance,
        bytes32 policyDigest
    );
    /// @notice An epoch changed state.
    event EpochMoved(uint64 indexed epoch, EpochState from, EpochState to);

    /// @notice Enough shards signed that they hold their shares, as a ceremony of that transcript made them.
    event SharesConfirmed(uint64 indexed epoch, uint32 version, bytes32 transcript);
    /// @notice The same key has other shares now.
    event SharesDealt(
        uint64 indexed epoch, uint32 version, bytes commitments, address[] shards, uint8 threshold, bytes32 transcript
    );

    /// @notice The epoch exists.
    error EpochExists(uint64 epoch);
    /// @notice There is no such epoch.
    error UnknownKeyEpoch(uint64 epoch);
    /// @notice That step is not in the table.
    error BadTransition(uint64 epoch, EpochState from, EpochState to);
    /// @notice The retention of the epoch's key is not over.
    error RetentionNotOver(uint64 epoch, uint256 until);
    /// @notice The public key is not an uncompressed P-256 point.
    error BadPublicKey(uint256 length);
    /// @notice Zero, repeated or too many shards, or a threshold outside 1..shards.
    error BadShards(uint256 shards, uint256 threshold);
    /// @notice A simulated epoch on a chain that is not a test chain.
    error SimulatedOnProductionChain(uint256 chainId);
    /// @notice An epoch says what stands behind it.
    error BadAssurance();

    /// @notice Too few shards signed for their shares.
    error TooFewSigned(uint64 epoch, uint256 have, uint256 need);
    /// @notice Too few of those who have had the shares until now signed for those that are to follow.
    error TooFewAgreed(uint64 epoch, uint256 have, uint256 need);
    /// @notice Not one point for each shard of the threshold, the first of them the epoch's key.
    error BadCommitments(uint64 epoch, uint256 length);
    /// @notice Nobody has shown that enough shards of the epoch signed for their shares.
    error NotConfirmed(uint64 epoch);

    /// @notice Announce an epoch. Curator role.
    /// @param publicKey 65 bytes, 0x04 and both coordinates of a P-256 point
    /// @param commitments the Feldman commitments, as the key ceremony encodes them
    function openEpoch(
        uint64 epoch,
        bytes calldata publicKey,
        bytes calldata commitments,
        address[] calldata shards,
        uint8 threshold,
        Assurance assurance,
        bytes32 policyDigest
    ) external;
    /// @notice Show that enough shards of a PENDING epoch signed for their shares: half way between threshold and all, rounded
    /// down. Anybody.
    /// @param signatures one for each shard in order, of `hashShares`; empty for who did not sign
    function confirm(uint64 epoch, bytes32 transcript, bytes[] calldata signatures) external;
    /// @notice Deal the key of an epoch that is PENDING, ACTIVE or DRAINING to other shards, or again to the same. The key stays;
    /// enough of those who have shares then must have signed, as for `confirm`, and as many as the threshold was of those who had
    /// them before: no curator moves a key alone. Curator role.
    /// @param signatures one for each new shard in order, of `hashShares`; empty for who did not sign
    /// @param consents one for each shard before in order, of the same; empty for who did not sign
    function reshare(
        uint64 epoch,
        bytes calldata commitments,
        address[] calldata shards,
        uint8 threshold,
        bytes32 transcript,
        bytes[] calldata signatures,
        bytes[] calldata consents
    ) external;
    /// @notice PENDING to ACTIVE; the epoch active before drains. Only of shares that enough shards signed for (`confirm`, `reshare`), whatever
    /// the assurance. Curator role.
    function activate(uint64 epoch) external;
    /// @notice ACTIVE to DRAINING. Curator role.
    function drain(uint64 epoch) external;
    /// @notice DRAINING to RETIRED, once `keyRetention` is over, and for as long more as pools stood still. Curator role.
    function retire(uint64 epoch) external;
    /// @notice Any state to COMPROMISED: no receipt should be sealed to it any more, and none is audited; what was signed before can be
    ///         anchored for `maxAnchorDelay`. Guardian role.
    function compromise(uint64 epoch) external;

    /// @notice The epoch that receipts should be sealed to, or 0.
    function activeEpoch() external view returns (uint64);
    /// @notice Whether receipts of this epoch may be audited: ACTIVE or DRAINING.
    function isOpenForAudits(uint64 epoch) external view returns (bool);
    /// @notice Whether shards must serve disputes of this epoch: ACTIVE, DRAINING, or COMPROMISED for its retention.
    function isOpenForDisputes(uint64 epoch) external view returns (bool);
    /// @notice What is known of an epoch.
    function epochInfo(uint64 epoch) external view returns (Epoch memory);
    /// @notice Whether a batch of this epoch may be anchored: ACTIVE, or for `maxAnchorDelay` after it was, whatever ended it.
    function isOpenForInclusion(uint64 epoch) external view returns (bool);
    /// @notice Last second (protocol clock) in which they are: the largest number while the epoch is ACTIVE; 0 of one that never was.
    function inclusionEnd(uint64 epoch) external view returns (uint256);
    /// @notice EIP-712 digest of what a shard signs for its share.
    function hashShares(Shares calldata shares) external view returns (bytes32);
}
