"""What the second court hashes: dispute ids, challengers' and members' commitments, and what a certificate's signers sign."""

from dataclasses import dataclass

from bytewise.protocol.digests import keccak256_abi
from bytewise.protocol.records.statements import Finding
from bytewise.protocol.signing import Domain, struct_hash, typed_digest
from bytewise.protocol.units import U16, U256, Address, Digest


@dataclass(frozen=True, slots=True)
class Commit:
    """A commitment that another account brings to the chain, signed by its voter under `Disputes`."""

    dispute: Digest
    """Dispute id."""
    round: U16
    """1, 2, …"""
    seat_mask: U256
    """Bit i set: seat i. All seats of the voter."""
    commitment: Digest
    """EIP-712 digest of its vote."""


@dataclass(frozen=True, slots=True)
class Certified:
    """What signers of a verdict certificate sign: a finding, under the commitments that were collected before it.

    For exactly these seats, so that nobody can be added to what the others signed, or left out of it (ADR-026).
    """

    finding: Digest
    """EIP-712 struct hash of the `Finding`."""
    commit_root: Digest
    """Posted before anybody revealed."""
    signers: U256
    """Mask of all seats that sign it, none of which committed on the chain."""


def dispute_id(domain: Domain, receipt_id: Digest) -> Digest:
    """Id of the one dispute that a receipt can have; `domain` is that of `Disputes`, here and below."""
    return keccak256_abi(("uint256", "address", "bytes32"), (domain.chain_id, domain.contract, receipt_id))


def alt_commit(domain: Domain, dispute: Digest, challenger: Address, key: Digest, salt: Digest) -> Digest:
    """What a challenger commits to before anybody votes: the answer that it expects to win (`court.count.key_of`)."""
    kinds = ("uint256", "address", "bytes32", "address", "bytes32", "bytes32")
    return keccak256_abi(kinds, (domain.chain_id, domain.contract, dispute, challenger, key, salt))


def claim_of(tokens_hash: Digest, out_hash: Digest) -> Digest:
    """What a receipt claims, as its dispute stores it."""
    return keccak256_abi(("bytes32", "bytes32"), (tokens_hash, out_hash))


def sealed(commitment: Digest, voter: Address, seat_mask: int) -> Digest:
    """A commitment as the court stores and shows it: bound to who made it, with which seats."""
    return keccak256_abi(("bytes32", "address", "uint256"), (commitment, voter, seat_mask))


def certified_digest(domain: Domain, finding: Finding, commit_root: Digest, signers: int) -> Digest:
    """What every signer of a certificate signs, for the mask of the seats of all of them."""
    return typed_digest(domain, Certified(Digest(struct_hash(finding)), commit_root, U256(signers)))
