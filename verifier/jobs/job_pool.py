"""The interface through which a node runs enclave jobs, wherever the enclaves are (ADR-046).

A ticket binds one enclave instance, so a job is a conversation: the enclave prepares a key, the duty process signs a ticket for
that key, and the enclave runs the job. The pool chooses an enclave and calls `JobOrder.run` with it in a thread. The ticket is
signed in that call, inside the duty process.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from bytewise.ports import EnclaveJobs
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.jobs import JobResult
from bytewise.protocol.units import Digest

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
    """A pool that runs jobs in enclaves, votes before audits."""

    def submit(self, order: JobOrder) -> None:
        """Queues a job. Does nothing if a job with this key waits or runs. A pool may also drop ("shed") a job that would begin
        too late; it counts that in the metric `JOBS_SHED`."""
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
