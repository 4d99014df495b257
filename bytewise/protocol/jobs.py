"""Messages between the duty process and its enclave, over a job socket (design sections 2 and 7).

One message is canonical JSON after a 4-byte big-endian length. The duty process sends `Prepare` and gets `Prepared`, which
contains a fresh transport key. The duty process signs a ticket for this key and sends `RunJob`. For each `Dial` of the enclave
it opens a stream to a shard. At the end it gets `JobResult` or `JobFailed`. Nothing else leaves the enclave, except
`EnclaveStatus` as the answer to `AskStatus`, in a separate conversation.
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
"""Largest job message: an envelope of the largest bucket, with room to spare."""

JOB_LIMIT_S = 120
"""Default of the longest conversation with an enclave, in seconds. The enclave's settings can change it."""


@dataclass(frozen=True, slots=True)
class Contracts:
    """Addresses of the contracts under whose EIP-712 domains tickets, receipts and votes are signed."""

    chain_id: U256
    """EIP-155 chain id."""
    anchor: Address
    """Address of `ReceiptAnchor`."""
    disputes: Address
    """Address of `Disputes`."""
    key_epochs: Address
    """Address of `KeyEpochs`."""


def anchor_domain(contracts: Contracts) -> Domain:
    """Returns the EIP-712 domain of receipts."""
    return Domain(contracts.chain_id, contracts.anchor)


def key_domain(contracts: Contracts) -> Domain:
    """Returns the EIP-712 domain of tickets and release records."""
    return Domain(contracts.chain_id, contracts.key_epochs)


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """One KMS shard of a key epoch."""

    index: int
    """Number of the shard, 1 to n. Its share is the polynomial's value at this point."""
    address: Address
    """Account that signs the shard's release records."""
    url: str
    """HTTPS base address of the shard's public log and of its ceremonies."""
    channel: str
    """Host and port of the shard's attested channels. Partials are available only there."""
    certificate: str
    """Pinned TLS certificate of the shard, PEM."""
    verification_key: Blob
    """The shard's share times G, 65 bytes. Proofs of its partials are checked against this point."""


@dataclass(frozen=True, slots=True)
class HybridKeys:
    """The ML-KEM keys that a hybrid epoch has in addition to its P-256 key."""

    transcript: Digest
    """Transcript of the ceremony without these keys. The chain stores the hash of this transcript and the keys."""
    keys: tuple[Blob, ...]
    """ML-KEM-768 encapsulation keys of the shards, 1,184 bytes each, in order of the shards' indices."""

    @property
    def digest(self) -> Digest:
        """The transcript digest on the chain, which enough shards have signed."""
        return digests.labelled(Label.HYBRID_KEYS, self.transcript, len(self.keys), *self.keys)


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """A key epoch in the form that enclaves and operators use.

    Its construction raises `MalformedValue` if the threshold or the hybrid keys are impossible.
    """

    epoch: U64
    """Number of the epoch on the chain."""
    public_key: Blob
    """Public key to which envelopes are sealed, a 65-byte P-256 point."""
    threshold: int
    """Number of partials that open an envelope."""
    shards: tuple[ShardRecord, ...]
    """Shards of the epoch, ascending by index."""
    assurance: str
    """Label of the epoch on the chain: `simulated` or `hardware`."""
    hybrid: HybridKeys | None = field(default=None, metadata=LATER)
    """ML-KEM keys of a hybrid epoch. None in every other epoch."""

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
    """Message that asks the enclave for a fresh transport key for one job."""

    receipt_id: Digest
    """Receipt that the job will be about."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The enclave's answer to `Prepare`: a fresh transport key."""

    instance: Digest
    """Random name of the enclave process."""
    transport_key: Blob
    """65-byte P-256 point, used for this job only."""
    limit_s: int
    """Seconds that the conversation may take from its start. Then the enclave ends it."""
    unfenced: tuple[str, ...] = ()
    """Names of the fences (`bytewise.tee.confinement`) that this machine does not give the enclave."""


