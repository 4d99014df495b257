// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Bls} from "../libraries/Bls.sol";
import {Possession, StructHashes} from "../libraries/Signed.sol";
import {IBlsKeys} from "../interfaces/IBlsKeys.sol";
import {IRegistry} from "../interfaces/IRegistry.sol";
import {IStakeTree} from "../interfaces/IStakeTree.sol";

/// @title BlsKeys: keys of verdict certificates, each proven to be held by its account, and checks of their signatures
/// @dev A key: UNKNOWN -register-> AN ACCOUNT'S -register (another)-> REPLACED, for good. Its place: UNKNOWN -notePlace-> NOTED.
///      No money moves. Invariants (docs/reference/contracts.md, section 6):
///
///      I23 CERTIFICATE: A certificate is the votes of its signers, by the keys that they had before the seed.
///
///      Keys are in G1, not G2: hashing to G2 costs 37,000 gas more, once; a key in G2 costs about 1,800 more for
///      every seat.
contract BlsKeys is IBlsKeys, EIP712 {
    /// @dev One word: a certificate reads one of each seat.
    struct Key {
        address account;
        uint32 since; // first block whose end it was the account's key
        uint32 until; // first block whose end it was not any more; 0 while it is
        uint16 tree; // number of the tree whose place it is; 0 for none
        uint16 place; // the account's there, which it keeps for good
    }

    /// @notice Who is in which pool.
    IRegistry public immutable REGISTRY;
    mapping(bytes32 keyHash => Key) private _keys;
    /// @inheritdoc IBlsKeys
    mapping(address account => bytes32) public keyHashOf;
    address[] private _trees;
    mapping(address tree => uint16) private _numberOf;

    constructor(IRegistry registry) EIP712("Bytewise", "1") {
        REGISTRY = registry;
    }

    /// @inheritdoc IBlsKeys
    function register(Bls.G1 calldata key, Bls.G2 calldata proof) external {
        bytes32 keyHash = Bls.hashOf(key);
        if (Bls.isInfinity(key)) revert KeyAtInfinity(msg.sender);
        address owner = _keys[keyHash].account;
        if (owner != address(0)) revert KeyTaken(keyHash, owner);
        bytes32 digest = hashPossession(msg.sender, keyHash);
        // Without it a key made from others' keys could sign for them; its pairing is the subgroup check of the key too.
        if (!Bls.verify(key, proof, digest, Bls.POSSESSION)) revert BadPossession(msg.sender, keyHash, digest);
        bytes32 last = keyHashOf[msg.sender];
        if (last != bytes32(0)) _keys[last].until = uint32(block.number);
        _keys[keyHash] = Key(msg.sender, uint32(block.number), 0, 0, 0);
        Key storage before = _keys[last];
        // Who has moved to another pool since notes its place there.
        bool stays = before.tree != 0 && _trees[before.tree - 1] == address(_treeOf(msg.sender));
        if (stays) (_keys[keyHash].tree, _keys[keyHash].place) = (before.tree, before.place);
        keyHashOf[msg.sender] = keyHash;
        emit KeyRegistered(msg.sender, keyHash, key);
    }

    /// @inheritdoc IBlsKeys
    function notePlace(bytes32 keyHash) external {
        Key storage key = _keys[keyHash];
        address account = key.account;
        IStakeTree tree = _treeOf(account);
        if (address(tree) == address(0)) revert NoPlaceToNote(account);
        (bool has, uint16 place) = tree.placeOf(account);
        if (!has) revert NoPlaceToNote(account);
        uint16 number = _number(address(tree));
        // A key is of one tree: who leaves its pool may still hold seats there, and could take back what it has signed.
        if (key.tree != 0 && key.tree != number) revert NotedElsewhere(keyHash, _trees[key.tree - 1]);
        (key.tree, key.place) = (number, place);
        emit PlaceNoted(account, keyHash, address(tree), place);
    }

    /// @inheritdoc IBlsKeys
    function checkSigners(
        address tree,
        uint16[] calldata places,
        uint256 blockNumber,
        Bls.G1[] calldata keys,
        bytes32 digest,
        Bls.G2 calldata signature
    ) external view {
        if (keys.length != places.length) revert KeyCount(keys.length, places.length);
        uint256 number = _numberOf[tree];
        Bls.G1 memory sum;
        for (uint256 i = 0; i < keys.length; ++i) {
            bytes32 keyHash = Bls.hashOf(keys[i]);
            Key memory key = _keys[keyHash];
            // A key that nobody registered has tree 0, and so has a tree in which nobody noted a place.
            bool own = key.tree != 0 && key.tree == number && key.place == places[i];
            if (!own || !_isAt(key, blockNumber)) revert WrongKey(places[i], keyHash);
            Bls.addTo(sum, keys[i]);
        }
        if (!Bls.verify(sum, signature, digest, Bls.SIGNATURE)) revert BadCertificate(digest, keys.length);
    }

    /// @inheritdoc IBlsKeys
    function placeOf(bytes32 keyHash) external view returns (address, uint16) {
        Key memory key = _keys[keyHash];
        return (key.tree == 0 ? address(0) : _trees[key.tree - 1], key.place);
    }

    /// @inheritdoc IBlsKeys
    function hashPossession(address account, bytes32 keyHash) public view returns (bytes32) {
        return _hashTypedDataV4(StructHashes.possession(Possession(account, keyHash)));
    }

    /// @dev Of the account's pool; 0 without one.
    function _treeOf(address account) private view returns (IStakeTree) {
        bytes32 pool = REGISTRY.verifier(account).pool;
        return pool == bytes32(0) ? IStakeTree(address(0)) : REGISTRY.treeOf(pool);
    }

    /// @dev The registry has 128 pools at most, each with its tree.
    function _number(address tree) private returns (uint16 number) {
        number = _numberOf[tree];
        if (number != 0) return number;
        _trees.push(tree);
        number = uint16(_trees.length);
        _numberOf[tree] = number;
    }

    function _isAt(Key memory key, uint256 blockNumber) private pure returns (bool) {
        return key.since <= blockNumber && (key.until == 0 || blockNumber < key.until);
    }
}
