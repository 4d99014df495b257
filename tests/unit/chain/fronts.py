"""Endpoints in front of a real chain, each of which may lie, lag, refuse or be gone."""

import json
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.anvil import Anvil

Change = Callable[[str, list[Any], Any], Any]
"""What an endpoint makes of (method, parameters, the node's answer): `{"result": ...}` or `{"error": ...}`."""


REFUSAL = {"error": {"code": -32005, "message": "limit exceeded"}}


class Gone(Exception):
    """No answer."""


class Front:
    """One endpoint; `change`, and the methods that are `refused` and go no further, may be set at any time."""

    def __init__(self, upstream: str) -> None:
        self.change: Change | None = None
        self.refused: frozenset[str] = frozenset()
        self.asked: Counter[str] = Counter()
        self._upstream = upstream
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, body: bytes) -> bytes:
        asked = json.loads(body)
        self.asked.update(each["method"] for each in (asked if isinstance(asked, list) else [asked]))
        if self.change is gone:
            raise Gone
        if isinstance(asked, dict) and asked["method"] in self.refused:
            return json.dumps({"jsonrpc": "2.0", "id": asked["id"], **REFUSAL}).encode()
        request = urllib.request.Request(self._upstream, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as response:
            said = json.loads(response.read())
        if isinstance(asked, list):
            return json.dumps([self._changed(*pair) for pair in zip(asked, said, strict=True)]).encode()
        return json.dumps(self._changed(asked, said)).encode()

    def _changed(self, asked: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
        if self.change is None:
            return said
        answer = {name: value for name, value in said.items() if name in ("result", "error")}
        return {"jsonrpc": "2.0", "id": said["id"], **self.change(asked["method"], asked.get("params", []), answer)}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        front = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    said = front.answer(body)
                except Gone:
                    self.send_error(503)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                """Nothing: a test reads answers."""

        return Handler


@contextmanager
def fronts(anvil: Anvil, count: int) -> Iterator[list[Front]]:
    """So many endpoints of one chain."""
    with ExitStack() as stack:
        made = [Front(anvil.url) for _ in range(count)]
        for front in made:
            thread = threading.Thread(target=front.server.serve_forever, args=(0.01,))
            thread.start()
            stack.callback(thread.join, 5)
            stack.callback(front.server.server_close)
            stack.callback(front.server.shutdown)
        yield made


def gone(method: str, params: list[Any], answer: Any) -> Any:
    """An endpoint that is down: nothing reaches the chain through it."""
    raise Gone


def lies(method: str, result: Callable[[Any], Any]) -> Change:
    """An endpoint that makes up results of one method."""

    def change(asked: str, params: list[Any], answer: Any) -> Any:
        return {"result": result(answer.get("result"))} if asked == method else answer

    return change


def refuses(method: str) -> Change:
    """An endpoint that refuses one method."""

    def change(asked: str, params: list[Any], answer: Any) -> Any:
        return REFUSAL if asked == method else answer

    return change
