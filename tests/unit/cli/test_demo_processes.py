"""What the demo says about its processes."""

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bytewise.protocol.errors.branches import Unavailable
from bytewise.service.settings import child_environment
from bytewise.tee import confinement
from chain.client.rpc import ChainClient
from cli.demo.actors import STATES, anvil, chain_arguments
from cli.demo.plan import CHAIN_ID
from cli.demo.processes import _pss
from cli.demo.site import Ports, Site, free_ports
from enclave.forked_process import ForkedProcess
from tests.source import ROOT


def test_process_unreadable_to_this_user_does_not_hide_the_others() -> None:
    here, there = os.pipe()

    def closed() -> None:
        confinement.deny_inspection()
        os.write(there, b"x")
        threading.Event().wait()

    def work() -> None:
        ForkedProcess(closed)
        threading.Event().wait()

    process = ForkedProcess(work)
    os.close(there)
    assert os.read(here, 1) == b"x" and _pss(process.pid) > 0
    process.kill()
    process.reap()
    os.close(here)


def test_chain_keeps_a_bounded_number_of_old_states_in_the_run(tmp_path: Path) -> None:
    home, folder, port = tmp_path / "home", tmp_path / "run", free_ports(1)[0]
    site = Site(ROOT, folder, Ports(port, 0, 0, 0, 0, (), (), ()), 1)
    for made in (home, folder):
        made.mkdir()
    command = [str(anvil(ROOT)), *chain_arguments(site)]
    process = subprocess.Popen(command, env=child_environment({"HOME": str(home)}), stdout=subprocess.DEVNULL)
    try:
        client = ChainClient(site.rpc_url, CHAIN_ID, 120)
        _until(lambda: client.head().number >= 0)
        client.rpc("anvil_mine", hex(4 * STATES))
        _until(lambda: any(site.chain_states.rglob("*.json")))
        assert len(list(site.chain_states.rglob("*.json"))) <= STATES and not list(home.rglob("*.json"))
    finally:
        process.terminate()
        assert process.wait(60) == 0


def _until(holds: Callable[[], bool], wait_s: float = 60) -> None:
    end, pause = time.monotonic() + wait_s, threading.Event()
    while time.monotonic() < end:
        with contextlib.suppress(Unavailable):
            if holds():
                return
        pause.wait(0.1)
    raise AssertionError("it does not come true")
