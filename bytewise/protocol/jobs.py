"""Messages between the duty process and its enclave, over a job socket (design sections 2 and 7).

One message is canonical JSON after a 4-byte big-endian length. The duty process sends `Prepare` and gets `Prepared`. It signs a
ticket for that transport key and sends `RunJob`. For each `Dial` it opens a stream to a shard. At the end it gets `JobResult`.
Nothing else leaves the enclave, except `EnclaveStatus` as the answer to `AskStatus`, in a separate conversation.
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
"""Longest conversation with an enclave in seconds, unless the enclave's settings say otherwise."""


@dataclass(frozen=True, slots=True)
class Contracts:
    """Contracts under whose EIP-712 domains tickets, receipts and votes are signed."""

    chain_id: U256
    """EIP-155 chain id."""
    anchor: Address
    """`ReceiptAnchor`."""
    disputes: Address
    """`Disputes`."""
    key_epochs: Address
    """`KeyEpochs`."""


def anchor_domain(contracts: Contracts) -> Domain:
    """EIP-712 domain of receipts."""
    return Domain(contracts.chain_id, contracts.anchor)


def key_domain(contracts: Contracts) -> Domain:
    """EIP-712 domain of tickets and release records."""
    return Domain(contracts.chain_id, contracts.key_epochs)


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """One KMS shard of a key epoch."""

    index: int
    """Evaluation point of its share, 1 to n."""
    address: Address
    """Account that signs its release records."""
    url: str
    """HTTPS base address of its public log and of ceremonies."""
    channel: str
    """`host:port` of its attested channels, the only way to get partials from it."""
    certificate: str
    """Pinned TLS certificate, PEM."""
    verification_key: Blob
    """Its share times G, 65 bytes. Proofs of its partials are checked against it."""


@dataclass(frozen=True, slots=True)
class HybridKeys:
    """What a hybrid epoch has in addition to its P-256 key."""

    transcript: Digest
    """Transcript of the ceremony without these keys. Hashed together with them it is the transcript on the chain."""
    keys: tuple[Blob, ...]
    """ML-KEM-768 encapsulation keys of the shards, 1,184 bytes each, in order of their indices."""

    @property
    def digest(self) -> Digest:
        """The transcript on the chain, which enough shards have signed."""
        return digests.labelled(Label.HYBRID_KEYS, self.transcript, len(self.keys), *self.keys)


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """A key epoch as enclaves and operators use it. `MalformedValue` if its threshold or its hybrid keys are impossible."""

    epoch: U64
    """Number on the chain."""
    public_key: Blob
    """Application public key, 65-byte P-256 point."""
    threshold: int
    """How many partials open an envelope."""
    shards: tuple[ShardRecord, ...]
    """Shards, ascending by index."""
    assurance: str
    """`simulated` or `hardware`, as the chain labels the epoch."""
    hybrid: HybridKeys | None = field(default=None, metadata=LATER)
    """ML-KEM keys. An epoch has them exactly if its number names the hybrid suite."""

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
    """Asks the enclave for a fresh transport key for one job."""

    receipt_id: Digest
    """Receipt that the job will be about."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A fresh transport key of the enclave."""

    instance: Digest
    """Random name of the enclave process."""
    transport_key: Blob
    """65-byte P-256 point, used for this job only."""
    limit_s: int
    """Seconds that the conversation may take from its start. The enclave ends it afterwards."""
    unfenced: tuple[str, ...] = ()
    """Names of the fences (`bytewise.tee.confinement`) that this machine does not give the enclave."""


@dataclass(frozen=True, slots=True)
class AskStatus:
    """Asks the enclave for its status, in a separate conversation."""

    nonce: Digest
    """Fresh random bytes, which the answer's evidence binds."""


@dataclass(frozen=True, slots=True)
class EnclaveStatus:
    """Status of the enclave."""

    model_id: Digest
    """Model that it runs."""
    limit_s: int
    """Seconds that a conversation may take."""
    unfenced: tuple[str, ...]
    """Names of the fences that this machine does not give it."""
    evidence: Blob
    """Evidence whose report data is `status_report_data` of the nonce."""


def status_report_data(nonce: Digest) -> bytes:
    """64 bytes: labelled hash of the nonce of a status, then zeros."""
    return digests.labelled(Label.ENCLAVE_STATUS, nonce).ljust(64, b"\0")


@dataclass(frozen=True, slots=True)
class RunJob:
    """Everything that an enclave needs to judge one receipt. It fetches only partials, over streams that the duty process
    opens."""

    ticket: Ticket
    """The right to the key, for the prepared transport key."""
    ticket_signature: Blob
    """Signature of the voter over the ticket's EIP-712 digest."""
    receipt: Receipt
    """Receipt whose id the ticket names."""
    receipt_signature: Blob
    """Signature of the operator."""
    batch_id: int
    """Batch that anchored the receipt."""
    proof: tuple[Digest, ...]
    """Merkle siblings from the receipt's leaf to the batch's root."""
    anchored_at: U64
    """Chain time of the batch."""
    envelope: Blob
    """Bytes that hash to `envelopeHash`."""
    environment: Environment
    """The registered environment of the receipt."""
    epoch: EpochRecord
    """Key epoch of the receipt."""
    contracts: Contracts
    """Contracts for the EIP-712 domains."""
    round_seed: Digest
    """Seed of the round; zero for an audit."""
    policy: Blob
    """Canonical bytes of the appraisal policy in force. Enclave and shards appraise each other under it."""


@dataclass(frozen=True, slots=True)
class Dial:
    """Asks the duty process for a stream to one shard of the job's epoch, because an enclave has no network."""

    index: int
    """Evaluation point of the shard in the job's epoch record."""


@dataclass(frozen=True, slots=True)
class Dialled:
    """Answer to `Dial`."""

    error: str
    """Empty if the connected stream follows as a descriptor on a zero byte; otherwise the class of the error."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """Everything that leaves the enclave about one receipt (design section 7)."""

    subject: Digest
    """Dispute id, or receipt id for an audit."""
    round: U16
    """Round; 0 for an audit."""
    receipt_id: Digest
    """Receipt."""
    voter: Address
    """Account for which the enclave judged."""
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
    quote: Blob
    """Result quote: evidence whose report data binds all fields above, the chain and the contract."""


@dataclass(frozen=True, slots=True)
class JobFailed:
    """The enclave could not finish. The message names error class and rule, never plaintext."""

    error: str
    """Class name of the error."""
    retryable: bool
    """Whether the same job may succeed later."""


def verify_hybrid_size(threshold: int, count: int) -> int:
    """The number of shards, if it is at least 2t - 1.

    With fewer shards, a sender of an envelope that does not open could not be distinguished from shards that falsely state this.
    """
    if count < 2 * threshold - 1:
        raise MalformedValue("key epoch", f"a hybrid one of threshold {threshold} needs {2 * threshold - 1} shards, not {count}")
    return count
