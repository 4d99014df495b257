"""Interfaces of the things outside an actor that the actor uses: clock, data availability, engine, enclave, chain and gossip.

Adapters implement the interfaces. Only `__main__` modules and `cli` choose the adapters.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.decisions.audits import AuditStage, PostedAudit
from bytewise.protocol.decisions.demands import DemandRecord
from bytewise.protocol.decisions.snapshot import AnchoredBatch, DisputeOpening, Holdings, Snapshot
from bytewise.protocol.jobs import EpochRecord, JobResult, Prepared, RunJob
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import BatchHeader, Receipt, SignedLeaf, SignedReceipt
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.records.statements import AuditResult, Finding, Vote
from bytewise.protocol.records.trace import Generated, Verification
from bytewise.protocol.units import Address, Blob, Digest

if TYPE_CHECKING:  # The process of an enclave's job needs no pairings.
    from bytewise.crypto.bls import BlsCertificate, PublicKey


class Clock(Protocol):
    """The wall clock, for timeouts and logs. Protocol time is not read from it, but from the block."""

    def now(self) -> int:
        """Returns the current time in Unix seconds."""


class BlobStore(Protocol):
    """Data availability: stores bytes at a locator and returns them."""

    def put(self, data: bytes) -> str:
        """Stores bytes and returns their locator. Raises `Unavailable` if a later try may succeed, and `CallerError` if the
        service refuses the call as malformed."""
        ...

    def get(self, locator: str, accept: Callable[[bytes], bool] | None = None) -> bytes:
        """Returns the bytes at a locator. With `accept`, returns only bytes for which `accept` returns true.

        Raises the fault `BadCertificate`, `Unavailable` if a later try may succeed, or `CallerError` if the service refuses the
        call as malformed.
        """
        ...


class Engine(Protocol):
    """The deterministic engine for one artifact and one arithmetic profile."""

    def generate(self, request: Request) -> Generated:
        """Computes the answer to a request. A request has at most one answer. Raises `OutsideLimits` or `CannotExecute` if
        there is none."""
        ...

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Checks a claimed answer in one teacher-forced pass. From the first divergence on, computes the true answer."""
        ...


class Quoter(Protocol):
    """The attestation service of this enclave."""

    def quote(self, report_data: bytes) -> Blob:
        """Returns evidence that binds 64 bytes of report data to this enclave's measurement."""
        ...


class KeySource(Protocol):
    """Opens the envelope of one receipt with the help of key shards."""

    def open(self, job: RunJob, transport_secret: bytes) -> bytes:
        """Returns the decrypted, padded plaintext of the envelope.

        Raises `NoKey` if fewer shards than the threshold help, or a `Defect` of the envelope.
        """
        ...


class EnclaveJobs(Protocol):
    """The side of the job socket that the duty process uses."""

    def prepare(self, receipt_id: Digest, model_id: Digest) -> Prepared:
        """Returns a fresh transport key for one job. The key belongs to an enclave that runs the model, if there is such an
        enclave."""
        ...

    def run(self, job: RunJob) -> JobResult:
        """Runs a job and returns its result. Raises `Unavailable` if the same job may succeed later, and a `Fault` if the
        enclave refuses the job or its result is of another job."""
        ...

    def close(self) -> None:
        """Ends the conversation with the enclave, if there is one. The enclave then forgets its transport key."""
        ...


class BlockView(Protocol):
    """Numbers and hashes of blocks."""

    def head(self) -> int:
        """Returns the number of the newest block at the configured finality."""
        ...

    def block_hash(self, number: int) -> Digest:
        """Returns the hash of a block."""
        ...


class SnapshotView(Protocol):
    """The state from which a tick decides. Every read is of the block that the caller names."""

    def snapshot(self, who: Address, block: int, openings: Sequence[DisputeOpening] = ()) -> Snapshot:
        """Returns the facts at one block from which account `who` decides. The member `batches` is left empty.

        The snapshot includes each dispute of `openings` that exists at the block.
        """
        ...

    def anchored(self, from_batch: int, block: int) -> tuple[AnchoredBatch, ...]:
        """Returns a page of batches, from batch id `from_batch` on, with their windows and demands."""
        ...

    def opened(self, from_block: int, to_block: int) -> tuple[DisputeOpening, ...]:
        """Returns the disputes that were opened in these blocks, the oldest first."""
        ...


