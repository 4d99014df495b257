"""Connections between processes: limits for untrusted peers, sockets, and the messages of jobs.

A job message is canonical JSON after a 4-byte big-endian length (`bytewise.protocol.jobs`). It has no type field. Its members
identify its class, and both sides know which classes may come next.
"""

import contextlib
import ipaddress
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from bytewise.protocol import encoding
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.records import MalformedValue, WrongFields
from bytewise.protocol.jobs import MAX_MESSAGE_BYTES, ShardRecord
from bytewise.service.clock import monotonic_s


class AddressSlots:
    """Counts slots, such as connections, that peers use at one time. It limits their number in total and for each address.
    Thread-safe."""

    def __init__(self, most: int, per_address: int) -> None:
        self._most = most
        self._per_address = per_address
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, address: str) -> bool:
        """Takes a slot for a peer at this address until `leave` is called.

        Returns False if no slot is free, in total or for the address.
        """
        with self._lock:
            free = self._taken.total() < self._most and self._taken[address] < self._per_address
            if free:
                self._taken[address] += 1
            return free

    def leave(self, address: str) -> None:
        """Frees a slot of this address. An address without a slot uses no memory."""
        with self._lock:
            self._taken[address] -= 1
            if self._taken[address] <= 0:
                del self._taken[address]

    @property
    def in_use(self) -> int:
        """Number of slots that are in use by all addresses."""
        with self._lock:
            return self._taken.total()


def seconds_left(until: float) -> float:
    """Returns the seconds that are left until a time of `monotonic_s`. Raises `TimeoutError` once that time has passed.

    The caller sets the result as the timeout before each read and write of an exchange. So a peer that sends one byte at a time
    gets no extra time.
    """
    left = until - monotonic_s()
    if left <= 0:
        raise TimeoutError("out of time")
    return left


class Deadline(threading.local):
    """The time by which the current exchange of a thread must end. Each thread has its own time."""

    _until = 0.0

    def start(self, seconds: float) -> None:
        """Starts the deadline of the thread's next exchange, in `seconds` from now."""
        self._until = monotonic_s() + seconds

    def left(self) -> float:
        """Returns the seconds until the deadline, as `seconds_left` does. Raises `TimeoutError` if none are left."""
        return seconds_left(self._until)


MAX_LOOKUPS = 32
"""Most host names that this process resolves at one time. The system's resolver cannot be stopped, so a lookup whose deadline
passes leaves a thread that ends when the resolver gives up, usually after some seconds."""
_LOOKUPS = threading.BoundedSemaphore(MAX_LOOKUPS)


def resolve(host: str, port: int, deadline: Deadline) -> list[str]:
    """Returns the addresses of a host, at least one. Raises `TimeoutError` if the system's resolver does not answer by the
    deadline, and another `OSError` if the host has no address."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return [host]
    answer: Future[list[str]] = Future()
    if not _LOOKUPS.acquire(timeout=deadline.left()):
        raise TimeoutError(f"{host}: {MAX_LOOKUPS} other names are being resolved")
    try:
        threading.Thread(target=_look_up, args=(host, port, answer), name=f"resolve {host}"[:60], daemon=True).start()
    except RuntimeError as error:  # The system has no thread left.
        _LOOKUPS.release()
        raise OSError(str(error)) from None
    try:
        return answer.result(deadline.left())
    except TimeoutError:
        raise TimeoutError(f"{host}: its name was not resolved in time") from None


def _look_up(host: str, port: int, answer: "Future[list[str]]") -> None:
    try:
        found = [each[4] for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        # The fourth value is the scope of a local address of IPv6, which names its interface.
        answer.set_result(list(dict.fromkeys(f"{at[0]}%{at[3]}" if len(at) == 4 and at[3] else str(at[0]) for at in found)))
    except (OSError, ValueError) as error:  # UnicodeError, for a name that is too long, is a ValueError.
        answer.set_exception(error if isinstance(error, OSError) else OSError(str(error)))
    finally:
        _LOOKUPS.release()


Dial = Callable[[ShardRecord, float], socket.socket]
"""Function that opens a stream to a shard's channels within a number of seconds. It raises `OSError` or `TryAgain` if that
fails, and `ConfigurationError` if it finds that the address of the shard is malformed."""


def dial(shard: ShardRecord, timeout_s: float) -> socket.socket:
    """Opens a TCP connection to the shard's channels.

    Raises `ConfigurationError` if the address is malformed, and `OSError` if the connection fails.
    """
    return socket.create_connection(place_of(shard), timeout=timeout_s)


def place_of(shard: ShardRecord) -> tuple[str, int]:
    """Returns host and port of a shard's channels. Raises `ConfigurationError` if the shard's record does not have
    `host:port`."""
    host, _, port = shard.channel.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise ConfigurationError(f"shard {shard.index}", f"channel {shard.channel[:80]!r} is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


POLL_S = 0.5
"""Seconds that `accept` waits for a peer. After each wait the caller checks whether it must stop."""

_PATH_LIMIT = 107
"""Most bytes of a socket path (unix(7): `sun_path` has 108 bytes with its final zero)."""
_CREDENTIALS = struct.Struct("3i")


def listen(path: Path, backlog: int, client_uid: int) -> socket.socket:
    """Returns a socket that listens at `path`. Replaces a socket file that an ended process left.

    If `client_uid` is negative, only processes of this process's user can connect. Otherwise the socket file lets every user
    connect, and the caller must check each peer with `is_admitted`. Raises `ConfigurationError` if another process listens at
    `path`, because that process would get no more connections. Also raises it if `path` is too long, is the socket of another
    user, or cannot be used.
    """
    if len(os.fsencode(path)) > _PATH_LIMIT:
        raise ConfigurationError("socket", f"path is longer than {_PATH_LIMIT} bytes")
    if path.is_socket():
        if _is_served(path):
            raise ConfigurationError("socket", f"another process listens at {path.name}: stop it, or name another socket")
        path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177 if client_uid < 0 else 0o111)
    try:
        server.bind(str(path))
    except OSError as error:
        server.close()
        raise ConfigurationError("socket", error.strerror or "cannot be bound") from None
    finally:
        os.umask(before)
    server.listen(backlog)
    server.settimeout(POLL_S)
    return server


def is_admitted(peer: socket.socket, client_uid: int) -> bool:
    """Returns whether the peer is a process of this process's user or of the user `client_uid`."""
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[1]) in (os.getuid(), client_uid)


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(POLL_S)
        try:
            peer.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except PermissionError:
            why = f"{path.name} is the socket of another user: remove the file if no process listens there"
            raise ConfigurationError("socket", why) from None
        except OSError:
            return True  # a full queue
    return True


