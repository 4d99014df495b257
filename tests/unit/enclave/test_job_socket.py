"""The job socket: whatever a peer sends, the enclave answers or hangs up, and takes the next job."""

import dataclasses
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.records import MalformedValue, WrongFields
from bytewise.protocol.jobs import MAX_MESSAGE_BYTES, JobFailed, Prepare, Prepared, RunJob
from bytewise.protocol.records.statements import Outcome, TicketKind
from bytewise.protocol.units import Blob, Digest
from bytewise.service import connections
from bytewise.tee.appraisal import verify_result_quote
from bytewise.tee_simulated.__main__ import simulated_policy
from enclave import job_socket
from tests.fixtures.builders import CHAIN_ID, MODEL, word
from tests.fixtures.verifier import enclave_in_memory as b
from tests.fixtures.verifier.job_case import RIGHT, WORLD, case
from verifier.jobs.enclave_client import EnclaveClient
from verifier.jobs.job import JobCase, run_job


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder with a short name."""
    with b.short_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def enclave(place: Path) -> Iterator[Path]:
    """The socket of an enclave that serves all that these tests send, one after another."""
    with b.serving(place / "jobs.sock", b.bench(place)) as path:
        yield path


def client(path: Path) -> EnclaveClient:
    return EnclaveClient(path, prepare_timeout_s=10.0)


def test_job_is_judged_and_its_quote_binds_its_result(enclave: Path, place: Path) -> None:
    result = run_job(client(enclave), b.VOTER, b.CONTRACTS, case(), RIGHT)
    assert (result.outcome, result.voter, result.subject) == (Outcome.EXECUTED, b.VOTER.address, b.DISPUTE)
    policy = simulated_policy(place / "root", CHAIN_ID, 1, b.ENTRY)
    said = verify_result_quote(policy, result.quote, CHAIN_ID).statement
    assert (said.tokens_hash, said.trace_root, said.round_digest) == (result.tokens_hash, result.trace_root, result.round_digest)
    assert (said.verify_passes, said.contract, said.receipt_id) == (1, b.CONTRACTS.disputes, result.receipt_id)


def test_only_the_owner_may_open_the_socket(enclave: Path) -> None:
    assert stat.S_IMODE(os.stat(enclave).st_mode) == 0o600


def test_a_socket_file_of_a_dead_process_is_replaced(place: Path) -> None:
    job_socket.listen(place / "s").close()
    job_socket.listen(place / "s").close()


def test_socket_of_a_running_enclave_is_not_taken(enclave: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"socket: another process listens at jobs\.sock: stop it, or name another"):
        job_socket.listen(enclave)
    assert client(enclave).status(word("status")).model_id == MODEL


def test_only_the_named_other_user_is_served(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, own = b.bench(place / "other"), os.getuid()
    monkeypatch.setattr("os.getuid", lambda: own + 1)
    with b.serving(place / "s", context) as path:
        with pytest.raises(TryAgain):
            client(path).status(word("status"))
        context.client_uid = own
        assert client(path).status(word("status")).model_id == MODEL
    with job_socket.listen(place / "t", client_uid=own):
        assert stat.S_IMODE(os.stat(place / "t").st_mode) == 0o666


def test_overlong_socket_path_is_a_configuration_error(place: Path) -> None:
    with pytest.raises(ConfigurationError, match="path is longer than 107 bytes"):
        job_socket.listen(place / ("x" * 120))
    with pytest.raises(ConfigurationError, match="socket: No such file"):
        job_socket.listen(place / "nowhere" / "s")


def raw(path: Path) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.settimeout(10)
    peer.connect(str(path))
    return peer


@pytest.mark.parametrize(
    "data",
    [
        (MAX_MESSAGE_BYTES + 1).to_bytes(4, "big"), bytes(4), (5).to_bytes(4, "big") + b"hello", (2).to_bytes(4, "big") + b"{}",
        (20).to_bytes(4, "big") + b'{"receipt_id": "0x"}', (2).to_bytes(4, "big") + b"[]",
    ],
)  # fmt: skip
def test_malformed_message_is_refused_and_the_next_job_is_taken(enclave: Path, data: bytes) -> None:
    with raw(enclave) as peer:
        peer.sendall(data)
        answer = connections.receive(peer, JobFailed)
        assert not answer.retryable
    assert run_job(client(enclave), b.VOTER, b.CONTRACTS, case(), RIGHT).outcome == Outcome.EXECUTED


def test_peer_that_disconnects_inside_a_message_stops_nothing(enclave: Path) -> None:
    with raw(enclave) as peer:
        peer.sendall((100).to_bytes(4, "big") + b"{")
    with raw(enclave) as peer:
        connections.send(peer, Prepare(word("receipt")))
    assert run_job(client(enclave), b.VOTER, b.CONTRACTS, case(), RIGHT).outcome == Outcome.EXECUTED


def prepared(path: Path, receipt: Digest | None = None) -> tuple[socket.socket, Prepared]:
    peer = raw(path)
    connections.send(peer, Prepare(receipt or case().receipt_id))
    return peer, connections.receive(peer, Prepared)


def job_of(one: JobCase, kind: TicketKind = TicketKind.DISPUTE) -> RunJob:
    return b.job(WORLD, one.signed.receipt, one.envelope, kind)


TICKETS: dict[str, tuple[Digest | None, Callable[[Prepared], tuple[Digest, Blob]]]] = {
    "for another transport key": (None, lambda ready: (ready.instance, b.PUBLIC)),
    "for another instance": (None, lambda ready: (word("another instance"), ready.transport_key)),
    "for another receipt than prepared": (word("another receipt"), lambda ready: (ready.instance, ready.transport_key)),
}


@pytest.mark.parametrize("name", TICKETS)
def test_ticket_for_something_else_is_refused(enclave: Path, name: str) -> None:
    receipt, ticketed = TICKETS[name]
    peer, ready = prepared(enclave, receipt)
    with peer:
        connections.send(peer, b.ticketed(job_of(case()), *ticketed(ready)))
        assert connections.receive(peer, JobFailed) == JobFailed("TicketRefused", False)


def test_each_job_has_its_own_transport_key(enclave: Path) -> None:
    first, one = prepared(enclave)
    first.close()
    second, two = prepared(enclave)
    second.close()
    assert one.transport_key != two.transport_key and one.instance == two.instance


def test_unavailable_enclave_asks_for_a_retry(place: Path) -> None:
    with pytest.raises(TryAgain):
        client(place / "nobody").prepare(word("receipt"))
    with pytest.raises(TryAgain):
        client(place / "nobody").run(job_of(case()))


def test_refused_job_is_a_bug_and_is_not_repeated(enclave: Path) -> None:
    other = case()._replace(environment=dataclasses.replace(WORLD.environment, driver="other"))
    with pytest.raises(MalformedValue):
        run_job(client(enclave), b.VOTER, b.CONTRACTS, other, RIGHT)


def test_frames_refuse_overlong_messages_before_sending() -> None:
    left, right = socket.socketpair()
    with left, right, pytest.raises(MalformedValue):
        connections.send(left, dataclasses.replace(job_of(case()), envelope=Blob(bytes(MAX_MESSAGE_BYTES))))


def test_frames_name_the_expected_type() -> None:
    left, right = socket.socketpair()
    with left, right:
        raw_message = encode(JobFailed("X", True))
        left.sendall(len(raw_message).to_bytes(4, "big") + raw_message)
        with pytest.raises(WrongFields, match="Prepare"):
            connections.receive(right, Prepare, Prepared)
