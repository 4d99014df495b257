"""A relay to a chain's node that forwards only reading calls, so that the program that uses the relay cannot send a transaction.

The relay also keeps the node's URL out of the arguments of that program. Other users of the machine can read arguments, and the
URL may contain an API key.
"""

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2

READ_METHODS = frozenset({
    "eth_blockNumber", "eth_call", "eth_chainId", "eth_config", "eth_feeHistory", "eth_gasPrice", "eth_getAccount",
    "eth_getAccountInfo", "eth_getBalance", "eth_getBlockByHash", "eth_getBlockByNumber", "eth_getBlockReceipts", "eth_getCode",
    "eth_getLogs", "eth_getProof", "eth_getStorageAt", "eth_getTransactionByHash", "eth_getTransactionCount",
    "eth_getTransactionReceipt", "anvil_nodeInfo", "net_version", "web3_clientVersion",
})  # fmt: skip
"""JSON-RPC methods that change nothing. The relay refuses every other method."""
TIMEOUT_S = 60.0
MOST_BYTES = 2**20
"""Size of the largest request, in bytes."""
_NO_METHOD = -32601


@contextmanager
def reading_relay(url: str) -> Iterator[str]:
    """Context manager that runs a relay on this machine and yields the relay's URL. The path of this URL is random, so that no
    other program can guess it. `url` is the URL of the chain's node."""
    path = f"/{secrets.token_hex(16)}"
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(url, path))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{path}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def refused(body: bytes) -> Any:
    """Checks the body of a JSON-RPC request. Returns None if every call in the body only reads. Otherwise returns the error with
    which the relay answers, and the relay does not forward the request."""
    try:
        asked = json.loads(body)
        calls = asked if isinstance(asked, list) else [asked]
        wrong = [each for each in calls if each["method"] not in READ_METHODS]
        if not calls:
            raise ValueError("an empty batch")
    except (ValueError, TypeError, KeyError):
        return _error(None, "no JSON-RPC call")
    if not wrong:
        return None
    answers = [_error(each.get("id"), f"{str(each['method'])[:60]} is not forwarded: a drill only reads") for each in calls]
    return answers if isinstance(asked, list) else answers[0]


def _error(identifier: Any, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identifier, "error": {"code": _NO_METHOD, "message": message}}


def _handler(url: str, path: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            if self.path != path or not 0 < size <= MOST_BYTES:
                self.send_error(404)
                return
            body = self.rfile.read(size)
            answer = refused(body)
            if answer is not None:
                self._answer(200, json.dumps(answer).encode())
                return
            try:
                found = httpx2.post(url, content=body, headers={"Content-Type": "application/json"}, timeout=TIMEOUT_S)
                self._answer(found.status_code, found.content)
            except httpx2.HTTPError:
                self.send_error(502)

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Writes no log line for a request, because the lines would disturb the progress bar."""

    return Handler
