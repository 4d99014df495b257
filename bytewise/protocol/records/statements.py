"""Statements that accounts sign, by the contract in whose EIP-712 domain they are signed.

`Disputes`: Vote, Finding, AuditResult, GossipIdentity. `KeyEpochs`: Shares, Ticket, Release. `BlsKeys`: Possession.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.units import U8, U16, U32, U64, U256, Address, Blob, Digest, unhex


class Outcome(enum.IntEnum):
    """Outcome of a vote (design section 9)."""

    EXECUTED = 1
    INVALID = 2
    UNAVAILABLE = 3
    NO_KEY = 4
    CANNOT_EXECUTE = 5


class CannotReason(enum.IntEnum):
    """Code of a CANNOT_EXECUTE vote: the reason why the machine could not execute."""

    NONE = 0
    BACKEND = 1
    MODEL_MISSING = 2
    PROFILE_UNKNOWN = 3
    RESOURCES = 4
    ENVIRONMENT = 5


class Verdict(enum.IntEnum):
    """Result of a dispute."""

    NONE = 0
    UPHELD = 1
    OVERTURNED = 2
    INVALID = 3
    UNAVAILABLE = 4
    DRAW = 5
    REFUNDED = 6


class AuditOutcome(enum.IntEnum):
    """Result of a light audit: the answer is equal, different, or could not be judged (NONE)."""

    MATCH = 1
    MISMATCH = 2
    NONE = 3


class TicketKind(enum.IntEnum):
    """The procedure that gives a voter the right to open a receipt: a dispute or a light audit."""

    DISPUTE = 1
    AUDIT = 2


@dataclass(frozen=True, slots=True)
class Vote:
    """The final vote of one member in one round. Its EIP-712 digest is the member's commitment."""

    dispute: Digest
    """Id of the dispute."""
    round: U16
    """Number of the round: 1, 2, …"""
    voter: Address
    """Account that has the seats."""
    seat_mask: U256
    """Mask of all seats of the voter: bit i is set for seat i."""
    outcome: U8
    """Number of an `Outcome`."""
    code: U8
    """Defect code, or number of a `CannotReason`; 0 if the outcome needs neither."""
    tokens_hash: Digest
    """Recomputed tokens hash, or zero."""
    trace_root: Digest
    """Recomputed trace root, or zero."""
    round_digest: Digest
    """Hash over round seed, dispute and every trace leaf, or zero."""
    quote_hash: Digest
    """keccak256 of the result quote, or zero."""
    salt: Digest
    """Random salt that hides the vote until the reveal."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The statement that all signers of a verdict certificate share: a vote without voter, seats, quote and salt."""

    dispute: Digest
    """Id of the dispute."""
    round: U16
    """Number of the round: 1, 2, …"""
    outcome: U8
    """Number of an `Outcome`."""
    code: U8
    """Defect code, or number of a `CannotReason`; 0 if the outcome needs neither."""
    tokens_hash: Digest
    """Recomputed tokens hash, or zero."""
    trace_root: Digest
    """Recomputed trace root, or zero."""
    round_digest: Digest
    """Hash over round seed, dispute and every trace leaf, or zero."""


@dataclass(frozen=True, slots=True)
class Possession:
    """The statement that a BLS key signs (under `BlsKeys`) to prove that an account has it."""

    account: Address
    """Account that has the key."""
    key_hash: Digest
    """keccak256 of the public key's 128 bytes."""


@dataclass(frozen=True, slots=True)
class GossipIdentity:
    """The statement by which a member's account names the public key of its gossip process (ADR-031)."""

    who: Address
    """Account of the member."""
    peer_key: Digest
    """Ed25519 public key of the member's gossip process."""
    not_after: U64
    """Last Unix second at which this statement is valid."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Signed result of one light audit."""

    receipt_id: Digest
    """Id of the audited receipt."""
    verifier: Address
    """Auditor that was drawn."""
    result: U8
    """Number of an `AuditOutcome`."""
    commitment: Digest
    """Salted commitment to the recomputed hashes. The contract lets it be opened only after the challenge window."""
    audited_at: U64
    """Unix seconds of the block that the auditor read."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The statement that a shard signs after a ceremony gave it a share. It names all shares of the ceremony and their key.

    The shard sends the signature together with the proof of its share (`Confirm`). The shards of the previous shares sign the
    same statement, to confirm that the new shares replace theirs (`Consent`).
    """

    epoch: U64
    """Number of the key epoch."""
    version: U32
    """Number of times that the key was dealt again; 0 for the first dealing."""
    commitments: Digest
    """keccak256 of the Feldman commitments, one after another, 65 bytes each."""
    holders: Digest
    """Digest `holders_digest` of all shards that received a share."""
    transcript: Digest
    """Digest of the ceremony's transcript."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right of one enclave instance to have one receipt opened, signed with the voter's key."""

    kind: U8
    """Number of a `TicketKind`."""
    subject: Digest
    """Dispute id, or the receipt id for an audit."""
    round: U16
    """Round of the dispute; 0 for an audit."""
    receipt_id: Digest
    """Receipt whose envelope may be opened."""
    voter: Address
    """Account that has a seat or was drawn as auditor."""
    transport_key_hash: Digest
    """Labelled hash of the enclave's transport key."""
    instance: Digest
    """Random name of the enclave instance."""
    key_epoch: U64
    """Key epoch of the receipt."""
    expires_at: U64
    """Unix seconds of chain time after which the ticket is invalid."""


@dataclass(frozen=True, slots=True)
class Release:
    """A shard's release record. The shard signs it, links it to its previous record, and only then answers."""

    receipt_id: Digest
    """Receipt that an enclave asked to open."""
    ticket_hash: Digest
    """EIP-712 digest of the ticket."""
    key_epoch: U64
    """Number of the key epoch."""
    shard: Address
    """Account of the shard that decided."""
    voter: Address
    """Voter whose enclave asked."""
    evidence_hash: Digest
    """Labelled hash of the evidence that the shard appraised."""
    transport_key_hash: Digest
    """Labelled hash of the key to which the partial was sealed."""
    previous: Digest
    """EIP-712 digest of the previous record of this shard and epoch; zero for the first."""
    index: U64
    """Number of the record for this shard and epoch: 0, 1, 2, …"""
    decision: U8
    """Decision of the shard: 1 released, 2 refused, 3 share released."""
    decided_at: U64
    """Unix seconds of the block that the shard read."""


def audit_commitment(receipt_id: Digest, verifier: Address, tokens_hash: Digest, trace_root: Digest, salt: Digest) -> Digest:
    """Returns the commitment of an audit result: a hash of the recomputed hashes and a salt.

    The hash also covers the verifier's address, so nobody can open a copied commitment as its own result (`Audits.open`).
    """
    kinds = ("bytes32", "address", "bytes32", "bytes32", "bytes32")
    return digests.keccak256_abi(kinds, (receipt_id, verifier, tokens_hash, trace_root, salt))


def holders_digest(holders: Iterable[Address]) -> Digest:
    """Returns the digest in `Shares.holders`: keccak256 of the addresses in order, each in a 32-byte word."""
    return digests.keccak256(b"".join(unhex(each).rjust(32, b"\0") for each in holders))


def transport_key_hash(public_key: Blob) -> Digest:
    """Returns the hash that names an enclave's transport key (65-byte P-256 point)."""
    return digests.labelled(Label.TRANSPORT_KEY, public_key)
