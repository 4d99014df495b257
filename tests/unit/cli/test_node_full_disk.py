"""A node whose disk fills up while it runs, and one that starts on a full disk: each says so, and nothing stored is lost."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import text

from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import child_environment
from bytewise.storage.engine import open_database, read_transaction, write_transaction
from bytewise.storage.nonce_lease import NonceLease
from chain.client.address_book import write_network
from cli.__main__ import main
from cli.demo.site import free_ports
from cli.node.roles import NodeRole
from cli.node.view import NodeView
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import deployed
from tests.skips import may_mount
from tests.source import ROOT

WAIT_S = 240
SIZE = "160m"
"""More than twice what a node keeps free (`verifier.node.RESERVE_BYTES`)."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which a test can fill."""
    if not may_mount():
        pytest.skip("mounting a file system needs CAP_SYS_ADMIN")
    at = tmp_path / "disk"
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", str(at)], check=True, timeout=30)
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True, timeout=30)


def fill(disk: Path) -> Path:
    """The file that takes the last byte."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(2**16)):
            pass
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(b"."):
            pass
    return filler


def wait_for(log: Path, *words: str, after: int = 0) -> int:
    """Waits for a line with all these words; the length of the log by then."""
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        if any(all(word in line for word in words) for line in log.read_text()[after:].splitlines()):
            return len(log.read_text())
        time.sleep(0.2)
    pytest.fail(f"no line with {words}: {log.read_text()[after:][-4000:]}")


@contextmanager
def running(config: Path, log: Path) -> Iterator[None]:
    """The node beside the block; it must stop cleanly and print no traceback."""
    with log.open("ab") as file:
        command = [sys.executable, "-m", "cli", "run", "--config", str(config)]
        node = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=file, stdout=file)
    try:
        yield
        assert node.poll() is None, log.read_text()
    finally:
        node.send_signal(signal.SIGTERM)
        code = node.wait(60)
    assert code == Exit.OK and "Traceback" not in log.read_text(), log.read_text()


def test_full_disk_stops_new_work_and_loses_nothing(anvil: Anvil, disk: Path, tmp_path: Path) -> None:
    """The row of the nonces stands for all that was stored before: it must be there at the end, in a sound database."""
    write_network(tmp_path / "network.json", deployed(anvil))
    anvil.automine(True)
    config, log = disk / "node" / "bytewise.toml", tmp_path / "log"
    words = ["init", "--role", NodeRole.WATCHTOWER, str(config.parent), "--network", str(tmp_path / "network.json")]
    assert main([*words, "--rpc", anvil.url, "--da", "http://127.0.0.1:1"]) == Exit.OK
    config.write_text(config.read_text().replace("port = 9464", f"port = {free_ports(1)[0]}"))
    view = NodeView(config)
    lease = NonceLease(view.database, SystemClock(), view.network.chain_id, view.account)
    lease.acquire()
    with write_transaction(view.database) as connection:
        lease.take_nonce_in(connection, 7)
    lease.release()

    with running(config, log):
        seen = wait_for(log, '"key_epoch.reported"')
        filler = fill(disk)
        anvil.mine(1)
        wait_for(log, '"check.failed"', '"guard_disk"', "Free space", after=seen)
    seen = len(log.read_text())
    with running(config, log):
        wait_for(log, '"node.not_ready"', '"disk"', "0.0 GiB free", after=seen)
        wait_for(log, '"process.restarting"', after=seen)
        assert "disk" in log.read_text()[seen:]
        filler.unlink()
        wait_for(log, '"node.started"', after=seen)
    with read_transaction(open_database(view.database_url)) as connection:
        assert connection.execute(text("PRAGMA integrity_check")).scalar_one() == "ok"
        assert connection.execute(text("SELECT next_nonce FROM nonce_lease")).scalar_one() == 8