class TermsView(Protocol):
    """Parameters, key epochs and pools. Every read is of the block that the caller names."""

    def params(self, version: int, block: int) -> ParamSet:
        """Returns one version of all parameters."""
        ...

    def epoch(self, epoch: int, block: int) -> EpochRecord:
        """Returns a key epoch with its shards."""
        ...

    def pool_of(self, environment: Digest, block: int) -> Digest:
        """Returns the pool whose verifiers judge an environment. Returns zero if there is no such environment."""
        ...


class BatchView(Protocol):
    """Anchored batches. Every read is of the blocks that the caller names."""

    def batches(self, from_block: int, to_block: int) -> tuple[BatchHeader, ...]:
        """Returns the batches that were anchored in these blocks, the oldest first."""
        ...


class AuditView(Protocol):
    """Light audits, and the accounts that may be drawn for them. Every read is of the block that the caller names."""

    def audits(self, from_block: int, to_block: int) -> tuple[PostedAudit, ...]:
        """Returns the audit results that were posted in these blocks, the oldest first."""
        ...

    def audit_stage(self, receipt_id: Digest, batch_id: int, verifier: Address, block: int) -> AuditStage:
        """Returns the stage of a verifier's audit of a receipt in a batch.

        Returns NOTHING if the audit was posted for another batch.
        """
        ...

    def agreeing(self, receipt_id: Digest, batch_id: int, out_hash: Digest, block: int) -> int:
        """Counts the verifiers whose opened audit of a receipt in a batch has this out_hash."""
        ...

    def is_open_for_audits(self, epoch: int, block: int) -> bool:
        """Returns whether the contract accepts audit results for batches of a key epoch."""
        ...

    def auditors(self, environment: Digest, stake_block: int, block: int) -> tuple[tuple[Address, int], ...]:
        """Returns the verifiers that may be drawn to audit an answer of an environment.

        Each comes with its stake in wei at the end of block `stake_block`, which is the block of the batch.
        """
        ...

    def stake_at(self, account: Address, stake_block: int, block: int) -> int:
        """Returns the stake in wei that an account had at the end of `stake_block`, a block before `block`."""
        ...


class DemandView(Protocol):
    """Availability demands and their answers. Every read is of the block that the caller names."""

    def demanded(self, from_block: int, to_block: int) -> tuple[Digest, ...]:
        """Returns the subjects that were demanded in these blocks, the oldest first."""
        ...

    def demands(self, subjects: tuple[Digest, ...], block: int) -> tuple[DemandRecord, ...]:
        """Returns the demands for these subjects, in the same order."""
        ...

    def answered(self, subject: Digest, from_block: int, to_block: int) -> Blob | None:
        """Returns the answer to a demand that was put on the chain in these blocks: the list, or a new locator of the envelope.

        Returns None if there is no answer.
        """
        ...

    def answered_leaves(self, subject: Digest, from_block: int, to_block: int) -> tuple[SignedLeaf, ...] | None:
        """Returns the leaves of a batch in order, from the answer to a demand for its list. Returns None if there is no
        answer."""
        ...

    def expired(self, from_block: int, to_block: int) -> tuple[Digest, ...]:
        """Returns the subjects of demands that ended in these blocks without an answer.

        A subject appears once for each time that its demand was ended. A demand is ended again if stake for its penalty was
        missing before.
        """
        ...

    def window_end(self, receipt: Digest, batch_id: int, block: int) -> int:
        """Returns the last second (protocol clock) in which a receipt can be disputed.

        Demands for the batch's list or the receipt's envelope extend this time, and so does a pool that is too small.
        """
        ...

    def anchor_demand_refused(self, who: Address, signed: SignedReceipt, bond_wei: int, block: int) -> str | None:
        """Returns why the chain would refuse a demand by `who` to anchor a receipt.

        Returns None if the chain would accept the demand.
        """
        ...

    def expiry_refused(self, who: Address, subject: Digest, block: int) -> str | None:
        """Returns why the chain would refuse that `who` ends a demand, for the first time or again.

        Returns None if the chain would accept it.
        """
        ...


