"""A store as a real process on a free port, or the proxy that `BYTEWISE_DA_URL` names."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from bytewise.service.clock import monotonic_s
from bytewise.service.settings import child_environment, developer_variable
from cli.demo.site import free_ports
from tests.source import ROOT

START_TIMEOUT_S = 60.0


def wait_until_healthy(url: str, process: "subprocess.Popen[bytes]") -> None:
    """Returns when the process answers; fails if it ends first or takes too long."""
    deadline, idle = monotonic_s() + START_TIMEOUT_S, threading.Event()
    while monotonic_s() < deadline:
        assert process.poll() is None, f"ended with {process.returncode}"
        try:
            if httpx2.get(f"{url}/health", timeout=1.0, trust_env=False).status_code == 200:
                return
        except httpx2.TransportError:
            idle.wait(0.05)
    raise AssertionError("the store does not answer")


def run_store(folder: Path, **extra: str) -> Iterator[str]:
    """The URL of a store that lives as long as the generator; asserts its exit code."""
    [port] = free_ports(1)
    config = folder / "da.toml"
    lines = [f'directory = "blobs"\nport = {port}\n', *(f"{name} = {value}\n" for name, value in extra.items())]
    config.write_text("".join(lines))
    command = [sys.executable, "-m", "bytewise.da", "serve", "--config", str(config)]
    with (folder / "da.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stdout=log, stderr=log)
        try:
            wait_until_healthy(f"http://127.0.0.1:{port}", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(timeout=60)
    assert code == 0


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Whom the conformance suite asks."""
    external = developer_variable("DA_URL")
    if external is not None:
        yield external.rstrip("/")
        return
    yield from run_store(tmp_path_factory.mktemp("store"), memstore="true")


@pytest.fixture(scope="session")
def second_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Another store, which knows none of the first one's blobs."""
    yield from run_store(tmp_path_factory.mktemp("second"), memstore="true")
