"""The job socket of an enclave: what its host, which nobody measured, sends it."""

import socket
from pathlib import Path

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.jobs import Prepare, RunJob
from bytewise.protocol.units import Digest
from bytewise.service import connections
from tests.fixtures.kms.release_network import World
from tests.fuzz.target import Target, target

MOST = 64 * 1024
"""What a socket takes at once, without anybody who reads."""


def messages(folder: Path) -> Target:
    """Messages, with lengths of their own or those that they have; what was taken is what was sent."""
    world = World(folder)
    seeds = [encode(record) for record in (Prepare(Digest(bytes(32))), world.job(world.case()))]
    seeds.append(_framed(seeds[0]))

    def read(data: bytes) -> None:
        sent = (data if data[:1] == b"\0" else _framed(data))[:MOST]
        ours, peer = socket.socketpair()
        with ours, peer:
            peer.sendall(sent)
            peer.shutdown(socket.SHUT_WR)
            record = connections.receive(ours, Prepare, RunJob)
        if not sent.startswith(_framed(encode(record))):
            raise AssertionError(f"{type(record).__name__} has other bytes than it was read of")

    return target(read, seeds, (Fault, TryAgain))


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