class ReportView(Protocol):
    """Reports of equivocation and of skipped numbers. Every read is of the block that the caller names."""

    def report_refused(
        self, who: Address, first: Receipt, first_signature: Blob, second: Receipt, signature: Blob, block: int
    ) -> str | None:
        """Returns why the chain would refuse a report by `who` that two signed receipts have one number.

        Returns None if the chain would accept the report.
        """
        ...

    def skip_refused(
        self, who: Address, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], block: int
    ) -> str | None:
        """Returns why the chain would refuse a report by `who` that an operator skipped the number of a receipt.

        Returns None if the chain would accept the report.
        """
        ...

    def reported(self, from_block: int, to_block: int) -> tuple[tuple[Address, int], ...]:
        """Returns a pair of operator and receipt number for each report of equivocation in these blocks for which
        stake of the operator was taken."""
        ...

    def skipped(self, from_block: int, to_block: int) -> tuple[tuple[Address, int], ...]:
        """Returns a pair of operator and receipt number for each report in these blocks for which the operator paid a penalty,
        because it anchored an empty leaf under the number of a receipt that it had signed."""
        ...


class AccountView(Protocol):
    """Accounts with their stake, money and roles. Every read is of the block that the caller names."""

    def holdings(self, who: Address, block: int) -> Holdings:
        """Returns stake, money and roles of an account."""
        ...

    def alt_commits(self, who: Address, from_block: int, to_block: int) -> dict[Digest, Digest]:
        """Returns the disputes that a challenger opened in these blocks, each with the challenger's commitment to the expected
        answer."""
        ...


class Documents(Protocol):
    """Documents that were published in events of the registry. A document is found by its digest."""

    def environment(self, digest: Digest, to_block: int) -> Environment:
        """Returns the proposed environment with this digest. Raises `UnknownEnvironment` if nobody proposed it up to this
        block. Whether the environment is active is not checked."""

    def policy_document(self, digest: Digest, to_block: int) -> bytes:
        """Returns the bytes that the curator published with an appraisal policy's digest. The caller checks them.

        Raises `UnknownEnvironment` if there are none.
        """


# Transactions of the single process that sends for an account. The executor writes an action to the journal before it sends the
# transaction, and repeating a transaction for the same subject changes nothing. A transaction that depends on a recent finding
# has `within_s`: if no chain node has it that many seconds after it was last requested, it is dropped until it is requested
# again. 0 means no limit.


class CourtSender(Protocol):
    """Transactions that move a dispute to its next phase."""

    def open_dispute(
        self, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], alt_commit: Digest, bond_wei: int,
        within_s: int = 0,
    ) -> None:  # fmt: skip
        """Disputes a receipt, with exactly the required bond and a commitment to the expected answer."""
        ...

    def draw(self, dispute: Digest, round_number: int, first: int, count: int) -> None:
        """Draws `count` seats of a round, from seat `first` on, with the header of the seed block.

        `first` is the first seat not yet drawn.
        """
        ...

    def rearm(self, dispute: Digest, round_number: int) -> None:
        """Makes the contract name a new seed block for a round whose seed was lost."""
        ...

    def settle(self, dispute: Digest, round_number: int) -> None:
        """Counts the votes of a round."""
        ...

    def open_alt(self, dispute: Digest, salt: Digest) -> None:
        """Opens the challenger's commitment with its salt, to show that the challenger knew the winning answer."""
        ...

    def finalize(self, dispute: Digest) -> None:
        """Ends a dispute whose airgap is over. If possible, the same transaction also pays or charges the first seats."""
        ...

    def pay_out(self, dispute: Digest) -> None:
        """Pays all parties of an ended dispute except the seats."""
        ...

    def settle_seats(self, dispute: Digest, round_number: int, first: int, count: int) -> None:
        """Pays or charges `count` seats of a round, from seat `first` on. `first` is the first seat not yet settled."""
        ...


class VoteSender(Protocol):
    """Transactions of a committee member."""

    def commit(self, dispute: Digest, round_number: int, seat_mask: int, commitment: Digest) -> None:
        """Commits to a vote. The commitment is final: another one in the same round raises `SecondVote`."""
        ...

    def reveal(self, vote: Vote, quote: Blob) -> None:
        """Reveals a committed vote with its result quote."""
        ...


class CertificateSender(Protocol):
    """Transactions of a member that collects a verdict certificate."""

    def post_commit_root(self, dispute: Digest, round_number: int, root: Digest) -> None:
        """Posts a root of commitments. It states that these commitments existed before the first reveal."""
        ...

    def certify(self, finding: Finding, commit_root: Digest, certificate: "BlsCertificate", settles: bool = False) -> None:
        """Sends one signature of members whose seats make a quorum. With `settles`, the same transaction also counts the votes of
        the round."""
        ...

    def reveal_under_root(self, vote: Vote, quote: Blob, proof: Sequence[Digest]) -> None:
        """Reveals the sender's own vote under the first commit root of the round, with the Merkle proof of its commitment."""
        ...


