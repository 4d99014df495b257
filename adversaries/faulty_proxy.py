"""A proxy in front of a chain node and a DA store. On order its connections are slow, cut, refused, stale or lying.

`python -m adversaries.faulty_proxy --chain URL --da URL --port N --record FILE`. An actor uses `http://127.0.0.1:N/rpc/<name>` as
its RPC endpoint, and `http://127.0.0.1:N/da/<name>` as its DA store. One actor may have several RPC endpoints, for example
`/rpc/<name>/1` and `/rpc/<name>/2`.

`POST /control` with `{"endpoint": e, "fault": f, "value": v}` orders a fault for every endpoint whose path begins with e. The
same order with `"fault": ""` ends the fault. `GET /control` returns the number of requests that each fault met.

The proxy writes every transaction that an actor sends to FILE before it forwards the transaction, one JSON object a line. So a
test knows what an actor signed even if no block contains it.
"""

import argparse
import http.client
import json
import random
import signal
import socket
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlparse

UPSTREAM_TIMEOUT_S = 20.0
MAX_BODY_BYTES = 32 * 2**20
BROADCAST = "eth_sendRawTransaction"
UNAVAILABLE = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"upstream unavailable"}}'

FAULTS = {
    "lag": "each answer comes VALUE seconds late",
    "drop": "the connection is cut before the request is forwarded",
    "lose": "the request is forwarded, and the connection is cut before the answer",
    "error": "HTTP 500",
    "refuse": "HTTP 429",
    "stale": "a node that does not see blocks after the one of the order (chain only)",
    "lie": "altered hashes of blocks, results of calls and logs (chain only)",
    "withhold": "every blob is unknown (DA only)",
    "corrupt": "one byte of every blob is another (DA only)",
}
"""Faults that an order may name, with their meanings. VALUE is `value` in the order."""


class Order(NamedTuple):
    """A fault that was ordered for an endpoint."""

    fault: str
    """Kind of the fault, a key of `FAULTS`."""
    value: float
    """Delay in seconds; used by `lag` only."""
    head: int
    """Newest block when the fault was ordered; used by `stale` only."""


class FaultyProxy(ThreadingHTTPServer):
    """HTTP server that forwards requests and applies the faults that were ordered."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, chain: str, da: str, port: int, record: Path) -> None:
        super().__init__(("127.0.0.1", port), FaultyConnection)
        self.upstreams = {"rpc": _authority(chain), "da": _authority(da)}
        self.orders: dict[str, Order] = {}
        self.met: Counter[str] = Counter()
        self.lock = threading.Lock()
        self._record = record.open("a")

    def order_of(self, endpoint: str) -> Order | None:
        """Returns the present fault of an endpoint, and counts the request for that fault. Returns None if the endpoint has no
        fault. If several orders fit, the order with the longest path counts."""
        with self.lock:
            found = [each for each in self.orders if endpoint.startswith(each)]
            if not found:
                return None
            order = self.orders[max(found, key=len)]
            self.met[order.fault] += 1
            return order

    def take(self, order: dict[str, Any]) -> None:
        """Begins the fault of an order. If the order names no fault, ends the endpoint's fault."""
        head = self._head() if order["fault"] == "stale" else 0
        with self.lock:
            self.orders.pop(order["endpoint"], None)
            if order["fault"]:
                self.orders[order["endpoint"]] = Order(order["fault"], float(order.get("value", 0)), head)

    def write_down(self, endpoint: str, calls: list[dict[str, Any]]) -> None:
        """Writes the transactions of a request to the record file."""
        raw = [each["params"][0] for each in calls if each.get("method") == BROADCAST]
        with self.lock:
            for each in raw:
                self._record.write(json.dumps({"t": time.time(), "endpoint": endpoint, "raw": each}) + "\n")
            self._record.flush()

    def _head(self) -> int:
        connection = http.client.HTTPConnection(*self.upstreams["rpc"], timeout=UPSTREAM_TIMEOUT_S)
        connection.request("POST", "/", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []}),
                           {"Content-Type": "application/json"})  # fmt: skip
        return int(json.loads(connection.getresponse().read())["result"], 16)


