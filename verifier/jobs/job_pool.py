"""The port through which a node runs enclave jobs, wherever the enclaves are (ADR-073).

A ticket binds one enclave instance, so a job is a conversation: the enclave prepares a key, the duty process signs a ticket for
it, the enclave runs the job. The pool chooses the enclave and calls the job with it, in a thread. The ticket is signed in that
call, inside the duty process.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from bytewise.ports import EnclaveJobs
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.jobs import JobResult
from bytewise.protocol.units import Digest

VOTE, AUDIT = 0, 1
"""Priorities; the lower one runs first."""

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
    """The conversation with the enclave that the pool chooses."""


class FinishedJob(NamedTuple):
    """The result or the error of one job."""

    key: JobKey
    outcome: JobResult | BytewiseError


class Capacity(NamedTuple):
    """What a pool can do now."""

    enclaves: int
    """How many jobs run at once while every enclave is there."""
    waiting: int
    """Jobs that wait or run."""
    queued_s: float
    """Seconds until a new audit would begin; 0 until a first job has shown how long one takes."""
    longest_s: float
    """Duration of the longest of the last jobs, in seconds; 0 without one."""


class JobPool(Protocol):
    """Runs jobs in enclaves, votes before audits."""

    def submit(self, order: JobOrder) -> None:
        """Queues a job. No effect if a job of this key waits or runs, or if the pool sheds it (`JOBS_SHED`)."""
        ...

    def collect(self) -> tuple[FinishedJob, ...]:
        """Results since the last call, each once. Raises the `Bug` that ended the pool, if there was one."""
        ...

    def capacity(self) -> Capacity:
        """What the pool can do now."""
        ...

    def busy(self) -> frozenset[JobKey]:
        """Keys of the jobs that wait, run, or have a result that was not collected yet."""
        ...

    def away(self) -> bool:
        """Whether a new job would find no enclave now."""
        ...

    def stop(self) -> None:
        """Accepts no further job. A running job is abandoned when the process ends."""
        ...
