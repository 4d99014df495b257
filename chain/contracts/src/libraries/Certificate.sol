// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Bls} from "./Bls.sol";
import {Certified, Finding, StructHashes} from "./Signed.sol";
import {IBlsKeys} from "../interfaces/IBlsKeys.sol";

/// @title Certificate: one aggregate signature for all seats of a round that say the same
/// @dev Keys are in G1, not G2: hashing to G2 costs 37,000 gas more, once; a key in G2 costs about 1,800 more for every
///      seat that is added or taken away. What is stored of a committee is one word. Bit i of a mask is seat i; who holds
///      several seats has its key and its signature in the sums once for each. That a member signs with all of its seats
///      or with none is the caller's to see, who knows the seats.
library Certificate {
    /// @notice An aggregate signature and what it takes to check it.
    struct Proof {
        uint256 seated; // seats whose keys are in `committeeKey`
        uint256 signers; // seats that signed, a subset
        Bls.G1 committeeKey; // sum over the seated
        Bls.G2 signature; // sum over the signers
        Bls.G1[] absentKeys; // of the seated who did not sign, lowest bit first
    }

    /// @notice The mask names a seat beyond the last.
    error NoSuchSeat(uint256 seated, uint256 seats);
    /// @notice None of the members has a key: the round is voted directly.
    error NobodyHasKey();
    /// @notice That member has a key and must be seated.
    error LeftOut(address account);
    /// @notice A key is missing, or one too many.
    error KeyCount(uint256 have, uint256 want);
    /// @notice That key is not this member's.
    error WrongKey(address account, bytes32 keyHash);
    /// @notice Key and seats are not those that the committee was formed with.
    error NotTheCommittee(bytes32 have, bytes32 want);
    /// @notice A signer who is not of the committee.
    error NotSeated(uint256 signers, uint256 seated);
    /// @notice Nobody signed.
    error NobodySigned();
    /// @notice The signature is not that of exactly the signers over the digest.
    error BadCertificate(bytes32 digest, uint256 signers);

    /// @notice The word to store when a committee is seated: it commits to the sum of its keys, and to who has one. Who
    ///         has none votes directly.
    /// @param holders of all seats, in order; 0 for a seat that nobody holds
    /// @param blockNumber keys count as of its end, so that nobody can change the committee once its seats are known
    /// @param seated mask of the seats whose holders have a key
    /// @param points their keys, lowest bit first
    function form(
        IBlsKeys keys,
        address[] memory holders,
        uint256 blockNumber,
        uint256 seated,
        Bls.G1[] calldata points
    ) internal view returns (bytes32) {
        if (seated == 0) revert NobodyHasKey();
        if (Math.log2(seated) >= holders.length) revert NoSuchSeat(seated, holders.length);
        address[] memory withKey = new address[](points.length);
        uint256 used = 0;
        for (uint256 i = 0; i < holders.length; ++i) {
            if (seated & (1 << i) == 0) {
                if (keys.hasKeyAt(holders[i], blockNumber)) revert LeftOut(holders[i]);
                continue;
            }
            if (used == points.length) revert KeyCount(used, used + 1);
            withKey[used++] = holders[i];
        }
        return commitment(_sum(keys, withKey, used, blockNumber, points), seated);
    }

    /// @notice Revert unless exactly the signers signed the digest. The cost does not depend on the size of the committee,
    ///         only on how many of the seated did not sign. A member can sign two findings: the caller counts each once.
    /// @param committee what `form` gave for this round
    /// @param absent holders of the seated who did not sign, lowest bit first
    function verify(
        IBlsKeys keys,
        address[] memory absent,
        uint256 blockNumber,
        bytes32 committee,
        bytes32 digest,
        Proof calldata proof
    ) internal view {
        bytes32 shown = commitment(proof.committeeKey, proof.seated);
        if (shown != committee) revert NotTheCommittee(shown, committee);
        if (proof.signers & ~proof.seated != 0) revert NotSeated(proof.signers, proof.seated);
        if (proof.signers == 0) revert NobodySigned();
        Bls.G1 memory key =
            Bls.subtract(proof.committeeKey, _sum(keys, absent, absent.length, blockNumber, proof.absentKeys));
        if (!Bls.verify(key, proof.signature, digest, Bls.SIGNATURE)) revert BadCertificate(digest, proof.signers);
    }

    /// @notice EIP-712 digest that signers of a finding sign; never bytes that a caller supplies.
    /// @param commitRoot root of the commitments that all signers made before anybody revealed
    /// @param signers mask of the seats that sign: everybody signs for all of them
    function digestOf(bytes32 domainSeparator, Finding memory finding, bytes32 commitRoot, uint256 signers)
        internal
        pure
        returns (bytes32)
    {
        bytes32 structHash = StructHashes.certified(Certified(StructHashes.finding(finding), commitRoot, signers));
        return MessageHashUtils.toTypedDataHash(domainSeparator, structHash);
    }

    /// @notice The stored word of a committee.
    function commitment(Bls.G1 memory key, uint256 seated) internal pure returns (bytes32) {
        return keccak256(abi.encode(key, seated));
    }

    /// @dev The sum of the points, each of which must have been its holder's key at the end of the block.
    function _sum(IBlsKeys keys, address[] memory holders, uint256 count, uint256 blockNumber, Bls.G1[] calldata points)
        private
        view
        returns (Bls.G1 memory sum)
    {
        if (points.length != count) revert KeyCount(points.length, count);
        if (count == 0) return sum;
        bytes32[] memory hashes = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            hashes[i] = Bls.hashOfGiven(points[i]);
        }
        address[] memory owners = keys.ownersAt(hashes, blockNumber);
        for (uint256 i = 0; i < count; ++i) {
            // A seat that nobody holds has account 0, which must not match the owner of a key that nobody registered.
            bool own = holders[i] != address(0) && owners[i] == holders[i];
            if (!own) revert WrongKey(holders[i], hashes[i]);
            Bls.addTo(sum, points[i]);
        }
    }
}
