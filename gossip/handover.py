"""The hand-over between a duty process and its gossip process: a UNIX socket, one canonical JSON object in a frame each way.

The duty process calls: `publish`, `take`, `offer` (this envelope lies in that file) and `fetch` (get an envelope from a peer). A
frame is a length of four bytes, big-endian, and so many bytes. A connection carries one call, so no call waits for another.
"""

import contextlib
import json
import os
import socket
import socketserver
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossip.messages import GossipRefused, canonical

MAX_CALL_BYTES = 16 * 1024
MAX_ANSWER_BYTES = 2 * 2**20
"""Largest answer: `MAX_TAKEN` messages of 4 KiB fit in it."""
MAX_TAKEN = 256
"""Most messages of one answer."""
TIMEOUT_S = 5.0
"""Seconds for one call, except `fetch`."""
FETCH_TIMEOUT_S = 60.0
MAX_CALLS = 16
"""Most calls at a time."""

Call = Callable[[dict[str, Any]], dict[str, Any]]


def send_frame(connection: socket.socket, value: object, most: int) -> None:
    """Sends one frame. `GossipRefused` if it is too large."""
    data = canonical(value)
    if len(data) > most:
        raise GossipRefused("too_large", f"{len(data)} bytes, at most {most}")
    connection.sendall(struct.pack(">I", len(data)) + data)


def receive_frame(connection: socket.socket, most: int) -> dict[str, Any]:
    """Receives one frame. `GossipRefused` if it is too large or no JSON object. The length is checked before the bytes are
    read."""
    (size,) = struct.unpack(">I", _receive(connection, 4))
    if size > most:
        raise GossipRefused("too_large", f"{size} bytes, at most {most}")
    try:
        value = json.loads(_receive(connection, size))
    except (ValueError, RecursionError):
        raise GossipRefused("malformed", "a frame is no JSON") from None
    if not isinstance(value, dict):
        raise GossipRefused("malformed", "a frame is no JSON object")
    return value


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(size - len(data), 65536))
        if not part:
            raise GossipRefused("closed", f"the peer closed after {len(data)} of {size} bytes")
        data += part
    return bytes(data)


class HandOverServer:
    """Answers calls at a UNIX socket of mode 0600, each in a thread, until `close`."""

    def __init__(self, path: Path, call: Call) -> None:
        """A file of an earlier process at this path is removed. `call` answers, or raises `GossipRefused`."""
        path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            self._server = _CallServer(str(path), _CallHandler)
        finally:
            os.umask(mask)
        self._server.call, self._server.free = call, threading.BoundedSemaphore(MAX_CALLS)
        self._path = path
        threading.Thread(target=self._server.serve_forever, name="hand-over", daemon=True).start()

    def close(self) -> None:
        """Stops listening and removes the socket."""
        self._server.shutdown()
        self._server.server_close()
        self._path.unlink(missing_ok=True)


class _CallServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    call: Call
    free: threading.BoundedSemaphore


class _CallHandler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _CallServer)
        if not server.free.acquire(blocking=False):
            return
        try:
            with contextlib.suppress(OSError):
                self._answer(server.call)
        finally:
            server.free.release()

    def _answer(self, call: Call) -> None:
        self.request.settimeout(TIMEOUT_S)
        try:
            answer = call(receive_frame(self.request, MAX_CALL_BYTES))
        except (GossipRefused, KeyError, TypeError, ValueError) as error:
            answer = {"refused": getattr(error, "reason", "malformed"), "detail": str(error)[:200]}
        with contextlib.suppress(GossipRefused):
            send_frame(self.request, answer, MAX_ANSWER_BYTES)


@dataclass(frozen=True, slots=True)
class Taken:
    """One message, as the duty process gets it."""

    topic: str
    account: str
    """Account of its origin, as `peers.json` names it. Only what the account signed counts."""
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ProcessState:
    """A gossip process at one moment."""

    process: str
    """Name that each start makes anew."""
    connected: int
    """Peers to which it is connected."""
    refusals: dict[str, int]
    """Messages, requests and connections that it refused since its start, by reason."""


class HandOverClient:
    """The duty process's side. Every call raises `GossipRefused` if the gossip process is away, or refuses."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process, self._after = "", 0

    def publish(self, topic: str, body: dict[str, Any]) -> None:
        """Sends a body to all peers, as far as limits allow."""
        self._call({"call": "publish", "topic": topic, "body": body})

    def take(self) -> tuple[Taken, ...]:
        """Messages that arrived since the last call, at most `MAX_TAKEN`."""
        answer = self._call({"call": "take", "after": self._after, "most": MAX_TAKEN})
        if answer.get("process") != self._process:
            # A restarted process counts from 1 again.
            again, self._process = self._process != "", str(answer.get("process"))
            if again and self._after:
                self._after = 0
                return self.take()
        self._after = int(answer["last"])
        return tuple(Taken(str(each["topic"]), str(each["account"]), dict(each["body"])) for each in answer["messages"])

    def offer(self, envelope: str, file: Path) -> None:
        """Lets seats of the envelope's dispute have the bytes of a file."""
        self._call({"call": "offer", "envelope": envelope, "file": str(file)})

    def fetch(self, envelope: str, size: int, account: str, file: Path) -> None:
        """Writes the bytes that a peer sends for an envelope into a file. The caller checks their hash."""
        request = {"call": "fetch", "envelope": envelope, "size": size, "account": account, "file": str(file)}
        self._call(request, FETCH_TIMEOUT_S)

    def state(self) -> ProcessState:
        """What the gossip process says about itself."""
        answer = self._call({"call": "state"})
        refusals = {str(reason): int(count) for reason, count in answer["refusals"].items()}
        return ProcessState(str(answer["process"]), int(answer["connected"]), refusals)

    def _call(self, request: dict[str, Any], timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(timeout_s)
                connection.connect(str(self._path))
                send_frame(connection, request, MAX_CALL_BYTES)
                answer = receive_frame(connection, MAX_ANSWER_BYTES)
        except TimeoutError:
            raise GossipRefused("hung", f"gossip process at {self._path.name}: no answer in {timeout_s:g} s") from None
        except OSError as error:
            raise GossipRefused("away", f"gossip process at {self._path.name}: {type(error).__name__}") from None
        if "refused" in answer:
            raise GossipRefused(str(answer["refused"]), str(answer.get("detail", ""))[:200])
        return answer
