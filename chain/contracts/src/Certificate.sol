// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Bls} from "./Bls.sol";
import {Finding, Hashes} from "./Types.sol";
import {IBlsKeys} from "./interfaces/IBlsKeys.sol";

/// @title Certificate: one aggregate signature for all seats of a round that say the same
/// @dev Keys are in G1, not G2: hashing to G2 costs 37,000 gas more, once; a key in G2 costs about 1,800 more for every
///      member that is added or taken away. What is stored of a committee is one word.
library Certificate {
    /// @notice A member of a round; it signs with all of its seats or with none.
    struct Holder {
        address account;
        uint16 seats;
    }

    /// @notice An aggregate signature and what it takes to check it. Bit i of a mask is the i-th member of the round.
    struct Proof {
        uint256 seated; // members whose keys are in `committeeKey`
        uint256 seats; // of the seated
        uint256 signers; // members who signed, a subset
        Bls.G1 committeeKey; // sum over the seats of the seated
        Bls.G2 signature; // sum over the seats of the signers
        Bls.G1[] absentKeys; // of the seated who did not sign, lowest bit first
    }

    /// @notice A round has at most 256 members.
    error TooManyMembers(uint256 members);
    /// @notice The mask names a member beyond the last.
    error NoSuchMember(uint256 seated, uint256 members);
    /// @notice None of the members has a key: the round is voted directly.
    error NobodyHasKey();
    /// @notice That member has a key and must be seated.
    error LeftOut(address account);
    /// @notice A key is missing, or one too many.
    error KeyCount(uint256 have, uint256 want);
    /// @notice That key is not this member's.
    error WrongKey(address account, bytes32 keyHash);
    /// @notice Key and members are not those that the committee was formed with.
    error NotTheCommittee(bytes32 have, bytes32 want);
    /// @notice A signer who is not of the committee.
    error NotSeated(uint256 signers, uint256 seated);
    /// @notice No member signed.
    error NobodySigned();
    /// @notice The signature is not that of exactly the signers over the digest.
    error BadCertificate(bytes32 digest, uint256 signers);

    /// @notice The word to store when a committee is seated: it commits to the sum of its keys, and to who has one. Who
    ///         has none votes directly.
    /// @param blockNumber keys count as of its end, so that nobody can change the committee once its seats are known
    /// @param seated mask of the members that have a key
    /// @param points their keys, lowest bit first
    function form(
        IBlsKeys keys,
        Holder[] storage holders,
        uint256 blockNumber,
        uint256 seated,
        Bls.G1[] calldata points
    ) internal view returns (bytes32) {
        uint256 size = holders.length;
        if (size > 256) revert TooManyMembers(size);
        if (seated == 0) revert NobodyHasKey();
        if (Math.log2(seated) >= size) revert NoSuchMember(seated, size);
        Bls.G1 memory sum;
        uint256 used = 0;
        uint256 seats = 0;
        for (uint256 i = 0; i < size; ++i) {
            Holder memory h = holders[i];
            if (seated & (1 << i) == 0) {
                if (keys.hasKeyAt(h.account, blockNumber)) revert LeftOut(h.account);
                continue;
            }
            if (used == points.length) revert KeyCount(used, used + 1);
            sum = Bls.addTimes(sum, _keyAt(keys, h.account, blockNumber, points[used]), h.seats);
            seats += h.seats;
            ++used;
        }
        if (used != points.length) revert KeyCount(points.length, used);
        return commitment(sum, seated, seats);
    }

    /// @notice Seats that a certificate speaks for. Its cost does not depend on the size of the committee, only on how
    ///         many of the seated did not sign. A member can sign two findings: the caller counts each member once.
    /// @param committee what `form` gave for these holders
    function verify(IBlsKeys keys, Holder[] storage holders, bytes32 committee, bytes32 digest, Proof calldata proof)
        internal
        view
        returns (uint256)
    {
        bytes32 shown = commitment(proof.committeeKey, proof.seated, proof.seats);
        if (shown != committee) revert NotTheCommittee(shown, committee);
        if (proof.signers & ~proof.seated != 0) revert NotSeated(proof.signers, proof.seated);
        if (proof.signers == 0) revert NobodySigned();
        uint256 mask = proof.seated & ~proof.signers;
        (Bls.G1 memory absentKey, uint256 absentSeats) = _absent(keys, holders, mask, proof.absentKeys);
        Bls.G1 memory key = Bls.subtract(proof.committeeKey, absentKey);
        if (!Bls.verify(key, proof.signature, digest, Bls.SIGNATURE)) revert BadCertificate(digest, proof.signers);
        return proof.seats - absentSeats;
    }

    /// @notice EIP-712 digest that signers of a finding sign; never bytes that a caller supplies.
    function digestOf(bytes32 domainSeparator, Finding memory finding) internal pure returns (bytes32) {
        return MessageHashUtils.toTypedDataHash(domainSeparator, Hashes.finding(finding));
    }

    /// @notice The stored word of a committee.
    function commitment(Bls.G1 memory key, uint256 seated, uint256 seats) internal pure returns (bytes32) {
        return keccak256(abi.encode(key, seated, seats));
    }

    function _keyAt(IBlsKeys keys, address account, uint256 blockNumber, Bls.G1 calldata point)
        private
        view
        returns (Bls.G1 memory key)
    {
        key = point;
        bytes32 keyHash = Bls.hashOf(key);
        // A seat that nobody holds has account 0, which must not match the owner of a key that nobody registered.
        if (account == address(0) || keys.ownerAt(keyHash, blockNumber) != account) revert WrongKey(account, keyHash);
    }

    function _absent(IBlsKeys keys, Holder[] storage holders, uint256 mask, Bls.G1[] calldata points)
        private
        view
        returns (Bls.G1 memory sum, uint256 seats)
    {
        uint256 used = 0;
        for (; mask != 0; mask &= mask - 1) {
            Holder memory h = holders[Math.log2(mask & (~mask + 1))];
            if (used == points.length) revert KeyCount(used, used + 1);
            Bls.G1 memory key = points[used];
            bytes32 keyHash = Bls.hashOf(key);
            // Any key that was ever this member's will do. Taking away another than the one that was added leaves a key
            // that only this member and all signers together can sign for, so it convinces nobody of an absent vote.
            if (keys.ownerOf(keyHash) != h.account) revert WrongKey(h.account, keyHash);
            sum = Bls.addTimes(sum, key, h.seats);
            seats += h.seats;
            ++used;
        }
        if (used != points.length) revert KeyCount(points.length, used);
    }
}
