"""What a killed operator leaves behind: one receipt for one request, and no number lost."""

import json
import shutil
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from bytewise.inference.native.library import kernels
from bytewise.service.clock import monotonic_s
from bytewise.service.exit_codes import Exit
from bytewise.storage.migrate import migrate
from chain.reads.reader import SnapshotReader
from cli.demo.site import free_ports
from serving.wiring import HTTP_DRAIN_S, TICK_DRAIN_S, WORK_DRAIN_S
from tests.fixtures.serving.operator_site import (
    MODEL_NAME,
    READY_S,
    ROOT,
    Operator,
    process,
    running_operator_site,
    serving,
    wait_ready,
)


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with running_operator_site(tmp_path_factory.mktemp("crash")) as site:
        yield site


BODY = json.dumps({"model": MODEL_NAME, "messages": [{"role": "user", "content": "Remember me."}], "max_tokens": 8}).encode()


def post_and_leave(operator: Operator) -> None:
    """Sends the request and closes the connection without reading a byte of the answer."""
    context = ssl.create_default_context(cafile=str(operator.folder / "tls.pem"))
    with socket.create_connection(("127.0.0.1", operator.port), timeout=10) as raw:
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as tls:
            head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            tls.sendall(f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY)


def test_answer_signed_and_never_delivered_is_returned_after_a_crash(operator: Operator) -> None:
    receipt_store = operator.receipt_store
    config = str(operator.folder / "operator.toml")
    with process(operator.folder, "serving", "--config", config, exit_code=-signal.SIGKILL) as child:
        wait_ready(operator, child)
        post_and_leave(operator)
        deadline = monotonic_s() + READY_S
        while receipt_store.last_issued() < 1:
            assert monotonic_s() < deadline
        child.kill()
    stored = receipt_store.unbatched(1) or receipt_store.in_batch(1)
    with serving(operator), operator.http() as http:
        headers = {"content-type": "application/json", "x-stainless-retry-count": "1"}
        answer = http.post(f"{operator.url}/v1/chat/completions", content=BODY, headers=headers).json()
        assert answer["receipt"]["signed"]["signature"] == "0x" + stored[0].signature.hex()
        assert receipt_store.last_issued() == 1
        operator.wait_anchored(1)
    reader = SnapshotReader(operator.anvil.client, operator.network)
    assert len(reader.batches(operator.network.deploy_block, reader.head())) == 1


def test_second_operator_on_one_database_ends_and_names_the_first(operator: Operator) -> None:
    second = operator.folder / "second.toml"
    settings = (operator.folder / "operator.toml").read_text()
    # A copy of the key, because one file admits one process only.
    shutil.copy(operator.folder / "operator.key", operator.folder / "copied.key")
    second.write_text(settings.replace(str(operator.port), str(free_ports(1)[0])).replace('"operator.key"', '"copied.key"'))
    with serving(operator) as first:
        with process(operator.folder, "serving", "--config", str(second), exit_code=Exit.REFUSED) as child:
            assert child.wait(60) == Exit.REFUSED
        assert "LeaseTaken" in operator.log() and f":{first.pid}:" in operator.log() and first.poll() is None


def test_without_the_c_engine_one_line_says_that_torch_is_used(operator: Operator, tmp_path: Path) -> None:
    config = str(operator.folder / "operator.toml")
    with process(operator.folder, "serving", "--config", config) as child:
        wait_ready(operator, child)
    assert "engine.torch" not in operator.log() or not kernels()
    written = len((operator.folder / "serving.log").read_text())
    for package in ("bytewise", "serving", "chain", "kms"):
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("node_modules", "__pycache__", "_engine*")
        )
    with process(operator.folder, "serving", "--config", config, root=tmp_path) as child:
        wait_ready(operator, child)
    lines = (operator.folder / "serving.log").read_text()[written:].splitlines()
    (told,) = [json.loads(line) for line in lines if "engine.torch" in line]
    assert "no C engine" in told["why"] and "make install" in told["why"]


def test_operator_ends_while_a_client_keeps_its_request_open(operator: Operator) -> None:
    """The end has a bound for each part, and their sum is below the ten seconds that a process may take."""
    assert HTTP_DRAIN_S + WORK_DRAIN_S < 10 and TICK_DRAIN_S < WORK_DRAIN_S
    context = ssl.create_default_context(cafile=str(operator.folder / "tls.pem"))
    with process(operator.folder, "serving", "--config", str(operator.folder / "operator.toml")) as child:
        wait_ready(operator, child)
        with (
            socket.create_connection(("127.0.0.1", operator.port), timeout=10) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1") as tls,
        ):
            tls.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            child.terminate()
            assert child.wait(60) == Exit.OK


def test_database_behind_the_chain_is_refused(operator: Operator) -> None:
    config = operator.folder / "operator.toml"
    other = operator.folder / "restored.toml"
    empty = f"sqlite:///{operator.folder / 'empty.db'}"
    migrate(empty)
    other.write_text(config.read_text().replace(operator.database_url, empty))
    with process(operator.folder, "serving", "--config", str(other), exit_code=Exit.INTERNAL) as child:
        assert child.wait(60) == Exit.INTERNAL
    assert "R-55" in operator.log()


def test_operator_without_opt_in_seals_nothing_to_a_simulated_epoch(operator: Operator) -> None:
    receipt_store = operator.receipt_store
    before = receipt_store.last_issued()
    strict = operator.folder / "strict.toml"
    strict.write_text((operator.folder / "operator.toml").read_text().replace("simulated = true", ""))
    body = BODY.replace(b"Remember", b"Refuse")
    with process(operator.folder, "serving", "--config", str(strict), exit_code=Exit.INTERNAL) as child:
        wait_ready(operator, child)
        with operator.http() as http:
            answer = http.post(f"{operator.url}/v1/chat/completions", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 500 and "error" in answer.json()
        assert child.wait(60) == Exit.INTERNAL
    assert receipt_store.last_issued() == before
    assert "accept.simulated" in operator.log()
