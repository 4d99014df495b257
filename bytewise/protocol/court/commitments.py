"""Hashes of disputes: dispute ids, commitments of challengers and members, and the digest that signers of a certificate sign."""

from dataclasses import dataclass

from bytewise.protocol.digests import keccak256_abi
from bytewise.protocol.records.statements import Finding
from bytewise.protocol.signing import Domain, struct_hash, typed_digest
from bytewise.protocol.units import U16, U256, Address, Digest


@dataclass(frozen=True, slots=True)
class Commit:
    """A member's commitment that another account posts on the chain. The member signs it under the domain of `Disputes`."""

    dispute: Digest
    """Id of the dispute."""
    round: U16
    """Number of the round: 1, 2, …"""
    seat_mask: U256
    """Mask of all seats of the voter: bit i is set for seat i. The commitment covers all of them."""
    commitment: Digest
    """EIP-712 digest of the voter's vote."""


@dataclass(frozen=True, slots=True)
class Certified:
    """The statement that all signers of a verdict certificate sign: one finding, one set of seats and one commit root (ADR-030).

    The mask names exactly the seats that sign, so no seat can be added to a signature or left out.
    """

    finding: Digest
    """EIP-712 struct hash of the `Finding`."""
    commit_root: Digest
    """Merkle root of the commitments. It was posted before the first reveal."""
    signers: U256
    """Mask of all seats that sign. None of these seats committed on the chain."""


def dispute_id(domain: Domain, receipt_id: Digest) -> Digest:
    """Returns the id of a receipt's dispute. A receipt can have only one. `domain` is the EIP-712 domain of `Disputes`."""
    return keccak256_abi(("uint256", "address", "bytes32"), (domain.chain_id, domain.contract, receipt_id))


def alt_commit(domain: Domain, dispute: Digest, challenger: Address, key: Digest, salt: Digest) -> Digest:
    """Returns a challenger's commitment to the answer that it expects to win, made before the first vote.

    `key` is `court.tally.key_of` of this answer; `domain` is the EIP-712 domain of `Disputes`.
    """
    kinds = ("uint256", "address", "bytes32", "address", "bytes32", "bytes32")
    return keccak256_abi(kinds, (domain.chain_id, domain.contract, dispute, challenger, key, salt))


def claim_of(tokens_hash: Digest, out_hash: Digest) -> Digest:
    """Returns the hash of a receipt's `tokens_hash` and `out_hash`. The dispute about the receipt stores this hash."""
    return keccak256_abi(("bytes32", "bytes32"), (tokens_hash, out_hash))


def sealed(commitment: Digest, voter: Address, seat_mask: int) -> Digest:
    """Returns a commitment bound to its voter and the voter's seats. The contract stores and shows commitments in this form."""
    return keccak256_abi(("bytes32", "address", "uint256"), (commitment, voter, seat_mask))


def certified_digest(domain: Domain, finding: Finding, commit_root: Digest, signers: int) -> Digest:
    """Returns the digest that every signer of a certificate signs.

    `domain` is the EIP-712 domain of `Disputes`; `signers` is the mask of the seats of all signers together.
    """
    return typed_digest(domain, Certified(Digest(struct_hash(finding)), commit_root, U256(signers)))
