"""Records of key epochs, partial decapsulations, messages between enclave and shard, and a shard's reads of the chain (design
section 8)."""

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
"""Largest release request: an envelope of the largest bucket, twice that in hex, with room to spare."""

MAX_RELEASE_MARKS = 128
"""Most brackets, commas and backslashes of a release request (`encoding.MAX_MARKS`): 33, and one for each Merkle sibling, of
which a batch of 2^32 leaves has 32."""


class EpochState(enum.IntEnum):
    """Life of a key epoch, numbered as in `KeyEpochs`."""

    NONE = 0
    PENDING = 1
    ACTIVE = 2
    DRAINING = 3
    RETIRED = 4
    COMPROMISED = 5


class Decision(enum.IntEnum):
    """Decision of a release record."""

    RELEASED = 1
    """The shard released a partial, which opens one envelope."""
    REFUSED = 2
    SHARE_RELEASED = 3
    """The shard released its share of the key, which is valid for every envelope of the epoch (ADR-038)."""


RELEASES = frozenset({Decision.RELEASED.value, Decision.SHARE_RELEASED.value})
"""Decisions that release something to an enclave."""


def release_decision(epoch: int) -> Decision:
    """The decision that a shard of this key epoch records before it releases anything. The epoch's number says whether it is a
    share."""
    return Decision.SHARE_RELEASED if is_rebuilt(epoch) else Decision.RELEASED


@dataclass(frozen=True, slots=True)
class EpochDocument:
    """Result of a key ceremony: the epoch's record and the commitments that prove every share."""

    record: EpochRecord
    """Public key, threshold, shards, assurance."""
    commitments: tuple[Blob, ...]
    """Feldman commitments C_0 … C_{t-1}, 65 bytes each; C_0 is the public key."""


@dataclass(frozen=True, slots=True)
class SealedShare:
    """A share at rest, as the shard's sealer encrypted it (`kms.storage.sealing`), bound to epoch and index."""

    epoch: U64
    """Key epoch."""
    index: int
    """Evaluation point."""
    nonce: Blob
    """The first 12 bytes of the sealed 32-byte scalar."""
    ciphertext: Blob
    """The remaining bytes."""


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
    """Answer of a shard of a hybrid epoch: its partial, and its share of the envelope's PSK."""

    partial: Partial
    """Partial of the P-256 half."""
    keys: Digest
    """Digest of the epoch's hybrid keys, as the shard has them."""
    share: Blob | None = field(repr=False)
    """32 bytes that hash to the part's commitment; null if the part does not open or holds something else."""


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """An enclave's request over an attested channel. The channel identifies the enclave and its transport key."""

    ticket: Ticket
    """The right to the key."""
    ticket_signature: Blob
    """Signature of the ticket's voter."""
    receipt: Receipt
    """Receipt whose envelope is to be opened."""
    receipt_signature: Blob
    """Signature of the operator."""
    batch_id: int
    """Batch that anchored the receipt."""
    proof: tuple[Digest, ...]
    """Merkle siblings from the receipt's leaf to the batch's root."""
    envelope: Blob
    """Bytes of the envelope."""


@dataclass(frozen=True, slots=True)
class ReleaseAnswer:
    """A shard's answer that releases something."""

    sealed_partial: Blob
    """HPKE ciphertext to the channel's transport key: a canonical `Partial` or `HybridPartial` under `partial_info`, or the 32
    bytes of a share under `share_info`."""
    record: Release
    """The release record, committed before this answer."""
    signature: Blob
    """Signature of the shard over the record's EIP-712 digest."""


@dataclass(frozen=True, slots=True)
class SignedTicket:
    """The right that a release record names by its hash, signed by the account that asked."""

    ticket: Ticket
    """Dispute and round, or audit, and the enclave instance."""
    signature: Blob
    """Signature of the voter over the ticket's EIP-712 digest."""


@dataclass(frozen=True, slots=True)
class SignedRelease:
    """One entry of a shard's public log."""

    record: Release
    """The release record."""
    signature: Blob
    """Signature of the shard."""
    right: SignedTicket | None
    """The ticket behind the decision; None in records of older shards."""
    grounds: SignedReleaseEvidence | None = field(default=None, metadata=LATER)
    """The evidence behind the decision; None in records of older shards."""


