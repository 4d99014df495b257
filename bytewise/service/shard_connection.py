"""Connects to the attested channels of a shard.

An enclave has no network, so its host connects and passes the stream to the enclave.
"""

import socket
from collections.abc import Callable

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.jobs import ShardRecord

Dial = Callable[[ShardRecord, float], socket.socket]
"""Function that opens a stream to a shard's channels within a number of seconds. It raises `OSError` or `TryAgain` if that
fails."""


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
