"""Threads for enclave jobs: votes first, each key once, audits shed before votes, and a bug of ours is never swallowed."""

import math
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from bytewise.ports import EnclaveJobs
from bytewise.protocol.errors.actors import NotExact, ResultsDiffer, TryAgain
from bytewise.protocol.jobs import JobResult, Prepared, RunJob
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.units import U8, U16, ZERO_DIGEST, Blob, Digest
from bytewise.service import metrics
from tests.fixtures.builders import MODEL, word
from tests.fixtures.verifier import enclave_in_memory as b
from tests.fixtures.verifier.job_case import RIGHT, case
from verifier.jobs.enclave_pool import EnclavePool
from verifier.jobs.job import AUDIT, VOTE, EnclaveAway, EnclaveUnsuited, FinishedJob, JobKey, JobOrder, run_job

WAIT_S = 60.0
RECEIPT = word("r")


def result(_: object = None) -> JobResult:
    return JobResult(
        word("s"), U16(0), RECEIPT, b.VOTER.address, U8(Outcome.EXECUTED), U8(0), ZERO_DIGEST, ZERO_DIGEST, ZERO_DIGEST,
        Blob(b""),
    )  # fmt: skip


class FakeEnclave:
    """An enclave of one instance that answers, or is away."""

    def __init__(self, name: str = "one", away: bool = False) -> None:
        self.instance, self.away = word(name), away
        self.seconds = 0.0
        """Time for its conversation, in the cluster."""
        self.prepared = self.ran = self.closed = 0
        self.dies = False

    def prepare(self, receipt_id: Digest, model_id: Digest) -> Prepared:
        if self.away:
            raise EnclaveAway("enclave", "gone")
        self.prepared += 1
        return Prepared(self.instance, Blob(b"\4" * 65), 30)

    def run(self, job: RunJob) -> JobResult:
        self.ran += 1
        if self.dies:
            raise TryAgain("enclave", "died")
        return result()

    def close(self) -> None:
        self.closed += 1

    def end_within(self, seconds: float) -> None:
        self.seconds = seconds


def order(
    priority: int, key: JobKey, job: Callable[[EnclaveJobs], JobResult] = result, left_s: float = 1e6, receipt: Digest = RECEIPT
) -> JobOrder:
    return JobOrder(priority, key, receipt, left_s, job)


def with_ticket(enclave: EnclaveJobs) -> JobResult:
    return run_job(enclave, b.VOTER, b.CONTRACTS, case(), RIGHT)


def collected(pool: EnclavePool, count: int) -> list[FinishedJob]:
    found: list[FinishedJob] = []
    idle = threading.Event()
    for _ in range(int(WAIT_S / 0.01)):
        found += pool.collect()
        if len(found) >= count:
            return found
        idle.wait(0.01)
    raise AssertionError("jobs did not finish")


def shed() -> float:
    return float(metrics.JOBS_SHED.labels(kind="audit")._value.get())


def test_votes_run_before_audits_that_wait_longer() -> None:
    pool, started, hold = EnclavePool([FakeEnclave()]), threading.Event(), threading.Event()

    def slow(_: EnclaveJobs) -> JobResult:
        started.set()
        assert hold.wait(WAIT_S)
        return result()

    first, audit, vote = [(kind, word(kind, i), i) for i, kind in enumerate(("audit", "audit", "vote"))]
    pool.submit(order(AUDIT, first, slow))
    assert started.wait(WAIT_S)
    pool.submit(order(AUDIT, audit))
    pool.submit(order(VOTE, vote))
    hold.set()
    assert [each.key for each in collected(pool, 3)] == [first, vote, audit]
    pool.stop()


def test_key_is_busy_until_its_result_is_collected() -> None:
    pool, runs = EnclavePool([FakeEnclave()]), []
    key: JobKey = ("vote", word("d"), 1)

    def job(_: EnclaveJobs) -> JobResult:
        runs.append(1)
        return result()

    pool.submit(order(VOTE, key, job))
    pool.submit(order(VOTE, key, job))
    assert collected(pool, 1) == [FinishedJob(key, result())]
    assert pool.busy() == frozenset() and runs == [1]
    pool.stop()


