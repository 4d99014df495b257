"""What strangers can take up of a shard's HTTPS before it knows anything of them: each limit, and uvicorn without it."""

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.records import NotCanonical
from bytewise.protocol.keys.epochs import ShardRefusal
from cli.demo.site import free_ports
from kms.shard import http_limits
from kms.shard.api import build_app
from kms.shard.http_limits import MAX_HEADER_BYTES, BodyBudget, server_config
from tests.fixtures.kms.dkg_fixture import CeremonyShard, ceremony_shards
from tests.fixtures.kms.release_network import wait_until

PATIENCE_S = 60.0
SHORT_S = 0.5


class Place(NamedTuple):
    """A shard that is served, and what its bodies take."""

    shard: CeremonyShard
    intake: BodyBudget


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> CeremonyShard:
    """A shard that takes part in ceremonies."""
    return ceremony_shards(tmp_path_factory.mktemp("shard"), 1, base=free_ports(1)[0] - 1)[0][0]


@contextlib.contextmanager
def serving(shard: CeremonyShard, most: int = http_limits.MAX_BODIES_BYTES) -> Iterator[Place]:
    """The shard as `kms.shard.api.serve` serves it, in a thread of this process."""
    app, folder = build_app(None, shard.restart()), shard.folder
    app.state.intake = BodyBudget(most)
    server = uvicorn.Server(server_config(app, "127.0.0.1", shard.port, folder / "tls.pem", folder / "tls.key"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield Place(shard, app.state.intake)
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()


def trusting(shard: CeremonyShard) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=shard.folder / "tls.pem")


@contextlib.contextmanager
def unknown_client(place: Place, said: bytes = b"") -> Iterator[ssl.SSLSocket]:
    """A TLS connection that said something."""
    with socket.create_connection(("127.0.0.1", place.shard.port), timeout=PATIENCE_S) as plain:
        with trusting(place.shard).wrap_socket(plain, server_hostname="127.0.0.1") as secure:
            secure.sendall(said)
            yield secure


def posting(length: int, start: bytes = b"") -> bytes:
    """The beginning of a request with a body of this length."""
    return b"POST /v1/ceremony HTTP/1.1\r\nHost: shard\r\nContent-Length: %d\r\n\r\n" % length + start


def answer_to(place: Place, body: bytes) -> tuple[int, ShardRefusal]:
    """What a whole request gets that is no exchange."""
    port, context = place.shard.port, trusting(place.shard)
    with contextlib.closing(http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_S, context=context)) as line:
        line.request("POST", "/v1/ceremony", body)
        got = line.getresponse()
        return got.status, decode(ShardRefusal, got.read())


REFUSED = (403, ShardRefusal("NotCanonical", NotCanonical.rule, False))
BUSY = (503, ShardRefusal("TryAgain", TryAgain.rule, True))


def served(place: Place) -> bool:
    """Whether somebody who comes now is answered."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        return answer_to(place, b"no exchange") == REFUSED
    return False


def is_closed(peer: ssl.SSLSocket) -> bool:
    """Waits for the other end to close; False if it says something."""
    with contextlib.suppress(ssl.SSLEOFError, ConnectionError):
        return peer.recv(1) == b""
    return True


def test_unfinished_request_is_cut_off(shard: CeremonyShard, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing of it sent, half a head, or half a body."""
    monkeypatch.setattr(http_limits, "REQUEST_S", SHORT_S)
    with serving(shard) as place:
        for said in (b"", b"GET /v1/in", posting(100, b"half")):
            with unknown_client(place, said) as peer:
                assert is_closed(peer), said
        assert answer_to(place, b"no exchange") == REFUSED


def test_slow_sending_extends_no_deadline(shard: CeremonyShard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "REQUEST_S", SHORT_S)
    with serving(shard) as place, unknown_client(place, posting(10**6)) as peer:
        peer.settimeout(SHORT_S / 10)

        def ended() -> bool:
            try:
                peer.sendall(b"0")
                return peer.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_until(ended)


def test_control_uvicorn_alone_waits_for_a_slow_client(shard: CeremonyShard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "REQUEST_S", SHORT_S)
    monkeypatch.setattr(http_limits, "TimedProtocol", H11Protocol)
    with serving(shard) as place, unknown_client(place, posting(100, b"half")) as peer:
        peer.settimeout(3 * SHORT_S)
        with pytest.raises(TimeoutError):
            peer.recv(1)


def hello(place: Place, stop: int) -> bytes:
    """What a client says first, up to its byte `stop`."""
    said = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        trusting(place.shard).wrap_bio(ssl.MemoryBIO(), said, server_hostname="127.0.0.1").do_handshake()
    return said.read()[:stop]


@contextlib.contextmanager
def before_tls(place: Place, said: bytes = b"") -> Iterator[socket.socket]:
    """A connection that is no TLS session yet."""
    with socket.create_connection(("127.0.0.1", place.shard.port), timeout=PATIENCE_S) as plain:
        plain.sendall(said)
        yield plain


def ends(peer: socket.socket) -> bool:
    """Waits for the other end to close, whatever it says before."""
    with contextlib.suppress(ConnectionError):
        while peer.recv(2**16):
            pass
    return True


