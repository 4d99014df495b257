"""Ports for the processes of a network on one machine, handed out before the processes exist."""

import errno
import functools
import itertools
import socket
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bytewise.protocol.errors import ConfigurationError

_HOST = "127.0.0.1"

_FIRST, _END, _BLOCK = 10_000, 32_768, 512
"""Below those that Linux takes by itself where nobody set it otherwise, for outgoing connections and for port 0 (ip(7),
`ip_local_port_range`)."""


class _Block(NamedTuple):
    claim: socket.socket
    """Bound to the first port of the block until this process ends; so no other process has the block."""
    rest: Iterator[int]
    """The other ports, over and over."""


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different.

    They come again only after hundreds of others, and no other process that asks here gets them, so that each may be bound
    later. Of ports that the kernel chooses neither is true: it may choose one again as soon as the probe is closed.
    `ConfigurationError` if there are not as many.
    """
    found = list(itertools.islice(filter(_is_free, itertools.islice(_own().rest, _BLOCK - 1)), count))
    if len(found) < count:
        raise ConfigurationError("ports", f"{len(found)} of {_HOST} are free where {count} are needed: end processes left over")
    return found


@functools.cache
def _own() -> _Block:
    return _claim(range(_FIRST, _END - _BLOCK, _BLOCK))


def _claim(firsts: Iterable[int]) -> _Block:
    for first in firsts:
        claim = socket.socket()
        if _binds(claim, first):
            return _Block(claim, itertools.cycle(range(first + 1, first + _BLOCK)))
        claim.close()
    raise ConfigurationError("ports", f"all blocks from {_FIRST} to {_END} of {_HOST} are taken: end processes left over")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do, to which a connection that has just ended is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return _binds(probe, port)


def _binds(probe: socket.socket, port: int) -> bool:
    try:
        probe.bind((_HOST, port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise ConfigurationError("ports", f"{_HOST}:{port}: {error.strerror}") from None
        return False
    return True
