"""The shard's attested channels: a thread for each, few for strangers and few from one place (design sections 7 and 8).

Who connects proves itself first (`bytewise.tee.channel`); until then it costs a handshake, 192 KiB and ten seconds at most. What
an attested enclave sends is capped, too, and so is the time for which it says nothing.
"""

import contextlib
import socket
import threading
from collections import Counter

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.evidence import ChannelBroken
from bytewise.protocol.keys.epochs import MAX_RELEASE_BODY_BYTES, ReleaseReply
from bytewise.service import telemetry
from bytewise.tee.channel import HANDSHAKE_S, Channel, End, accept
from kms.shard.refusals import refusal
from kms.shard.release import Shard

STRANGERS, STRANGERS_FROM_ONE_ADDRESS = 64, 16
"""Connections that have not proven themselves yet, in all and of one address. One more is closed before a byte is read."""

MEMBERS, MEMBERS_FROM_ONE_ADDRESS = 32, 16
"""Attested channels, in all and of one address. An enclave needs one of a shard for a second or so; one that comes too many is
told to try again."""

IDLE_S = 30.0
"""An attested enclave that says nothing for so long is gone."""

SHUTDOWN_S = 5.0
"""A stopping shard lets answers that are being made end for this long."""

_BACKLOG = 128
_PAUSE_S = 0.1


class Places:
    """How many connections there are. Thread-safe."""

    def __init__(
        self, strangers: int = STRANGERS, of_one: int = STRANGERS_FROM_ONE_ADDRESS, members: int = MEMBERS,
        members_of_one: int = MEMBERS_FROM_ONE_ADDRESS,
    ) -> None:  # fmt: skip
        self._most = strangers, of_one
        self._most_members = members, members_of_one
        self._strangers: Counter[str] = Counter()
        self._members: Counter[str] = Counter()
        self._lock = threading.Lock()

    def enter(self, address: str) -> bool:
        """Whether a stranger from this address may stay; it then has a place until `leave` or `promote`."""
        with self._lock:
            return _take(self._strangers, address, self._most)

    def promote(self, address: str) -> bool:
        """Whether a stranger that proved itself may stay: it gives its place for one of a member, if its address has one left."""
        with self._lock:
            free = _take(self._members, address, self._most_members)
            if free:
                _drop(self._strangers, address)
            return free

    def leave(self, address: str, *, member: bool) -> None:
        """Somebody's place is free."""
        with self._lock:
            _drop(self._members if member else self._strangers, address)

    @property
    def strangers(self) -> int:
        """Who has not proven itself yet."""
        with self._lock:
            return self._strangers.total()

    @property
    def members(self) -> int:
        """Who has."""
        with self._lock:
            return self._members.total()


def _take(places: Counter[str], address: str, most: tuple[int, int]) -> bool:
    free = places.total() < most[0] and places[address] < most[1]
    if free:
        places[address] += 1
    return free


def _drop(places: Counter[str], address: str) -> None:
    places[address] -= 1
    if places[address] <= 0:
        del places[address]


class ChannelServer:
    """Answers release requests over attested channels from when it is made until `close`."""

    def __init__(
        self, shard: Shard, end: End, listening: socket.socket, places: Places | None = None, handshake_s: float = HANDSHAKE_S
    ) -> None:  # fmt: skip
        """`listening`: a bound stream socket, from now on this object's. `end`: what the shard demands, and its own evidence."""
        self._shard, self._end, self._listening = shard, end, listening
        self._places = places or Places()
        self._handshake_s = handshake_s
        self._peers: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._closing = False
        listening.listen(_BACKLOG)
        self._acceptor = threading.Thread(target=self._accept, name="channels", daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        """Takes no more channels and ends those that there are; an answer that is being made may still be sent."""
        self._closing = True
        _end(self._listening)
        self._acceptor.join(SHUTDOWN_S)
        self._listening.close()
        with self._lock:
            running, peers = list(self._threads), list(self._peers)
        for peer in peers:
            # Only what comes in: whoever waits for a request sees the end, whoever writes an answer does not.
            _end(peer, socket.SHUT_RD)
        for thread in running:
            thread.join(SHUTDOWN_S)

    def _accept(self) -> None:
        while not self._closing:
            try:
                peer, (host, *_) = self._listening.accept()
            except OSError as error:
                if not self._closing:
                    telemetry.log("kms.accept_failed", error=type(error).__name__)
                    threading.Event().wait(_PAUSE_S)
                continue
            if not self._places.enter(host):
                telemetry.count("bytewise_kms_channels_total", outcome="full")
                peer.close()
                continue
            thread = threading.Thread(target=self._attend, args=(peer, host), name=f"channel {host}", daemon=True)
            with self._lock:
                self._peers.add(peer)
                self._threads.add(thread)
            thread.start()

    def _attend(self, peer: socket.socket, host: str) -> None:
        member = False
        try:
            with accept(peer, self._end, timeout_s=self._handshake_s) as channel:
                member = self._places.promote(host)
                telemetry.count("bytewise_kms_channels_total", outcome="attested" if member else "crowded")
                if member:
                    self._serve(channel)
                else:
                    channel.send(encode(ReleaseReply(None, refusal(TryAgain("shard", "busy with other enclaves")))))
        except BytewiseError as error:
            if not member:
                telemetry.count("bytewise_kms_channels_total", outcome="refused")
            if not (member and isinstance(error, ChannelBroken)):  # which is how every channel ends
                telemetry.log_error("kms.channel_refused", error)
        finally:
            self._places.leave(host, member=member)
            with self._lock:
                self._peers.discard(peer)
                self._threads.discard(threading.current_thread())

    def _serve(self, channel: Channel) -> None:
        while not self._closing:
            channel.send(encode(self._reply(channel, channel.receive(MAX_RELEASE_BODY_BYTES, IDLE_S))))

    def _reply(self, channel: Channel, body: bytes) -> ReleaseReply:
        try:
            return ReleaseReply(self._shard.release(body, channel.peer), None)
        except BytewiseError as error:
            return ReleaseReply(None, refusal(error))


def _end(stream: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    with contextlib.suppress(OSError):  # it has ended by itself
        stream.shutdown(how)
