"""A mutually attested channel: TLS 1.3 first, then evidence that binds this session, then messages (design section 7).

The end that connects proves itself first: who merely connects makes nobody quote, and learns nothing but a hello. Nothing that an
application says is sent or read before both proofs hold. How the messages look is `bytewise.tee.binding`; each travels behind one
byte for its kind and four for its length.
"""

import enum
import socket
from collections.abc import Callable
from dataclasses import dataclass

from bytewise.ports import Clock, Quoter
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors import BytewiseError, ChannelBroken, ChannelRefused, Fault, MalformedValue, Unavailable
from bytewise.protocol.keys.epochs import Refusal
from bytewise.protocol.reasons import ChannelFlaw
from bytewise.protocol.signing import Signer
from bytewise.protocol.units import U64, Blob, Digest
from bytewise.service.clock import monotonic_s
from bytewise.tee import binding
from bytewise.tee.binding import MAX_HELLO_BYTES, MAX_PROOF_BYTES, VERSION, Attested, Hello, Proof, Statement, Terms
from bytewise.tee.ephemeral import LIFETIME_S, EphemeralKey
from bytewise.tee.tls import TlsSession

HANDSHAKE_S = 10.0
"""From the first byte to the last proof; a quote takes up to a second, the rest some 20 ms."""

MESSAGE_S = 30.0
"""For one message, from when it is waited for to its last byte."""

_MAX_REFUSAL_BYTES = 1024
_HEAD_BYTES = 5
_NONCE_BYTES = 32


class _Kind(enum.IntEnum):
    HELLO = 1
    PROOF = 2
    REFUSAL = 3
    DATA = 4


@dataclass(frozen=True, slots=True, repr=False)
class End:
    """What one end of channels has, for as long as its process lives; never printed."""

    terms: Terms
    """What it demands."""
    quoter: Quoter
    """Its own evidence."""
    signer: Signer | None
    """Its account, where its role has one."""
    clock: Clock
    """By which evidence and certificates are judged."""
    rng: Callable[[int], bytes]
    """Cryptographic randomness, for nonces."""


class Channel:
    """Messages to and from an attested peer. For one thread at a time; never printed. `connect` or `accept` makes one."""

    def __init__(self, tls: TlsSession, peer: Attested, shown: Blob, lives_s: float) -> None:
        self._tls = tls
        self._ends_at = monotonic_s() + lives_s
        self.peer = peer
        """Who the other end is."""
        self.shown = shown
        """The evidence that this end gave of itself."""

    def __enter__(self) -> "Channel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes, timeout_s: float = MESSAGE_S) -> None:
        """Sends one message; `ChannelBroken` if the peer does not take it in time, or once the channel is too old."""
        _send(self._tls, _Kind.DATA, data, self._until(timeout_s))

    def receive(self, most: int, timeout_s: float = MESSAGE_S) -> bytes:
        """The peer's next message of at most `most` bytes; `ChannelRefused` for a longer one, `ChannelBroken` if none comes."""
        return _receive(self._tls, _Kind.DATA, most, self._until(timeout_s))

    def close(self) -> None:
        """Ends the channel."""
        self._tls.close()

    def _until(self, timeout_s: float) -> float:
        now = monotonic_s()
        if now >= self._ends_at:
            raise ChannelBroken("over", "its evidence is too old: connect again")
        return min(now + timeout_s, self._ends_at)


def connect(peer: socket.socket, end: End, transport_key: bytes = b"", timeout_s: float = HANDSHAKE_S) -> Channel:
    """The channel over a connected stream socket, as the end that asked for it; the socket is closed if there is none.

    `transport_key`: P-256 point to which the peer may seal secrets. `EvidenceRefused`, `BadSignature` or `ChannelRefused` for a
    peer that is not who the terms demand, `ChannelBroken` if it is gone, silent or refuses us.
    """
    return _open(peer, end, Blob(transport_key), timeout_s, server=False)


def accept(peer: socket.socket, end: End, transport_key: bytes = b"", timeout_s: float = HANDSHAKE_S) -> Channel:
    """As `connect`, as the end that was asked. It tells the peer under which rule it was refused."""
    return _open(peer, end, Blob(transport_key), timeout_s, server=True)


