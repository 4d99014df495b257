"""What a killed operator leaves behind: one receipt for one request, no number lost, and checkpoints that are verified."""

import json
import shutil
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from sqlalchemy import delete

from bytewise.inference.native.library import kernels
from bytewise.service.clock import monotonic_s
from bytewise.service.exit_codes import Exit
from bytewise.storage.checkpoints import read_checkpoint
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.tables import JournalRow
from chain.reads.reader import SnapshotReader
from cli.__main__ import main
from cli.demo.site import free_ports
from serving.wiring import HTTP_DRAIN_S, TICK_DRAIN_S, WORK_DRAIN_S
from tests.fixtures.serving.operator_site import (
    READY_S,
    ROOT,
    Operator,
    body,
    process,
    running_operator_site,
    serving,
    wait_ready,
)
from tests.fixtures.storage.databases import empty_database

BODY = json.dumps(body("Remember me.")).encode()
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with running_operator_site(tmp_path_factory.mktemp("crash")) as made:
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


@contextmanager
def connection(site: Operator) -> Iterator[ssl.SSLSocket]:
    """A client's, which reads no answer."""
    context = ssl.create_default_context(cafile=str(site.folder / "tls.pem"))
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as raw:
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as tls:
            yield tls


def head(length: int) -> bytes:
    """Of a request with a body of that length."""
    lines = ("POST /v1/chat/completions HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {length}")
    return "\r\n".join((*lines, "", "")).encode()


def ask(site: Operator, text: str) -> None:
    with site.http() as http:
        reply = http.post(f"{site.url}/v1/chat/completions", json=body(text))
    assert reply.status_code == 200, reply.text


def await_that(site: Operator, condition: Callable[[], bool]) -> None:
    deadline = monotonic_s() + READY_S
    while not condition():
        assert monotonic_s() < deadline, site.log()
        threading.Event().wait(0.1)


def checkpoints(site: Operator) -> list[Path]:
    return sorted((site.folder / "points").glob("*.checkpoint"))


def kept(site: Operator, least: int) -> str:
    """A copy of the newest checkpoint, as somebody else keeps it, once one covers so many entries."""
    await_that(site, lambda: any(read_checkpoint(each).checkpoint.size >= least for each in checkpoints(site)[-1:]))
    return str(shutil.copyfile(newest := checkpoints(site)[-1], site.folder / f"kept-{newest.name}"))


def with_history(site: Operator) -> None:
    """Makes an anchored receipt and a checkpoint, unless an earlier test did."""
    if not checkpoints(site):
        with killed(site):
            ask(site, "For the record.")
            site.wait_anchored(1)
            kept(site, 1)


def verified(site: Operator, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, object]:
    """What `bytewise journal verify` finds."""
    capsys.readouterr()
    code = main(["journal", "verify", "--config", config_of(site), "--output", "json", *more])
    said = capsys.readouterr()
    assert code == Exit.OK, said.err
    found: dict[str, object] = json.loads(said.out)
    return found


