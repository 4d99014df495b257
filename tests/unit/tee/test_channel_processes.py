"""An attested channel between two processes over TCP: each with a quoter of its own, measured from its own source."""

import dataclasses
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.evidence import ChannelBroken
from bytewise.service.clock import SystemClock
from bytewise.service.settings import child_environment
from bytewise.tee.channel import ChannelEndpoint, connect
from bytewise.tee_simulated.authorities import Platform, issue, make_root
from bytewise.tee_simulated.quoter import SimulatedQuoter
from tests.fixtures.tee.channels import PATIENCE_S, SHARD, Ends
from tests.fixtures.tee.simulated_platform import Bench

ROOT = Path(__file__).resolve().parents[3]


class Server:
    """The other process."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.fixtures.tee.channel_process", str(folder)]
        self.process = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stdout=subprocess.PIPE, text=True)
        self.port = int(self.line())

    def line(self) -> str:
        """The next that it says."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def connected(self) -> socket.socket:
        """A TCP connection to it."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)


@pytest.fixture
def server(bench: Bench) -> Iterator[Server]:
    """The other process, which has the platform and the policy and nothing else of ours."""
    (bench.folder / "policy.json").write_bytes(encode(bench.policy))
    server = Server(bench.folder)
    yield server
    server.process.kill()
    server.process.communicate(timeout=PATIENCE_S)


def unknown_platform(ends: Ends, folder: Path) -> ChannelEndpoint:
    """The trusted program on a platform that the vendor never made."""
    make_root(folder / "root")
    issue(folder / "root", folder / "platform.key")
    quoter = SimulatedQuoter(Platform(folder / "platform.key"), ends.bench.program, SystemClock())
    return dataclasses.replace(ends.enclave, quoter=quoter)


@pytest.mark.e2e
def test_two_processes_attest_keep_a_channel_open_and_refuse_a_third(server: Server, bench: Bench, tmp_path: Path) -> None:
    ends = Ends(bench)
    with connect(server.connected(), ends.enclave, timeout_s=PATIENCE_S) as channel:
        assert channel.peer.hello.role is SHARD
        for message in (b"one", b"", os.urandom(2**20)):
            channel.send(message)
            assert channel.receive(2**20, timeout_s=PATIENCE_S) == message[::-1]
    with pytest.raises(ChannelBroken, match="UntrustedRoot R-74"):
        connect(server.connected(), unknown_platform(ends, tmp_path), timeout_s=PATIENCE_S)
    assert server.line() == "UntrustedRoot"
    # It goes on to serve others, and its sudden end is noticed.
    with connect(server.connected(), ends.enclave, timeout_s=PATIENCE_S) as channel:
        channel.send(b"still there?")
        assert channel.receive(100, timeout_s=PATIENCE_S) == b"?ereht llits"
        server.process.kill()
        server.process.wait(PATIENCE_S)
        with pytest.raises(ChannelBroken):
            channel.receive(100, timeout_s=PATIENCE_S)