class FaultyConnection(BaseHTTPRequestHandler):
    """Handler of one connection of one actor."""

    protocol_version = "HTTP/1.1"
    server: FaultyProxy
    _connections: dict[str, http.client.HTTPConnection]

    def setup(self) -> None:
        """Prepares the connection. Connections to upstreams are opened with the first request."""
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections = {}

    def finish(self) -> None:
        """Closes this connection and its connections to upstreams."""
        super().finish()
        for each in self._connections.values():
            each.close()

    def do_POST(self) -> None:
        """Handles a JSON-RPC request, a new blob, or an order for a fault."""
        length = int(self.headers.get("Content-Length", "0"))
        if length > MAX_BODY_BYTES:
            return self._answer(413, b"{}")
        body = self.rfile.read(length)
        if self.path == "/control":
            self.server.take(json.loads(body))
            return self._answer(200, b"{}")
        return self._serve("POST", body)

    def do_GET(self) -> None:
        """Returns a blob, or the number of requests that each fault met."""
        if self.path == "/control":
            with self.server.lock:
                return self._answer(200, json.dumps(self.server.met).encode())
        return self._serve("GET", b"")

    def log_message(self, *args: Any) -> None:
        """Writes nothing, because the actors have their own logs."""

    def _serve(self, method: str, body: bytes) -> None:
        kind, name, rest = [*self.path.lstrip("/").split("/", 2), "", ""][:3]
        if kind not in self.server.upstreams:
            return self._answer(404, b"{}")
        # In an RPC path a number after the name tells the endpoints of one actor apart. In a DA path the call follows the name.
        endpoint = f"{kind}/{name}" + (f"/{rest}" if kind == "rpc" and rest else "")
        asked = json.loads(body) if kind == "rpc" else None
        if asked is not None:
            self.server.write_down(endpoint, asked if isinstance(asked, list) else [asked])
        order = self.server.order_of(endpoint)
        fault = "" if order is None else order.fault
        if order is not None and self._fails(order):
            return None
        if order is not None and fault == "stale":
            body = json.dumps(_frozen(asked, order.head)).encode()
        status, answer = self._forward(kind, method, f"/{rest}" if kind == "da" else "/", body)
        if fault == "lose":
            return self._cut()
        if order is not None and status == 200:
            answer = _altered(order, kind, method, asked, answer)
        return self._answer(status, answer)

    def _fails(self, order: Order) -> bool:
        """Applies the fault. Returns whether the fault answers or cuts the request. The caller must not forward such a
        request."""
        match order.fault:
            case "lag":
                threading.Event().wait(order.value)
            case "drop":
                self._cut()
                return True
            case "error" | "refuse":
                self._answer(500 if order.fault == "error" else 429, b"{}")
                return True
            case "withhold" if self.command == "GET":
                self._answer(404, b"{}")
                return True
        return False

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _forward(self, kind: str, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": self.headers.get("Content-Type", "application/json")} if method == "POST" else {}
        for fresh in (False, True):
            if kind not in self._connections or fresh:
                self._connections[kind] = http.client.HTTPConnection(*self.server.upstreams[kind], timeout=UPSTREAM_TIMEOUT_S)
            try:
                self._connections[kind].request(method, path, body or None, headers)
                response = self._connections[kind].getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException):
                self._connections[kind].close()
        return 502, UNAVAILABLE

    def _answer(self, status: int, body: bytes) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True


def _frozen(asked: Any, head: int) -> Any:
    """Returns the request with `latest` and `pending` replaced by `head`, the newest block when the fault was ordered."""
    if isinstance(asked, list):
        return [_frozen(each, head) for each in asked]
    params = [hex(head) if each in ("latest", "pending") else each for each in asked.get("params", [])]
    return {**asked, "params": params}


def _altered(order: Order, kind: str, method: str, asked: Any, answer: bytes) -> bytes:
    """Returns the answer that a stale, lying or corrupt endpoint would give instead of this one."""
    if kind == "da":
        if order.fault != "corrupt" or method != "GET" or not answer:
            return answer
        place = random.randrange(len(answer))
        return answer[:place] + bytes([answer[place] ^ 1]) + answer[place + 1 :]
    if order.fault not in ("stale", "lie"):
        return answer
    said = json.loads(answer)
    pairs = zip(asked, said, strict=True) if isinstance(asked, list) and isinstance(said, list) else [(asked, said)]
    change = _older if order.fault == "stale" else _false
    for call, reply in pairs:
        if isinstance(reply, dict) and "result" in reply:
            reply["result"] = change(call.get("method", ""), call.get("params", []), reply["result"], order.head)
    return json.dumps(said).encode()


def _older(method: str, params: list[Any], result: Any, head: int) -> Any:
    """Returns the result of a node that has no block after `head`."""
    if method == "eth_blockNumber":
        return hex(head)
    if method == "eth_getLogs":
        return [each for each in result if int(each["blockNumber"], 16) <= head]
    number = result.get("number") or result.get("blockNumber") if isinstance(result, dict) else None
    return None if isinstance(number, str) and int(number, 16) > head else result


def _false(method: str, params: list[Any], result: Any, head: int) -> Any:
    """Returns a false result in the shape of the true result."""
    match method:
        case "eth_getLogs":
            return result[:-1]
        case "eth_call" if isinstance(result, str) and len(result) > 2:
            return result[:-1] + ("1" if result[-1] == "0" else "0")
        case "eth_getBlockByNumber" if isinstance(result, dict):
            return {**result, "hash": "0x" + result["hash"][2:][::-1]}
        case "eth_getTransactionCount":
            return hex(int(result, 16) + 1)
        case "eth_getTransactionReceipt" if isinstance(result, dict):
            return {**result, "status": "0x0" if result["status"] == "0x1" else "0x1"}
    return result


def _authority(url: str) -> tuple[str, int]:
    parsed = urlparse(url)
    return parsed.hostname or "127.0.0.1", parsed.port or 80


def main() -> None:
    """Serves until the process is terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chain", required=True, help="URL of the real node")
    parser.add_argument("--da", required=True, help="URL of the real store")
    parser.add_argument("--port", required=True, type=int, help="loopback port to listen on")
    parser.add_argument("--record", required=True, type=Path, help="file for the transactions of all actors")
    arguments = parser.parse_args()
    proxy = FaultyProxy(arguments.chain, arguments.da, arguments.port, arguments.record)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=proxy.shutdown).start())
    proxy.serve_forever()


if __name__ == "__main__":
    main()
