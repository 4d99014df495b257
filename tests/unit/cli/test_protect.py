"""`bytewise member export-votes` on real databases: what an operator does after exit code 6."""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bytewise.protocol import encoding
from bytewise.protocol.errors.actors import LeaseStopped, ProtectionMissing
from bytewise.protocol.units import Blob
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit, advice_of
from bytewise.storage.engine import open_database
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.protection import Protection
from chain.sending.keys import save_signer
from cli.__main__ import main
from tests.fixtures.builders import signer
from tests.fixtures.cli.operator_database import operator_file
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.storage.stored_records import vote
from tests.fixtures.verifier.node_file import node_file
from tests.fixtures.verifier.verifier_fixture import NETWORK

KEY = signer("protect")


class Member(NamedTuple):
    """The database and settings file of a member that does not run."""

    config: Path
    table: Protection
    lease: NonceLease

    def protect(self, verb: str, *arguments: Path) -> int:
        """Runs one verb on it; the exit code."""
        return main(["member", verb, "--config", str(self.config), *map(str, arguments)])


def member(folder: Path) -> Member:
    """A new one."""
    folder.mkdir()
    url = f"sqlite:///{folder / 'actor.db'}"
    (folder / "actor.db").write_bytes(empty_database())
    save_signer(folder / "account.key", KEY)
    (folder / "network.json").write_bytes(encoding.encode(NETWORK))
    engine, clock = open_database(url), SystemClock()
    return Member(node_file(folder, url), Protection(engine, clock), NonceLease(engine, clock, NETWORK.chain_id, KEY.address))


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Member]:
    """A member that voted in two disputes."""
    made = member(tmp_path / "old")
    made.table.sign_once(vote(dispute=1), Blob(b"quote"))
    made.table.sign_once(vote(dispute=2), Blob(b""))
    yield made
    made.lease.engine.dispose()


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Member]:
    """The same account with an empty table."""
    made = member(tmp_path / "new")
    yield made
    made.lease.engine.dispose()


def test_member_and_its_votes_move_to_another_machine(old: Member, new: Member, tmp_path: Path) -> None:
    file = tmp_path / "votes.json"
    new.table.sign_once(vote(dispute=3), Blob(b""))
    assert old.protect("export-votes", file) == Exit.OK
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert encoding.encode(encoding.parse(file.read_bytes())) == file.read_bytes()
    assert new.protect("import-votes", file) == Exit.OK
    assert new.protect("import-votes", file) == Exit.OK, "again changes nothing"
    assert {stored.vote for stored in new.table.rows()} == {vote(dispute=number) for number in (1, 2, 3)}


def test_export_overwrites_no_file(old: Member, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "votes.json"
    file.write_bytes(b"an older export")
    assert old.protect("export-votes", file) == Exit.USAGE
    assert file.read_bytes() == b"an older export" and "votes.json" in capsys.readouterr().err


def test_a_vote_that_contradicts_a_known_one_is_refused_and_none_is_added(old: Member, new: Member, tmp_path: Path) -> None:
    file = tmp_path / "votes.json"
    new.table.sign_once(vote(dispute=2, says=8), Blob(b""))
    before = new.table.rows()
    assert old.protect("export-votes", file) == Exit.OK
    assert new.protect("import-votes", file) == Exit.REFUSED
    assert new.table.rows() == before


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format":"bytewise-protection-1","votes":[{}]}', None])
def test_a_file_that_is_no_export_is_named(
    new: Member, tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "something.json"
    if content is not None:
        file.write_bytes(content)
    assert new.protect("import-votes", file) == Exit.USAGE
    assert "something.json" in capsys.readouterr().err


def test_nothing_is_done_while_the_member_runs(old: Member, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, full = tmp_path / "votes.json", tmp_path / "full.json"
    assert old.protect("export-votes", full) == Exit.OK
    old.lease.stop("nonce 3 was used by somebody else")
    old.lease.acquire()
    for verb, *files in (("export-votes", out), ("import-votes", full), ("resume",)):
        assert old.protect(str(verb), *map(Path, files)) == Exit.REFUSED
        said = " ".join(capsys.readouterr().err.split())
        assert "is held by" in said and "Stop the process" in said
    assert not out.exists() and old.lease.stop_reason()
    old.lease.release()
    assert old.protect("export-votes", out) == Exit.OK


def test_operator_resumes_a_stopped_account(old: Member, capsys: pytest.CaptureFixture[str]) -> None:
    old.lease.stop("nonce 3 was used by somebody else")
    assert old.protect("resume") == Exit.OK
    assert "nonce 3 was used by somebody else" in capsys.readouterr().out and not old.lease.stop_reason()
    assert old.protect("resume") == Exit.OK
    assert "was not stopped" in capsys.readouterr().out
    assert old.lease.acquire() > 0, "the verb gave the nonce lease back"


def test_stopped_account_of_an_operator_is_resumed(old: Member, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = operator_file(old.config.parent, f"sqlite:///{old.config.parent / 'actor.db'}")
    old.lease.stop("nonce 3 was used by somebody else")
    assert main(["member", "resume", "--config", str(config)]) == Exit.OK, capsys.readouterr()
    assert "nonce 3 was used by somebody else" in capsys.readouterr().out and not old.lease.stop_reason()
    assert main(["member", "export-votes", "--config", str(config), str(tmp_path / "votes.json")]) == Exit.USAGE
    assert "operator" in capsys.readouterr().err


def test_advice_names_the_command_that_helps() -> None:
    assert "member import-votes" in advice_of(ProtectionMissing("0x01", 1))[1]
    code, advice = advice_of(LeaseStopped(KEY.address, "somebody else"))
    assert code is Exit.REFUSED and "find out who" in advice and "member resume" in advice
