"""One job, one process: what a job's process does, however it ends, touches neither the keeper nor the next job."""

import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import NotExact, TryAgain
from bytewise.protocol.records.statements import Outcome
from bytewise.service import connections
from bytewise.service.exit_codes import Exit
from enclave import supervisor
from enclave.forked_process import ForkedProcess
from enclave.job_socket import JobContext
from enclave.log_continuity import LogContinuity
from enclave.supervisor import Supervisor
from tests.fixtures.kms.promise_chain import DOMAIN, PLAIN, SHARD, digest, signed
from tests.fixtures.verifier.kept_jobs import SHORT_S, Act, kept

CANARY = "canary-of-an-exception-5d1c"


def first_only(act: Callable[[], object]) -> Act:
    """Something that only the first job does."""

    def once(place: Path, _: socket.socket) -> None:
        if not (place / "done").exists():
            (place / "done").touch()
            act()

    return once


def test_every_job_has_a_process_that_ends_with_it() -> None:
    with kept(lambda *_: None) as enclave:
        results = [enclave.judge() for _ in range(3)]
        assert enclave.ready.is_set()
        pids = enclave.pids()
    assert [each.outcome for each in results] == [Outcome.EXECUTED] * 3
    assert len({os.getpid(), *pids}) == 4 and not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert enclave.codes == [0]


def test_job_that_is_killed_gives_no_vote_and_the_next_is_judged(capfd: pytest.CaptureFixture[str]) -> None:
    """One that takes too long: `test_forked_process`."""
    with kept(first_only(lambda: os.kill(os.getpid(), signal.SIGKILL)), 60) as enclave:
        with pytest.raises(TryAgain):
            enclave.judge()
        assert enclave.judge().outcome == Outcome.EXECUTED
        assert len(set(enclave.pids())) == 2
    assert enclave.codes == [0] and '"by":"SIGKILL"' in capfd.readouterr().err


def test_bug_in_a_job_ends_the_enclave_and_its_text_is_not_logged(capfd: pytest.CaptureFixture[str]) -> None:
    def wrong(*_: object) -> None:
        raise NotExact(CANARY)

    with kept(wrong) as enclave:
        with pytest.raises(TryAgain):
            enclave.judge()
        enclave.ends()
    said = capfd.readouterr()
    assert enclave.codes == [Exit.INTERNAL] and '"error":"NotExact"' in said.err and CANARY not in said.err + said.out


def test_a_process_that_dies_before_it_has_a_job_ends_the_enclave() -> None:
    def dies(_: socket.socket) -> JobContext:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    left, right = socket.socketpair()
    with left, right:
        assert Supervisor(left, dies, LogContinuity(), 30, threading.Event(), lambda _: None).run() == Exit.INTERNAL


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[ForkedProcess]:
    """A process beside the keeper's own."""

    def run() -> None:
        work()

    process = ForkedProcess(run)
    try:
        yield process
    finally:
        process.kill()
        process.reap()


def test_enclave_ends_for_a_restart_when_its_second_backend_has_ended() -> None:
    with beside(threading.Event().wait) as second, kept(lambda *_: None, second=second) as enclave:
        assert enclave.judge().outcome == Outcome.EXECUTED
        second.kill()
        enclave.ends()
    assert enclave.codes == [Exit.INTERNAL]


def test_job_during_which_the_second_backend_ends_gives_no_vote() -> None:
    with beside(threading.Event().wait) as second:
        with kept(lambda *_: os.kill(second.pid, signal.SIGKILL), second=second) as enclave:
            # Either it was faster, or it was ended: never does it say that it cannot execute.
            with suppress(TryAgain):
                assert enclave.judge().outcome == Outcome.EXECUTED
            enclave.ends()
        assert enclave.codes == [Exit.INTERNAL]


def test_unintelligible_message_ends_its_job_and_not_the_enclave() -> None:
    def babble(line: socket.socket) -> None:
        line.sendall((7).to_bytes(4, "big") + b"garbage")
        threading.Event().wait()

    with kept(lambda place, line: first_only(lambda: babble(line))(place, line)) as enclave:
        with pytest.raises(TryAgain):
            enclave.judge()
        assert enclave.judge().outcome == Outcome.EXECUTED
    assert enclave.codes == [0]


def test_silent_connection_is_ended_and_the_next_job_is_judged() -> None:
    with kept(lambda *_: None, SHORT_S) as enclave, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.connect(str(enclave.place / "s"))
        peer.settimeout(30)
        peer.sendall(b"\0")
        assert peer.recv(1) == b"", "hung up on"
        assert enclave.judge().outcome == Outcome.EXECUTED


def test_process_that_sends_byte_by_byte_gets_no_more_time() -> None:
    def drip(line: socket.socket) -> None:
        line.sendall((2**20).to_bytes(4, "big"))
        for _ in range(120):
            line.sendall(b"x")
            threading.Event().wait(0.5)

    with kept(lambda place, line: first_only(lambda: drip(line))(place, line), SHORT_S) as enclave:
        with pytest.raises(TryAgain):
            enclave.judge()
        assert enclave.judge().outcome == Outcome.EXECUTED


def test_process_that_loads_its_engine_too_long_ends_the_enclave(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(_: socket.socket) -> JobContext:
        threading.Event().wait()
        raise AssertionError

    monkeypatch.setattr(supervisor, "OPENING_LIMIT_S", 0.5)
    left, right = socket.socketpair()
    with left, right:
        assert Supervisor(left, hangs, LogContinuity(), 30, threading.Event(), lambda _: None).run() == Exit.INTERNAL


def test_signal_to_the_process_group_is_handled_by_the_supervisor() -> None:
    told, tell = os.pipe()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        os.write(tell, b"lives")

    assert ForkedProcess(work).reap() == 0 and os.read(told, 5) == b"lives"
    os.close(told)
    os.close(tell)


def test_shard_record_seen_in_one_job_is_known_in_the_next() -> None:
    with kept(lambda _place, line: connections.send(line, signed(PLAIN))) as enclave:
        enclave.judge()
        enclave.judge()
        assert enclave.continuity.heads() == {(DOMAIN, SHARD, 1): (digest(PLAIN), 1)}


def test_process_ends_with_its_parent() -> None:
    ours, theirs = socket.socketpair()

    def inner() -> None:
        theirs.sendall(os.getpid().to_bytes(4, "big"))
        threading.Event().wait()

    def outer() -> None:
        ForkedProcess(inner)
        threading.Event().wait()

    with ours, theirs:
        process = ForkedProcess(outer)
        ours.settimeout(30)
        pid = int.from_bytes(ours.recv(4), "big")
        watched = os.pidfd_open(pid)
        process.kill()
        assert process.has_ended(30) and process.reap() == -signal.SIGKILL
        assert select.select([watched], [], [], 30)[0]
        os.close(watched)
