"""How an enclave reaches shards: it asks the duty process at the other end of the job socket, which hands in a connected stream.

What travels on the stream is between enclave and shard (TLS with the shard's pinned certificate); the enclave needs no network.
"""

import socket

from bytewise.protocol.errors import TryAgain
from bytewise.protocol.jobs import Dial, Dialled, ShardRecord
from verifier import frames


class Switchboard:
    """Streams to shards for the conversation that runs; one at a time, as the enclave has jobs."""

    def __init__(self) -> None:
        self.peer: socket.socket | None = None
        """The job socket's connection; whoever serves it sets it."""

    def dial(self, shard: ShardRecord, timeout_s: float) -> socket.socket:
        """A stream to a shard of the job's epoch; `TryAgain` if there is no job or the duty process could not connect."""
        if self.peer is None:
            raise TryAgain(shard.url, "no job is being served")
        frames.send(self.peer, Dial(shard.index))
        answer = frames.receive(self.peer, Dialled)
        if answer.error:
            raise TryAgain(shard.url, str(answer.error)[:40])
        return frames.receive_stream(self.peer)
