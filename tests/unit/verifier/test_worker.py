"""One thread for enclave jobs: votes first, each key once, and a bug of ours is never swallowed."""

import threading

import pytest

from bytewise.protocol.errors.actors import NotExact, TryAgain
from bytewise.protocol.jobs import JobResult
from bytewise.protocol.units import U8, U16, ZERO_DIGEST, Blob
from tests.fixtures.builders import word
from tests.fixtures.verifier import enclave_in_memory as b
from verifier.jobs.worker import AUDIT, VOTE, FinishedJob, JobKey, Worker

WAIT_S = 60.0


def result() -> JobResult:
    return JobResult(
        word("s"), U16(0), word("r"), b.VOTER.address, U8(1), U8(0), ZERO_DIGEST, ZERO_DIGEST, ZERO_DIGEST, Blob(b"")
    )


def collected(worker: Worker, count: int) -> list[FinishedJob]:
    found: list[FinishedJob] = []
    idle = threading.Event()
    for _ in range(int(WAIT_S / 0.01)):
        found += worker.collect()
        if len(found) >= count:
            return found
        idle.wait(0.01)
    raise AssertionError("jobs did not finish")


def test_votes_run_before_audits_that_wait_longer() -> None:
    worker, started, hold = Worker(), threading.Event(), threading.Event()

    def slow() -> JobResult:
        started.set()
        assert hold.wait(WAIT_S)
        return result()

    first, audit, vote = [(kind, word(kind, i), i) for i, kind in enumerate(("audit", "audit", "vote"))]
    worker.submit(AUDIT, first, slow)
    assert started.wait(WAIT_S)
    worker.submit(AUDIT, audit, result)
    worker.submit(VOTE, vote, result)
    hold.set()
    assert [each.key for each in collected(worker, 3)] == [first, vote, audit]
    worker.stop()


def test_key_is_busy_until_its_result_is_collected() -> None:
    worker, runs = Worker(), []
    key: JobKey = ("vote", word("d"), 1)

    def job() -> JobResult:
        runs.append(1)
        return result()

    worker.submit(VOTE, key, job)
    worker.submit(VOTE, key, job)
    assert collected(worker, 1) == [FinishedJob(key, result())]
    assert worker.busy() == frozenset() and runs == [1]
    worker.stop()


def test_unavailable_enclave_is_a_result() -> None:
    worker = Worker()

    def job() -> JobResult:
        raise TryAgain("enclave", "gone")

    worker.submit(VOTE, ("vote", word("d"), 1), job)
    (finished,) = collected(worker, 1)
    assert isinstance(finished.outcome, TryAgain)
    worker.stop()


@pytest.mark.parametrize("error", [NotExact("x"), ValueError("unforeseen")])
def test_a_bug_in_the_thread_reaches_the_tick(error: Exception) -> None:
    worker = Worker()

    def job() -> JobResult:
        raise error

    worker.submit(VOTE, ("vote", word("d"), 1), job)
    with pytest.raises(type(error)):
        collected(worker, 1)
    worker.stop()