def test_killed_operator_returns_its_answer_and_continues_its_checkpoints(
    site: Operator, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt_store = site.receipt_store
    with killed(site):
        with connection(site) as client:
            client.sendall(head(len(BODY)) + BODY)
        await_that(site, lambda: receipt_store.last_issued() > 0)
    stored = receipt_store.unbatched(1) or receipt_store.in_batch(1)
    with killed(site), site.http() as http:
        headers = JSON | {"x-stainless-retry-count": "1"}
        answer = http.post(f"{site.url}/v1/chat/completions", content=BODY, headers=headers).json()
        assert answer["receipt"]["signed"]["signature"] == "0x" + stored[0].signature.hex()
        assert receipt_store.last_issued() == 1
        site.wait_anchored(1)
        first = kept(site, 1)
    reader = SnapshotReader(site.anvil.client, site.network)
    assert len(reader.batches(site.network.deploy_block, reader.head())) == 1
    before = verified(site, capsys, "--checkpoint", first)
    assert isinstance(before["entries"], int) and isinstance(before["checkpoints"], int)
    assert before["entries"] >= read_checkpoint(Path(first)).checkpoint.size and before["checkpoints"] >= 2
    with killed(site):
        ask(site, "And this.")
        second = kept(site, before["entries"] + 1)
        ask(site, "The kill follows this at once.")
    after = verified(site, capsys, "--checkpoint", first, "--checkpoint", second, "--head", str(before["head"]))
    assert isinstance(after["entries"], int) and after["entries"] > before["entries"]
    assert after["keys"] == before["keys"], "a restart makes no new keys"


def test_one_operator_of_a_database_runs_and_ends_beside_an_open_request(site: Operator) -> None:
    """The end has a bound for each part, and their sum is below the ten seconds that a process may take."""
    assert HTTP_DRAIN_S + WORK_DRAIN_S < 10 and TICK_DRAIN_S < WORK_DRAIN_S
    second = site.folder / "second.toml"
    settings = (site.folder / "operator.toml").read_text()
    # A copy of the key, because one file admits one process only.
    shutil.copy(site.folder / "operator.key", site.folder / "copied.key")
    second.write_text(settings.replace(str(site.port), str(free_ports(1)[0])).replace('"operator.key"', '"copied.key"'))
    with serving(site) as first:
        with process(site.folder, "serving", "--config", str(second), exit_code=Exit.REFUSED) as child:
            assert child.wait(60) == Exit.REFUSED
        assert "LeaseTaken" in site.log() and f":{first.pid}:" in site.log() and first.poll() is None
        with connection(site) as client:
            client.sendall(head(100) + b"{")
            first.terminate()
            assert first.wait(60) == Exit.OK
    assert not kernels() or "engine.torch" not in (site.folder / "serving.log").read_text()


def test_without_the_c_engine_one_line_says_that_torch_is_used(site: Operator, tmp_path: Path) -> None:
    written = len((site.folder / "serving.log").read_text())
    for package in ("bytewise", "serving", "chain", "kms"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("node_modules", "_engine*"))
    with process(site.folder, "serving", "--config", config_of(site), root=tmp_path) as child:
        wait_ready(site, child)
    lines = (site.folder / "serving.log").read_text()[written:].splitlines()
    (told,) = [json.loads(line) for line in lines if "engine.torch" in line]
    assert "no C engine" in told["why"] and "make install" in told["why"]


def test_database_behind_the_chain_is_refused(site: Operator) -> None:
    with_history(site)
    other = site.folder / "restored.toml"
    (site.folder / "empty.db").write_bytes(empty_database())
    other.write_text((site.folder / "operator.toml").read_text().replace("operator.db", "empty.db"))
    with process(site.folder, "serving", "--config", str(other), exit_code=Exit.INTERNAL) as child:
        assert child.wait(60) == Exit.INTERNAL
    assert "R-55" in site.log()


def test_operator_without_opt_in_stays_up_and_computes_no_answer(site: Operator) -> None:
    before = site.receipt_store.last_issued()
    strict = site.folder / "strict.toml"
    strict.write_text((site.folder / "operator.toml").read_text().replace("simulated = true", ""))
    with process(site.folder, "serving", "--config", str(strict)) as child, site.http() as http:

        def refuses(method: str, url: str, asked: object = None) -> bool:
            try:
                answer = http.request(method, url, json=asked)
            except httpx2.TransportError:
                return False
            assert answer.status_code == 503
            return "accept.simulated" in answer.text

        await_that(site, lambda: refuses("GET", f"{site.url}/health"))
        assert refuses("GET", f"{site.metrics_url}/readyz")
        assert refuses("POST", f"{site.url}/v1/chat/completions", body("Refuse me."))
        assert child.poll() is None
    assert site.receipt_store.last_issued() == before


def test_operator_with_a_cut_journal_signs_no_checkpoint(site: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    with_history(site)
    last = checkpoints(site)[-1]
    signed = last.read_bytes()
    with write_transaction(open_database(site.database_url)) as connection:
        connection.execute(delete(JournalRow).where(JournalRow.number >= read_checkpoint(last).checkpoint.size - 1))
    assert main(["journal", "verify", "--config", config_of(site), "--checkpoint", str(last)]) == 2
    assert "its end was cut off" in capsys.readouterr().err
    with killed(site):
        await_that(site, lambda: "checkpoint.refused" in (site.folder / "serving.log").read_text())
    assert checkpoints(site)[-1] == last and last.read_bytes() == signed
