"""A proxy for a chain node that forwards a transaction and drops the answer. Then a test kills the sender at the worst moment.

`python -m adversaries.rpc_proxy --upstream URL --port N`. Members use `http://127.0.0.1:N/<member>` as their RPC. The demo's
director posts `{"member": m, "needle": hex}` to `/control`. Then the next `eth_sendRawTransaction` of that member whose bytes
contain the needle is forwarded to the chain, and the proxy closes the connection after 30 seconds without an answer.
`GET /control` lists the dropped answers with their members.
"""

import argparse
import http.client
import json
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlparse

UPSTREAM_TIMEOUT_S = 20.0
HELD_ANSWER_S = 30.0
MAX_BODY_BYTES = 8 * 2**20


class RpcProxy(ThreadingHTTPServer):
    """HTTP server that forwards JSON-RPC, and drops the answers that the director ordered it to drop."""

    daemon_threads = True

    def __init__(self, upstream: str, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        parsed = urlparse(upstream)
        self.upstream = (parsed.hostname or "127.0.0.1", parsed.port or 80)
        self.needles: dict[str, str] = {}
        self.caught: list[dict[str, str]] = []
        self.lock = threading.Lock()

    def holds(self, member: str, body: bytes) -> bool:
        """Returns whether the proxy must drop the answer to this call. The first call that contains a needle uses the needle
        up."""
        with self.lock:
            needle = self.needles.get(member)
            if needle is None or b"eth_sendRawTransaction" not in body or needle.encode() not in body:
                return False
            del self.needles[member]
            return True


class Handler(BaseHTTPRequestHandler):
    """Handler of one connection of one member."""

    protocol_version = "HTTP/1.1"
    server: RpcProxy
    _connection: http.client.HTTPConnection | None = None

    def do_POST(self) -> None:
        """Handles a JSON-RPC request of a member, or an order of the director."""
        length = int(self.headers.get("Content-Length", "0"))
        if length > MAX_BODY_BYTES:
            return self._answer(413, b"{}")
        body = self.rfile.read(length)
        if self.path == "/control":
            order = json.loads(body)
            with self.server.lock:
                self.server.needles[order["member"]] = order["needle"]
            return self._answer(200, b"{}")
        member = self.path.strip("/")
        held = self.server.holds(member, body)
        status, answer = self._forward(body)
        if held:
            with self.server.lock:
                self.server.caught.append({"member": member, "answer": answer.decode()})
            threading.Event().wait(HELD_ANSWER_S)
            self.close_connection = True
            return None
        return self._answer(status, answer)

    def do_GET(self) -> None:
        """Returns the dropped answers so far, with their members."""
        with self.server.lock:
            self._answer(200, json.dumps(self.server.caught).encode())

    def log_message(self, *args: Any) -> None:
        """Writes nothing, because the node has its own log."""

    def _forward(self, body: bytes) -> tuple[int, bytes]:
        for fresh in (False, True):
            if self._connection is None or fresh:
                self._connection = http.client.HTTPConnection(*self.server.upstream, timeout=UPSTREAM_TIMEOUT_S)
            try:
                self._connection.request("POST", "/", body, {"Content-Type": "application/json"})
                response = self._connection.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException):
                self._connection.close()
        return 502, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"upstream unavailable"}}'

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serves until the process is terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upstream", required=True, help="URL of the real node")
    parser.add_argument("--port", required=True, type=int, help="loopback port to listen on")
    arguments = parser.parse_args()
    proxy = RpcProxy(arguments.upstream, arguments.port)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=proxy.shutdown).start())
    proxy.serve_forever()


if __name__ == "__main__":
    main()
