"""Messages between the duty process and its enclave, over a job socket (design sections 2 and 7).

One message is canonical JSON behind a 4-byte big-endian length. The duty process sends `Prepare`, gets `Prepared`, signs a ticket
for that transport key, sends `RunJob`, opens a stream to a shard for each `Dial` and gets `JobResult`. Nothing else leaves the
enclave.
"""

from dataclasses import dataclass, field

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import LATER
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import Receipt
from bytewise.protocol.records.statements import Ticket
from bytewise.protocol.signing import Domain
from bytewise.protocol.suites import KEM_KEY_BYTES, SUITE_HYBRID, suite_of
from bytewise.protocol.units import U8, U16, U64, U256, Address, Blob, Digest

MAX_MESSAGE_BYTES = 16 * 2**20
"""Largest job message: an envelope of the largest bucket with room to spare."""

JOB_LIMIT_S = 120
"""How long one conversation with an enclave may take, unless the enclave's settings say otherwise."""


@dataclass(frozen=True, slots=True)
class Contracts:
    """Where the records of this network live: EIP-712 domains of tickets, receipts and votes."""

    chain_id: U256
    """EIP-155 chain id."""
    anchor: Address
    """`ReceiptAnchor`."""
    disputes: Address
    """`Disputes`."""
    key_epochs: Address
    """`KeyEpochs`."""


def anchor_domain(contracts: Contracts) -> Domain:
    """Domain of receipts."""
    return Domain(contracts.chain_id, contracts.anchor)


def key_domain(contracts: Contracts) -> Domain:
    """Domain of tickets and release records."""
    return Domain(contracts.chain_id, contracts.key_epochs)


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """One KMS shard of an epoch."""

    index: int
    """Evaluation point of its share, 1 to n."""
    address: Address
    """Account that signs its release records."""
    url: str
    """HTTPS base address of its public log and of ceremonies."""
    channel: str
    """`host:port` of its attested channels, over which alone it gives partials."""
    certificate: str
    """Pinned TLS certificate, PEM."""
    verification_key: Blob
    """Its share times G, 65 bytes: partials are proven against it."""


@dataclass(frozen=True, slots=True)
class HybridKeys:
    """What a hybrid epoch has beside its P-256 key."""

    transcript: Digest
    """Of the ceremony without these keys; hashed with them it is what the chain has."""
    keys: tuple[Blob, ...]
    """ML-KEM-768 encapsulation keys of the shards, 1,184 bytes each, in order of their indices."""

    @property
    def digest(self) -> Digest:
        """Transcript on the chain, for which enough shards have signed."""
        return digests.labelled(Label.HYBRID_KEYS, self.transcript, len(self.keys), *self.keys)


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """A key epoch as enclaves and operators use it; `MalformedValue` if no t of its shards could open anything."""

    epoch: U64
    """Number on-chain."""
    public_key: Blob
    """Application public key, 65-byte P-256 point."""
    threshold: int
    """Partials needed."""
    shards: tuple[ShardRecord, ...]
    """Ascending by index."""
    assurance: str
    """`simulated` or `hardware`, as the chain labels the epoch."""
    hybrid: HybridKeys | None = field(default=None, metadata=LATER)
    """Exactly in an epoch of the hybrid suite."""

    def __post_init__(self) -> None:
        if not 1 <= self.threshold <= len(self.shards):
            raise MalformedValue("key epoch", f"{self.epoch} asks {self.threshold} of {len(self.shards)} shards")
        if (self.hybrid is not None) != (suite_of(self.epoch) == SUITE_HYBRID):
            raise MalformedValue("key epoch", f"{self.epoch} and hybrid keys: the number of an epoch says whether it has them")
        if self.hybrid is not None:
            verify_hybrid_size(self.threshold, len(self.shards))
            if [len(key) for key in self.hybrid.keys] != [KEM_KEY_BYTES] * len(self.shards):
                raise MalformedValue("key epoch", f"{self.epoch} needs an ML-KEM-768 key for each of {len(self.shards)} shards")


@dataclass(frozen=True, slots=True)
class Prepare:
    """Ask the enclave for a fresh transport key for one job."""

    receipt_id: Digest
    """Which receipt the job will be about."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The enclave's fresh transport key."""

    instance: Digest
    """Random name of the enclave process."""
    transport_key: Blob
    """65-byte P-256 point, for this job only."""
    limit_s: int
    """Seconds that the conversation may take from its beginning; afterwards the enclave ends it."""
    unfenced: tuple[str, ...] = ()
    """Names of the fences (`bytewise.tee.confinement`) that this machine does not give the enclave."""


@dataclass(frozen=True, slots=True)
class RunJob:
    """Everything that an enclave needs to judge one receipt; it fetches nothing but partials, over streams that it is given."""

    ticket: Ticket
    """The right, for the prepared transport key."""
    ticket_signature: Blob
    """By the voter's key over the ticket's EIP-712 digest."""
    receipt: Receipt
    """The receipt whose id the ticket names."""
    receipt_signature: Blob
    """The operator's."""
    batch_id: int
    """Batch that anchored it."""
    proof: tuple[Digest, ...]
    """Merkle siblings."""
    anchored_at: U64
    """Chain time of the batch."""
    envelope: Blob
    """Bytes that hash to `envelopeHash`."""
    environment: Environment
    """The registered environment of the receipt."""
    epoch: EpochRecord
    """The receipt's key epoch."""
    contracts: Contracts
    """Domains."""
    round_seed: Digest
    """Seed of the round; zero for an audit."""
    policy: Blob
    """The appraisal policy in force, canonical bytes: under it enclave and shards judge each other."""


@dataclass(frozen=True, slots=True)
class Dial:
    """Asks the duty process for a stream to one shard of the job's epoch: an enclave has no network of its own."""

    index: int
    """Evaluation point of the shard, as the job's epoch record has it."""


@dataclass(frozen=True, slots=True)
class Dialled:
    """What became of it."""

    error: str
    """Empty if the connected stream follows: a zero byte that carries its descriptor. Otherwise the class of the error."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """All that leaves the enclave about one receipt (design section 7)."""

    subject: Digest
    """Dispute id, or receipt id for an audit."""
    round: U16
    """Round; 0 for an audit."""
    receipt_id: Digest
    """Receipt."""
    voter: Address
    """For whom."""
    outcome: U8
    """`Outcome`."""
    code: U8
    """Defect code or `CannotReason`; 0 otherwise."""
    tokens_hash: Digest
    """Recomputed, or zero."""
    trace_root: Digest
    """Recomputed, or zero."""
    round_digest: Digest
    """Or zero."""
    quote: Blob
    """Result quote: evidence whose report data binds all of the above, chain and contract."""


@dataclass(frozen=True, slots=True)
class JobFailed:
    """The enclave could not finish; names the error class and rule, never plaintext."""

    error: str
    """Class name of the error."""
    retryable: bool
    """Whether the same job may succeed later."""


def verify_hybrid_size(threshold: int, count: int) -> int:
    """The number of shards, if a sender whose envelope nobody can open cannot be confused with shards that say so falsely."""
    if count < 2 * threshold - 1:
        raise MalformedValue("key epoch", f"a hybrid one of threshold {threshold} needs {2 * threshold - 1} shards, not {count}")
    return count
