"""Connections from an enclave to shards. The duty process at the other end of the job socket connects, and passes the stream to
the enclave.

Only enclave and shard can read the content of the stream (`enclave.release_client`). The enclave needs no network.
"""

import socket
import threading

from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.jobs import Dial, Dialled, ShardRecord
from bytewise.service import frames


class ShardDialer:
    """Opens streams to shards for the job that the enclave is working on. Several threads may call `dial`, which serves one
    thread after the other."""

    def __init__(self) -> None:
        self.peer: socket.socket | None = None
        """Connection of the job socket. The code that serves the connection sets it."""
        self._turn = threading.Lock()

    def dial(self, shard: ShardRecord, timeout_s: float) -> socket.socket:
        """Returns a stream to a shard of the job's epoch. Raises `TryAgain` if there is no job, or if the duty process could not
        connect."""
        if self.peer is None:
            raise TryAgain(shard.channel, "no job is being served")
        with self._turn:
            frames.send(self.peer, Dial(shard.index))
            answer = frames.receive(self.peer, Dialled)
            if answer.error:
                raise TryAgain(shard.channel, str(answer.error)[:40])
            return frames.receive_stream(self.peer)
