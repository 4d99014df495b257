"""The hand-over: the protocol by which a duty process calls its gossip process over a UNIX socket.

The calls are `publish` (send a message), `take` (get messages that arrived), `offer` (let peers fetch an envelope from a file),
`fetch` (get an envelope from a peer) and `state` (get connections and refusals). Each call has a connection of its own, so no
call waits for another. The request and the answer are one frame each: a length of four bytes, big-endian, and then a canonical
JSON object of that length.

`Ring` keeps the newest messages in the memory of the gossip process. The call `take` gets messages from it by number.
"""

import contextlib
import json
import os
import socket
import socketserver
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossip.messages import MAX_BRACKETS, GossipRefused, canonical

MAX_MESSAGES = 10_000
"""Most messages that a `Ring` keeps."""
MAX_BYTES = 16 * 2**20
"""Most bytes of messages that a `Ring` keeps."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message of a peer that passed the checks of `gossip.admission`."""

    number: int
    """Number of the message in the order of arrival: 1, 2, …"""
    topic: str
    account: str
    """Account of the message's origin."""
    body: dict[str, Any]
    size: int
    """Size of the message in bytes."""


@dataclass(frozen=True, slots=True)
class RingPage:
    """The answer to a reader that asks for the messages after some number."""

    messages: tuple[Received, ...]
    lost: int
    """How many messages after that number were dropped before the reader asked."""
    last: int
    """The number that the reader passes in its next request. It is the number of the last message that the reader has got or
    missed."""


class Ring:
    """A store in memory of the newest messages, bounded by their number and their size. A restart loses all of them. Each answer
    says how many messages the reader missed. Thread-safe."""

    def __init__(self, messages: int = MAX_MESSAGES, size: int = MAX_BYTES) -> None:
        self._kept: deque[Received] = deque()
        self._limits = messages, size
        self._bytes = 0
        self._last = 0
        self._lock = threading.Lock()

    def put(self, topic: str, account: str, body: dict[str, Any], size: int) -> int:
        """Adds a message of `size` bytes and returns its number. Drops the oldest messages if the store then has too many
        messages or too many bytes."""
        with self._lock:
            self._last += 1
            self._kept.append(Received(self._last, topic, account, body, size))
            self._bytes += size
            while len(self._kept) > self._limits[0] or self._bytes > self._limits[1]:
                self._bytes -= self._kept.popleft().size
            return self._last

    def take(self, after: int, most: int) -> RingPage:
        """Returns at most `most` messages with numbers greater than `after`. If `after` is greater than every number so far, the
        process has restarted since the reader's last call. The reader then gets the messages from the beginning."""
        with self._lock:
            start = after if 0 <= after <= self._last else 0
            found = [each for each in self._kept if each.number > start][: max(0, most)]
            first = self._kept[0].number if self._kept else self._last + 1
            return RingPage(tuple(found), max(0, first - start - 1), found[-1].number if found else max(start, first - 1))


MAX_CALL_BYTES = 16 * 1024
MAX_ANSWER_BYTES = 2 * 2**20
"""Size of the largest answer, in bytes. `MAX_TAKEN` messages of 4 KiB fit in it."""
MAX_TAKEN = 256
"""Most messages in the answer to one `take`."""
MAX_FRAME_BRACKETS = MAX_TAKEN * (MAX_BRACKETS + 1) + 64
"""Most brackets in a frame: those of `MAX_TAKEN` messages and some of its own. A duty process has a high recursion limit, so a
frame with more brackets, one inside the other, could end it with a segmentation fault."""
TIMEOUT_S = 5.0
"""Timeout of every call but `fetch`, in seconds."""
FETCH_TIMEOUT_S = 60.0
MAX_CALLS = 16
"""Most calls that the gossip process answers at the same time. It closes further connections without an answer."""

Call = Callable[[dict[str, Any]], dict[str, Any]]


def send_frame(connection: socket.socket, value: object, most: int) -> None:
    """Sends a value as one frame. Raises `GossipRefused` if its JSON has more than `most` bytes."""
    data = canonical(value)
    if len(data) > most:
        raise GossipRefused("too_large", f"{len(data)} bytes, at most {most}")
    connection.sendall(struct.pack(">I", len(data)) + data)


def receive_frame(connection: socket.socket, most: int) -> dict[str, Any]:
    """Receives one frame and returns its JSON object. Raises `GossipRefused` if it has more than `most` bytes or is no JSON
    object. The length is checked before the bytes are read, and the number of brackets before they are parsed."""
    (size,) = struct.unpack(">I", _receive(connection, 4))
    if size > most:
        raise GossipRefused("too_large", f"{size} bytes, at most {most}")
    data = _receive(connection, size)
    if data.count(b"{") + data.count(b"[") > MAX_FRAME_BRACKETS:
        raise GossipRefused("malformed", f"a frame has more than {MAX_FRAME_BRACKETS} brackets")
    try:
        value = json.loads(data)
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
    """The server of the hand-over, which runs in the gossip process. It answers each call in a thread of its own, at a UNIX
    socket of mode 0600, until `close` is called."""

    def __init__(self, path: Path, call: Call) -> None:
        """Removes the socket that an earlier process left at this path, and starts to listen there. `call` gets each request and
        returns the answer, or raises `GossipRefused`, which is sent as the answer."""
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
    """One message from a peer, as the duty process gets it."""

    topic: str
    account: str
    """Account of the message's origin, as `peers.json` names it. The duty process must not rely on it: it must check a signature
    of the account in the body."""
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The state of a gossip process at one moment, as the process reports it."""

    process: str
    """A random name that each start of the gossip process makes for itself, so that a caller notices a restart."""
    connected: int
    """Number of peers to which the process is connected."""
    refusals: dict[str, int]
    """Number of messages, requests and connections that the process refused since its start, by reason. The reason `dial` counts
    failed attempts to connect to a peer."""


class HandOverClient:
    """The client of the hand-over, which runs in the duty process. Every method raises `GossipRefused` if the gossip process does
    not answer, or if it refuses the call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process, self._after = "", 0

    def publish(self, topic: str, body: dict[str, Any]) -> None:
        """Publishes a message body to all peers. Raises `GossipRefused` if a limit forbids it or if no peer is connected."""
        self._call({"call": "publish", "topic": topic, "body": body})

    def take(self) -> tuple[Taken, ...]:
        """Returns messages that arrived since the last call, oldest first, at most `MAX_TAKEN`. Later messages stay for the next
        call."""
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
        """Lets members with a seat in the envelope's dispute fetch the envelope from a file. `envelope` is its hash."""
        self._call({"call": "offer", "envelope": envelope, "file": str(file)})

    def fetch(self, envelope: str, size: int, account: str, file: Path) -> None:
        """Makes the gossip process fetch an envelope of `size` bytes from the peer of `account` and write it to a file. The
        caller must check the hash of the file, because the peer may send wrong bytes."""
        request = {"call": "fetch", "envelope": envelope, "size": size, "account": account, "file": str(file)}
        self._call(request, FETCH_TIMEOUT_S)

    def state(self) -> ProcessState:
        """Returns the state that the gossip process reports."""
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
