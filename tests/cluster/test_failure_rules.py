"""What may fail while jobs run in a Ray cluster: nothing is lost, and nobody votes twice (ADR-046). Real processes on two nodes.

`make test-ray` runs this folder; ordinary runs leave it out.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bytewise.ports import EnclaveJobs
from bytewise.protocol.errors.actors import ResultsDiffer, TryAgain
from bytewise.protocol.jobs import JobResult, Prepared, RunJob
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.units import Digest
from bytewise.service import metrics
from bytewise.service.clock import SystemClock
from bytewise.tee_simulated.authorities import Platform
from bytewise.tee_simulated.quoter import SimulatedQuoter
from enclave.job_socket import JobContext
from tests.fixtures.builders import CHAIN_ID, MODEL, word
from tests.fixtures.cluster.ray_cluster import ROOT, WAIT_S, RayCluster, eventually, ray_cluster
from tests.fixtures.verifier import enclave_in_memory as b
from tests.fixtures.verifier.job_case import RIGHT
from verifier.jobs.enclave_client import EnclaveClient
from verifier.jobs.enclave_pool import EnclavePool
from verifier.jobs.job import (
    AUDIT,
    VOTE,
    EnclaveAway,
    EnclaveUnsuited,
    FinishedJob,
    JobKey,
    JobOrder,
    TicketRight,
    audit_right,
    run_job,
)


@pytest.fixture(scope="module")
def started() -> Iterator[RayCluster]:
    with ray_cluster() as cluster:
        cluster.start_ray(nodes=2, agents_of_a_node=2)
        cluster.start_enclave("enclave1")
        cluster.start_enclave("enclave2")
        cluster.start_bridge(agents=2)
        yield cluster


@pytest.fixture
def cluster(started: RayCluster) -> Iterator[RayCluster]:
    """The cluster with two ready agents; what a test broke is repaired."""
    started.wait_for_agents(2)
    eventually(lambda: None not in map(started.find_agent, started.enclaves))
    (started.folder / "began").unlink(missing_ok=True)
    yield started
    started.go_on()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() == psutil.STATUS_STOPPED and process.name().startswith("ray::"):
                process.resume()


def vote_order(cluster: RayCluster, subject: Digest = b.DISPUTE, between: Callable[[], None] = lambda: None) -> JobOrder:
    """A vote job; `between` is called after the agent has prepared and before the ticket is signed."""
    right = RIGHT._replace(subject=subject)

    def run(enclave: EnclaveJobs) -> JobResult:
        return run_job(_Interrupted(enclave, between), b.VOTER, b.CONTRACTS, cluster.case(), right)

    return JobOrder(VOTE, ("vote", subject, 1), cluster.case().receipt_id, 600.0, run)


def audit_order(cluster: RayCluster, number: int, left_s: float = 600.0) -> JobOrder:
    """An audit job. Its key is another one for each number, its receipt the same."""
    case = cluster.case()
    right: TicketRight = audit_right(case.receipt_id, RIGHT.expires_at)
    key: JobKey = ("audit", word("audit", number), 0)
    return JobOrder(AUDIT, key, case.receipt_id, left_s, lambda enclave: run_job(enclave, b.VOTER, b.CONTRACTS, case, right))


class Wrong(b.TwoStubEngines):
    """An engine that gives another answer, on both of its backends."""

    def __init__(self) -> None:
        super().__init__(9, 9)


class _Interrupted:
    """An enclave between whose two calls something happens."""

    def __init__(self, enclave: EnclaveJobs, between: Callable[[], None]) -> None:
        self._enclave, self._between = enclave, between

    def prepare(self, receipt_id: Digest, model_id: Digest) -> Prepared:
        prepared = self._enclave.prepare(receipt_id, model_id)
        self._between()
        return prepared

    def run(self, job: RunJob) -> JobResult:
        return self._enclave.run(job)

    def close(self) -> None:
        self._enclave.close()


def collected(pool: EnclavePool, count: int = 1) -> list[FinishedJob]:
    found: list[FinishedJob] = []

    def are_there() -> bool:
        found.extend(pool.collect())
        return len(found) >= count

    eventually(are_there)
    return found


def result_of(pool: EnclavePool, order: JobOrder, tries: int = 6) -> JobResult:
    """Asks again after each failure, as a duty process does."""
    for _ in range(tries):
        pool.submit(order)  # no effect while it still waits or runs
        (finished,) = collected(pool)
        if isinstance(finished.outcome, JobResult):
            return finished.outcome
        threading.Event().wait(2.0)
    raise AssertionError(f"never done: {finished.outcome}")


def pool_of(cluster: RayCluster, jobs: int = 1) -> EnclavePool:
    return EnclavePool([], [cluster.client() for _ in range(jobs)])


def test_job_runs_in_the_cluster_and_its_quote_is_checked(cluster: RayCluster) -> None:
    assert cluster.judge().outcome == Outcome.EXECUTED and len(cluster.began()) == 1


def test_rule_1_job_submitted_twice_runs_once(cluster: RayCluster) -> None:
    pool = pool_of(cluster, jobs=2)
    for _ in range(5):
        pool.submit(vote_order(cluster))
    assert isinstance(collected(pool)[0].outcome, JobResult) and len(cluster.began()) == 1
    pool.stop()


def test_rule_2_agent_dead_before_the_ticket_leaves_the_job(cluster: RayCluster) -> None:
    """No enclave answers, so that the agent dies while it prepares."""
    pool = pool_of(cluster)
    agents = [cluster.agent_of(name) for name in cluster.enclaves]
    for enclave in cluster.enclaves.values():
        enclave.send_signal(signal.SIGSTOP)
    pool.submit(vote_order(cluster))
    eventually(lambda: cluster.state().free == 1)
    for agent in agents:
        agent.kill()
    for enclave in cluster.enclaves.values():
        enclave.send_signal(signal.SIGCONT)
    assert result_of(pool, vote_order(cluster)).outcome == Outcome.EXECUTED and len(cluster.began()) == 1
    assert len(pool._tickets[("vote", b.DISPUTE, 1)]) == 1
    pool.stop()


@pytest.mark.parametrize("moment", ["prepared", "ticketed"])
def test_rule_3_agent_that_dies_in_a_job_costs_an_attempt(cluster: RayCluster, moment: str) -> None:
    pool, order = pool_of(cluster), vote_order(cluster)
    if moment == "prepared":
        killed: list[int] = []

        def kill() -> None:
            if not killed:
                for name in ("enclave1", "enclave2"):
                    process = cluster.agent_of(name)
                    killed.append(process.pid)
                    process.kill()

        order = vote_order(cluster, between=kill)
        pool.submit(order)
    else:
        cluster.hold()
        pool.submit(order)
        eventually(lambda: len(cluster.began()) == 1)
        cluster.agent_of(cluster.began()[0]).kill()
    (finished,) = collected(pool)
    assert isinstance(finished.outcome, TryAgain) and not isinstance(finished.outcome, EnclaveAway)
    cluster.go_on()
    assert result_of(pool, order).outcome == Outcome.EXECUTED
    assert len(pool._tickets[order.key]) <= 2
    pool.stop()


def test_rule_4_answer_of_an_agent_that_stalled_past_its_lease_is_dropped(cluster: RayCluster) -> None:
    pool, order = pool_of(cluster), vote_order(cluster)
    cluster.hold()
    pool.submit(order)
    eventually(lambda: len(cluster.began()) == 1)
    stalled, other = cluster.began()[0], {"enclave1": "enclave2", "enclave2": "enclave1"}[cluster.began()[0]]
    agent = cluster.agent_of(stalled)
    agent.suspend()
    cluster.go_on()
    (finished,) = collected(pool)
    assert isinstance(finished.outcome, TryAgain)
    assert result_of(pool, order).outcome == Outcome.EXECUTED and cluster.began()[-1] == other
    before = cluster.log().count("agent.late_answer_dropped")
    agent.resume()
    eventually(lambda: cluster.log().count("agent.late_answer_dropped") == before + 1)
    assert pool.collect() == ()
    cluster.wait_for_agents(2)
    pool.stop()


def test_rule_5_two_results_that_differ_stop_the_node_without_a_vote(cluster: RayCluster) -> None:
    """An approved enclave whose machine computes something else."""
    with b.short_folder() as folder:
        path = folder / "own"
        with b.serving(path, own_context(cluster, Wrong())):
            pool = EnclavePool([EnclaveClient(path, 10.0)])
            pool.submit(audit_order(cluster, 0))
            assert isinstance(collected(pool)[0].outcome, JobResult)
            pool._groups[0].presence.lost(EnclaveAway("enclave", "test"))
            both = EnclavePool([], [cluster.client()])
            both._results = pool._results
            both.submit(vote_order(cluster))
            with pytest.raises(ResultsDiffer):
                collected(both)
            assert both._finished == [], "there is nothing to vote with"
            both.stop()
            pool.stop()


def own_context(cluster: RayCluster, engine: b.TwoStubEngines) -> JobContext:
    quoter = SimulatedQuoter(Platform(cluster.folder / "platform.pem"), b.measurement(), SystemClock())
    return JobContext(engine, MODEL, b.WholeKey(), quoter, CHAIN_ID, os.urandom)


def test_rule_6_vote_begins_within_one_job_and_late_audits_are_shed(cluster: RayCluster) -> None:
    (cluster.folder / "sleep").write_text("0.2")
    pool, before = pool_of(cluster, jobs=2), metrics.JOBS_SHED.labels(kind="audit")._value.get()
    for number in range(4):
        pool.submit(audit_order(cluster, number))
    collected(pool, 4)
    for number in range(1000):
        pool.submit(audit_order(cluster, 100 + number, left_s=3.0))
    shed = metrics.JOBS_SHED.labels(kind="audit")._value.get() - before
    assert 900 < shed < 1000, "what could not begin in three seconds"
    pool.collect()  # what ended while the audits were submitted
    pool.submit(vote_order(cluster))
    done: list[JobKey] = []

    def voted() -> bool:
        done.extend(each.key for each in pool.collect())
        return ("vote", b.DISPUTE, 1) in done

    eventually(voted)
    assert done.index(("vote", b.DISPUTE, 1)) <= 4, "after the jobs that ran, before those that waited"
    pool.stop()
    (cluster.folder / "sleep").unlink()


def test_rule_7_own_enclave_goes_on_while_the_cluster_is_away(cluster: RayCluster) -> None:
    with b.short_folder() as folder:
        with b.serving(folder / "own", own_context(cluster, b.TwoStubEngines())):
            pool = EnclavePool([EnclaveClient(folder / "own", 10.0)], [cluster.client()])
            cluster.kill_bridge()
            for number in range(4):
                pool.submit(audit_order(cluster, number))
            assert all(isinstance(each.outcome, JobResult) for each in collected(pool, 4))
            with pytest.raises(EnclaveAway, match="bridge"):
                cluster.client().prepare(word("r"), MODEL)
            cluster.start_bridge(agents=2)
            cluster.wait_for_agents(2)
            assert cluster.judge().outcome == Outcome.EXECUTED
            pool.stop()


@pytest.mark.parametrize("moment", ["claimed", "prepared", "ticketed", "done"])
def test_rule_8_restarted_duty_process_votes_once(cluster: RayCluster, moment: str) -> None:
    """The duty process is killed at each step of a job; the protection table, not the cluster, guards the vote."""
    command = [sys.executable, "-m", "tests.fixtures.cluster.duty", str(cluster.folder)]
    database = cluster.folder / "votes.db"
    for suffix in ("", "-wal", "-shm"):
        (cluster.folder / f"votes.db{suffix}").unlink(missing_ok=True)
    for life, last in enumerate([moment, "", ""]):
        done = subprocess.run([*command, last], cwd=ROOT, env=cluster.environment, timeout=WAIT_S, capture_output=True, text=True)
        assert done.returncode == (-signal.SIGKILL if life == 0 else 0), done.stderr[-2000:]
    assert done.stdout.split() == ["1", "EXECUTED"], "one vote, whatever life made it"
    assert database.exists()
    cluster.wait_for_agents(2)


def test_rule_9_cluster_keeps_nothing_of_a_job_that_is_over(cluster: RayCluster) -> None:
    assert cluster.judge().outcome == Outcome.EXECUTED
    cluster.wait_for_agents(2)
    assert cluster.ray is not None
    envelope = cluster.case().envelope.hex()[:64]
    session = cluster.ray.head_node.get_session_dir_path()
    texts = [each.read_text(errors="replace") for each in Path(session).rglob("*") if each.is_file()]
    assert texts and not any(envelope in text for text in texts), "no file has the ciphertext: nothing was spilled or logged"
    state = cluster.state()
    assert state.free == state.ready == 2, "no lease and no call are left"


def test_node_that_is_lost_in_a_job_loses_no_job(cluster: RayCluster) -> None:
    assert cluster.ray is not None
    cluster.hold()
    pool = pool_of(cluster, jobs=2)
    orders = [vote_order(cluster), vote_order(cluster, word("second dispute"))]
    for order in orders:
        pool.submit(order)
    eventually(lambda: len(cluster.began()) == 2)
    node = next(iter(cluster.ray.worker_nodes))
    cluster.ray.remove_node(node, allow_graceful=False)
    cluster.go_on()
    first = collected(pool, 2)
    assert any(isinstance(each.outcome, JobResult) for each in first) or len(first) == 2
    results = [result_of(pool, order) for order in orders]
    assert {each.outcome for each in results} == {Outcome.EXECUTED}
    cluster.ray.add_node(**cluster.node)
    pool.stop()


def test_unknown_model_is_refused_with_what_to_do(cluster: RayCluster) -> None:
    with pytest.raises(EnclaveUnsuited, match="add it to `models`, or run it in an own enclave"):
        cluster.client().prepare(word("r"), word("unknown model"))
    assert cluster.judge().outcome == Outcome.EXECUTED


def test_full_cluster_refuses_with_what_to_do(cluster: RayCluster) -> None:
    cluster.hold()
    pool = pool_of(cluster, jobs=2)
    for number in range(2):
        pool.submit(vote_order(cluster, word("dispute", number)))
    eventually(lambda: len(cluster.began()) == 2)
    with pytest.raises(EnclaveUnsuited, match="agents are busy"):
        cluster.client().prepare(word("r"), MODEL)
    cluster.go_on()
    collected(pool, 2)
    pool.stop()


def test_missing_enclave_is_named_with_what_to_do(cluster: RayCluster) -> None:
    cluster.kill_bridge()
    cluster.start_bridge(agents=3)
    cluster.wait_for_agents(2)
    (problem,) = cluster.state().problems
    assert problem.startswith("1 of 3 agents") and "--resources=" in problem
    cluster.kill_bridge()
    cluster.start_bridge(agents=2)
    cluster.wait_for_agents(2)


def test_hostile_agents_change_nothing(cluster: RayCluster) -> None:
    """Every answer of a hostile machine: not bytes, too long, of another lease, other records, a program in a pickle."""
    for act in ("object", "long", "fence", "garbage", "other", "pickle"):
        cluster.kill_bridge()
        cluster.start_bridge(agents=2, hostile=act)
        cluster.wait_for_agents(2)
        with pytest.raises(TryAgain):
            cluster.judge()
        assert cluster.bridge is not None and cluster.bridge.poll() is None
    cluster.kill_bridge()
    cluster.start_bridge(agents=2)
    cluster.wait_for_agents(2)
    assert cluster.judge().outcome == Outcome.EXECUTED
