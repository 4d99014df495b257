"""What actors need of the world. Adapters implement these; only `__main__` modules and `bytewise.cli` choose adapters."""

from collections.abc import Callable
from typing import Protocol

from bytewise.protocol.compare import Generated, Verification
from bytewise.protocol.dispute import Snapshot
from bytewise.protocol.environment import Environment
from bytewise.protocol.jobs import EpochRecord, JobResult, Prepared, RunJob
from bytewise.protocol.messages import AuditResult, Vote
from bytewise.protocol.receipt import BatchHeader, Receipt
from bytewise.protocol.request import Output, Request
from bytewise.protocol.units import Address, Blob, Digest


class Clock(Protocol):
    """Wall time, for timeouts and logs; protocol time is the block's."""

    def now(self) -> int:
        """Unix seconds."""
        ...


class BlobStore(Protocol):
    """Data availability: bytes in, locator out, and back."""

    def put(self, data: bytes) -> str:
        """Locator of the stored bytes; `Unavailable` to retry."""
        ...

    def get(self, locator: str, accept: Callable[[bytes], bool] | None = None) -> bytes:
        """The bytes; `BadCertificate` (a fault), or `Unavailable` to retry. With `accept`, only bytes that it takes."""
        ...


class Engine(Protocol):
    """The deterministic engine for one artifact and profile."""

    def generate(self, request: Request) -> Generated:
        """The one answer to the request."""
        ...

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Checks a claim by one teacher-forced pass; regenerates the truth from a divergence on."""
        ...


class Quoter(Protocol):
    """Attestation of this enclave."""

    def quote(self, report_data: bytes) -> Blob:
        """Evidence that binds 64 bytes of report data to this enclave's measurement."""
        ...


class KeySource(Protocol):
    """The key of one receipt, from shards."""

    def open(self, job: RunJob, transport_secret: bytes) -> bytes:
        """Decrypted padded plaintext; `Defect` faults of the envelope, `NoKey` below the threshold."""
        ...


class EnclaveJobs(Protocol):
    """The duty process's side of the job socket."""

    def prepare(self, receipt_id: Digest) -> Prepared:
        """A fresh transport key for one job."""
        ...

    def run(self, job: RunJob) -> JobResult:
        """The result, or `Unavailable`."""
        ...


class ChainView(Protocol):
    """Typed reads, each pinned to one block."""

    def head(self) -> int:
        """Number of the newest block at the configured finality."""
        ...

    def snapshot(self, who: Address, block: int, from_dispute: int = 0) -> Snapshot:
        """Everything a decision needs, at one block."""
        ...

    def batches(self, from_block: int, to_block: int) -> tuple[BatchHeader, ...]:
        """Batches anchored in these blocks, oldest first."""
        ...

    def audits(self, from_block: int, to_block: int) -> tuple[tuple[AuditResult, Blob], ...]:
        """Posted audit results with signatures."""
        ...

    def block_hash(self, number: int) -> Digest:
        """Hash of a block."""
        ...

    def epoch(self, epoch: int, block: int) -> EpochRecord:
        """A key epoch with its shards."""
        ...

    def weights(self, stake_block: int, block: int) -> tuple[tuple[Address, int], ...]:
        """Stakes in wei of all verifiers as they stood at `stake_block`, read at `block`; who joined later has none."""
        ...

    def balance(self, account: Address, block: int) -> int:
        """Wei that an account holds."""
        ...


class Documents(Protocol):
    """What governance published in events, by digest."""

    def environment(self, digest: Digest, to_block: int) -> Environment:
        """A registered environment; `UnknownEnvironment` if there is none up to this block."""
        ...


class Sender(Protocol):
    """The single writer of one role key: journalled, idempotent by subject."""

    def anchor(self, header: BatchHeader) -> None:
        """Posts a batch; batch id, operator and anchoring time are the chain's to give."""
        ...

    def open_dispute(self, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], bond_wei: int) -> None:
        """Challenges a receipt with exactly the required bond."""
        ...

    def draw(self, dispute: Digest, round_number: int) -> None:
        """Draws the committee of a round."""
        ...

    def rearm(self, dispute: Digest, round_number: int) -> None:
        """Names a new seed block for a round whose seed was lost."""
        ...

    def commit(self, dispute: Digest, round_number: int, seat_mask: int, commitment: Digest) -> None:
        """Commits to a vote, for good; `SecondVote` for another commitment of the same round."""
        ...

    def reveal(self, vote: Vote, quote: Blob) -> None:
        """Opens a committed vote with its result quote."""
        ...

    def settle(self, dispute: Digest, round_number: int) -> None:
        """Counts a round."""
        ...

    def post_audit(self, result: AuditResult, signature: Blob) -> None:
        """Publishes the signed result of a light audit."""
        ...

    def withdraw(self, credit_wei: int) -> None:
        """Collects what the ledger owes this account; nothing if that is 0."""
        ...
