"""Hashes of the court: dispute ids, commitments of challengers and members, and what the signers of a certificate sign."""

from dataclasses import dataclass

from bytewise.protocol.digests import keccak256_abi
from bytewise.protocol.records.statements import Finding
from bytewise.protocol.signing import Domain, struct_hash, typed_digest
from bytewise.protocol.units import U16, U256, Address, Digest


@dataclass(frozen=True, slots=True)
class Commit:
    """A member's commitment that another account sends to the chain. The member signs it under the domain of `Disputes`."""

    dispute: Digest
    """Dispute id."""
    round: U16
    """1, 2, …"""
    seat_mask: U256
    """Seats of the voter: bit i is set if it holds seat i. A commitment is for all of them."""
    commitment: Digest
    """EIP-712 digest of the voter's vote."""


@dataclass(frozen=True, slots=True)
class Certified:
    """The statement that the signers of a verdict certificate sign: one finding, for one set of seats, after one commit root
    (ADR-026).

    The mask names exactly the seats that sign, so no seat can be added to a signature or left out.
    """

    finding: Digest
    """EIP-712 struct hash of the `Finding`."""
    commit_root: Digest
    """Root of the commitments, posted before the first reveal."""
    signers: U256
    """Mask of all seats that sign. None of them committed on the chain."""


def dispute_id(domain: Domain, receipt_id: Digest) -> Digest:
    """Id of the one dispute that a receipt can have. `domain` is the domain of `Disputes`, here and in the functions below."""
    return keccak256_abi(("uint256", "address", "bytes32"), (domain.chain_id, domain.contract, receipt_id))


def alt_commit(domain: Domain, dispute: Digest, challenger: Address, key: Digest, salt: Digest) -> Digest:
    """A challenger's commitment, made before the first vote, to the answer that it expects to win (key: `court.tally.key_of`)."""
    kinds = ("uint256", "address", "bytes32", "address", "bytes32", "bytes32")
    return keccak256_abi(kinds, (domain.chain_id, domain.contract, dispute, challenger, key, salt))


def claim_of(tokens_hash: Digest, out_hash: Digest) -> Digest:
    """Hash of what a receipt claims, as its dispute stores it."""
    return keccak256_abi(("bytes32", "bytes32"), (tokens_hash, out_hash))


def sealed(commitment: Digest, voter: Address, seat_mask: int) -> Digest:
    """A commitment as the court stores and shows it: bound to the voter and its seats."""
    return keccak256_abi(("bytes32", "address", "uint256"), (commitment, voter, seat_mask))


def certified_digest(domain: Domain, finding: Finding, commit_root: Digest, signers: int) -> Digest:
    """The digest that every signer of a certificate signs. `signers` is the mask of all their seats together."""
    return typed_digest(domain, Certified(Digest(struct_hash(finding)), commit_root, U256(signers)))
