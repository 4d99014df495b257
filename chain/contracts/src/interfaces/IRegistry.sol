// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Status} from "../Types.sol";

/// @title IRegistry: who takes part, and what may be run
interface IRegistry {
    /// @notice An operator and where it serves.
    struct Operator {
        bool registered;
        string endpoint;
    }

    /// @notice An operator registered or moved.
    event OperatorRegistered(address indexed operator, string endpoint);
    /// @notice A verifier joined the pool; it can be drawn for stakes frozen from this block on.
    event VerifierRegistered(address indexed verifier, uint256 index);
    /// @notice An environment changed status. `document` hashes to `digest` off-chain.
    event EnvironmentSet(bytes32 indexed digest, Status status, bytes document);
    /// @notice A model changed status. `document` is the manifest that `modelId` names.
    event ModelSet(bytes32 indexed modelId, Status status, bytes document);
    /// @notice The attestation policy in force.
    event PolicySet(bytes32 indexed digest, uint64 indexed serial, bytes document);

    /// @notice The verifier list is full.
    error PoolFull(uint256 size);
    /// @notice A verifier registers once.
    error AlreadyRegistered(address verifier);
    /// @notice Too little stake to join.
    error StakeTooSmall(address verifier, uint256 have, uint256 want);
    /// @notice The status NONE cannot be set.
    error BadStatus(bytes32 digest);
    /// @notice A policy serial must grow.
    error SerialNotGrowing(uint64 have, uint64 given);

    /// @notice Register the caller as operator, or move its endpoint.
    function registerOperator(string calldata endpoint) external;
    /// @notice Register the caller as verifier. It must hold `minVerifierStake`. There is no leaving: who unbonds has no weight.
    function registerVerifier() external;
    /// @notice Set an environment's status. Owner only.
    function setEnvironment(bytes32 digest, Status status, bytes calldata document) external;
    /// @notice Set a model's status. Owner only.
    function setModel(bytes32 modelId, Status status, bytes calldata document) external;
    /// @notice Set the attestation policy. Owner only; serials grow, so that an old policy cannot come back.
    function setPolicy(bytes32 digest, uint64 serial, bytes calldata document) external;

    /// @notice What is known of an operator.
    function operatorInfo(address operator) external view returns (Operator memory);
    /// @notice Whether `who` is registered as verifier.
    function isVerifier(address who) external view returns (bool);
    /// @notice All verifiers in order of registration; the order of the seat draw.
    function verifiers() external view returns (address[] memory);
    /// @notice The block in which `who` registered as verifier, or 0.
    function joinedAt(address who) external view returns (uint64);
    /// @notice Status of an environment.
    function environmentStatus(bytes32 digest) external view returns (Status);
    /// @notice Status of a model.
    function modelStatus(bytes32 modelId) external view returns (Status);
    /// @notice Digest of the attestation policy in force.
    function policyDigest() external view returns (bytes32);
    /// @notice Serial of the attestation policy in force.
    function policySerial() external view returns (uint64);
    /// @notice Weights for a draw on the stakes of block `blockNumber`, without `excluded`'s.
    /// @return voters all verifiers in order of registration
    /// @return stakes their weights in wei; 0 for who joined later and for `excluded`
    /// @return total sum of `stakes`
    function weights(uint256 blockNumber, address excluded)
        external
        view
        returns (address[] memory voters, uint256[] memory stakes, uint256 total);
    /// @notice Verifiers that hold `minVerifierStake` now.
    function poolSize() external view returns (uint256);
}
