"""The lease of a member's nonce lease is held from start to end of its process: real processes beside a real chain."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import select

from bytewise.protocol.units import Blob
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import child_environment
from bytewise.storage.engine import open_database, read_transaction
from bytewise.storage.nonce_lease import DEFAULT_TTL_S
from bytewise.storage.protection import Protection
from bytewise.storage.tables import NonceLeaseRow
from chain.client.address_book import write_network
from chain.sending.keys import save_signer
from tests.fixtures.chain.anvil import Anvil, running_anvil
from tests.fixtures.chain.devnet import VERIFIERS, deployed
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.storage.stored_records import vote
from tests.fixtures.verifier.node_file import node_file
from tests.source import ROOT

MEMBER = VERIFIERS[0]
LIMIT_S = 60


class Place(NamedTuple):
    """A network without anything to do, and the settings of one member of it."""

    anvil: Anvil
    folder: Path

    def start(self, ready: str = "ready", **changes: Any) -> subprocess.Popen[bytes]:
        """The member as its own process; its log is `ready`.log."""
        config = node_file(self.folder, self.url, self.anvil.url, ready_file=ready, **changes)
        config = config.rename(self.folder / f"{ready}.json")
        with (self.folder / f"{ready}.log").open("wb") as log:
            command = [sys.executable, "-m", "committee", "--config", str(config)]
            return subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=log)

    @contextmanager
    def running(self, ready: str = "ready", **changes: Any) -> Iterator[subprocess.Popen[bytes]]:
        """The member, idle: it has ticked once, and nothing is open. Ends with a kill, if it has not ended before."""
        process = self.start(ready, **changes)
        try:
            while not (self.folder / ready).exists():
                assert process.poll() is None, self.said(ready)
                self.anvil.mine()
                threading.Event().wait(0.1)
            yield process
        finally:
            process.kill()
            process.wait(LIMIT_S)

    def said(self, ready: str) -> str:
        """What the process with that log said."""
        return (self.folder / f"{ready}.log").read_text()

    def protect(self, verb: str, *files: Path, config: str = "ready") -> subprocess.CompletedProcess[str]:
        """One verb of `bytewise member export-votes`, as its own process."""
        where = ["--config", str(self.folder / f"{config}.json"), *map(str, files)]
        command = [sys.executable, "-m", "cli", "member", verb, *where]
        return subprocess.run(
            command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False
        )

    def copied_key(self) -> dict[str, str]:
        """Settings `[signer]` of another machine: a copy of the key file, whose lock is another."""
        (self.folder / "copy.key").write_bytes((self.folder / "account.key").read_bytes())
        (self.folder / "copy.key").chmod(0o600)
        return {"key_file": "copy.key"}

    def other_database(self) -> dict[str, str]:
        """Settings `[db]` of an empty one."""
        (self.folder / "other.db").write_bytes(empty_database())
        return {"url": f"sqlite:///{self.folder / 'other.db'}"}

    @property
    def url(self) -> str:
        """Of the member's database."""
        return f"sqlite:///{self.folder / 'actor.db'}"

    def leased_for(self) -> int:
        """Seconds until the nonce lease is free by itself."""
        with read_transaction(open_database(self.url)) as connection:
            until: int = connection.execute(select(NonceLeaseRow.leased_until)).scalar_one()
        return until - SystemClock().now()


@pytest.fixture(scope="module")
def anvil() -> Iterator[Anvil]:
    with running_anvil() as anvil:
        yield anvil


