"""The shard's attested channels. Each channel has one thread. Few connections may wait for attestation, and few may come from one
address (design sections 7 and 8).

A client must first prove which program it runs (`bytewise.tee.channel`). Before that proof, one connection costs the shard at
most a handshake, 192 KiB and ten seconds. After the proof, the shard still limits the size of the client's messages and the time
without a message.
"""

import contextlib
import socket
import threading

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.evidence import ChannelBroken
from bytewise.protocol.keys.epochs import MAX_RELEASE_BODY_BYTES, ReleaseReply
from bytewise.service import metrics, telemetry
from bytewise.service.clock import monotonic_s
from bytewise.service.connections import AddressSlots
from bytewise.tee.channel import HANDSHAKE_S, Channel, ChannelEndpoint, accept
from kms.shard.release import Shard, refusal

MAX_UNATTESTED, MAX_UNATTESTED_PER_ADDRESS = 64, 16
"""Most connections that have not proven themselves yet, in all and from one address. Any further connection is closed before a
byte is read."""

MAX_ATTESTED, MAX_ATTESTED_PER_ADDRESS = 32, 16
"""Most attested channels, in all and from one address. An enclave needs one channel to a shard for about a second. An enclave
beyond the limit is asked to try again."""

IDLE_S = 30.0
"""Seconds of silence after which an attested enclave is disconnected."""

SHUTDOWN_S = 5.0
"""Seconds that a stopping shard waits for all running answers together."""

_BACKLOG = 128
_PAUSE_S = 0.1


class ChannelServer:
    """A server that answers release requests over attested channels, from its creation until `close`."""

    def __init__(
        self,
        shard: Shard,
        end: ChannelEndpoint,
        listening: socket.socket,
        unattested: AddressSlots | None = None,
        attested: AddressSlots | None = None,
        handshake_s: float = HANDSHAKE_S,
    ) -> None:
        """`end` has the shard's requirements for peers and its own evidence. `listening` is a bound stream socket, which this
        object closes. `unattested` and `attested` limit the connections before and after the peer has proven itself."""
        self._shard, self._end, self._listening = shard, end, listening
        self._unattested = unattested or AddressSlots(MAX_UNATTESTED, MAX_UNATTESTED_PER_ADDRESS)
        self._attested = attested or AddressSlots(MAX_ATTESTED, MAX_ATTESTED_PER_ADDRESS)
        self._handshake_s = handshake_s
        self._peers: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._closing = False
        listening.listen(_BACKLOG)
        self._acceptor = threading.Thread(target=self._accept, name="channels", daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        """Stops the server: it accepts no more channels and ends the open channels. An answer that is being made may still be
        sent. This method returns after `SHUTDOWN_S` seconds, even if some answers take longer."""
        self._closing = True
        until = monotonic_s() + SHUTDOWN_S
        _shut_down(self._listening)
        self._acceptor.join(SHUTDOWN_S)
        self._listening.close()
        with self._lock:
            running, peers = list(self._threads), list(self._peers)
        for peer in peers:
            # Only the receiving side is closed: a thread that waits for a request sees the end, and a thread that writes an
            # answer continues.
            _shut_down(peer, socket.SHUT_RD)
        for thread in running:
            thread.join(max(until - monotonic_s(), 0))

    def _accept(self) -> None:
        while not self._closing:
            try:
                peer, (host, *_) = self._listening.accept()
            except OSError as error:
                if not self._closing:
                    telemetry.log("channel.accept_failed", error=type(error).__name__)
                    threading.Event().wait(_PAUSE_S)
                continue
            if not self._unattested.take(host):
                metrics.KMS_CHANNELS.labels(outcome="full").inc()
                peer.close()
                continue
            thread = threading.Thread(target=self._attend, args=(peer, host), name=f"channel {host}", daemon=True)
            with self._lock:
                self._peers.add(peer)
                self._threads.add(thread)
            try:
                thread.start()
            except RuntimeError as error:  # The system has no thread left. Later connections may get one.
                telemetry.log("channel.accept_failed", error=type(error).__name__)
                self._forget(peer, thread, host, self._unattested)
                peer.close()

    def _attend(self, peer: socket.socket, host: str) -> None:
        attested = False
        try:
            with accept(peer, self._end, timeout_s=self._handshake_s) as channel:
                attested = self._attested.take(host)
                metrics.KMS_CHANNELS.labels(outcome="attested" if attested else "crowded").inc()
                if attested:
                    self._unattested.leave(host)
                    self._serve(channel)
                else:
                    channel.send(encode(ReleaseReply(None, refusal(TryAgain("shard", "is busy with other enclaves: ask again")))))
        except BytewiseError as error:
            if not attested:
                metrics.KMS_CHANNELS.labels(outcome="refused").inc()
            if not (attested and isinstance(error, ChannelBroken)):  # the normal end of a channel
                telemetry.log_error("channel.refused", error)
        finally:
            self._forget(peer, threading.current_thread(), host, self._attested if attested else self._unattested)

    def _forget(self, peer: socket.socket, thread: threading.Thread, host: str, slots: AddressSlots) -> None:
        slots.leave(host)
        with self._lock:
            self._peers.discard(peer)
            self._threads.discard(thread)

    def _serve(self, channel: Channel) -> None:
        while not self._closing:
            channel.send(encode(self._reply(channel, channel.receive(MAX_RELEASE_BODY_BYTES, IDLE_S))))

    def _reply(self, channel: Channel, body: bytes) -> ReleaseReply:
        try:
            return ReleaseReply(self._shard.release(body, channel.peer), None)
        except BytewiseError as error:
            return ReleaseReply(None, refusal(error))


def _shut_down(stream: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    with contextlib.suppress(OSError):  # the channel ended by itself
        stream.shutdown(how)
