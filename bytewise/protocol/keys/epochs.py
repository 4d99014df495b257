"""Records of key epochs, partials, messages between enclave and shard, and chain facts for a shard (design section 8)."""

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from bytewise.protocol import digests
from bytewise.protocol.decisions.snapshot import Dispute, Snapshot
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import LATER
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.jobs import EpochRecord, HybridKeys
from bytewise.protocol.records.receipt import BatchHeader, Receipt
from bytewise.protocol.records.statements import Release, Ticket
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import U64, Address, Blob, Digest

MAX_RELEASE_BODY_BYTES = 16 * 2**20
"""Size of the largest release request. Its envelope is of the largest bucket and doubles in hex; the limit leaves room."""

MAX_RELEASE_MARKS = 128
"""Most brackets, commas and backslashes of a release request (`encoding.MAX_MARKS`). A request has 33, and one more for each
Merkle sibling; a batch of 2^32 leaves has 32 siblings."""


class EpochState(enum.IntEnum):
    """State of a key epoch, numbered as in `KeyEpochs`."""

    NONE = 0
    PENDING = 1
    ACTIVE = 2
    DRAINING = 3
    RETIRED = 4
    COMPROMISED = 5


class Decision(enum.IntEnum):
    """Decision of a shard in a release record."""

    RELEASED = 1
    """The shard released a partial, which opens one envelope."""
    REFUSED = 2
    SHARE_RELEASED = 3
    """The shard released its share of the key, which is valid for every envelope of the epoch (ADR-040)."""


RELEASES = frozenset({Decision.RELEASED.value, Decision.SHARE_RELEASED.value})
"""Decisions with which the shard releases a partial or a share to an enclave."""


def release_decision(epoch: int) -> Decision:
    """Returns the decision that a shard of this key epoch records when it releases.

    It is SHARE_RELEASED if the epoch's number names a rebuilt epoch, otherwise RELEASED.
    """
    return Decision.SHARE_RELEASED if is_rebuilt(epoch) else Decision.RELEASED


@dataclass(frozen=True, slots=True)
class EpochDocument:
    """Result of a key ceremony: the record of the epoch, and the commitments against which every share is proven."""

    record: EpochRecord
    """Public key, threshold, shards, assurance."""
    commitments: tuple[Blob, ...]
    """Feldman commitments C_0 … C_{t-1}, 65 bytes each; C_0 is the public key."""


@dataclass(frozen=True, slots=True)
class SealedShare:
    """A share on disk, encrypted by the shard's sealer (`kms.storage.sealing`) and bound to epoch and index."""

    epoch: U64
    """Number of the key epoch."""
    index: int
    """Index of the shard."""
    nonce: Blob
    """The first 12 bytes of the sealed 32-byte scalar."""
    ciphertext: Blob
    """The remaining bytes of the sealed scalar."""


@dataclass(frozen=True, slots=True)
class Partial:
    """One shard's partial decapsulation with its Chaum-Pedersen proof."""

    index: int
    """Index of the shard."""
    point: Blob
    """The share times the envelope's ephemeral point R, 65 bytes."""
    e: Blob
    """Challenge of the proof, 32 bytes."""
    f: Blob
    """Response of the proof, 32 bytes."""


@dataclass(frozen=True, slots=True)
class HybridPartial:
    """Answer of a shard of a hybrid epoch: its partial, and its share of the envelope's pre-shared key (PSK)."""

    partial: Partial
    """Partial of the P-256 half."""
    keys: Digest
    """Digest of the hybrid keys that the shard has for this epoch."""
    share: Blob | None = field(repr=False)
    """Share of 32 bytes that fits the part's commitment. None if the part does not open or contains another value."""


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """An enclave's request to a shard over an attested channel. The channel identifies the enclave and its transport key."""

    ticket: Ticket
    """The voter's right to open the receipt."""
    ticket_signature: Blob
    """Signature of the ticket's voter."""
    receipt: Receipt
    """Receipt whose envelope is to be opened."""
    receipt_signature: Blob
    """Signature of the operator over the receipt."""
    batch_id: int
    """Batch that anchored the receipt."""
    proof: tuple[Digest, ...]
    """Merkle siblings from the receipt's leaf to the batch's root."""
    envelope: Blob
    """Bytes of the envelope."""


@dataclass(frozen=True, slots=True)
class ReleaseAnswer:
    """A shard's answer with a partial or a share."""

    sealed_partial: Blob
    """HPKE ciphertext to the channel's transport key. It contains a canonical `Partial` or `HybridPartial` under `partial_info`,
    or the 32 bytes of a share under `share_info`."""
    record: Release
    """The release record, which the shard stored before this answer."""
    signature: Blob
    """Signature of the shard over the record's EIP-712 digest."""


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """Answer to `GET /v1/info`."""

    epoch: U64
    """Key epoch that the shard serves."""
    index: int
    """Index of the shard."""
    shard: Address
    """Account that signs the shard's release records."""
    assurance: str
    """Label of the epoch: `simulated` or `hardware`."""
    policy: Digest
    """Appraisal policy in force at this shard."""
    shares: Digest | None = field(default=None, metadata=LATER)
    """keccak256 of the concatenated commitments that the shard's share fits; None from an older shard."""
    version: int | None = field(default=None, metadata=LATER)
    """Version of these shares according to the chain; None before the shard has read it."""
    in_force: bool | None = field(default=None, metadata=LATER)
    """Whether these shares are in force at the newest final block that the shard read. This block is at most some seconds old. If
    they are not in force, the shard releases nothing. None if the shard cannot read the chain."""


