"""Key epochs, partial decapsulations, and what an enclave and a shard say to each other (design section 8)."""

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from bytewise.protocol import digests
from bytewise.protocol.decisions.snapshot import Dispute, Snapshot
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import LATER
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.release_evidence import SignedReleaseEvidence
from bytewise.protocol.jobs import EpochRecord, HybridKeys
from bytewise.protocol.records.receipt import BatchHeader, Receipt
from bytewise.protocol.records.statements import Release, Ticket
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import U64, Address, Blob, Digest

MAX_RELEASE_BODY_BYTES = 16 * 2**20
"""Largest release request: an envelope of the largest bucket, twice in hex, with room to spare."""

MAX_RELEASE_MARKS = 128
"""Most brackets, commas and backslashes of a release request (`encoding.MAX_MARKS`): it has 33, and one for each Merkle sibling,
of which a batch of 2^32 leaves has 32."""


class EpochState(enum.IntEnum):
    """Life of a key epoch, as `KeyEpochs` numbers it."""

    NONE = 0
    PENDING = 1
    ACTIVE = 2
    DRAINING = 3
    RETIRED = 4
    COMPROMISED = 5


class Decision(enum.IntEnum):
    """Decision of a release record."""

    RELEASED = 1
    """A partial was given: it opens one envelope."""
    REFUSED = 2
    SHARE_RELEASED = 3
    """A share of the key was given, which is good for every envelope of the epoch (ADR-038)."""


RELEASES = frozenset({Decision.RELEASED.value, Decision.SHARE_RELEASED.value})
"""Decisions after which an enclave has something."""


def release_decision(epoch: int) -> Decision:
    """What a shard of this key epoch records before it gives anything: its number alone says whether that is a share."""
    return Decision.SHARE_RELEASED if is_rebuilt(epoch) else Decision.RELEASED


@dataclass(frozen=True, slots=True)
class EpochDocument:
    """What a key ceremony publishes: the epoch's record and the commitments that prove every share."""

    record: EpochRecord
    """Public key, threshold, shards, assurance."""
    commitments: tuple[Blob, ...]
    """Feldman commitments C_0 … C_{t-1}, 65 bytes each; C_0 is the public key."""


@dataclass(frozen=True, slots=True)
class SealedShare:
    """A share at rest, as the shard's sealer made it (`kms.storage.sealing`), bound to epoch and index."""

    epoch: U64
    """Key epoch."""
    index: int
    """Evaluation point."""
    nonce: Blob
    """The first 12 bytes of the sealed 32-byte scalar."""
    ciphertext: Blob
    """The others."""


@dataclass(frozen=True, slots=True)
class Partial:
    """One shard's partial decapsulation with its Chaum-Pedersen proof."""

    index: int
    """Evaluation point of the shard."""
    point: Blob
    """Share times R, 65 bytes."""
    e: Blob
    """Challenge, 32 bytes."""
    f: Blob
    """Response, 32 bytes."""


@dataclass(frozen=True, slots=True)
class HybridPartial:
    """What a shard of a hybrid epoch gives: its partial, and its share of the envelope's PSK."""

    partial: Partial
    """Of the P-256 half."""
    keys: Digest
    """Digest of the epoch's hybrid keys as the shard has them."""
    share: Blob | None = field(repr=False)
    """32 bytes that hash to the part's commitment; null: the part does not open, or holds something else."""


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """What an enclave asks over an attested channel, which says who it is and to which transport key a partial is sealed."""

    ticket: Ticket
    """The right."""
    ticket_signature: Blob
    """By the ticket's voter."""
    receipt: Receipt
    """Whose envelope."""
    receipt_signature: Blob
    """The operator's."""
    batch_id: int
    """Batch that anchored it."""
    proof: tuple[Digest, ...]
    """Merkle siblings."""
    envelope: Blob
    """Envelope bytes."""


@dataclass(frozen=True, slots=True)
class ReleaseAnswer:
    """What a shard gives."""

    sealed_partial: Blob
    """HPKE to the channel's transport key: of the canonical `Partial` or `HybridPartial` under `partial_info`, or of a share's
    32 bytes under `share_info`."""
    record: Release
    """The release record, committed before this answer."""
    signature: Blob
    """The shard's, over the record's EIP-712 digest."""


@dataclass(frozen=True, slots=True)
class SignedTicket:
    """The right that a release record names by its hash, in the words of who asked."""

    ticket: Ticket
    """Which dispute and round, or which audit; whose enclave."""
    signature: Blob
    """The voter's, over the ticket's EIP-712 digest."""


@dataclass(frozen=True, slots=True)
class SignedRelease:
    """One entry of a shard's public log."""

    record: Release
    """The record."""
    signature: Blob
    """The shard's."""
    right: SignedTicket | None
    """Why; None in records of before shards kept tickets."""
    grounds: SignedReleaseEvidence | None = field(default=None, metadata=LATER)
    """On what the shard decided; None in records of before shards kept that."""