def test_unavailable_enclave_is_a_result() -> None:
    pool = EnclavePool([FakeEnclave()])

    def job(_: EnclaveJobs) -> JobResult:
        raise TryAgain("enclave", "gone")

    pool.submit(order(VOTE, ("vote", word("d"), 1), job))
    (finished,) = collected(pool, 1)
    assert isinstance(finished.outcome, TryAgain)
    pool.stop()


@pytest.mark.parametrize("error", [NotExact("x"), ValueError("unforeseen")])
def test_a_bug_in_the_thread_reaches_the_tick(error: Exception) -> None:
    pool = EnclavePool([FakeEnclave()])

    def job(_: EnclaveJobs) -> JobResult:
        raise error

    pool.submit(order(VOTE, ("vote", word("d"), 1), job))
    with pytest.raises(type(error)):
        collected(pool, 1)
    pool.stop()


def test_each_enclave_runs_a_job_at_the_same_time() -> None:
    pool, together = EnclavePool([FakeEnclave("one"), FakeEnclave("two")]), threading.Barrier(2)

    def job(_: EnclaveJobs) -> JobResult:
        together.wait(WAIT_S)
        return result()

    for number in range(2):
        pool.submit(order(VOTE, ("vote", word("d", number), 1), job))
    assert len(collected(pool, 2)) == 2 and pool.capacity().enclaves == 2
    pool.stop()


def test_audit_that_would_begin_too_late_is_shed_and_a_vote_never() -> None:
    now, started, hold, before = [0.0], threading.Event(), threading.Event(), shed()
    pool = EnclavePool([FakeEnclave()], monotonic=lambda: now[0])
    pool._seconds.append(10.0)

    def slow(_: EnclaveJobs) -> JobResult:
        started.set()
        assert hold.wait(WAIT_S)
        return result()

    pool.submit(order(AUDIT, ("audit", word("first"), 0), slow, left_s=0))
    assert started.wait(WAIT_S)
    late, vote, last = [(kind, word(kind, number), 0) for number, kind in enumerate(("audit", "vote", "audit"))]
    pool.submit(order(AUDIT, late, left_s=9))
    assert late not in pool.busy() and shed() == before + 1 and pool.capacity().queued_s == 10.0
    pool.submit(order(AUDIT, late, left_s=9))
    assert shed() == before + 1, "an audit counts once"
    pool.submit(order(VOTE, vote, left_s=1))
    pool.submit(order(AUDIT, last, left_s=30))
    assert pool.busy() == {("audit", word("first"), 0), vote, last}
    now[0] = 34.0
    hold.set()
    assert [each.key for each in collected(pool, 2)] == [("audit", word("first"), 0), vote]
    assert pool.busy() == frozenset() and shed() == before + 2, "the last one waited too long behind the vote"
    pool.stop()


@pytest.mark.parametrize("own_away", [True, False])
def test_job_that_one_group_refuses_runs_in_the_other(own_away: bool) -> None:
    own, other = FakeEnclave("own", away=own_away), FakeEnclave("cluster", away=not own_away)
    pool = EnclavePool([own], [other])
    for number in range(4):
        pool.submit(order(VOTE, ("vote", word("d", number), 1), with_ticket))
    assert all(isinstance(each.outcome, JobResult) for each in collected(pool, 4))
    assert not pool.away() and own.ran + other.ran == 4 and (own.ran == 0) is own_away
    pool.stop()


def test_job_without_any_enclave_ends_as_no_attempt() -> None:
    pool = EnclavePool([FakeEnclave(away=True)], [FakeEnclave(away=True)])
    pool.submit(order(VOTE, ("vote", word("d"), 1), with_ticket))
    (finished,) = collected(pool, 1)
    assert isinstance(finished.outcome, EnclaveAway) and pool.away()
    pool.stop()


class Unsuited(FakeEnclave):
    """An enclave without the model."""

    def prepare(self, receipt_id: Digest, model_id: Digest) -> Prepared:
        raise EnclaveUnsuited("cluster", f"no agent has model {model_id.hex()[:8]}")