class CertificateView(Protocol):
    """Facts of the chain that a verdict certificate needs. Every read is of the block that the caller names."""

    def first_root(self, dispute: Digest, round_number: int, from_block: int, to_block: int) -> Digest | None:
        """Returns the first commit root that was posted for a round in these blocks. Returns None if there is none."""
        ...

    def tree_of(self, dispute: Digest, block: int) -> Address:
        """Returns the address of the stake tree of the pool that judges a dispute."""
        ...

    def keys_at(self, tree: Address, block: int, to_block: int) -> "Mapping[Address, PublicKey]":
        """Returns for each account the last certificate key that it had registered at the end of `block`.

        An account is left out unless the place of its key in this stake tree is noted by the end of `to_block`.
        """
        ...


class GossipPort(Protocol):
    """Messages from member to member. They may be late, lost, doubled or lies, so nothing with a deadline depends on them."""

    def publish(self, topic: str, body: dict[str, Any]) -> None:
        """Sends a message body to all members. Raises `Unavailable` if that is not possible now."""
        ...

    def take(self, topic: str) -> Sequence[dict[str, Any]]:
        """Returns the message bodies on a topic that arrived since the last call.

        Raises `Unavailable` if that is not possible now.
        """
        ...


class AuditSender(Protocol):
    """Transactions of an auditor."""

    def post_audit(self, result: AuditResult, signature: Blob, batch_id: int) -> None:
        """Publishes the signed result of a light audit."""
        ...

    def open_audit(self, receipt: Digest, verifier: Address, tokens_hash: Digest, trace_root: Digest, salt: Digest) -> None:
        """Opens the commitment of an audit result, so that other audits can be compared with it."""
        ...

    def claim_bounty(self, signed: SignedReceipt, proof: tuple[Digest, ...], result: AuditResult) -> None:
        """Claims the bounty of an audit that another audit confirms."""
        ...


class DemandSender(Protocol):
    """Transactions that make and end availability demands."""

    def demand_list(self, batch_id: int, bond_wei: int, within_s: int = 0) -> None:
        """Demands the list of a batch."""
        ...

    def demand_envelope(
        self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], bond_wei: int, within_s: int = 0
    ) -> None:
        """Demands the envelope of a receipt in a batch. `proof` is the receipt's path in the batch."""
        ...

    def demand_anchor(self, signed: SignedReceipt, bond_wei: int, within_s: int = 0) -> None:
        """Demands that the operator anchors a receipt that it signed."""
        ...

    def expire_list(self, batch_id: int) -> None:
        """Ends a demand for a list that was not answered in time."""
        ...

    def expire(self, subject: Digest, times: int = 0) -> None:
        """Ends a demand that was not answered in time. `times` is how often it was ended before."""
        ...


class ReportSender(Protocol):
    """Transactions that report an operator."""

    def report_equivocation(
        self, first: Receipt, first_signature: Blob, second: Receipt, signature: Blob, times: int = 0
    ) -> None:
        """Reports two different receipts that one operator signed with one number. `times` is the number of earlier penalties
        for that number. Each report is a separate transaction."""
        ...

    def report_skipped(self, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], times: int = 0) -> None:
        """Reports a receipt whose number its operator anchored as an empty leaf; `proof` is the leaf's path in the batch."""
        ...


class AccountSender(Protocol):
    """Transactions that pay amounts due to an account, or free the collateral of a batch."""

    def release(self, batch_id: int) -> None:
        """Frees the collateral of a batch if nothing binds it any more."""
        ...

    def finish_unbond(self, due_wei: int) -> None:
        """Withdraws stake whose unbonding delay is over. Does nothing if `due_wei` is 0."""
        ...

    def withdraw(self, due_wei: int) -> None:
        """Withdraws the credit that the ledger can pay now. Does nothing if `due_wei` is 0."""
        ...


class ReadSource(Protocol):
    """A source that makes many reads in one round trip (`chain.client.access`)."""

    def fetch(self, reads: Sequence[Any]) -> None:
        """Makes the reads that `MissingRead` names. If a read fails, its error is stored in place of its answer."""
        ...


class MissingRead(Exception):
    """A read that its source has not fetched yet. The caller fetches it, and repeats the call that needed it."""

    def __init__(self, source: ReadSource, read: Any) -> None:
        super().__init__("not fetched yet")
        self.source, self.read = source, read
