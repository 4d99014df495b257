// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Bls} from "../libraries/Bls.sol";

/// @title IBlsKeys: which BLS12-381 key an account's seats sign verdicts with
/// @dev A key is named by keccak256 of its 128 bytes; the bytes are in the event and come back with every call.
interface IBlsKeys {
    /// @notice An account has a new key.
    event KeyRegistered(address indexed account, bytes32 indexed keyHash, Bls.G1 key);

    /// @notice Infinity is nobody's key.
    error KeyAtInfinity(address account);
    /// @notice The key was registered before; an old key does not come back either.
    error KeyTaken(bytes32 keyHash, address owner);
    /// @notice The proof is not the key's signature over the digest, or a point is outside its subgroup.
    error BadPossession(address account, bytes32 keyHash, bytes32 digest);

    /// @notice Register the caller's key, or replace it.
    /// @param proof signature of `hashPossession(msg.sender, keccak256(key))` under the tag of possession proofs
    function register(Bls.G1 calldata key, Bls.G2 calldata proof) external;

    /// @notice Accounts that have a key.
    function count() external view returns (uint256);
    /// @notice The newest key of an account, or 0.
    function keyHashOf(address account) external view returns (bytes32);
    /// @notice Whether an account had a key at the end of a block. Keys are replaced, never given up.
    function hasKeyAt(address account, uint256 blockNumber) external view returns (bool);
    /// @notice The account that registered a key, now or before; 0 for none.
    function ownerOf(bytes32 keyHash) external view returns (address);
    /// @notice The account whose key it was at the end of a block; 0 for none.
    function ownerAt(bytes32 keyHash, uint256 blockNumber) external view returns (address);
    /// @notice `ownerAt` of each.
    function ownersAt(bytes32[] calldata keyHashes, uint256 blockNumber) external view returns (address[] memory);
    /// @notice EIP-712 digest that a proof of possession signs; it binds chain, contract, account and key.
    function hashPossession(address account, bytes32 keyHash) external view returns (bytes32);
}
