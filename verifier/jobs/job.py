"""One enclave job: its inputs, its ticket, its place in the pool, and its outcome (ADR-046).

A ticket binds one enclave instance, so a job is a conversation of three steps. The enclave prepares a key. The duty process signs
a ticket for that key. The enclave runs the job.

The pool chooses an enclave and calls `JobOrder.run` with it in a thread. The ticket is signed in that call, inside the duty
process, with the account key of the voter.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from bytewise.ports import EnclaveJobs
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.jobs import Contracts, EpochRecord, JobResult, RunJob
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import BatchHeader, SignedReceipt
from bytewise.protocol.records.statements import Ticket, TicketKind, transport_key_hash
from bytewise.protocol.signing import Domain, Signer, typed_preimage
from bytewise.protocol.units import U8, U16, U64, ZERO_DIGEST, Blob, Digest


class EnclaveAway(TryAgain):
    """Raised when an enclave accepted no job, so that no attempt was made."""


class EnclaveUnsuited(EnclaveAway):
    """Raised when an enclave answers, but cannot run this job."""


class JobCase(NamedTuple):
    """One receipt with all public data that a job about it needs, read at one block."""

    receipt_id: Digest
    signed: SignedReceipt
    header: BatchHeader
    proof: tuple[Digest, ...]
    envelope: bytes
    environment: Environment
    epoch: EpochRecord
    policy: Blob


class TicketRight(NamedTuple):
    """The right to open a receipt, for a seat in a round or for a drawn audit. `expires_at` is in chain time."""

    kind: TicketKind
    subject: Digest
    round: int
    round_seed: Digest
    expires_at: int


def audit_right(receipt_id: Digest, expires_at: int) -> TicketRight:
    """Returns the right of a drawn auditor to open a receipt."""
    return TicketRight(TicketKind.AUDIT, receipt_id, 0, ZERO_DIGEST, expires_at)


def vote_right(dispute: Digest, round_number: int, round_seed: Digest, expires_at: int) -> TicketRight:
    """Returns the right of an account with a seat to open the disputed receipt."""
    return TicketRight(TicketKind.DISPUTE, dispute, round_number, round_seed, expires_at)


def run_job(enclave: EnclaveJobs, signer: Signer, contracts: Contracts, case: JobCase, right: TicketRight) -> JobResult:
    """Makes the enclave judge a receipt: gets a transport key, signs the ticket for that key, and sends the job.

    Raises `EnclaveAway` if no enclave accepts the job. Every other error comes from the signer of the ticket or from the job
    itself.
    """
    try:
        prepared = enclave.prepare(case.receipt_id, case.signed.receipt.model_id)
    except EnclaveAway:
        raise
    except TryAgain as error:
        raise EnclaveAway(*error.values) from None
    ticket = Ticket(
        kind=U8(right.kind), subject=right.subject, round=U16(right.round), receipt_id=case.receipt_id,
        voter=signer.address, transport_key_hash=transport_key_hash(prepared.transport_key), instance=prepared.instance,
        key_epoch=case.signed.receipt.key_epoch, expires_at=U64(right.expires_at),
    )  # fmt: skip
    domain = Domain(contracts.chain_id, contracts.key_epochs)
    job = RunJob(
        ticket=ticket, ticket_signature=signer.sign_preimage(typed_preimage(domain, ticket)), receipt=case.signed.receipt,
        receipt_signature=case.signed.signature, batch_id=case.header.batch_id, proof=case.proof,
        anchored_at=case.header.anchored_at, envelope=Blob(case.envelope), environment=case.environment,
        epoch=case.epoch, contracts=contracts, round_seed=right.round_seed, policy=case.policy,
    )  # fmt: skip
    return enclave.run(job)


VOTE, AUDIT = 0, 1
"""Priorities of jobs. The lower number runs first."""

JobKey = tuple[str, Digest, int]
"""Kind (`audit` or `vote`), subject and round of a job."""


class JobOrder(NamedTuple):
    """One job that a part of the node asks for."""

    priority: int
    """`VOTE` or `AUDIT`."""
    key: JobKey
    """Name of the job."""
    receipt_id: Digest
    """Receipt that the job is about."""
    time_left_s: float
    """Seconds until the result is useless, counted from now."""
    run: Callable[[EnclaveJobs], JobResult]
    """Function that holds the conversation with the enclave that the pool chooses."""


class FinishedJob(NamedTuple):
    """The result or the error of one job."""

    key: JobKey
    outcome: JobResult | BytewiseError


class Capacity(NamedTuple):
    """The size and the load of a pool."""

    enclaves: int
    """Number of jobs that run at once while every enclave is there."""
    waiting: int
    """Number of jobs that wait, run, or have a result that was not collected yet."""
    queued_s: float
    """Estimated seconds until a new audit would begin. It is 0 until a first job has shown how long a job takes."""
    longest_s: float
    """Duration in seconds of the longest of the last jobs, or 0 if there was none."""


class JobPool(Protocol):
    """The interface of a pool that runs jobs in enclaves, votes before audits."""

    def submit(self, order: JobOrder) -> None:
        """Queues a job. Does nothing if a job with this key waits, runs, or has a result that was not collected yet. A pool may
        drop ("shed") a job that would begin too late. It counts dropped jobs in the metric `JOBS_SHED`."""
        ...

    def collect(self) -> tuple[FinishedJob, ...]:
        """Returns the results since the last call, each once. Raises the error that ended the pool, if there was one."""
        ...

    def capacity(self) -> Capacity:
        """Returns the size and the load of the pool."""
        ...

    def busy(self) -> frozenset[JobKey]:
        """Returns the keys of the jobs that wait, run, or have a result that was not collected yet."""
        ...

    def away(self) -> bool:
        """Returns whether a new job would find no enclave now."""
        ...

    def stop(self) -> None:
        """Stops the pool. No further job begins, and the end of the process abandons a job that still runs."""
        ...