@dataclass(frozen=True, slots=True)
class ReleaseLog:
    """Answer to `GET /v1/log`: records of one epoch, in order."""

    entries: tuple[SignedRelease, ...]
    """Entries, ascending by index."""


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """Answer to `GET /v1/info`."""

    epoch: U64
    """Key epoch that the shard serves."""
    index: int
    """Evaluation point."""
    shard: Address
    """Account that signs release records."""
    assurance: str
    """`simulated` or `hardware`."""
    policy: Digest
    """Appraisal policy in force at this shard."""
    shares: Digest | None = field(default=None, metadata=LATER)
    """keccak256 of the concatenated commitments that its share fits; None from an older shard."""
    version: int | None = field(default=None, metadata=LATER)
    """Version of these shares, as the chain told the shard; None before it asked."""
    in_force: bool | None = field(default=None, metadata=LATER)
    """Whether these shares are in force at the newest final block that the shard read, at most some seconds ago. If not, the
    shard releases nothing. None if it cannot read the chain."""


@dataclass(frozen=True, slots=True)
class ShardRefusal:
    """Body of every error answer of a shard."""

    error: str
    """Name of a class in `bytewise.protocol.errors`."""
    rule: str
    """Its rule number."""
    retryable: bool
    """Whether the same request may succeed later."""


@dataclass(frozen=True, slots=True)
class ReleaseReply:
    """Answer over the channel: either a release or a refusal."""

    answer: ReleaseAnswer | None
    """The released partial or share, with its record."""
    refusal: ShardRefusal | None
    """The reason of a refusal."""

    def __post_init__(self) -> None:
        if (self.answer is None) == (self.refusal is None):
            raise MalformedValue("release reply", "is neither or both of answer and refusal")


@dataclass(frozen=True, slots=True)
class EpochOnChain:
    """A key epoch as `KeyEpochs` has it."""

    state: EpochState
    """State; NONE if there is no such epoch, and then all other fields are empty."""
    public_key: Blob
    """65-byte point."""
    commitments: Blob
    """Feldman commitments of the shares in force, concatenated, 65 bytes each."""
    shards: tuple[Address, ...]
    """Accounts of the shards by index, from 1."""
    threshold: int
    """How many shares open an envelope."""
    version: int
    """How often the key was dealt again."""
    transcript: Digest
    """Transcript of the ceremony for whose shares enough holders signed on the chain; zero before that."""
    assurance: str = ""
    """`simulated` or `hardware`; empty if there is no such epoch."""


@dataclass(frozen=True, slots=True)
class AuditDraw:
    """Inputs of the light-audit draw of one batch, for one voter."""

    batch: BatchHeader
    """The batch."""
    window_end: int
    """Last second of the receipt's window, protocol clock."""
    beacon: Digest
    """Hash of the second block after the batch."""
    rate_bps: int
    """Chance per audit seat in 1/10,000."""
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
    """Protocol clock, which tickets use."""
    policy: Digest
    """Digest of the appraisal policy in force."""
    is_verifier: bool
    """Whether the ticket's voter is in any pool."""
    dispute: Dispute | None
    """The ticket's dispute, if the ticket names one and it exists."""
    drawing: AuditDraw | None
    """Inputs of the audit draw of the named batch, if it exists and has a beacon."""
    epoch_state: EpochState
    """State of the ticket's key epoch."""
    assurance: str
    """Assurance label of that epoch on the chain."""
    public_key: Blob
    """Public key of that epoch on the chain."""
    commitments: Blob
    """Concatenated commitments of its shares in force."""
    holders: tuple[Address, ...]
    """Accounts of the shards that hold those shares, by index, from 1."""
    version: int = 0
    """Version of those shares: how often the key was dealt again."""
    hybrid: HybridKeys | None = None
    """Its hybrid keys, as far as the chain pins them."""


def partial_info(shard: Address, receipt_id: Digest, ticket_hash: Digest, key_epoch: int) -> Digest:
    """HPKE `info` of a sealed partial. It names shard, receipt, ticket and epoch."""
    return digests.labelled(Label.PARTIAL, shard.encode(), receipt_id, ticket_hash, key_epoch)


def share_info(shard: Address, receipt_id: Digest, ticket_hash: Digest, key_epoch: int) -> Digest:
    """HPKE `info` of a sealed share, which therefore cannot be taken for a partial."""
    return digests.labelled(Label.RELEASED_SHARE, shard.encode(), receipt_id, ticket_hash, key_epoch)


class ReleaseView(NamedTuple):
    """The chain's state that one ticket needs, at one block."""

    block: int
    """Number of the block."""
    snapshot: Snapshot
    """Snapshot for the ticket's voter: protocol clock, policy and roles, without disputes."""
    key: EpochOnChain
    """The ticket's key epoch on the chain, in state NONE if there is none."""
    record: EpochRecord | None
    """That epoch with its shards; None if there is none."""
    dispute: Dispute | None
    """The ticket's dispute; None if it names none, or one that does not exist."""