_LENGTH_BYTES = 4
_CHUNK_BYTES = 2**16
_CARRIER = b"\0"


def send(peer: socket.socket, message: object) -> None:
    """Sends one message.

    Raises `TryAgain` if the peer has closed or stalls, and `MalformedValue` if the message exceeds the size limit.
    """
    send_raw(peer, encoding.encode(message))


def send_raw(peer: socket.socket, raw: bytes) -> None:
    """Sends the canonical bytes of one message. Raises the same errors as `send`."""
    if len(raw) > MAX_MESSAGE_BYTES:
        raise MalformedValue("job message", f"{len(raw)} bytes")
    try:
        peer.sendall(len(raw).to_bytes(_LENGTH_BYTES, "big") + raw)
    except OSError as error:
        raise TryAgain("job socket", type(error).__name__) from None


def receive(peer: socket.socket, *expected: type, until: float | None = None) -> Any:
    """Receives the next message, which must be of one of the expected classes.

    `until` is a time of `monotonic_s`. Raises `TryAgain` if the peer closes or stalls before the end of the message, or has not
    sent all of it by `until`. Raises a `Fault` if the message is empty, too long or of another class.
    """
    return parse_message(receive_raw(peer, until), *expected)


def receive_raw(peer: socket.socket, until: float | None = None) -> bytes:
    """Receives the bytes of the next message and does not parse them.

    Raises the `TryAgain` and `MalformedValue` errors of `receive`.
    """
    length = int.from_bytes(_read(peer, _LENGTH_BYTES, until), "big")
    if not 0 < length <= MAX_MESSAGE_BYTES:
        raise MalformedValue("job message", f"{length} bytes")
    return _read(peer, length, until)


def parse_message(raw: bytes, *expected: type) -> Any:
    """Parses a message of one of the expected classes. Raises a `Fault` for any other bytes."""
    value = encoding.parse(raw)
    for cls in expected:
        if isinstance(value, dict) and value.keys() == encoding.field_types(cls).keys():
            return encoding.from_json(cls, value)
    names = sorted(value)[:5] if isinstance(value, dict) else []
    raise WrongFields(" | ".join(cls.__name__ for cls in expected), [], names)


def send_stream(peer: socket.socket, stream: socket.socket) -> None:
    """Passes a connected stream to the peer over a unix-domain socket: one zero byte with the stream's file descriptor.

    Raises `TryAgain` if the peer has closed.
    """
    try:
        socket.send_fds(peer, [_CARRIER], [stream.fileno()])
    except OSError as error:
        raise TryAgain("job socket", type(error).__name__) from None


def receive_stream(peer: socket.socket) -> socket.socket:
    """Receives one stream from the peer.

    Raises `TryAgain` if the peer has closed or stalls, and `MalformedValue` if it sent anything else.
    """
    try:
        data, descriptors, flags, _ = socket.recv_fds(peer, len(_CARRIER), 1)
        streams = [socket.socket(fileno=each) for each in descriptors]
        for each in streams:
            each.set_inheritable(False)
    except OSError as error:
        raise TryAgain("job socket", type(error).__name__) from None
    if data == _CARRIER and len(streams) == 1 and not flags & socket.MSG_CTRUNC and streams[0].type is socket.SOCK_STREAM:
        return streams[0]
    for each in streams:
        each.close()
    if not data:
        raise TryAgain("job socket", "closed by the peer")
    raise MalformedValue("job socket", "expected exactly one stream")


def _read(peer: socket.socket, size: int, until: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        try:
            if until is not None:
                peer.settimeout(seconds_left(until))
            chunk = peer.recv(min(size - len(data), _CHUNK_BYTES))
        except OSError as error:
            raise TryAgain("job socket", type(error).__name__) from None
        if not chunk:
            raise TryAgain("job socket", "closed by the peer")
        data += chunk
    return bytes(data)
