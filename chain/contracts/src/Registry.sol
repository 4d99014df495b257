// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {IParams} from "./interfaces/IParams.sol";
import {IRegistry} from "./interfaces/IRegistry.sol";
import {IStakeSource} from "./interfaces/IStakeSource.sol";
import {Status} from "./Types.sol";

/// @title Registry: operators, verifiers, environments, models, attestation policy
contract Registry is IRegistry, Ownable {
    /// @notice Most verifiers of one pool: the draw walks the list.
    uint256 public constant MAX_VERIFIERS = 64;
    /// @notice The network's parameters.
    IParams public immutable PARAMS;
    /// @notice Where stakes are.
    IStakeSource public immutable VAULT;

    /// @inheritdoc IRegistry
    mapping(address who => uint64) public joinedAt;
    /// @inheritdoc IRegistry
    mapping(bytes32 digest => Status) public environmentStatus;
    /// @inheritdoc IRegistry
    mapping(bytes32 modelId => Status) public modelStatus;
    /// @inheritdoc IRegistry
    bytes32 public policyDigest;
    /// @inheritdoc IRegistry
    uint64 public policySerial;

    mapping(address operator => Operator) private _operators;
    address[] private _verifiers;

    constructor(IParams params, IStakeSource vault, address owner_) Ownable(owner_) {
        PARAMS = params;
        VAULT = vault;
    }

    /// @inheritdoc IRegistry
    function registerOperator(string calldata endpoint) external {
        _operators[msg.sender] = Operator(true, endpoint);
        emit OperatorRegistered(msg.sender, endpoint);
    }

    /// @inheritdoc IRegistry
    function registerVerifier() external {
        if (joinedAt[msg.sender] != 0) revert AlreadyRegistered(msg.sender);
        uint256 size = _verifiers.length;
        if (size == MAX_VERIFIERS) revert PoolFull(size);
        uint256 have = VAULT.stakeOf(msg.sender);
        uint256 want = PARAMS.get().minVerifierStake;
        if (have < want) revert StakeTooSmall(msg.sender, have, want);
        _verifiers.push(msg.sender);
        joinedAt[msg.sender] = uint64(block.number);
        emit VerifierRegistered(msg.sender, size);
    }

    /// @inheritdoc IRegistry
    function setEnvironment(bytes32 digest, Status status, bytes calldata document) external onlyOwner {
        if (status == Status.NONE) revert BadStatus(digest);
        environmentStatus[digest] = status;
        emit EnvironmentSet(digest, status, document);
    }

    /// @inheritdoc IRegistry
    function setModel(bytes32 modelId, Status status, bytes calldata document) external onlyOwner {
        if (status == Status.NONE) revert BadStatus(modelId);
        modelStatus[modelId] = status;
        emit ModelSet(modelId, status, document);
    }

    /// @inheritdoc IRegistry
    function setPolicy(bytes32 digest, uint64 serial, bytes calldata document) external onlyOwner {
        if (serial <= policySerial) revert SerialNotGrowing(policySerial, serial);
        policySerial = serial;
        policyDigest = digest;
        emit PolicySet(digest, serial, document);
    }

    /// @inheritdoc IRegistry
    function operatorInfo(address operator) external view returns (Operator memory) {
        return _operators[operator];
    }

    /// @inheritdoc IRegistry
    function isVerifier(address who) external view returns (bool) {
        return joinedAt[who] != 0;
    }

    /// @inheritdoc IRegistry
    function verifiers() external view returns (address[] memory) {
        return _verifiers;
    }

    /// @inheritdoc IRegistry
    function weights(uint256 blockNumber, address excluded)
        external
        view
        returns (address[] memory voters, uint256[] memory stakes, uint256 total)
    {
        voters = _verifiers;
        stakes = new uint256[](voters.length);
        for (uint256 i = 0; i < voters.length; ++i) {
            // Who joined after the stakes were frozen has no weight: the list may grow while a seed becomes known.
            if (voters[i] == excluded || joinedAt[voters[i]] > blockNumber) continue;
            stakes[i] = VAULT.stakeAt(voters[i], blockNumber);
            total += stakes[i];
        }
    }

    /// @inheritdoc IRegistry
    function poolSize() external view returns (uint256 size) {
        uint256 want = PARAMS.get().minVerifierStake;
        for (uint256 i = 0; i < _verifiers.length; ++i) {
            if (VAULT.stakeOf(_verifiers[i]) >= want) ++size;
        }
    }
}