def test_enclave_without_the_model_is_not_away() -> None:
    pool = EnclavePool([FakeEnclave(away=True)], [Unsuited()])
    pool.submit(order(VOTE, ("vote", word("d"), 1), with_ticket))
    (finished,) = collected(pool, 1)
    assert isinstance(finished.outcome, EnclaveAway) and not pool.away()
    pool.stop()


def test_job_that_no_enclave_suits_is_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    pool = EnclavePool([Unsuited()], [Unsuited()])
    for _ in range(3):
        pool.submit(order(VOTE, ("vote", word("d"), 1), with_ticket))
        (finished,) = collected(pool, 1)
        assert isinstance(finished.outcome, EnclaveUnsuited)
    pool.stop()
    (line,) = capsys.readouterr().err.splitlines()
    assert '"event":"job.refused"' in line and f"no agent has model {MODEL.hex()[:8]}" in line


def test_ticket_goes_to_as_few_instances_as_shards_allow() -> None:
    """Three enclaves fail one job after its ticket: the third gets none, because shards would refuse it."""
    enclaves = [FakeEnclave(name) for name in ("one", "two", "three")]
    key: JobKey = ("vote", word("d"), 1)
    for each in enclaves:
        each.dies = True
    pool = EnclavePool(enclaves)
    outcomes: list[object] = []
    for _ in range(60):
        pool.submit(order(VOTE, key, with_ticket))
        outcomes += [each.outcome for each in collected(pool, 1)]
    pool.stop()
    assert sum(each.ran > 0 for each in enclaves) <= 2 and sum(each.ran for each in enclaves) > 0
    assert not any(isinstance(each, EnclaveAway) for each in outcomes), "the job goes back to the two that had a ticket"
    assert all(each.closed == each.prepared for each in enclaves if not each.ran)


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, False), ({"quote": Blob(b"another")}, False), ({"round_digest": word("of a round")}, False),
        ({"outcome": U8(Outcome.NO_KEY)}, False), ({"outcome": U8(Outcome.CANNOT_EXECUTE)}, False),
        ({"tokens_hash": word("other")}, True), ({"trace_root": word("other")}, True),
        ({"outcome": U8(Outcome.INVALID), "code": U8(1)}, True),
    ],
    ids=str,
)  # fmt: skip
def test_two_results_about_one_receipt_that_differ_stop_the_node(change: dict[str, object], differs: bool) -> None:
    pool = EnclavePool([FakeEnclave()])
    pool.submit(order(AUDIT, ("audit", RECEIPT, 0)))
    assert collected(pool, 1)
    pool.submit(order(VOTE, ("vote", word("d"), 1), lambda _: replace(result(), **change)))  # type: ignore[arg-type]
    if differs:
        with pytest.raises(ResultsDiffer):
            collected(pool, 1)
    else:
        assert collected(pool, 1)
    pool.stop()


@pytest.mark.parametrize(
    ("own_has", "away_s", "share_s"), [(True, 0.0, 20.0), (False, 0.0, math.inf), (True, 60.5, math.inf)]
)  # fmt: skip
def test_cluster_gets_half_of_the_time_where_an_own_enclave_has_the_model(own_has: bool, away_s: float, share_s: float) -> None:
    own, other, now = FakeEnclave("own"), FakeEnclave("cluster"), [100.0 - away_s]
    pool = EnclavePool([own], [other], monotonic=lambda: now[0], own_has=lambda model: own_has and model == MODEL)
    for now[0] in (100.0 - away_s, 100.0):
        pool._groups[0].presence.lost(EnclaveAway("enclave", "restarts"))
    pool.submit(order(VOTE, ("vote", word("d"), 1), with_ticket, left_s=40.0))
    assert isinstance(collected(pool, 1)[0].outcome, JobResult) and (own.ran, other.ran) == (0, 1)
    assert other.seconds == share_s
    pool.stop()


def test_model_reaches_the_enclave() -> None:
    seen: list[Digest] = []

    class Noting(FakeEnclave):
        def prepare(self, receipt_id: Digest, model_id: Digest) -> Prepared:
            seen.append(model_id)
            return super().prepare(receipt_id, model_id)

    pool = EnclavePool([Noting()])
    pool.submit(order(VOTE, ("vote", word("d"), 1), with_ticket))
    assert collected(pool, 1) and seen == [MODEL]
    pool.stop()