@dataclass(frozen=True, slots=True)
class ShardRefusal:
    """Body of every error answer of a shard."""

    error: str
    """Name of a class in `bytewise.protocol.errors`."""
    rule: str
    """Rule number of the error."""
    retryable: bool
    """Whether the same request may succeed later."""


@dataclass(frozen=True, slots=True)
class ReleaseReply:
    """Message of a shard over the channel: either an answer or a refusal."""

    answer: ReleaseAnswer | None
    """The released partial or share with its record; None if the shard refuses."""
    refusal: ShardRefusal | None
    """The reason of the refusal; None if the shard released."""

    def __post_init__(self) -> None:
        if (self.answer is None) == (self.refusal is None):
            raise MalformedValue("release reply", "is neither or both of answer and refusal")


@dataclass(frozen=True, slots=True)
class EpochOnChain:
    """A key epoch as the contract `KeyEpochs` shows it."""

    state: EpochState
    """State of the epoch. NONE means that there is no such epoch, and then all other fields are empty."""
    public_key: Blob
    """Public key of the epoch, a 65-byte point."""
    commitments: Blob
    """Feldman commitments of the shares in force, concatenated, 65 bytes each."""
    shards: tuple[Address, ...]
    """Accounts of the shards by index, from 1."""
    threshold: int
    """Number of shares that open an envelope."""
    version: int
    """Number of times that the key was dealt again."""
    transcript: Digest
    """Transcript of the ceremony for which enough shards signed on the chain. Zero before that."""
    assurance: str = ""
    """Label of the epoch: `simulated` or `hardware`; empty if there is no such epoch."""


@dataclass(frozen=True, slots=True)
class AuditDraw:
    """Inputs of the light-audit draw of one batch, for one voter."""

    batch: BatchHeader
    """Header of the batch."""
    window_end: int
    """Last second of the receipt's challenge window, by the protocol clock."""
    beacon: Digest
    """Hash of the second block after the batch."""
    rate_bps: int
    """Chance per audit seat to be drawn, in 1/10,000."""
    seats: int
    """Audit seats of the ticket's voter by its stake at the batch's block; 0 if it may not audit the batch."""


@dataclass(frozen=True, slots=True)
class ChainFacts:
    """All facts of the chain that a shard's decision needs, read at one block."""

    number: int
    """Number of the block."""
    timestamp: int
    """Wall time of the block."""
    clock: int
    """Time of the protocol clock, by which tickets expire."""
    policy: Digest
    """Digest of the appraisal policy in force."""
    is_verifier: bool
    """Whether the ticket's voter is a verifier in any pool."""
    dispute: Dispute | None
    """The ticket's dispute; None if the ticket names none, or one that does not exist."""
    drawing: AuditDraw | None
    """Inputs of the audit draw of the named batch; None if the batch does not exist or has no beacon."""
    epoch_state: EpochState
    """State of the ticket's key epoch."""
    assurance: str
    """Label of the ticket's key epoch on the chain."""
    public_key: Blob
    """Public key of the ticket's key epoch on the chain."""
    commitments: Blob
    """Concatenated Feldman commitments of the epoch's shares in force."""
    holders: tuple[Address, ...]
    """Accounts of the shards that have the shares in force, by index, from 1."""
    version: int = 0
    """Version of the shares in force: the number of times that the key was dealt again."""
    hybrid: HybridKeys | None = None
    """Hybrid keys of the epoch, if the chain pins them by their digest; otherwise None."""


def partial_info(shard: Address, receipt_id: Digest, ticket_hash: Digest, key_epoch: int) -> Digest:
    """Returns the HPKE `info` of a sealed partial. It binds shard, receipt, ticket and epoch."""
    return digests.labelled(Label.PARTIAL, shard.encode(), receipt_id, ticket_hash, key_epoch)


def share_info(shard: Address, receipt_id: Digest, ticket_hash: Digest, key_epoch: int) -> Digest:
    """Returns the HPKE `info` of a sealed share. It differs from that of a partial, so a share cannot be taken for a partial."""
    return digests.labelled(Label.RELEASED_SHARE, shard.encode(), receipt_id, ticket_hash, key_epoch)


class ReleaseView(NamedTuple):
    """Everything that a ticket's check reads from the chain, at one block."""

    block: int
    """Number of the block."""
    snapshot: Snapshot
    """Snapshot for the ticket's voter: protocol clock, policy and roles, without disputes."""
    key: EpochOnChain
    """The ticket's key epoch on the chain. Its state is NONE if there is no such epoch."""
    record: EpochRecord | None
    """The record of that epoch with its shards; None if there is none."""
    dispute: Dispute | None
    """The ticket's dispute; None if it names none, or one that does not exist."""
