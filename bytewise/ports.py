"""Interfaces of the world outside an actor. Adapters implement them; only `__main__` modules and `cli` choose adapters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from bytewise.crypto.bls import PublicKey
from bytewise.crypto.certificates import BlsCertificate
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.decisions.audits import AuditStage, PostedAudit
from bytewise.protocol.decisions.demands import DemandRecord
from bytewise.protocol.decisions.snapshot import AnchoredBatch, DisputeOpening, Holdings, Snapshot
from bytewise.protocol.jobs import EpochRecord, JobResult, Prepared, RunJob
from bytewise.protocol.records.compare import Generated, Verification
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import BatchHeader, Receipt, SignedLeaf, SignedReceipt
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.records.statements import AuditResult, Finding, Vote
from bytewise.protocol.units import Address, Blob, Digest


class Clock(Protocol):
    """Wall time, for timeouts and logs. Protocol time is the block's."""

    def now(self) -> int:
        """Unix seconds."""


class BlobStore(Protocol):
    """Data availability: stores bytes under a locator and returns them."""

    def put(self, data: bytes) -> str:
        """Locator of the stored bytes; `Unavailable` if a retry may help."""
        ...

    def get(self, locator: str, accept: Callable[[bytes], bool] | None = None) -> bytes:
        """The bytes; `BadCertificate` (a fault), or `Unavailable` if a retry may help. With `accept`, only bytes that it
        accepts."""
        ...


class Engine(Protocol):
    """The deterministic engine for one artifact and profile."""

    def generate(self, request: Request) -> Generated:
        """The one answer to the request."""
        ...

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Checks a claim by one teacher-forced pass. From a divergence on it generates the true answer."""
        ...


class Quoter(Protocol):
    """Attestation of this enclave."""

    def quote(self, report_data: bytes) -> Blob:
        """Evidence that binds 64 bytes of report data to this enclave's measurement."""
        ...


class KeySource(Protocol):
    """Opens the envelope of one receipt with the help of key shards."""

    def open(self, job: RunJob, transport_secret: bytes) -> bytes:
        """The decrypted, padded plaintext. `Defect` faults of the envelope; `NoKey` below the threshold."""
        ...


class EnclaveJobs(Protocol):
    """The duty process's side of the job socket."""

    def prepare(self, receipt_id: Digest, model_id: Digest) -> Prepared:
        """A fresh transport key for one job, of an enclave that runs the model if there is one."""
        ...

    def run(self, job: RunJob) -> JobResult:
        """The result, or `Unavailable`."""
        ...

    def close(self) -> None:
        """Ends the conversation, if there is one; the enclave forgets its key."""
        ...


class BlockView(Protocol):
    """Number and hash of blocks."""

    def head(self) -> int:
        """Number of the newest block at the configured finality."""
        ...

    def block_hash(self, number: int) -> Digest:
        """Hash of a block."""
        ...


class SnapshotView(Protocol):
    """The state that a tick decides from, at one block. Every read is pinned to one block."""

    def snapshot(self, who: Address, block: int, openings: Sequence[DisputeOpening] = ()) -> Snapshot:
        """Everything that a decision needs at one block, except `batches`. It has those of these disputes that the block has."""
        ...

    def anchored(self, from_batch: int, block: int) -> tuple[AnchoredBatch, ...]:
        """A page of batches from a number on, with windows and demands."""
        ...

    def opened(self, from_block: int, to_block: int) -> tuple[DisputeOpening, ...]:
        """Disputes that were opened in these blocks, oldest first."""
        ...


class TermsView(Protocol):
    """Parameters, key epochs and pools. Every read is pinned to one block."""

    def params(self, version: int, block: int) -> ParamSet:
        """A version of all parameters."""
        ...

    def epoch(self, epoch: int, block: int) -> EpochRecord:
        """A key epoch with its shards."""
        ...

    def pool_of(self, environment: Digest, block: int) -> Digest:
        """Pool whose verifiers judge an environment; zero if there is no such environment."""
        ...


class BatchView(Protocol):
    """Anchored batches. Every read is pinned to one block."""

    def batches(self, from_block: int, to_block: int) -> tuple[BatchHeader, ...]:
        """Batches anchored in these blocks, oldest first."""
        ...


class AuditView(Protocol):
    """Light audits and the accounts that may be drawn for them. Every read is pinned to one block."""

    def audits(self, from_block: int, to_block: int) -> tuple[PostedAudit, ...]:
        """Audit results posted in these blocks, oldest first."""
        ...

    def audit_stage(self, receipt_id: Digest, batch_id: int, verifier: Address, block: int) -> AuditStage:
        """Stage of a verifier's audit of a receipt in a batch; NOTHING if it was posted for another batch."""
        ...

    def agreeing(self, receipt_id: Digest, batch_id: int, out_hash: Digest, block: int) -> int:
        """Verifiers that showed this digest for an audited receipt."""
        ...

    def is_open_for_audits(self, epoch: int, block: int) -> bool:
        """Whether results of audits of batches of a key epoch are taken."""
        ...

    def auditors(self, environment: Digest, stake_block: int, block: int) -> tuple[tuple[Address, int], ...]:
        """Verifiers that may be drawn to audit, each with its stake in wei at the end of an earlier block."""
        ...

    def stake_at(self, account: Address, stake_block: int, block: int) -> int:
        """Stake of an account in wei at the end of an earlier block."""
        ...


