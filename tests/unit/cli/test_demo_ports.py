"""Ports that are handed out before anybody binds them are still there when somebody does."""

import itertools
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.settings import child_environment
from cli.demo import site
from cli.demo.site import free_ports
from tests.source import ROOT

OF_THE_KERNEL = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""First and last port that it chooses by itself."""

HOST = "127.0.0.1"

HAND_OUT = "from cli.demo.site import free_ports; print(*free_ports(20), flush=True); input()"


def test_hundred_port_blocks_are_distinct() -> None:
    # The kernel, asked for any port again and again, gives one of some 14,000: of 3,333 worlds of six ports five had one twice.
    found = [port for _ in range(100) for port in free_ports(4)]
    assert len(set(found)) == 400


def test_no_port_is_in_the_ephemeral_range_of_the_kernel() -> None:
    first, last = map(int, OF_THE_KERNEL.read_text().split())
    assert not {port for port in free_ports(50) if first <= port <= last} or first < 32768


def test_two_processes_get_disjoint_ports() -> None:
    own = set(free_ports(20))
    command, pipe = [sys.executable, "-c", HAND_OUT], subprocess.PIPE
    others = [subprocess.Popen(command, cwd=ROOT, env=child_environment(), stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    try:
        asked = [set(map(int, each.stdout.readline().split())) for each in others if each.stdout is not None]
    finally:
        for each in others:
            each.communicate("\n", timeout=60)
    assert [each.returncode for each in others] == [0, 0]
    assert [len(each) for each in asked] == [20, 20] and all(not a & b for a, b in itertools.combinations([own, *asked], 2))


def test_port_in_use_is_not_allocated() -> None:
    with ExitStack() as stack:
        taken = {stack.enter_context(socket.create_server((HOST, port))).getsockname()[1] for port in free_ports(5)}
        # More than the block has: all others come, some again.
        found = set(free_ports(450)) | set(free_ports(100))
    assert len(found) >= 450 and not found & taken


def test_a_port_whose_last_connection_has_just_ended_is_free() -> None:
    """A server can have it, though TCP waits for what may still be under way."""
    [port] = free_ports(1)
    with socket.create_server((HOST, port)) as server, socket.create_connection((HOST, port), timeout=60) as asks:
        server.accept()[0].close()  # first to close: its end waits
        asks.recv(1)
    with socket.socket() as plain, pytest.raises(OSError, match="Address already in use"):
        plain.bind((HOST, port))
    assert site._is_free(port)
    socket.create_server((HOST, port)).close()


@pytest.mark.parametrize("count", [512, 100_000])
def test_too_many_ports_end_with_a_message(count: int) -> None:
    with pytest.raises(ConfigurationError, match=rf"ports: \d+ of 127.0.0.1 are free where {count} are needed: end processes"):
        free_ports(count)


def test_exhausted_port_blocks_are_reported_to_the_user() -> None:
    [first] = free_ports(1)
    own = site._claim([first])
    try:
        assert next(own.rest) == first + 1
        with pytest.raises(ConfigurationError, match=r"ports: all blocks from \d+ to \d+ of 127.0.0.1 are taken: end processes"):
            site._claim([first])
    finally:
        own.claim.close()


def test_port_that_this_user_may_not_bind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "HOST", "192.0.2.1")
    with pytest.raises(ConfigurationError, match=r"ports: 192.0.2.1:\d+: Cannot assign requested address"):
        free_ports(1)
