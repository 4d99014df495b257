// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// @notice What a shard signs when a ceremony gave it a share: which shares of which key it proved that it holds. Who had
///         shares of the key before signs the same: that these follow on its own.
struct Shares {
    uint64 epoch;
    uint32 version; // 0 as the key was made; one more each time that it was dealt again
    bytes32 commitments; // keccak256 of the Feldman commitments, one after the other
    bytes32 holders; // keccak256 of the addresses of all who got one, in order, each in a word
    bytes32 transcript; // of the ceremony
}

/// @title Shares of an epoch's key that enough of their holders have signed for
library KeyShares {
    bytes32 internal constant SHARES =
        keccak256("Shares(uint64 epoch,uint32 version,bytes32 commitments,bytes32 holders,bytes32 transcript)");
    uint256 internal constant POINT_BYTES = 65;

    /// @notice EIP-712 struct hash.
    function hash(Shares memory s) internal pure returns (bytes32) {
        return keccak256(abi.encode(SHARES, s));
    }

    /// @notice What is signed for these holders.
    function holdersHash(address[] memory shards) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(shards));
    }

    /// @notice How many of n shards must sign: half way between the threshold and all, rounded down.
    function needed(uint256 n, uint256 threshold) internal pure returns (uint256) {
        return threshold + (n - threshold) / 2;
    }

    /// @notice How many shards signed the digest. Each signs at its own place; an empty signature is none, a wrong one counts
    /// as none.
    function signers(bytes32 digest, address[] memory shards, bytes[] calldata signatures)
        internal
        pure
        returns (uint256 count)
    {
        for (uint256 i = 0; i < shards.length && i < signatures.length; ++i) {
            (address who, ECDSA.RecoverError err,) = ECDSA.tryRecoverCalldata(digest, signatures[i]);
            if (err == ECDSA.RecoverError.NoError && who == shards[i]) ++count;
        }
    }

    /// @notice Whether commitments are so many points, the first of them the key.
    function fit(bytes memory publicKey, bytes memory commitments, uint256 threshold) internal pure returns (bool) {
        if (commitments.length != POINT_BYTES * threshold || publicKey.length != POINT_BYTES) return false;
        for (uint256 i = 0; i < POINT_BYTES; ++i) {
            if (commitments[i] != publicKey[i]) return false;
        }
        return true;
    }
}