class DemandView(Protocol):
    """Availability demands and their answers. Every read is pinned to one block."""

    def demanded(self, from_block: int, to_block: int) -> tuple[Digest, ...]:
        """Subjects that were demanded in these blocks, oldest first."""
        ...

    def demands(self, subjects: tuple[Digest, ...], block: int) -> tuple[DemandRecord, ...]:
        """Demands by subject, in that order."""
        ...

    def answered(self, subject: Digest, from_block: int, to_block: int) -> Blob | None:
        """The answer to a demand, put on the chain in these blocks: the list, or an envelope's new locator."""
        ...

    def answered_leaves(self, subject: Digest, from_block: int, to_block: int) -> tuple[SignedLeaf, ...] | None:
        """Leaves of a demanded list's batch in order, as the answer to the demand shows them."""
        ...

    def expired(self, from_block: int, to_block: int) -> tuple[Digest, ...]:
        """Subjects of demands that ended in these blocks without an answer. A subject may appear again if stake was missing
        before."""
        ...

    def window_end(self, receipt: Digest, batch_id: int, block: int) -> int:
        """Last second (protocol clock) to dispute a receipt, including the extension by a demand for its envelope."""
        ...

    def anchor_demand_refused(self, who: Address, signed: SignedReceipt, bond_wei: int, block: int) -> str | None:
        """Why the chain would refuse a demand of `who` that a receipt be anchored; None if it would accept it."""
        ...

    def expiry_refused(self, who: Address, subject: Digest, block: int) -> str | None:
        """Why the chain would refuse to end a demand for `who`, for the first time or again; None if it would do so."""
        ...


class ReportView(Protocol):
    """Reports of equivocation and of skipped numbers. Every read is pinned to one block."""

    def report_refused(
        self, who: Address, first: Receipt, first_signature: Blob, second: Receipt, signature: Blob, block: int
    ) -> str | None:
        """Why the chain would refuse a report of `who` that two signed receipts have one number; None if it would accept it."""
        ...

    def skip_refused(
        self, who: Address, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], block: int
    ) -> str | None:
        """Why the chain would refuse a report of `who` that a receipt's operator skipped its number; None if it would accept
        it."""
        ...

    def reported(self, from_block: int, to_block: int) -> tuple[tuple[Address, int], ...]:
        """Operator and number of each report of equivocation in these blocks that took a penalty, once for each time."""
        ...

    def skipped(self, from_block: int, to_block: int) -> tuple[tuple[Address, int], ...]:
        """Operator and number of each report of a skipped number in these blocks that took a penalty, once for each time."""
        ...


class AccountView(Protocol):
    """Accounts in their roles. Every read is pinned to one block."""

    def holdings(self, who: Address, block: int) -> Holdings:
        """An account in its roles."""
        ...

    def alt_commits(self, who: Address, from_block: int, to_block: int) -> dict[Digest, Digest]:
        """A challenger's commitments, by dispute."""
        ...


class Documents(Protocol):
    """Documents that governance published in events, by digest."""

    def environment(self, digest: Digest, to_block: int) -> Environment:
        """A registered environment. `UnknownEnvironment` if there is none up to this block."""

    def policy_document(self, digest: Digest, to_block: int) -> bytes:
        """Bytes published with an appraisal policy's digest; the caller checks them. `UnknownEnvironment` if there are none."""


# Transactions of the single writer of an account. Each is journalled and idempotent by its subject. Deadlines are of the
# protocol clock, 0 for none. A transaction that depends on a recent finding has `within_s`: if no node has it that many seconds
# after it was last requested, it is dropped until it is requested again. 0 means no limit.


class CourtSender(Protocol):
    """Transactions that move a dispute."""

    def open_dispute(
        self, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], alt_commit: Digest, bond_wei: int,
        within_s: int = 0,
    ) -> None:  # fmt: skip
        """Disputes a receipt with exactly the required bond and a commitment to the expected answer."""
        ...

    def draw(self, dispute: Digest, round_number: int, first: int, count: int) -> None:
        """Draws some seats, from the first undrawn one on, with the seed block's header."""
        ...

    def rearm(self, dispute: Digest, round_number: int) -> None:
        """Names a new seed block for a round whose seed was lost."""
        ...

    def settle(self, dispute: Digest, round_number: int) -> None:
        """Counts a round."""
        ...

    def open_alt(self, dispute: Digest, salt: Digest) -> None:
        """Shows that the challenger knew the winning answer."""
        ...

    def finalize(self, dispute: Digest) -> None:
        """Ends a dispute whose airgap is over, and settles its first seats if that is possible in one transaction."""
        ...

    def pay_out(self, dispute: Digest) -> None:
        """Pays all parties of an ended dispute except the seats."""
        ...

    def settle_seats(self, dispute: Digest, round_number: int, first: int, count: int) -> None:
        """Pays or charges some seats, from the first unsettled one on."""
        ...


