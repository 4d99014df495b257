// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Bls} from "../libraries/Bls.sol";
import {IBlsKeys} from "../interfaces/IBlsKeys.sol";
import {Possession, StructHashes} from "../libraries/Signed.sol";

/// @title BlsKeys: keys of verdict certificates, each proven to be held by its account
contract BlsKeys is IBlsKeys, EIP712 {
    /// @dev One word: whether a key was an account's at a block is asked for every member of every committee.
    struct Key {
        address account;
        uint48 since; // first block whose end it was the account's key
        uint48 until; // first block whose end it was not any more; 0 while it is
    }

    struct Account {
        bytes32 keyHash;
        uint48 since; // block of its first key, 0 for none
    }

    /// @inheritdoc IBlsKeys
    uint256 public count;

    mapping(bytes32 keyHash => Key) private _keys;
    mapping(address account => Account) private _accounts;

    constructor() EIP712("Bytewise", "1") {}

    /// @inheritdoc IBlsKeys
    function register(Bls.G1 calldata key, Bls.G2 calldata proof) external {
        bytes32 keyHash = Bls.hashOf(key);
        if (Bls.isInfinity(key)) revert KeyAtInfinity(msg.sender);
        address owner = _keys[keyHash].account;
        if (owner != address(0)) revert KeyTaken(keyHash, owner);
        bytes32 digest = hashPossession(msg.sender, keyHash);
        // Without it a key made from others' keys could sign for them; its pairing is the subgroup check of the key too.
        if (!Bls.verify(key, proof, digest, Bls.POSSESSION)) revert BadPossession(msg.sender, keyHash, digest);
        Account storage account = _accounts[msg.sender];
        if (account.keyHash == 0) {
            account.since = uint48(block.number);
            ++count;
        } else {
            _keys[account.keyHash].until = uint48(block.number);
        }
        account.keyHash = keyHash;
        _keys[keyHash] = Key(msg.sender, uint48(block.number), 0);
        emit KeyRegistered(msg.sender, keyHash, key);
    }

    /// @inheritdoc IBlsKeys
    function keyHashOf(address account) external view returns (bytes32) {
        return _accounts[account].keyHash;
    }

    /// @inheritdoc IBlsKeys
    function hasKeyAt(address account, uint256 blockNumber) external view returns (bool) {
        uint256 since = _accounts[account].since;
        return since != 0 && since <= blockNumber;
    }

    /// @inheritdoc IBlsKeys
    function ownerOf(bytes32 keyHash) external view returns (address) {
        return _keys[keyHash].account;
    }

    /// @inheritdoc IBlsKeys
    function ownerAt(bytes32 keyHash, uint256 blockNumber) public view returns (address) {
        Key memory key = _keys[keyHash];
        bool then = key.since <= blockNumber && (key.until == 0 || blockNumber < key.until);
        return then ? key.account : address(0);
    }

    /// @inheritdoc IBlsKeys
    function ownersAt(bytes32[] calldata keyHashes, uint256 blockNumber)
        external
        view
        returns (address[] memory owners)
    {
        owners = new address[](keyHashes.length);
        for (uint256 i = 0; i < keyHashes.length; ++i) {
            owners[i] = ownerAt(keyHashes[i], blockNumber);
        }
    }

    /// @inheritdoc IBlsKeys
    function hashPossession(address account, bytes32 keyHash) public view returns (bytes32) {
        return _hashTypedDataV4(StructHashes.possession(Possession(account, keyHash)));
    }
}
