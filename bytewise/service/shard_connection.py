"""Connections to a shard's attested channels. Enclaves have no network, so their host dials and passes the stream in."""

import socket
from collections.abc import Callable

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.jobs import ShardRecord

Dial = Callable[[ShardRecord, float], socket.socket]
"""Opens a stream to a shard's channels within so many seconds. `OSError` or `TryAgain` if it cannot be reached."""


def dial(shard: ShardRecord, timeout_s: float) -> socket.socket:
    """A TCP connection to the shard's channels. `ConfigurationError` for a malformed address."""
    return socket.create_connection(place_of(shard), timeout=timeout_s)


def place_of(shard: ShardRecord) -> tuple[str, int]:
    """Host and port of a shard's channels. `ConfigurationError` if its record does not have `host:port`."""
    host, _, port = shard.channel.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise ConfigurationError(f"shard {shard.index}", f"channel {shard.channel[:80]!r} is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