class VoteSender(Protocol):
    """Transactions of a committee member."""

    def commit(self, dispute: Digest, round_number: int, seat_mask: int, commitment: Digest) -> None:
        """Commits to a vote, finally. `SecondVote` for another commitment of the same round."""
        ...

    def reveal(self, vote: Vote, quote: Blob) -> None:
        """Reveals a committed vote with its result quote."""
        ...


class CertificateSender(Protocol):
    """Transactions of a member that collects a verdict certificate."""

    def post_commit_root(self, dispute: Digest, round_number: int, root: Digest) -> None:
        """States that commitments under this root existed before the first reveal."""
        ...

    def certify(self, finding: Finding, commit_root: Digest, certificate: BlsCertificate, settles: bool = False) -> None:
        """Sends one signature of members whose seats make a quorum. With `settles` the round is counted too."""
        ...

    def reveal_under_root(self, vote: Vote, quote: Blob, proof: Sequence[Digest]) -> None:
        """Reveals the sender's own vote under the first root of the round."""
        ...


class CertificateView(Protocol):
    """What a certificate needs of the chain. Every read is pinned to one block."""

    def first_root(self, dispute: Digest, round_number: int, from_block: int, to_block: int) -> Digest | None:
        """The first root of commitments that was posted for a round in these blocks, or None."""
        ...

    def tree_of(self, dispute: Digest, block: int) -> Address:
        """Stake tree of the pool that judges a dispute."""
        ...

    def keys_at(self, tree: Address, block: int, to_block: int) -> Mapping[Address, PublicKey]:
        """Certificate keys of accounts at the end of `block`, if their places in this tree are noted by the end of `to_block`."""
        ...


class GossipPort(Protocol):
    """Messages from member to member. They may be late, lost, doubled or lies: nothing with a deadline depends on them."""

    def publish(self, topic: str, body: dict[str, Any]) -> None:
        """Sends a body to all members. `Unavailable` if that is not possible now."""
        ...

    def take(self, topic: str) -> Sequence[dict[str, Any]]:
        """The bodies on a topic that arrived since the last call. `Unavailable` as above."""
        ...


class AuditSender(Protocol):
    """Transactions of an auditor."""

    def post_audit(self, result: AuditResult, signature: Blob, batch_id: int) -> None:
        """Publishes the signed result of a light audit."""
        ...

    def open_audit(self, receipt: Digest, verifier: Address, tokens_hash: Digest, trace_root: Digest, salt: Digest) -> None:
        """Opens the commitment of an audit result."""
        ...

    def claim_bounty(self, signed: SignedReceipt, proof: tuple[Digest, ...], result: AuditResult) -> None:
        """Claims the bounty of an audit that another audit confirms."""
        ...


class DemandSender(Protocol):
    """Transactions about availability demands."""

    def demand_list(self, batch_id: int, bond_wei: int, within_s: int = 0) -> None:
        """Demands the list of a batch."""
        ...

    def demand_envelope(
        self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], bond_wei: int, within_s: int = 0
    ) -> None:
        """Demands the envelope of a member of a batch."""
        ...

    def demand_anchor(self, signed: SignedReceipt, bond_wei: int, within_s: int = 0) -> None:
        """Demands that an issued receipt be anchored."""
        ...

    def expire_list(self, batch_id: int) -> None:
        """Ends a demand for a list that was not answered in time."""
        ...

    def expire(self, subject: Digest, times: int = 0) -> None:
        """Ends a demand that was not answered in time. `times`: how often it was ended before."""
        ...


class ReportSender(Protocol):
    """Transactions that report an operator."""

    def report_equivocation(
        self, first: Receipt, first_signature: Blob, second: Receipt, signature: Blob, times: int = 0
    ) -> None:
        """Reports two receipts that an operator signed with one number. `times` is how often a penalty was taken before."""
        ...

    def report_skipped(self, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], times: int = 0) -> None:
        """Reports a receipt whose number its operator anchored as an empty leaf; `proof` is the leaf's path in the batch."""
        ...


class AccountSender(Protocol):
    """Transactions that collect amounts due to an account, or free a batch's collateral."""

    def release(self, batch_id: int) -> None:
        """Frees the collateral of a batch if nothing locks it."""
        ...

    def finish_unbond(self, due_wei: int) -> None:
        """Withdraws stake whose delay is over. Does nothing if the amount is 0."""
        ...

    def withdraw(self, due_wei: int) -> None:
        """Withdraws the credit that the ledger can pay now. Does nothing if the amount is 0."""
        ...


class ReadSource(Protocol):
    """A source that makes many reads in one round trip (`chain.client.access`)."""

    def fetch(self, reads: Sequence[Any]) -> None:
        """Makes the reads that `MissingRead` names. The error of a failed read is stored in place of its answer."""
        ...


class MissingRead(Exception):
    """A read that its source has not fetched yet. Fetch it, and repeat what asked for it."""

    def __init__(self, source: ReadSource, read: Any) -> None:
        super().__init__("not fetched yet")
        self.source, self.read = source, read
