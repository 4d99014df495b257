"""An enclave without a network: its streams to shards are opened by the duty process, for shards of the job and nothing else."""

import contextlib
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import NoKey, TryAgain
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.jobs import Dial, Dialled, JobResult, Prepare, Prepared, RunJob
from bytewise.protocol.records.seal import unpad
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.units import U8, ZERO_DIGEST, Blob
from bytewise.service import connections
from enclave import job_socket
from enclave.job_socket import ShardDialer
from enclave.release_client import ShardKeySource
from tests.fixtures.kms.release_network import World
from verifier.jobs.enclave_client import EnclaveClient

Told = list[object]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture
def ask(world: World) -> Iterator[Callable[[RunJob, Callable[[socket.socket, RunJob], None]], JobResult]]:
    """Runs a job against an enclave that does what it is told when it has the job, and then says that no key was to be had."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        listening = job_socket.listen(path)
        listening.settimeout(20)

        def ask(job: RunJob, inside: Callable[[socket.socket, RunJob], None]) -> JobResult:
            def enclave() -> None:
                peer, _ = listening.accept()
                with peer:
                    peer.settimeout(20)
                    connections.receive(peer, Prepare)
                    connections.send(peer, Prepared(world.instance, world.public, 20))
                    got = connections.receive(peer, RunJob)
                    inside(peer, got)
                    with contextlib.suppress(TryAgain):  # who found the enclave at fault has hung up
                        connections.send(peer, _no_key(got))

            thread = threading.Thread(target=enclave)
            thread.start()
            try:
                duty = EnclaveClient(path, prepare_timeout_s=20)
                duty.prepare(job.ticket.receipt_id)
                return duty.run(job)
            finally:
                thread.join(timeout=20)

        yield ask
        listening.close()


def _no_key(job: RunJob) -> JobResult:
    ticket = job.ticket
    return JobResult(
        ticket.subject, ticket.round, ticket.receipt_id, ticket.voter, U8(Outcome.NO_KEY), U8(0), ZERO_DIGEST, ZERO_DIGEST,
        ZERO_DIGEST, Blob(b""),
    )  # fmt: skip


def _keys(world: World, peer: socket.socket) -> ShardKeySource:
    board = ShardDialer()
    board.peer = peer
    return ShardKeySource(world.quoter, attempts=2, pause=lambda _: None, on_failure=lambda *_: None, dial=board.dial)


def test_envelope_is_opened_over_inherited_streams(world: World, ask: Callable[..., JobResult]) -> None:
    case, told = world.case(), Told()
    world.chain.open(case)

    def inside(peer: socket.socket, job: RunJob) -> None:
        told.append(unpad(_keys(world, peer).open(job, world.secret)))

    with world.serving((1, world.shard(1)), (3, world.shard(3))):
        assert ask(world.job(case), inside).outcome == Outcome.NO_KEY
    assert told == [case.payload]


def test_unreachable_shards_are_reported_and_the_job_continues(world: World, ask: Callable[..., JobResult]) -> None:
    def inside(peer: socket.socket, job: RunJob) -> None:
        with pytest.raises(NoKey, match="shard 3 TryAgain"):
            _keys(world, peer).open(job, world.secret)

    assert ask(world.job(world.case()), inside).outcome == Outcome.NO_KEY


def test_only_shards_of_the_jobs_own_epoch_are_dialled(world: World, ask: Callable[..., JobResult]) -> None:
    def inside(peer: socket.socket, job: RunJob) -> None:
        connections.send(peer, Dial(4))
        with pytest.raises(TryAgain):
            connections.receive(peer, Dialled)

    with pytest.raises(MalformedValue, match="shard 4"):
        ask(world.job(world.case()), inside)


def test_nothing_is_dialled_without_a_job(world: World) -> None:
    with pytest.raises(TryAgain, match="no job"):
        ShardDialer().dial(world.document.record.shards[0], 1)


@pytest.mark.parametrize("what", ["a byte alone", "another byte", "two streams", "a datagram socket"])
def test_message_other_than_one_stream_is_refused(what: str) -> None:
    left, right = socket.socketpair()
    stream, other = socket.socketpair()
    datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with left, right, stream, other, datagram:
        match what:
            case "a byte alone":
                left.sendall(b"\0")
            case "another byte":
                socket.send_fds(left, [b"\1"], [stream.fileno()])
            case "two streams":
                socket.send_fds(left, [b"\0"], [stream.fileno(), other.fileno()])
            case _:
                socket.send_fds(left, [b"\0"], [datagram.fileno()])
        with pytest.raises(MalformedValue):
            connections.receive_stream(right)


def test_peer_that_is_gone_sent_no_wrong_stream() -> None:
    left, right = socket.socketpair()
    left.close()
    with right, pytest.raises(TryAgain, match="closed"):
        connections.receive_stream(right)


def test_stream_is_received_connected() -> None:
    left, right = socket.socketpair()
    stream, other = socket.socketpair()
    with left, right, stream, other:
        connections.send_stream(left, stream)
        with connections.receive_stream(right) as came:
            other.sendall(b"hello")
            assert came.recv(5) == b"hello" and not came.get_inheritable()
