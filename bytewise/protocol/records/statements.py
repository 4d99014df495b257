"""Signed statements: Vote, Finding, AuditResult (under `Disputes`); Shares, Ticket, Release (`KeyEpochs`); Possession
(`BlsKeys`)."""

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
    """Code of a CANNOT_EXECUTE vote."""

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
    """Result of a light audit: equal, different, or undecidable."""

    MATCH = 1
    MISMATCH = 2
    NONE = 3


class TicketKind(enum.IntEnum):
    """Reason for the right to the key of one receipt: a dispute or an audit."""

    DISPUTE = 1
    AUDIT = 2


@dataclass(frozen=True, slots=True)
class Vote:
    """The final vote of one member in one round. Its EIP-712 digest is the commitment."""

    dispute: Digest
    """Dispute id."""
    round: U16
    """1, 2, …"""
    voter: Address
    """Seat holder."""
    seat_mask: U256
    """Mask of all seats of the voter: bit i is set for seat i."""
    outcome: U8
    """`Outcome`."""
    code: U8
    """Defect code or `CannotReason`; 0 otherwise."""
    tokens_hash: Digest
    """Recomputed tokens hash, or zero."""
    trace_root: Digest
    """Recomputed trace root, or zero."""
    round_digest: Digest
    """Hash over round seed, dispute and every leaf, or zero."""
    quote_hash: Digest
    """keccak256 of the result quote, or zero."""
    salt: Digest
    """Random salt that hides the vote until the reveal."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The common statement of all signers of a verdict certificate: a revealed vote without voter, seats, quote and salt."""

    dispute: Digest
    """Dispute id."""
    round: U16
    """1, 2, …"""
    outcome: U8
    """`Outcome`."""
    code: U8
    """Defect code or `CannotReason`; 0 otherwise."""
    tokens_hash: Digest
    """Recomputed tokens hash, or zero."""
    trace_root: Digest
    """Recomputed trace root, or zero."""
    round_digest: Digest
    """Hash over round seed, dispute and every leaf, or zero."""


@dataclass(frozen=True, slots=True)
class Possession:
    """The statement that a BLS key signs (under `BlsKeys`) to prove that an account holds it."""

    account: Address
    """Account that holds the key."""
    key_hash: Digest
    """keccak256 of the key's 128 bytes."""


@dataclass(frozen=True, slots=True)
class GossipIdentity:
    """The statement by which an account binds the key of its gossip process (ADR-077)."""

    who: Address
    """Account of the member."""
    peer_key: Digest
    """Ed25519 public key of its gossip process."""
    not_after: U64
    """Last second, Unix time, in which the binding holds."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Signed result of one light audit."""

    receipt_id: Digest
    """Audited receipt."""
    verifier: Address
    """Drawn auditor."""
    result: U8
    """`AuditOutcome`."""
    commitment: Digest
    """Salted commitment to the recomputed hashes. It is opened after the window or in a dispute."""
    audited_at: U64
    """Unix seconds of the block that the auditor read."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The statement that a shard signs after a ceremony gave it a share: the shares and the key for which it proved its share.

    Holders of the previous shares sign the same, to confirm that these shares follow theirs.
    """

    epoch: U64
    """Key epoch."""
    version: U32
    """How often the key was dealt again; 0 for the first dealing."""
    commitments: Digest
    """keccak256 of the Feldman commitments, one after the other, 65 bytes each."""
    holders: Digest
    """`holders_digest` of all receivers of a share."""
    transcript: Digest
    """Digest of the ceremony's transcript."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right of one enclave instance to the key of one receipt, signed with the voter's key."""

    kind: U8
    """`TicketKind`."""
    subject: Digest
    """Dispute id, or the receipt id for an audit."""
    round: U16
    """Round of the dispute; 0 for an audit."""
    receipt_id: Digest
    """Receipt whose envelope may be opened."""
    voter: Address
    """Seat holder or drawn auditor."""
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
    """A shard's signed, hash-chained record, written before the shard answers."""

    receipt_id: Digest
    """Receipt whose envelope was asked for."""
    ticket_hash: Digest
    """EIP-712 digest of the ticket."""
    key_epoch: U64
    """Key epoch."""
    shard: Address
    """Shard that decided."""
    voter: Address
    """Voter whose enclave asked."""
    evidence_hash: Digest
    """Labelled hash of the appraised evidence."""
    transport_key_hash: Digest
    """Labelled hash of the key to which the partial was sealed."""
    previous: Digest
    """EIP-712 digest of the previous record of this shard and epoch; zero for the first."""
    index: U64
    """Number of the record for this shard and epoch: 0, 1, 2, …"""
    decision: U8
    """1 released, 2 refused, 3 share released."""
    decided_at: U64
    """Unix seconds of the block that the shard read."""


def audit_commitment(receipt_id: Digest, verifier: Address, tokens_hash: Digest, trace_root: Digest, salt: Digest) -> Digest:
    """Commitment of an audit result: the recomputed hashes with a salt, bound to the verifier so that nobody can open a copy
    (`Audits.open`)."""
    kinds = ("bytes32", "address", "bytes32", "bytes32", "bytes32")
    return digests.keccak256_abi(kinds, (receipt_id, verifier, tokens_hash, trace_root, salt))


def holders_digest(holders: Iterable[Address]) -> Digest:
    """`Shares.holders`: keccak256 of the holders' addresses in order, each in a 32-byte word."""
    return digests.keccak256(b"".join(unhex(each).rjust(32, b"\0") for each in holders))


def transport_key_hash(public_key: Blob) -> Digest:
    """Name of an enclave's transport key (65-byte P-256 point)."""
    return digests.labelled(Label.TRANSPORT_KEY, public_key)