@dataclass(frozen=True, slots=True)
class AskStatus:
    """Message that asks the enclave for its status, in a separate conversation."""

    nonce: Digest
    """Fresh random bytes, to which the evidence in the answer is bound."""


@dataclass(frozen=True, slots=True)
class EnclaveStatus:
    """The enclave's answer to `AskStatus`."""

    model_id: Digest
    """Model that the enclave runs."""
    limit_s: int
    """Seconds that a conversation may take."""
    unfenced: tuple[str, ...]
    """Names of the fences (`bytewise.tee.confinement`) that this machine does not give the enclave."""
    evidence: Blob
    """Evidence of the enclave. Its report data is `status_report_data` of the nonce."""


def status_report_data(nonce: Digest) -> bytes:
    """Returns the 64 bytes of report data for a status: the labelled hash of the nonce, then zeros."""
    return digests.labelled(Label.ENCLAVE_STATUS, nonce).ljust(64, b"\0")


@dataclass(frozen=True, slots=True)
class RunJob:
    """Everything that an enclave needs to judge one receipt, except partials.

    The duty process opens streams to the shards, and the enclave fetches the partials over these streams.
    """

    ticket: Ticket
    """The voter's right to open the receipt, for the prepared transport key."""
    ticket_signature: Blob
    """Signature of the voter over the ticket's EIP-712 digest."""
    receipt: Receipt
    """Receipt whose id the ticket names."""
    receipt_signature: Blob
    """Signature of the operator over the receipt."""
    batch_id: int
    """Batch that anchored the receipt."""
    proof: tuple[Digest, ...]
    """Merkle siblings from the receipt's leaf to the batch's root."""
    anchored_at: U64
    """Chain time in Unix seconds at which the batch was anchored."""
    envelope: Blob
    """Bytes of the sealed envelope. Their hash is the receipt's `envelopeHash`."""
    environment: Environment
    """The registered environment of the receipt."""
    epoch: EpochRecord
    """Key epoch of the receipt."""
    contracts: Contracts
    """Addresses of the contracts for the EIP-712 domains."""
    round_seed: Digest
    """Seed of the dispute's round; zero for a light audit."""
    policy: Blob
    """Canonical bytes of the appraisal policy in force. Enclave and shards appraise each other under it."""


@dataclass(frozen=True, slots=True)
class Dial:
    """Message that asks the duty process for a stream to one shard of the job's epoch, because an enclave has no network."""

    index: int
    """Index of the shard in the job's epoch record."""


@dataclass(frozen=True, slots=True)
class Dialled:
    """The duty process's answer to `Dial`."""

    error: str
    """Empty if the connected stream follows, as a file descriptor with one zero byte. Otherwise the class name of the error."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """Everything that leaves the enclave about one receipt (design section 7)."""

    subject: Digest
    """Dispute id, or receipt id for an audit."""
    round: U16
    """Number of the dispute's round; 0 for an audit."""
    receipt_id: Digest
    """Id of the receipt that was judged."""
    voter: Address
    """Account for which the enclave judged."""
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
    quote: Blob
    """Result quote: evidence whose report data binds all fields above, the chain and the contract."""


@dataclass(frozen=True, slots=True)
class JobFailed:
    """Answer of the enclave, or of the bridge to a cluster, that a job could not be finished. It never contains plaintext."""

    error: str
    """Class name of the error."""
    retryable: bool
    """Whether the same job may succeed later."""


def verify_hybrid_size(threshold: int, count: int) -> int:
    """Returns `count` if it is at least 2 · `threshold` - 1. Otherwise raises `MalformedValue`.

    If an envelope does not open, either its sender made it wrongly or shards report this falsely. With fewer shards, nobody
    could tell which.
    """
    if count < 2 * threshold - 1:
        raise MalformedValue("key epoch", f"a hybrid one of threshold {threshold} needs {2 * threshold - 1} shards, not {count}")
    return count