@pytest.fixture(scope="module")
def book(anvil: Anvil, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("book") / "network.json"
    write_network(file, deployed(anvil))
    return file


def make_place(anvil: Anvil, book: Path, folder: Path) -> Place:
    (folder / "network.json").write_bytes(book.read_bytes())
    save_signer(folder / "account.key", MEMBER)
    (folder / "actor.db").write_bytes(empty_database())
    made = Place(anvil, folder)
    Protection(open_database(made.url), SystemClock()).sign_once(vote(dispute=1), Blob(b""))
    return made


@pytest.fixture
def place(anvil: Anvil, book: Path, tmp_path: Path) -> Place:
    return make_place(anvil, book, tmp_path)


class Busy(NamedTuple):
    """A place with a running member, beside which nothing else may act."""

    place: Place
    member: subprocess.Popen[bytes]


@pytest.fixture(scope="module")
def busy(anvil: Anvil, book: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    place = make_place(anvil, book, tmp_path_factory.mktemp("busy"))
    with place.running() as member:
        yield Busy(place, member)
        assert member.poll() is None


def test_votes_are_not_exported_beside_an_idle_running_member(busy: Busy, tmp_path: Path) -> None:
    out, old = tmp_path / "votes.json", tmp_path / "old.json"
    old.write_bytes(Protection(open_database(busy.place.url), SystemClock()).export())
    for verb, *files in (("export-votes", out), ("import-votes", old), ("resume",)):
        refused = busy.place.protect(str(verb), *map(Path, files))
        said = " ".join(refused.stderr.split())
        assert refused.returncode == Exit.REFUSED, f"{verb}: {refused.stdout}{said}"
        assert f"used by process {busy.member.pid}" in said and "Stop the process" in said
    assert not out.exists() and busy.member.poll() is None


def test_votes_are_not_exported_on_another_machine_beside_a_running_member(busy: Busy, tmp_path: Path) -> None:
    place = busy.place
    node_file(place.folder, place.url, signer=place.copied_key()).rename(place.folder / "elsewhere.json")
    refused = place.protect("export-votes", tmp_path / "votes.json", config="elsewhere")
    assert refused.returncode == Exit.REFUSED and f":{busy.member.pid}:" in refused.stderr.replace("\n", "")
    assert not (tmp_path / "votes.json").exists()


def await_contest(busy: Busy, second: subprocess.Popen[bytes]) -> None:
    """Waits until the running member has counted the process that was refused: at its next renewal."""
    deadline = monotonic_s() + LIMIT_S
    found = f":{second.pid}:"
    while not any(found in line for line in busy.place.said("ready").splitlines() if '"nonce_lease.contested"' in line):
        assert monotonic_s() < deadline, busy.place.said("ready")
        threading.Event().wait(0.1)


@pytest.mark.parametrize("shares_database", [False, True], ids=["own database", "same database"])
def test_second_process_of_a_key_file_ends_with_one_line(busy: Busy, shares_database: bool) -> None:
    """The nonce lease does not see it: it is in a database of its own."""
    place, changes = busy.place, {} if shares_database else {"db": busy.place.other_database()}
    second = place.start("second", **changes)
    assert second.wait(LIMIT_S) == Exit.REFUSED
    (line,) = [each for each in place.said("second").splitlines() if "process.failed" in each]
    assert f"used by process {busy.member.pid}" in line and "KeyInUse" in line and "Traceback" not in place.said("second")
    assert not (place.folder / "second").exists() and busy.member.poll() is None
    if shares_database:
        await_contest(busy, second)


def test_second_member_on_one_database_ends_and_names_the_first(busy: Busy) -> None:
    place = busy.place
    second = place.start("second", signer=place.copied_key())
    assert second.wait(LIMIT_S) == Exit.REFUSED, "it does not run beside the first"
    assert place.said("second").count("nonce_lease.refused") == 1, "said once, not at each attempt"
    assert f":{busy.member.pid}:" in place.said("second") and "LeaseTaken" in place.said("second")
    await_contest(busy, second)
    assert not (place.folder / "second").exists() and busy.member.poll() is None


def test_killed_member_frees_its_key_at_once_and_its_account_after_a_lease(place: Place, tmp_path: Path) -> None:
    with place.running() as member:
        member.kill()
        member.wait(LIMIT_S)
        assert place.leased_for() <= DEFAULT_TTL_S
    with place.running("again", db=place.other_database()) as member:
        member.terminate()
        assert member.wait(LIMIT_S) == 0
    while place.leased_for() > 0:
        threading.Event().wait(0.2)
    done = place.protect("export-votes", tmp_path / "votes.json")
    assert done.returncode == Exit.OK, done.stderr


def test_member_that_slept_past_its_lease_ends_when_another_took_over(place: Place, tmp_path: Path) -> None:
    """The other waits at its start until the lease is over, and gives it back at once when it ends well."""
    with place.running() as first:
        first.send_signal(signal.SIGSTOP)
        with place.running("second", signer=place.copied_key()) as second:
            first.send_signal(signal.SIGCONT)
            assert first.wait(LIMIT_S) in (Exit.REFUSED, Exit.INTERNAL) and "LeaseLost" in place.said("ready")
            assert second.poll() is None, place.said("second")
            second.terminate()
            assert second.wait(LIMIT_S) == 0
    done = place.protect("export-votes", tmp_path / "votes.json")
    assert done.returncode == Exit.OK and (tmp_path / "votes.json").exists(), done.stderr
