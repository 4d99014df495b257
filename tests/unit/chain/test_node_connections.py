"""A process keeps few connections to its chain node, and no answer takes longer or is larger than its limit."""

import gzip
import http.server
import os
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from bytewise.protocol.encoding import MAX_MARKS
from bytewise.protocol.errors.actors import TryAgain
from bytewise.service.clock import monotonic_s
from bytewise.service.node_files.certificates import make_certificate
from chain.client.node import MAX_ANSWER_BYTES, NodeHTTPProvider
from chain.client.quorum import QuorumClient
from chain.client.rpc import ChainClient
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil
from tests.fixtures.trickling_server import trickling

THREADS = 20
LIMIT_S, SLOW_S = 1.0, 60.0
"""The limit of a request, and seconds that show that there was no limit: the server would go on for two minutes."""
BODY = b'{"jsonrpc":"2.0","id":0,"result":"0x1"}'


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_connections_to_a_node_do_not_grow_with_threads(anvil: Anvil) -> None:
    """web3 keeps a session, with a connection, for each of the last hundred threads."""
    client, together, turn = ChainClient(anvil.url, CHAIN_ID, 10), threading.Barrier(THREADS), threading.Lock()
    client.head()
    before = descriptors()

    def ask(_: int) -> None:
        together.wait(10)
        with turn:
            client.head()
        together.wait(10)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(ask, range(THREADS)))
    assert descriptors() <= before + 2


def assert_request_ends(url: str, data: str = "") -> None:
    provider = NodeHTTPProvider(url, timeout_s=LIMIT_S)
    for ask in (provider.single, lambda name, params: provider.batch([(name, params)])):
        begun = monotonic_s()
        with pytest.raises(TryAgain, match=r"Timeout|ConnectionError"):
            ask("eth_sendRawTransaction", [data])
        assert monotonic_s() - begun < SLOW_S


@pytest.mark.parametrize("part", ["handshake", "request", "head", "body"])
def test_slow_node_is_abandoned_in_time(part: str) -> None:
    with trickling(part) as port:
        assert_request_ends(
            f"{'https' if part == 'handshake' else 'http'}://127.0.0.1:{port}", "0" * (2**23 * (part == "request"))
        )


@pytest.mark.parametrize("part", ["request", "head", "body"])
def test_slow_node_behind_tls_is_abandoned(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = tmp_path / "node.pem", tmp_path / "node.key"
    make_certificate(certificate, key, "127.0.0.1", "node")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    with trickling(part, context) as port:
        assert_request_ends(f"https://127.0.0.1:{port}", "0" * (2**23 * (part == "request")))


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_slow_proxy_is_abandoned(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with trickling("head") as port:
        monkeypatch.setenv(f"{scheme}_proxy", f"http://127.0.0.1:{port}")
        assert_request_ends(f"{scheme}://node.invalid")


def test_slow_endpoint_does_not_stop_a_quorum(anvil: Anvil) -> None:
    with trickling("head") as port:
        urls = (f"http://127.0.0.1:{port}", anvil.url, anvil.url)
        begun, chain = monotonic_s(), QuorumClient([ChainClient(each, CHAIN_ID, 3 * LIMIT_S) for each in urls], 2)
        assert chain.head() == anvil.client.head()
        assert monotonic_s() - begun < SLOW_S


class Node(http.server.ThreadingHTTPServer):
    """A node that answers each request with these bytes, and counts its connections."""

    daemon_threads = True
    connections = 0

    def __init__(self, answer: bytes, redirect: bytes = b"") -> None:
        self.answer, self.redirect = answer, redirect
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: object, address: object) -> None:
        self.connections += 1
        super().process_request(request, address)  # type: ignore[arg-type]

    def handle_error(self, *_: object) -> None:
        """Writes nothing: the client may not read the whole answer."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Node

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.wfile.write(self.server.redirect if self.path == "/old" else self.server.answer)

    def log_message(self, *_: object) -> None:
        """Writes nothing: a test reads answers."""


@contextmanager
def node(answer: bytes, redirect: bytes = b"") -> Iterator[Node]:
    with Node(answer, redirect) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(20)


def answer_of(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body


HUGE = gzip.compress(b" " * MAX_ANSWER_BYTES + BODY)
MARKED = BODY.replace(b'"0x1"', b"[" + b"0," * MAX_MARKS + b"0]")


@pytest.mark.parametrize(
    "answer",
    [answer_of(HUGE, "Content-Encoding: gzip"), answer_of(b" " * MAX_ANSWER_BYTES + BODY), answer_of(MARKED)],
    ids=["compressed", "plain", "marks"],
)
def test_answer_that_is_too_large_is_unavailable(answer: bytes) -> None:
    with node(answer) as server:
        provider = NodeHTTPProvider(f"http://127.0.0.1:{server.server_port}", timeout_s=SLOW_S)
        for ask in (lambda: provider.single("eth_chainId", []), lambda: provider.batch([("eth_chainId", [])])):
            with pytest.raises(TryAgain, match="TooLarge"):
                ask()


@pytest.mark.parametrize("status", ["200 OK", "429 Too Many Requests"])
def test_connection_is_kept_after_each_answer(status: str) -> None:
    with node(answer_of(gzip.compress(BODY), "Content-Encoding: gzip", status=status)) as server:
        provider = NodeHTTPProvider(f"http://127.0.0.1:{server.server_port}", timeout_s=SLOW_S)
        for _ in range(3):
            if status == "200 OK":
                assert provider.single("eth_chainId", [])["result"] == "0x1"
            else:
                with pytest.raises(TryAgain, match="HTTPError"):
                    provider.single("eth_chainId", [])
        assert server.connections == 1


def test_redirect_is_followed_without_its_body() -> None:
    for encoding in ("Content-Encoding: gzip", "X: "):
        redirect = answer_of(HUGE, encoding, "Location: /new", status="307 Temporary Redirect")
        with node(answer_of(BODY), redirect) as server:
            provider = NodeHTTPProvider(f"http://127.0.0.1:{server.server_port}/old", timeout_s=SLOW_S)
            assert provider.single("eth_chainId", [])["result"] == "0x1"
            assert server.connections == 2, "the connection is closed, because the rest of the redirect is not read"
