"""What a job's process that was broken by what it read can do to the keeper and to later jobs: nothing."""

import os
import socket
import threading
from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.records.statements import Outcome
from bytewise.service import connections
from enclave import supervisor
from enclave.forked_process import ProcessReady
from tests.fixtures.kms.promise_chain import FAR, signed
from tests.fixtures.verifier import enclave_in_memory as b
from tests.fixtures.verifier.kept_jobs import SHORT_S, kept


def test_process_with_a_job_gets_no_second_job_and_no_more_time(capfd: pytest.CaptureFixture[str]) -> None:
    def stays(place: Path, line: socket.socket) -> None:
        if (place / "done").exists():
            return
        (place / "done").touch()
        listening = [each for each in open_sockets() if each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)]
        (place / "listening").write_text(str(len(listening)))
        for said in (supervisor.JobTaken(), ProcessReady(())) * 3:
            connections.send(line, said)
        threading.Event().wait()

    with kept(stays, SHORT_S) as enclave:
        with pytest.raises(TryAgain):
            enclave.judge()
        assert enclave.judge().outcome == Outcome.EXECUTED
        assert (enclave.place / "listening").read_text() == "0" and len(set(enclave.pids())) == 2
    assert enclave.codes == [0] and '"by":"SIGKILL"' in capfd.readouterr().err


def open_sockets() -> list[socket.socket]:
    """All of this process."""
    links = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink() and str(each.readlink()).startswith("socket:")]
    return [socket.socket(fileno=os.dup(int(each.name))) for each in links]


def test_job_claiming_a_record_no_shard_signed_is_ended_and_not_believed() -> None:
    lie = signed(FAR, by=b.VOTER)

    def lies(place: Path, line: socket.socket) -> None:
        if not (place / "done").exists():
            (place / "done").touch()
            connections.send(line, lie)
            threading.Event().wait()

    with kept(lies) as enclave:
        with pytest.raises(TryAgain):
            enclave.judge()
        assert enclave.judge().outcome == Outcome.EXECUTED
        assert enclave.continuity.heads() == {}
