"""Sends and receives job messages on a stream: canonical JSON after a 4-byte big-endian length (`bytewise.protocol.jobs`).

A message has no type field. Its members identify its class, and both sides know which classes may come next.
"""

import socket
from typing import Any

from bytewise.protocol import encoding
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.records import MalformedValue, WrongFields
from bytewise.protocol.jobs import MAX_MESSAGE_BYTES
from bytewise.service.peers import seconds_left

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

    `until` is a time of `monotonic_s`. Raises `TryAgain` if the peer closes or stalls within the message, or has not sent all of
    it by `until`. Raises a `Fault` if the message is too long or of another class.
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