def lifetime_s(peer: Attested, now: int) -> int:
    """Seconds for which a channel to this peer is good from unix second `now`: not longer than what its evidence rests on."""
    return min(LIFETIME_S, peer.evidence.claims.expires_at - now)


def _open(peer: socket.socket, end: End, transport_key: Blob, timeout_s: float, *, server: bool) -> Channel:
    until = monotonic_s() + timeout_s
    try:
        now = end.clock.now()
        tls = TlsSession(peer, EphemeralKey(now), server=server, now=now, until=until)
    except BaseException:
        peer.close()
        raise
    try:
        attested, shown = (_answer if server else _ask)(tls, end, transport_key, until)
        tls.trust()
        return Channel(tls, attested, shown, lifetime_s(attested, end.clock.now()))
    except BaseException as error:
        if isinstance(error, Fault):
            _refuse(tls, error, until)
        tls.close()
        raise


def _ask(tls: TlsSession, end: End, transport_key: Blob, until: float) -> tuple[Attested, Blob]:
    own = _hello(end, transport_key)
    _send(tls, _Kind.HELLO, encode(own), until)
    peer = binding.verify_hello(end.terms, _receive(tls, _Kind.HELLO, MAX_HELLO_BYTES, until))
    shown = _prove(tls, end, own, peer, until)
    return _proven(tls, end, own, peer, until), shown


def _answer(tls: TlsSession, end: End, transport_key: Blob, until: float) -> tuple[Attested, Blob]:
    peer = binding.verify_hello(end.terms, _receive(tls, _Kind.HELLO, MAX_HELLO_BYTES, until))
    own = _hello(end, transport_key)
    _send(tls, _Kind.HELLO, encode(own), until)
    attested = _proven(tls, end, own, peer, until)
    return attested, _prove(tls, end, own, peer, until)


def _hello(end: End, transport_key: Blob) -> Hello:
    terms = end.terms
    nonce = Digest(end.rng(_NONCE_BYTES))
    return Hello(VERSION, terms.own, nonce, U64(terms.key_epoch), terms.standing.policy.digest, transport_key)


def _prove(tls: TlsSession, end: End, own: Hello, peer: Hello, until: float) -> Blob:
    said = Statement(end.terms.contracts, own, tls.exporter(), tls.own_key, tls.peer_key, peer.nonce)
    signature = Blob(b"") if end.signer is None else end.signer.sign(binding.account_digest(said))
    evidence = end.quoter.quote(binding.report_data(said))
    _send(tls, _Kind.PROOF, encode(Proof(evidence, signature)), until)
    return evidence


def _proven(tls: TlsSession, end: End, own: Hello, peer: Hello, until: float) -> Attested:
    proof = _receive(tls, _Kind.PROOF, MAX_PROOF_BYTES, until)
    said = Statement(end.terms.contracts, peer, tls.exporter(), tls.peer_key, tls.own_key, own.nonce)
    return binding.verify_proof(end.terms, said, proof, end.clock.now())


def _refuse(tls: TlsSession, error: BytewiseError, until: float) -> None:
    try:
        _send(tls, _Kind.REFUSAL, encode(Refusal(type(error).__name__, error.rule, isinstance(error, Unavailable))), until)
    except ChannelBroken:
        pass  # it is refused, whether it hears of it or not


def _send(tls: TlsSession, kind: _Kind, data: bytes, until: float) -> None:
    if len(data) >= 2**32:
        raise MalformedValue("message", f"{len(data)} bytes")
    tls.write(bytes([kind]) + len(data).to_bytes(_HEAD_BYTES - 1, "big") + data, until)


def _receive(tls: TlsSession, wanted: _Kind, most: int, until: float) -> bytes:
    head = tls.read(_HEAD_BYTES, until)
    kind, size = head[0], int.from_bytes(head[1:])
    if kind == _Kind.REFUSAL and size <= _MAX_REFUSAL_BYTES:
        told = decode(Refusal, tls.read(size, until))
        raise ChannelBroken("refused", f"by the other end: {told.error[:40]} {told.rule[:4]}")
    if kind != wanted:
        raise ChannelRefused("message", f"kind {kind} where {wanted.name.lower()} was expected")
    if size > most:
        raise ChannelRefused("message", f"{size} bytes, at most {most}", ChannelFlaw.TOO_LARGE)
    return tls.read(size, until)
