"""Signed statements: Vote, Finding, AuditResult (under `Disputes`), Ticket, Release (`KeyEpochs`), Possession (`BlsKeys`)."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.units import U8, U16, U32, U64, U256, Address, Blob, Digest, unhex


class Outcome(enum.IntEnum):
    """What a seat says (design section 9)."""

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
    """How a dispute ended."""

    NONE = 0
    UPHELD = 1
    OVERTURNED = 2
    INVALID = 3
    UNAVAILABLE = 4
    DRAW = 5
    REFUNDED = 6


class AuditOutcome(enum.IntEnum):
    """Result of a light audit: equal, different, or could not tell."""

    MATCH = 1
    MISMATCH = 2
    NONE = 3


class TicketKind(enum.IntEnum):
    """What gives the right to one receipt's key."""

    DISPUTE = 1
    AUDIT = 2


@dataclass(frozen=True, slots=True)
class Vote:
    """One seat holder's final vote; its EIP-712 digest is the commitment."""

    dispute: Digest
    """Dispute id."""
    round: U16
    """1, 2, …"""
    voter: Address
    """Seat holder."""
    seat_mask: U256
    """Bit i set: seat i. All seats of the voter."""
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
    """Hides the vote until the reveal."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What all signers of a verdict certificate say: a revealed vote without voter, seats, quote and salt."""

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
    """What a BLS key signs (under `BlsKeys`) to prove that an account holds it."""

    account: Address
    """Whose key it is."""
    key_hash: Digest
    """keccak256 of the key's 128 bytes."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Signed result of one drawn light audit."""

    receipt_id: Digest
    """Audited receipt."""
    verifier: Address
    """Drawn auditor."""
    result: U8
    """`AuditOutcome`."""
    commitment: Digest
    """Salted commitment to what was found, opened after the window or in a dispute."""
    audited_at: U64
    """Unix seconds of the chain block that the auditor read."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What a shard signs when a ceremony gave it a share: which shares of which key it proved that it holds.

    Who had shares of the key before signs the same: that these follow on its own.
    """

    epoch: U64
    """Key epoch."""
    version: U32
    """How often the key was dealt again: 0 as it was made."""
    commitments: Digest
    """keccak256 of the Feldman commitments, one after the other, 65 bytes each."""
    holders: Digest
    """`holders_digest` of all who got one."""
    transcript: Digest
    """Of the ceremony."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right of one enclave instance to one receipt's key, signed by the seat's key."""

    kind: U8
    """`TicketKind`."""
    subject: Digest
    """Dispute id, or the receipt id for an audit."""
    round: U16
    """Round of the dispute; 0 for an audit."""
    receipt_id: Digest
    """Whose envelope."""
    voter: Address
    """Seat holder or drawn auditor."""
    transport_key_hash: Digest
    """Labelled hash of the enclave's transport key."""
    instance: Digest
    """Random name of the enclave instance."""
    key_epoch: U64
    """Epoch of the receipt."""
    expires_at: U64
    """Unix seconds of chain time."""


@dataclass(frozen=True, slots=True)
class Release:
    """A shard's signed, hash-chained record, written before it answers."""

    receipt_id: Digest
    """Whose envelope."""
    ticket_hash: Digest
    """EIP-712 digest of the ticket."""
    key_epoch: U64
    """Epoch."""
    shard: Address
    """Who released."""
    voter: Address
    """To whose enclave."""
    evidence_hash: Digest
    """Labelled hash of the appraised evidence."""
    transport_key_hash: Digest
    """Key to which the partial was sealed."""
    previous: Digest
    """EIP-712 digest of the previous record of this shard and epoch; zero for the first."""
    index: U64
    """0, 1, 2, … of this shard and epoch."""
    decision: U8
    """1 released, 2 refused, 3 share released."""
    decided_at: U64
    """Unix seconds of the chain block that the shard read."""


def audit_commitment(receipt_id: Digest, verifier: Address, tokens_hash: Digest, trace_root: Digest, salt: Digest) -> Digest:
    """What an audit result commits to: what was found, salted; bound to its verifier, a copy opens for nobody (`Audits.open`)."""
    kinds = ("bytes32", "address", "bytes32", "bytes32", "bytes32")
    return digests.keccak256_abi(kinds, (receipt_id, verifier, tokens_hash, trace_root, salt))


def holders_digest(holders: Iterable[Address]) -> Digest:
    """What `Shares` says of its holders: keccak256 of their addresses in order, each in a word of 32 bytes."""
    return digests.keccak256(b"".join(unhex(each).rjust(32, b"\0") for each in holders))


def transport_key_hash(public_key: Blob) -> Digest:
    """Name of an enclave's transport key (65-byte P-256 point)."""
    return digests.labelled(Label.TRANSPORT_KEY, public_key)
