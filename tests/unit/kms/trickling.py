"""A shard that sends a byte now and then and never comes to the end of its answer."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

from kms.storage import keyring

PAUSE_S = 0.1
"""Between two bytes: far less than any timeout of one read."""


@contextlib.contextmanager
def trickling(folder: Path, port: int, part: str = "body") -> Iterator[None]:
    """Serves the port with the certificate of a shard's folder.

    `part`: what of each exchange never ends: "handshake", "request", "head" or "body".
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / keyring.TLS_CERTIFICATE, folder / keyring.TLS_KEY)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(0.1)
        thread = threading.Thread(target=_accept, args=(server, context, part, over))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(timeout=20)
    assert not thread.is_alive()


def _accept(server: socket.socket, context: ssl.SSLContext, part: str, over: threading.Event) -> None:
    threads = []
    while not over.is_set():
        with contextlib.suppress(TimeoutError):
            peer, _ = server.accept()
            threads.append(threading.Thread(target=_serve, args=(peer, context, part, over)))
            threads[-1].start()
    for each in threads:
        each.join(timeout=20)


def _serve(peer: socket.socket, context: ssl.SSLContext, part: str, over: threading.Event) -> None:
    peer.settimeout(20)
    with contextlib.suppress(OSError), peer:
        if part == "handshake":
            # A TLS record of 64 bytes, of which one comes at a time.
            peer.sendall(b"\x16\x03\x03\x00\x40")
            _trickle(peer, over)
            return
        with context.wrap_socket(peer, server_side=True) as stream:
            if part == "request":
                over.wait(20)
                return
            stream.recv(65536)
            stream.sendall(b"HTTP/1.1 200 OK\r\nx: " if part == "head" else b"HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n")
            _trickle(stream, over)


def _trickle(stream: socket.socket, over: threading.Event) -> None:
    while not over.wait(PAUSE_S):
        stream.sendall(b"0")