@dataclass(frozen=True, slots=True)
class ReleaseLog:
    """Answer of `GET /v1/log`: records in order, of one epoch."""

    entries: tuple[SignedRelease, ...]
    """Ascending by index."""


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """Answer of `GET /v1/info`."""

    epoch: U64
    """Served key epoch."""
    index: int
    """Evaluation point."""
    shard: Address
    """Account that signs release records."""
    assurance: str
    """`simulated` or `hardware`."""
    policy: Digest
    """Appraisal policy in force at this shard."""
    shares: Digest | None = field(default=None, metadata=LATER)
    """keccak256 of the commitments that its share fits, one after the other; None from a shard of an earlier build."""
    version: int | None = field(default=None, metadata=LATER)
    """Version of these shares, as the chain told the shard; None before it asked."""
    in_force: bool | None = field(default=None, metadata=LATER)
    """Whether the chain means them at the newest final block that the shard read, some seconds ago at most: if not, it answers
    nobody. None if it cannot read the chain."""


@dataclass(frozen=True, slots=True)
class ShardRefusal:
    """Body of every error answer of a shard."""

    error: str
    """Class of `bytewise.protocol.errors`."""
    rule: str
    """Its rule number."""
    retryable: bool
    """Whether the same request may succeed later."""


@dataclass(frozen=True, slots=True)
class ReleaseReply:
    """What comes back over the channel: one of the two."""

    answer: ReleaseAnswer | None
    """The partial and its record."""
    refusal: ShardRefusal | None
    """Why there is none."""

    def __post_init__(self) -> None:
        if (self.answer is None) == (self.refusal is None):
            raise MalformedValue("release reply", "is neither or both of answer and refusal")


@dataclass(frozen=True, slots=True)
class EpochOnChain:
    """What `KeyEpochs` says of a key epoch."""

    state: EpochState
    """NONE if there is no such epoch; all else is empty then."""
    public_key: Blob
    """65-byte point."""
    commitments: Blob
    """Feldman commitments of the shares in force, one after the other, 65 bytes each."""
    shards: tuple[Address, ...]
    """Accounts by index, from 1."""
    threshold: int
    """Shards that open."""
    version: int
    """How often the key was dealt again."""
    transcript: Digest
    """Of the ceremony for whose shares enough of their holders signed on the chain; zero if nobody has shown that."""
    assurance: str = ""
    """`simulated` or `hardware`; empty if there is no such epoch."""


@dataclass(frozen=True, slots=True)
class AuditDraw:
    """What draws the light audits of one batch, for one voter."""

    batch: BatchHeader
    """The batch."""
    window_end: int
    """Last second of its window, protocol clock."""
    beacon: Digest
    """Hash of the block two after the batch."""
    rate_bps: int
    """Chance per audit seat in 1/10,000."""
    seats: int
    """Audit seats of the ticket's voter, by its stake at the batch's block; 0 if it is not of the environment's pool."""


@dataclass(frozen=True, slots=True)
class ChainFacts:
    """All that a shard's decision needs of the chain, read at one block."""

    number: int
    """The block."""
    timestamp: int
    """Its wall time."""
    clock: int
    """Protocol clock: that of tickets."""
    policy: Digest
    """Appraisal policy in force."""
    is_verifier: bool
    """Whether the ticket's voter is in any pool."""
    dispute: Dispute | None
    """The ticket's dispute, if it is one and exists."""
    drawing: AuditDraw | None
    """What drew the auditors of the named batch, if it exists and has a beacon."""
    epoch_state: EpochState
    """State of the ticket's key epoch."""
    assurance: str
    """The chain's label of that epoch."""
    public_key: Blob
    """The chain's public key of that epoch."""
    commitments: Blob
    """Its commitments of the shares in force, one after the other."""
    holders: tuple[Address, ...]
    """Accounts of the shards that have those shares, by index, from 1."""
    version: int = 0
    """How often the key was dealt again until it had those."""
    hybrid: HybridKeys | None = None
    """Its hybrid keys, as far as the chain pins them."""


def partial_info(shard: Address, receipt_id: Digest, ticket_hash: Digest, key_epoch: int) -> Digest:
    """HPKE `info` of a sealed partial: who, for which receipt, on which right."""
    return digests.labelled(Label.PARTIAL, shard.encode(), receipt_id, ticket_hash, key_epoch)


def share_info(shard: Address, receipt_id: Digest, ticket_hash: Digest, key_epoch: int) -> Digest:
    """HPKE `info` of a sealed share of a key, which is thus never taken for a partial."""
    return digests.labelled(Label.RELEASED_SHARE, shard.encode(), receipt_id, ticket_hash, key_epoch)


# What a shard reads of the chain for one release, all of it at one block.


class ReleaseView(NamedTuple):
    """The network as one ticket needs it."""

    block: int
    """Number of the block."""
    snapshot: Snapshot
    """Of the ticket's voter: protocol clock, policy and the voter's roles, but no dispute."""
    key: EpochOnChain
    """The ticket's key epoch, whether or not there is one."""
    record: EpochRecord | None
    """That epoch with its shards; None if there is none."""
    dispute: Dispute | None
    """The ticket's dispute; None if it names none, or one that does not exist."""
