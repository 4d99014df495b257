"""The duty that signs checkpoints of the journal, in the operator's own process: what a killed one left is verified."""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import delete

from bytewise.service.clock import monotonic_s
from bytewise.service.exit_codes import Exit
from bytewise.storage.checkpoints import read_checkpoint
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.tables import JournalRow
from cli.__main__ import main
from tests.fixtures.serving.operator_site import READY_S, Operator, body, process, running_operator_site, wait_ready


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with running_operator_site(tmp_path_factory.mktemp("checkpoints")) as made:
        settings = made.folder / "operator.toml"
        settings.write_text(f'role = "operator"\n{settings.read_text()}\n[checkpoints]\nfolder = "points"\nevery_s = 1\n')
        yield made


def config_of(site: Operator) -> str:
    return str(site.folder / "operator.toml")


@contextmanager
def killed(site: Operator) -> Iterator[None]:
    """The operator's process, which gets SIGKILL at the end of the block."""
    with process(site.folder, "serving", "--config", config_of(site), exit_code=-signal.SIGKILL) as child:
        wait_ready(site, child)
        yield
        child.kill()
        child.wait(60)


def ask(site: Operator, text: str) -> None:
    with site.http() as http:
        reply = http.post(f"{site.url}/v1/chat/completions", json=body(text))
    assert reply.status_code == 200, reply.text


def newest(site: Operator, least: int) -> Path:
    """The newest checkpoint, once one covers so many entries."""
    deadline = monotonic_s() + READY_S
    while True:
        files = sorted((site.folder / "points").glob("*.checkpoint"))
        if files and read_checkpoint(files[-1]).checkpoint.size >= least:
            return files[-1]
        assert monotonic_s() < deadline, site.log()
        threading.Event().wait(0.1)


def verified(site: Operator, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, object]:
    """What `bytewise journal verify` finds."""
    capsys.readouterr()
    code = main(["journal", "verify", "--config", config_of(site), "--output", "json", *more])
    said = capsys.readouterr()
    assert code == Exit.OK, said.err
    found: dict[str, object] = json.loads(said.out)
    return found


def keep(site: Operator, file: Path) -> str:
    """A copy of a checkpoint, as somebody else keeps it."""
    kept = site.folder / f"kept-{file.name}"
    kept.write_bytes(file.read_bytes())
    return str(kept)


def test_journal_of_a_killed_operator_continues_its_checkpoints(site: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    with killed(site):
        ask(site, "Sign this.")
        first = keep(site, newest(site, 1))
    before = verified(site, capsys, "--checkpoint", first)
    assert isinstance(before["entries"], int) and isinstance(before["checkpoints"], int)
    assert before["entries"] >= read_checkpoint(Path(first)).checkpoint.size and before["checkpoints"] >= 2
    with killed(site):
        ask(site, "And this.")
        second = keep(site, newest(site, before["entries"] + 1))
        ask(site, "The kill follows this at once.")
    after = verified(site, capsys, "--checkpoint", first, "--checkpoint", second, "--head", str(before["head"]))
    assert isinstance(after["entries"], int) and after["entries"] > before["entries"]
    assert after["keys"] == before["keys"], "a restart makes no new keys"


def test_operator_with_a_cut_journal_signs_no_checkpoint(site: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    with killed(site):
        ask(site, "The entries of this will be gone.")
        kept = keep(site, newest(site, 1))
    last = read_checkpoint(Path(kept)).checkpoint.size - 1
    with write_transaction(open_database(site.database_url)) as connection:
        connection.execute(delete(JournalRow).where(JournalRow.number >= last))
    assert main(["journal", "verify", "--config", config_of(site), "--checkpoint", kept]) == 2
    assert "its end was cut off" in capsys.readouterr().err
    with killed(site):
        deadline = monotonic_s() + READY_S
        while "checkpoint.refused" not in (site.folder / "serving.log").read_text():
            assert monotonic_s() < deadline, site.log()
            threading.Event().wait(0.1)
    assert Path(kept).read_bytes() == newest(site, 1).read_bytes()
