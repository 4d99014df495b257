"""What the duty process takes from a cluster: the quoted result of its own job, and nothing else. The bridge is a stranger."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.jobs import JobFailed, JobResult, Prepare, Prepared, RunJob
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.units import U8, U64, Blob, Digest
from bytewise.service import connections
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.service.installation import SOURCE_ROOT
from bytewise.tee.measurement import measure
from bytewise.tee_simulated.__main__ import policy_for
from bytewise.tee_simulated.authorities import Platform
from bytewise.tee_simulated.quoter import SimulatedQuoter
from enclave.job_socket import JobContext, Session
from tests.fixtures.builders import CHAIN_ID, MODEL, signer, word
from tests.fixtures.verifier import enclave_in_memory as b
from tests.fixtures.verifier.job_case import RIGHT, WORLD, case
from verifier.jobs.cluster_client import ClusterClient, cluster_check
from verifier.jobs.cluster_messages import AskCluster, ClaimAgent, ClaimRefused, ClusterState
from verifier.jobs.job import EnclaveAway, EnclaveUnsuited, run_job

Answer = Callable[[socket.socket], None]
PREPARED = Prepared(word("instance"), Blob(b"\4" * 65), 30)


@contextmanager
def bridge(answer: Answer) -> Iterator[Path]:
    """A bridge that has one conversation."""
    with b.short_folder() as folder:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(str(folder / "bridge"))
        server.listen()
        server.settimeout(20.0)

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                answer(peer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield folder / "bridge"
        finally:
            thread.join(timeout=30)
            server.close()
            assert not thread.is_alive()


def enclave_of(folder: Path, program: Digest | None = None) -> JobContext:
    """An enclave on the platform of the folder."""
    context = b.bench(folder)
    if program is not None:
        context.quoter = SimulatedQuoter(Platform(folder / "platform.pem"), program, SystemClock())
    return context


def judging(context: JobContext, change: Callable[[RunJob, JobResult], object] = lambda _, result: result) -> Answer:
    """An answer by a real session, of which something is changed."""

    def answer(peer: socket.socket) -> None:
        claim = connections.receive(peer, ClaimAgent)
        session = Session(context, claim.receipt_id)
        connections.send(peer, session.prepare())
        job = connections.receive(peer, RunJob)
        connections.send(peer, change(job, session.run(job)))

    return answer


def judged(path: Path, folder: Path) -> JobResult:
    policy = policy_for(b.measurement(), word("shard"), folder / "root", CHAIN_ID, 1)
    return run_job(ClusterClient(path, 5.0), b.VOTER, b.CONTRACTS, case()._replace(policy=Blob(encode(policy))), RIGHT)


def test_quoted_result_of_an_approved_enclave_is_taken(tmp_path: Path) -> None:
    with bridge(judging(enclave_of(tmp_path))) as path:
        assert judged(path, tmp_path).outcome == Outcome.EXECUTED


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": U8(Outcome.INVALID), "code": U8(1)}, {"tokens_hash": word("other")}, {"trace_root": word("other")},
        {"round_digest": word("other")}, {"receipt_id": word("other")}, {"voter": signer("other").address}, {"quote": Blob(b"")},
        {"quote": Blob(os.urandom(500))}, {"outcome": U8(99)},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_result_that_its_quote_does_not_say_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    answer = judging(enclave_of(tmp_path), lambda _, result: replace(result, **change))  # type: ignore[arg-type]
    with bridge(answer) as path, pytest.raises(EnclaveAway, match="refused"):
        judged(path, tmp_path)


def test_quote_of_a_program_that_is_not_approved_is_refused(tmp_path: Path) -> None:
    other = measure(SOURCE_ROOT, "enclave.supervisor")
    with bridge(judging(enclave_of(tmp_path, other))) as path, pytest.raises(EnclaveAway, match="not trusted"):
        judged(path, tmp_path)


def test_quote_about_a_job_that_the_cluster_changed_is_refused(tmp_path: Path) -> None:
    """The enclave is approved and honest, but its host told it another time of the batch."""
    context = enclave_of(tmp_path)

    def answer(peer: socket.socket) -> None:
        claim = connections.receive(peer, ClaimAgent)
        session = Session(context, claim.receipt_id)
        connections.send(peer, session.prepare())
        job = connections.receive(peer, RunJob)
        connections.send(peer, session.run(replace(job, anchored_at=U64(int(job.anchored_at) + 1))))

    with bridge(answer) as path, pytest.raises(EnclaveAway, match="another job"):
        judged(path, tmp_path)


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        (ClaimRefused("no model: add it", True), EnclaveUnsuited, "no model: add it"),
        (ClaimRefused("no head node: start it", False), EnclaveAway, "start it"),
        (JobFailed("agent died", True), EnclaveAway, "agent died"),
        (replace(PREPARED, limit_s=10**9), EnclaveAway, "too much time"),
        (replace(PREPARED, limit_s=-1), EnclaveAway, "too much time"),
        (Prepare(word("r")), EnclaveAway, "Prepared"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_refused_claim_says_what_to_do(message: object, error: type[EnclaveAway], text: str) -> None:
    def answer(peer: socket.socket) -> None:
        connections.receive(peer, ClaimAgent)
        connections.send(peer, message)

    with bridge(answer) as path, pytest.raises(error, match=text) as caught:
        ClusterClient(path, 5.0).prepare(word("r"), MODEL)
    assert isinstance(caught.value, EnclaveUnsuited) is (error is EnclaveUnsuited)


@pytest.mark.parametrize("raw", [b"", b"\0\0\0\0", b"\xff" * 4, b"\0\0\0\2[]", b"\0\0\0\5junk!", os.urandom(64)], ids=range(6))
@pytest.mark.parametrize("ticketed", [False, True])
def test_bytes_that_are_no_message_are_survived(tmp_path: Path, raw: bytes, ticketed: bool) -> None:
    context = enclave_of(tmp_path)

    def answer(peer: socket.socket) -> None:
        claim = connections.receive(peer, ClaimAgent)
        if ticketed:
            connections.send(peer, Session(context, claim.receipt_id).prepare())
            connections.receive(peer, RunJob)
        peer.sendall(raw)

    with bridge(answer) as path, pytest.raises(TryAgain):
        judged(path, tmp_path)


def test_agent_that_died_after_the_ticket_is_an_attempt(tmp_path: Path) -> None:
    answer = judging(enclave_of(tmp_path), lambda *_: JobFailed("its machine ended", True))
    with bridge(answer) as path, pytest.raises(TryAgain, match="its machine ended") as caught:
        judged(path, tmp_path)
    assert not isinstance(caught.value, EnclaveAway)


@pytest.mark.parametrize("ticketed", [False, True])
def test_silent_or_slow_cluster_ends_within_its_share(tmp_path: Path, ticketed: bool) -> None:
    """It asks for an hour and sends a byte now and then; each of them would begin a new timeout."""
    context, policy = enclave_of(tmp_path), policy_for(b.measurement(), word("shard"), tmp_path / "root", CHAIN_ID, 1)

    def answer(peer: socket.socket) -> None:
        claim = connections.receive(peer, ClaimAgent)
        if ticketed:
            connections.send(peer, replace(Session(context, claim.receipt_id).prepare(), limit_s=3600))
            connections.receive(peer, RunJob)
        with suppress(OSError):
            peer.sendall((1000).to_bytes(4, "big"))
            for _ in range(100):
                threading.Event().wait(0.1)
                peer.sendall(b" ")

    with bridge(answer) as path:
        client, began = ClusterClient(path, 5.0), monotonic_s()
        client.end_within(1.0)
        with pytest.raises(EnclaveAway):
            run_job(client, b.VOTER, b.CONTRACTS, case()._replace(policy=Blob(encode(policy))), RIGHT)
        assert monotonic_s() - began < 8.0
        client.end_within(-1.0)
        with pytest.raises(EnclaveAway, match="no time left"):
            client.prepare(word("r"), MODEL)


def test_check_of_the_cluster_names_what_is_missing() -> None:
    def answer(peer: socket.socket) -> None:
        connections.receive(peer, AskCluster)
        connections.send(peer, ClusterState(4, 3, 2, ("1 of 4 agents is missing: start an enclave",)))

    with bridge(answer) as path:
        found = cluster_check(path)
    assert (found.ok, found.value) == (False, "3 of 4 agents are ready, 2 are free")
    assert found.advice == "1 of 4 agents is missing: start an enclave"
    away = cluster_check(path)
    assert not away.ok and "bridge" in away.value and "python -m verifier.cluster" in away.advice
    with pytest.raises(TryAgain, match="no prepared job"):
        ClusterClient(path, 1.0).run(b.job(WORLD, case().signed.receipt, b""))
