"""A store as a process with a section `[metrics]`: what it serves beside blobs, its health check, and a port that is taken."""

import contextlib
import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from bytewise.da.settings import StoreSettings
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.settings import child_environment, load_settings
from tests.source import ROOT


def settings(folder: Path, port: int) -> Path:
    """A settings file; the store's own port is any free one."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    file = folder / "store.toml"
    file.write_text(f'directory = "{folder / "blobs"}"\nport = {own}\n\n[metrics]\nport = {port}\n')
    return file


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """The address of the listener of a store that serves."""
    command = [sys.executable, "-m", "bytewise.da", "serve", "--config", str(settings(folder, 0))]
    process = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = next(each for each in process.stderr if "metrics.served" in each)
        yield f"http://127.0.0.1:{json.loads(line)['port']}"
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0


def probe(url: str) -> int:
    command = [sys.executable, "-m", "bytewise.service.probe", url]
    return subprocess.run(command, cwd=ROOT, env=child_environment(), timeout=60, check=False).returncode


def test_store_serves_its_metrics_and_is_healthy(tmp_path: Path) -> None:
    with running(tmp_path) as url:
        assert (probe(f"{url}/livez"), probe(f"{url}/readyz")) == (0, 0)
        with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
            text = answer.read().decode()
    assert 'bytewise_da_store_requests_total{op="put"} 0.0\n' in text and 'bytewise_readiness{check="disk"} 1.0\n' in text
    assert 'bytewise_config_info{network="",role="da",strategy=""} 1.0\n' in text and "bytewise_account_balance_wei" not in text


def test_listener_without_a_port_ends_the_start_with_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"metrics\.port: 70000 is no TCP port"):
        load_settings(StoreSettings, settings(tmp_path, 70000))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "bytewise.da", "serve", "--config", str(settings(tmp_path, port))]
        done = subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=60, check=False)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 64 and f"metrics.port: 127.0.0.1:{port}: " in json.loads(line)["detail"]
