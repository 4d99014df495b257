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

    /// @notice The account of this key is in no pool, or has no place there.
    error NoPlaceToNote(address account);
    /// @notice The key's place is noted in another pool's tree: register another key for this one.
    error NotedElsewhere(bytes32 keyHash, address tree);
    /// @notice Every place needs its key.
    error KeyCount(uint256 have, uint256 want);
    /// @notice That key was not the place's in this tree at the end of the block, or nobody has noted so.
    error WrongKey(uint16 place, bytes32 keyHash);
    /// @notice The signature is not that of exactly these keys over the digest.
    error BadCertificate(bytes32 digest, uint256 keys);

    /// @notice The key's holder has this place in the tree.
    event PlaceNoted(address indexed account, bytes32 indexed keyHash, address tree, uint16 place);

    /// @notice Register the caller's key, or replace it.
    /// @param proof signature of `hashPossession(msg.sender, keccak256(key))` under the tag of possession proofs
    function register(Bls.G1 calldata key, Bls.G2 calldata proof) external;

    /// @notice Note where the key's account stands in the tree of its pool, for certificates. Anybody, after `Registry.join`; a
    ///         later key of the account has the same note while the account stays in that pool. A key is of one tree for good.
    function notePlace(bytes32 keyHash) external;

    /// @notice Revert unless each of `keys` was at the end of the block that of the account at the place of the same index, and
    ///         `signature` is the sum of their signatures over `digest`. A place that is named twice signs twice.
    function checkSigners(
        address tree,
        uint16[] calldata places,
        uint256 blockNumber,
        Bls.G1[] calldata keys,
        bytes32 digest,
        Bls.G2 calldata signature
    ) external view;
    /// @notice Tree and place noted for a key; tree 0 for none.
    function placeOf(bytes32 keyHash) external view returns (address tree, uint16 place);
    /// @notice The newest key of an account, or 0.
    function keyHashOf(address account) external view returns (bytes32);
    /// @notice EIP-712 digest that a proof of possession signs; it binds chain, contract, account and key.
    function hashPossession(address account, bytes32 keyHash) external view returns (bytes32);
}