def test_unfinished_handshake_is_cut_off(shard: CeremonyShard, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing of it sent, or half a hello."""
    monkeypatch.setattr(http_limits, "HANDSHAKE_S", SHORT_S)
    with serving(shard) as place:
        for stop in (0, 100):
            with before_tls(place, hello(place, stop)) as peer:
                peer.settimeout(20 * SHORT_S)
                assert ends(peer), stop
        assert answer_to(place, b"no exchange") == REFUSED


def test_connection_without_tls_is_closed_and_frees_its_place(shard: CeremonyShard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "MAX_TLS_CONNECTIONS", 1)
    with serving(shard) as place:
        for _ in range(3):
            with before_tls(place, b"GET / HTTP/1.1\r\n\r\n") as peer:
                assert ends(peer)
        wait_until(lambda: served(place))


LIMITS = ("MAX_TLS_CONNECTIONS", "MAX_TLS_CONNECTIONS_PER_ADDRESS")


def test_unfinished_handshakes_count_as_connections(shard: CeremonyShard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: with one place more the third is waited for."""
    with serving(shard) as place, before_tls(place), before_tls(place):
        with before_tls(place) as third, pytest.raises(TimeoutError):
            third.settimeout(SHORT_S)
            third.recv(1)
        for limit in LIMITS:
            with monkeypatch.context() as patch:
                patch.setattr(http_limits, limit, 2)
                with before_tls(place) as third:
                    assert ends(third), limit
    # And a shard that stops does not wait for them.
    # And a shard that stops does not wait for them.


def test_request_in_one_segment_with_the_handshake_end_is_answered_in_tls(place: Place) -> None:
    with before_tls(place) as plain:
        heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = trusting(place.shard).wrap_bio(heard, said, server_hostname="127.0.0.1")
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        done = False
        while not done:
            plain.sendall(said.read())
            heard.write(plain.recv(2**16))
            with contextlib.suppress(ssl.SSLWantReadError):
                client.do_handshake()
                done = True
        client.write(posting(2, b"{}"))
        plain.sendall(said.read())
        answer = b""
        while len(answer) < 12:
            heard.write(plain.recv(2**16))
            with contextlib.suppress(ssl.SSLWantReadError):
                answer += client.read()
        assert answer[:12] == b"HTTP/1.1 403"


@pytest.mark.parametrize("limit", LIMITS)
def test_excess_connection_is_closed_and_the_others_are_served(
    shard: CeremonyShard, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, limit, 2)
    with serving(shard) as place, unknown_client(place) as first:
        with unknown_client(place), before_tls(place) as third:
            assert ends(third)
            first.sendall(posting(2, b"{}"))
            assert first.recv(12) == b"HTTP/1.1 403"
        wait_until(lambda: served(place))


def test_total_size_of_request_bodies_is_bounded_and_freed(shard: CeremonyShard) -> None:
    """Control: alone, the same body is read to its end."""
    sent = 2**20 - 4096
    with serving(shard, most=2**20) as place:
        with unknown_client(place, posting(2**20, bytes(sent))):
            # All that it sent, or the other one's bytes may be there when the rest comes, and the refusal is the stranger's.
            wait_until(lambda: place.intake.used == sent)
            assert answer_to(place, bytes(2**15)) == BUSY
        wait_until(lambda: place.intake.used == 0)
        assert answer_to(place, bytes(2**15)) == REFUSED


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Another shard, with every limit as it is."""
    with serving(ceremony_shards(tmp_path_factory.mktemp("other"), 1, base=free_ports(1)[0] - 1)[0][0]) as found:
        yield found


def test_body_above_its_own_cap_is_not_read_to_its_end(place: Place) -> None:
    with unknown_client(place, posting(2**40)) as peer:
        with contextlib.suppress(OSError):
            for _ in range(64):
                peer.sendall(bytes(2**20))
        with contextlib.suppress(OSError):
            assert peer.recv(12) == b"HTTP/1.1 403"
        wait_until(lambda: place.intake.used == 0)


def test_endless_header_above_the_cap_is_refused(place: Place) -> None:
    """With an answer, unless the end of the connection overtakes it. Control: half as much is read and answered."""
    head = b"GET / HTTP/1.1\r\nHost: shard\r\nx: "
    with unknown_client(place, head + b"y" * (2 * MAX_HEADER_BYTES)) as peer:
        assert start_of_answer(peer) in (b"HTTP/1.1 400", b"")
    with unknown_client(place, head + b"y" * (MAX_HEADER_BYTES // 2) + b"\r\n\r\n") as peer:
        assert start_of_answer(peer) == b"HTTP/1.1 404"


def start_of_answer(peer: ssl.SSLSocket) -> bytes:
    """Its first bytes; none if the connection ends before."""
    with contextlib.suppress(ssl.SSLEOFError, ConnectionError):
        return peer.recv(12)
    return b""


def test_upgrade_to_another_protocol_is_refused(place: Place) -> None:
    """Whoever asks is answered as if it had not."""
    asked = b"GET / HTTP/1.1\r\nHost: shard\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    with unknown_client(place, asked + b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n") as peer:
        assert start_of_answer(peer) == b"HTTP/1.1 404"
