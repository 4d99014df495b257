"""The HTTP API over a real server, without a model: what it logs of a failed request, and how long it waits for a body."""

import io
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx2
import pytest
import uvicorn

from bytewise.protocol.records.request import Request
from bytewise.protocol.records.trace import Generated
from bytewise.service import telemetry
from bytewise.service.listener import listening_socket
from bytewise.storage.engine import open_database
from bytewise.storage.journal import Journal, journal_key
from serving.api import Gate, HeadTimedProtocol, build_api
from serving.pipeline import Pipeline, PipelineDeps
from serving.request_queue import RequestQueue
from serving.wiring import ServedModel
from tests.fixtures.builders import StubEngine
from tests.fixtures.kms.release_network import World
from tests.fixtures.serving.batch_scene import ANCHOR, OPERATOR, WITHIN_S, BatchScene
from tests.fixtures.serving.least_request import LEAST
from tests.fixtures.serving.offer import OFFER, StubTokenizer
from tests.fixtures.serving.open_readiness import OPEN

CANARY = "canary-51c0ffee"


class QuotingTokenizer(StubTokenizer):
    """Its error quotes what it cannot read, as errors of libraries do."""

    def render(self, messages: list[dict[str, str]]) -> tuple[int, ...]:
        raise ValueError(f"cannot render {messages}")


class QuotingEngine(StubEngine):
    """Fails in the engine's thread, with the prompt in the error."""

    def generate(self, request: Request) -> Generated:
        raise ValueError(f"no room for {bytes(request.prompt).decode()}")


@dataclass
class ServedApi:
    """The API of a pipeline over a real receipt store."""

    scene: BatchScene
    url: str
    port: int


@contextmanager
def served_api(
    folder: Path, tokenizer: StubTokenizer, engine: StubEngine, body_timeout_s: float = 60.0,
    protocol: type[HeadTimedProtocol] = HeadTimedProtocol,
) -> Iterator[ServedApi]:  # fmt: skip
    """Serves the API until the block ends."""
    scene, bugs = BatchScene(folder), list[BaseException]()
    scene.watch.update(replace(OPEN, epoch=World(folder / "kms").document.record), None)
    deps = PipelineDeps(
        engine=engine, tokenizer=tokenizer, operator=OPERATOR, gateway=OPERATOR, blobs=scene,
        receipt_store=scene.receipt_store,
        journal=Journal(open_database(f"sqlite:///{folder / 'db'}"), journal_key(folder / "journal.key"), scene),
        watch=scene.watch, clock=scene, rng=os.urandom, anchor=ANCHOR,
    )  # fmt: skip
    queue, gate = RequestQueue(deps.receipt_store.answer_from, 4, bugs.append), Gate()
    pipeline = Pipeline(OFFER, deps, WITHIN_S, accept_simulated=True)
    gate.service = ServedModel(
        OFFER.model_name, OPERATOR.address, 0, queue, scene.watch, 512, pipeline, deps.receipt_store, ANCHOR
    )
    app = build_api(gate, {}, 1 << 20, 60.0, body_timeout_s)
    server = uvicorn.Server(uvicorn.Config(app, http=protocol, log_config=None, lifespan="off"))
    with listening_socket("listen", "127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        port = listening.getsockname()[1]
        try:
            yield ServedApi(scene, f"http://127.0.0.1:{port}", port)
        finally:
            server.should_exit = True
            thread.join(60)
            queue.close()
    assert bugs == []


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    telemetry.configure("operator", stream)
    yield stream
    telemetry.configure("bytewise")


@pytest.mark.parametrize(
    ("tokenizer", "engine"), [(QuotingTokenizer(), StubEngine()), (StubTokenizer(), QuotingEngine())], ids=["render", "generate"]
)
def test_log_of_a_failed_request_names_the_error_without_its_text(
    tmp_path: Path, lines: io.StringIO, tokenizer: StubTokenizer, engine: StubEngine
) -> None:
    asked = LEAST | {"messages": [{"role": "user", "content": CANARY}]}
    with served_api(tmp_path, tokenizer, engine) as api:
        answer = httpx2.post(f"{api.url}/v1/chat/completions", json=asked, timeout=60.0)
    assert answer.status_code == 500 and answer.json()["error"]["code"] == "server_error"
    (failed,) = [line for line in map(json.loads, lines.getvalue().splitlines()) if line["event"] == "request.failed"]
    assert failed["error"] == "ValueError" and failed["where"].startswith("test_api.py:")
    assert CANARY not in lines.getvalue() and CANARY not in answer.text


@pytest.mark.parametrize("sent", [b"", b'{"model":'], ids=["nothing", "a part"])
def test_body_that_does_not_arrive_gets_408_and_its_connection_is_closed(tmp_path: Path, sent: bytes) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with served_api(tmp_path, StubTokenizer(), StubEngine(), body_timeout_s=0.2) as api:
        with socket.create_connection(("127.0.0.1", api.port), timeout=60) as client, client.makefile("rb") as answers:
            client.sendall(head + sent)
            answer = answers.read()
    assert answer.startswith(b"HTTP/1.1 408 ") and b"did not arrive within 0.2 s" in answer


class HastyProtocol(HeadTimedProtocol):
    """Looks often."""

    head_timeout_s = 0.3


@pytest.mark.parametrize("sent", [b"", b"GET /ver", b"GET /version HTTP/1.1\r\nHost: x\r\n\r\nGET /ver"])
def test_connection_without_a_request_is_closed(tmp_path: Path, sent: bytes) -> None:
    with served_api(tmp_path, StubTokenizer(), StubEngine(), protocol=HastyProtocol) as api:
        with socket.create_connection(("127.0.0.1", api.port), timeout=60) as client, client.makefile("rb") as answers:
            client.sendall(sent)
            assert answers.read().startswith(b"HTTP/1.1 200 " if b"\n" in sent else b"")


class SlowEngine(StubEngine):
    """Takes longer than a hasty server waits for a head."""

    def generate(self, request: Request) -> Generated:
        threading.Event().wait(1)
        return super().generate(request)


def test_connection_with_a_request_stays_open_until_its_answer(tmp_path: Path) -> None:
    with served_api(tmp_path, StubTokenizer(), SlowEngine(), protocol=HastyProtocol) as api:
        answer = httpx2.post(f"{api.url}/v1/chat/completions", json=LEAST, timeout=60.0)
    assert answer.status_code == 200


def test_body_that_arrives_in_parts_is_answered(tmp_path: Path) -> None:
    whole = json.dumps(LEAST).encode()
    with served_api(tmp_path, StubTokenizer(), StubEngine()) as api:
        parts = iter([whole[:9], whole[9:]])
        answer = httpx2.post(
            f"{api.url}/v1/chat/completions", content=parts, headers={"content-type": "application/json"}, timeout=60.0
        )
    assert answer.status_code == 200 and answer.json()["model"] == OFFER.model_name
