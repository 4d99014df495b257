"""A mutually attested channel: TLS 1.3 first, then evidence that binds this session, then messages (design section 7).

The end that connects proves itself first. A client that sends no proof therefore gets only a hello, and causes no quote. Neither
end sends or reads an application message before it has verified the proof of the other end. `bytewise.tee.binding` defines the
messages of the proofs. Each message begins with one byte for its kind and four bytes for its length.
"""

import datetime
import enum
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from OpenSSL import SSL, crypto

from bytewise.ports import Clock, Quoter
from bytewise.protocol import digests
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.branches import BytewiseError, ChannelFlaw, Fault, Unavailable
from bytewise.protocol.errors.evidence import ChannelBroken, ChannelRefused
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.keys.epochs import ShardRefusal
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U64, Blob, Digest
from bytewise.service.clock import monotonic_s
from bytewise.service.connections import seconds_left
from bytewise.tee import binding
from bytewise.tee.binding import (
    EXPORTER_BYTES,
    EXPORTER_LABEL,
    MAX_HELLO_BYTES,
    MAX_PROOF_BYTES,
    VERSION,
    AttestedPeer,
    ChannelStatement,
    Hello,
    PeerRequirements,
    Proof,
)
from bytewise.tee.documents import UNREADABLE

# Each end has a fresh key for each channel, in its own certificate, which contains only the key and is valid for ten minutes.

LIFETIME_S = 600
"""Number of seconds for which a certificate is valid, and the longest life of a channel."""

SKEW_S = 60
"""Number of seconds by which a certificate's validity begins before the certificate is made, because the clock of a peer may be
behind. A peer whose clock is ahead can use the certificate for a shorter time."""


class EphemeralKey:
    """Fresh P-256 key with its certificate. It is never printed or stored."""

    __slots__ = ("certificate", "key")

    def __init__(self, now: int) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        start = datetime.datetime.fromtimestamp(now - SKEW_S, datetime.UTC)
        # Evidence shows who has the key; a name in the certificate would be an unverified claim.
        nobody = x509.Name([])
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(nobody)
            .issuer_name(nobody)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + datetime.timedelta(seconds=LIFETIME_S))
            .sign(self.key, hashes.SHA256())
        )


def key_name(certificate: x509.Certificate) -> Digest:
    """Returns the SHA-256 of the certificate's SubjectPublicKeyInfo. Evidence uses it as the name of a TLS key."""
    return digests.sha256(certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def verify_certificate(certificate: x509.Certificate, now: int) -> Digest:
    """Checks a certificate at Unix second `now`, and returns the name of its key. The certificate must be valid and short-lived,
    and its key must be on P-256. Raises `ChannelRefused` otherwise.

    TLS verifies that the sender has the private key. The evidence shows to whom the key belongs.
    """
    try:
        key = certificate.public_key()
        start = int(certificate.not_valid_before_utc.timestamp())
        end = int(certificate.not_valid_after_utc.timestamp())
    except UNREADABLE as error:
        raise ChannelRefused("certificate", f"does not parse: {type(error).__name__}") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ChannelRefused("certificate", "its key is not on P-256")
    if end - start > LIFETIME_S:
        raise ChannelRefused("certificate", f"valid for {end - start} s, at most {LIFETIME_S}")
    if not start <= now < end:
        raise ChannelRefused("certificate", f"valid from {start} to {end}, now {now}")
    return key_name(certificate)


# One TLS 1.3 session of two self-signed keys over a stream socket. Every wait has a deadline, and an unattested peer's bytes are
# limited.

MAX_UNATTESTED_BYTES = MAX_PROOF_BYTES + 64 * 1024
"""Most bytes that are read from the network before the other end is attested: a proof, and a handshake of about 5 KiB."""

_CHUNK_BYTES = 16 * 1024
"""Largest plaintext of a TLS record, in bytes."""

_CODES = SSL.X509VerificationCodes
_ACCEPTED = {_CODES.OK, _CODES.ERR_DEPTH_ZERO_SELF_SIGNED_CERT, _CODES.ERR_CERT_NOT_YET_VALID, _CODES.ERR_CERT_HAS_EXPIRED}
"""Results of OpenSSL's check that are accepted: the peer sent one self-signed certificate. Its dates are checked after the
handshake, by the same clock as everything else here."""

T = TypeVar("T")


class TlsSession:
    """TLS session after its handshake. Use it from one thread at a time. It is never printed."""

    def __init__(self, peer: socket.socket, own: EphemeralKey, *, server: bool, now: int, until: float) -> None:
        """Runs the handshake until the monotonic second `until`. Certificates are judged at Unix second `now`.

        Raises `ChannelBroken` if the handshake fails, and `ChannelRefused` if the other end's certificate is not acceptable.
        """
        self._peer = peer
        self._left: int | None = MAX_UNATTESTED_BYTES
        self._shown = False
        self._tls = SSL.Connection(self._context(own), None)
        (self._tls.set_accept_state if server else self._tls.set_connect_state)()
        self._run(self._tls.do_handshake, until)
        certificate = self._shown_certificate()
        # A resumed handshake shows no certificate and would continue an earlier session.
        if not self._shown or certificate is None:
            raise ChannelRefused("handshake", "resumes another session")
        self.own_key: Digest = key_name(own.certificate)
        """Name of this end's key."""
        self.peer_key: Digest = verify_certificate(certificate, now)
        """Name of the other end's key."""

    def exporter(self) -> bytes:
        """Returns a secret of this session alone, which is the same at both ends (RFC 8446 section 7.5)."""
        return self._tls.export_keying_material(EXPORTER_LABEL, EXPORTER_BYTES)

    def trust(self) -> None:
        """Marks the other end as attested. Before this call, the sum of the bytes that the other end sends is limited. After this
        call, only the size of each message is limited."""
        self._left = None

    def write(self, data: bytes, until: float) -> None:
        """Sends all bytes. Raises `ChannelBroken` if the other end does not accept them before the monotonic second `until`."""
        view = memoryview(data)
        while view:
            taken = self._run(lambda: self._tls.send(bytes(view[:_CHUNK_BYTES])), until)  # noqa: B023
            view = view[taken:]

    def read(self, size: int, until: float) -> bytes:
        """Returns exactly `size` bytes. Raises `ChannelBroken` if they do not arrive before the monotonic second `until`."""
        data = bytearray()
        while len(data) < size:
            wanted = min(size - len(data), _CHUNK_BYTES)
            data += self._run(lambda: self._tls.recv(wanted), until)  # noqa: B023
        return bytes(data)

    def close(self) -> None:
        """Sends TLS's closing message, for at most a second, and closes the socket. It does not wait for the other end's
        message."""
        try:
            self._tls.shutdown()
            self._flush(monotonic_s() + 1)
        except (SSL.Error, ChannelBroken):
            pass  # the other end is already gone
        self._peer.close()

    def _shown_certificate(self) -> x509.Certificate | None:
        try:
            return self._tls.get_peer_certificate(as_cryptography=True)
        # OpenSSL accepts certificate versions that the parser refuses.
        except UNREADABLE as error:
            raise ChannelRefused("certificate", f"does not parse: {type(error).__name__}") from None

    def _context(self, own: EphemeralKey) -> SSL.Context:
        context = SSL.Context(SSL.TLS_METHOD)
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
        context.set_max_proto_version(SSL.TLS1_3_VERSION)
        context.set_options(SSL.OP_NO_TICKET | SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, self._accept)
        context.use_certificate(own.certificate)
        context.use_privatekey(own.key)
        return context

    def _accept(self, _tls: SSL.Connection, _certificate: crypto.X509, error: int, depth: int, _ok: int) -> bool:
        self._shown = True
        return depth == 0 and error in _ACCEPTED

    def _run(self, act: Callable[[], T], until: float) -> T:
        while True:
            try:
                result = act()
            except SSL.WantReadError:
                self._flush(until)
                self._feed(until)
            except SSL.ZeroReturnError:
                raise ChannelBroken("ended", "by the other end") from None
            except SSL.Error as error:
                self._flush(until)
                raise ChannelBroken("broken", _reason(error)) from None
            else:
                self._flush(until)
                return result

    def _feed(self, until: float) -> None:
        try:
            self._peer.settimeout(seconds_left(until))
            data = self._peer.recv(_CHUNK_BYTES)
        except OSError as error:
            raise ChannelBroken("broken", type(error).__name__) from None
        if not data:
            raise ChannelBroken("ended", "without a good-bye")
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise ChannelRefused("stranger", f"sent more than {MAX_UNATTESTED_BYTES} bytes", ChannelFlaw.TOO_LARGE)
        self._tls.bio_write(data)

    def _flush(self, until: float) -> None:
        while True:
            try:
                data = self._tls.bio_read(2 * _CHUNK_BYTES)
            except SSL.WantReadError:
                return
            try:
                self._peer.settimeout(seconds_left(until))
                self._peer.sendall(data)
            except OSError as error:
                raise ChannelBroken("broken", type(error).__name__) from None


def _reason(error: SSL.Error) -> str:
    # OpenSSL's queue: (library, function, reason) each.
    queue = error.args[0] if error.args else ()
    return str(queue[-1][-1]) if isinstance(queue, list) and queue else type(error).__name__


HANDSHAKE_S = 10.0
"""Number of seconds from the first byte to the last proof. A quote takes up to a second, everything else about 20 ms."""

MESSAGE_S = 30.0
"""Number of seconds for one message, from the start of the wait to the message's last byte."""

_MAX_REFUSAL_BYTES = 1024
_HEAD_BYTES = 5
_NONCE_BYTES = 32


class _Kind(enum.IntEnum):
    HELLO = 1
    PROOF = 2
    REFUSAL = 3
    DATA = 4


@dataclass(frozen=True, slots=True, repr=False)
class ChannelEndpoint:
    """Everything that one end needs to open channels. A process makes it once and never prints it."""

    terms: PeerRequirements
    """Requirements for the peer."""
    quoter: Quoter
    """Source of this end's evidence."""
    signer: LocalSigner | None
    """Account of this end; None if its role has no account."""
    clock: Clock
    """Clock by which evidence and certificates are judged."""
    rng: Callable[[int], bytes]
    """Function that returns the given number of cryptographically random bytes. Nonces are made of them."""


class Channel:
    """Channel for messages to and from an attested peer. `connect` or `accept` makes it. Use it from one thread at a time. It is
    never printed."""

    def __init__(self, tls: TlsSession, peer: AttestedPeer, shown: Blob, lives_s: float) -> None:
        self._tls = tls
        self._ends_at = monotonic_s() + lives_s
        self.peer = peer
        """The attested other end."""
        self.shown = shown
        """The evidence that this end sent about itself."""

    def __enter__(self) -> "Channel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes, timeout_s: float = MESSAGE_S) -> None:
        """Sends one message. Raises `ChannelBroken` if the peer does not accept it in time, or if the channel is too old."""
        _send(self._tls, _Kind.DATA, data, self._until(timeout_s))

    def receive(self, most: int, timeout_s: float = MESSAGE_S) -> bytes:
        """Returns the peer's next message. Raises `ChannelRefused` if it has more than `most` bytes or another kind. Raises
        `ChannelBroken` if none arrives in time, if the peer ended the channel or refused, or if the channel is too old."""
        return _receive(self._tls, _Kind.DATA, most, self._until(timeout_s))

    def close(self) -> None:
        """Ends the channel and closes its socket."""
        self._tls.close()

    def _until(self, timeout_s: float) -> float:
        now = monotonic_s()
        if now >= self._ends_at:
            raise ChannelBroken("over", "its evidence is too old: connect again")
        return min(now + timeout_s, self._ends_at)


def connect(peer: socket.socket, end: ChannelEndpoint, transport_key: bytes = b"", timeout_s: float = HANDSHAKE_S) -> Channel:
    """Opens a channel over a connected stream socket, as the end that connected. After an error the socket is closed.

    `transport_key` is a P-256 point to which the peer may seal secrets. Raises a `Fault`, for example `EvidenceRefused`,
    `BadSignature` or `ChannelRefused`, if the peer does not satisfy the requirements. Raises `ChannelBroken` if the peer is
    gone, silent or refuses this end. The errors of this end's quoter and signer are passed on.
    """
    return _open(peer, end, Blob(transport_key), timeout_s, server=False)


def accept(peer: socket.socket, end: ChannelEndpoint, transport_key: bytes = b"", timeout_s: float = HANDSHAKE_S) -> Channel:
    """Opens a channel like `connect`, but as the end that accepted the connection."""
    return _open(peer, end, Blob(transport_key), timeout_s, server=True)


def lifetime_s(peer: AttestedPeer, now: int) -> int:
    """Returns the number of seconds for which a channel to this peer may live from Unix second `now`. The number is at most
    `LIFETIME_S`, and the channel never outlives the validity of the peer's evidence."""
    return min(LIFETIME_S, peer.evidence.claims.expires_at - now)


def _open(peer: socket.socket, end: ChannelEndpoint, transport_key: Blob, timeout_s: float, *, server: bool) -> Channel:
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


def _ask(tls: TlsSession, end: ChannelEndpoint, transport_key: Blob, until: float) -> tuple[AttestedPeer, Blob]:
    own = _hello(end, transport_key)
    _send(tls, _Kind.HELLO, encode(own), until)
    peer = binding.verify_hello(end.terms, _receive(tls, _Kind.HELLO, MAX_HELLO_BYTES, until))
    shown = _prove(tls, end, own, peer, until)
    return _verify_peer(tls, end, own, peer, until), shown


def _answer(tls: TlsSession, end: ChannelEndpoint, transport_key: Blob, until: float) -> tuple[AttestedPeer, Blob]:
    peer = binding.verify_hello(end.terms, _receive(tls, _Kind.HELLO, MAX_HELLO_BYTES, until))
    own = _hello(end, transport_key)
    _send(tls, _Kind.HELLO, encode(own), until)
    attested = _verify_peer(tls, end, own, peer, until)
    return attested, _prove(tls, end, own, peer, until)


def _hello(end: ChannelEndpoint, transport_key: Blob) -> Hello:
    terms = end.terms
    nonce = Digest(end.rng(_NONCE_BYTES))
    return Hello(VERSION, terms.own, nonce, U64(terms.key_epoch), terms.standing.policy.digest, transport_key)


def _prove(tls: TlsSession, end: ChannelEndpoint, own: Hello, peer: Hello, until: float) -> Blob:
    said = ChannelStatement(end.terms.contracts, own, tls.exporter(), tls.own_key, tls.peer_key, peer.nonce)
    signature = Blob(b"") if end.signer is None else end.signer.sign(binding.account_digest(said))
    evidence = end.quoter.quote(binding.report_data(said))
    _send(tls, _Kind.PROOF, encode(Proof(evidence, signature)), until)
    return evidence


def _verify_peer(tls: TlsSession, end: ChannelEndpoint, own: Hello, peer: Hello, until: float) -> AttestedPeer:
    proof = _receive(tls, _Kind.PROOF, MAX_PROOF_BYTES, until)
    said = ChannelStatement(end.terms.contracts, peer, tls.exporter(), tls.peer_key, tls.own_key, own.nonce)
    return binding.verify_proof(end.terms, said, proof, end.clock.now())


def _refuse(tls: TlsSession, error: BytewiseError, until: float) -> None:
    try:
        _send(tls, _Kind.REFUSAL, encode(ShardRefusal(type(error).__name__, error.rule, isinstance(error, Unavailable))), until)
    except ChannelBroken:
        pass  # the peer is refused even if the message does not arrive


def _send(tls: TlsSession, kind: _Kind, data: bytes, until: float) -> None:
    if len(data) >= 2**32:
        raise MalformedValue("message", f"{len(data)} bytes")
    tls.write(bytes([kind]) + len(data).to_bytes(_HEAD_BYTES - 1, "big") + data, until)


def _receive(tls: TlsSession, wanted: _Kind, most: int, until: float) -> bytes:
    head = tls.read(_HEAD_BYTES, until)
    kind, size = head[0], int.from_bytes(head[1:])
    if kind == _Kind.REFUSAL and size <= _MAX_REFUSAL_BYTES:
        told = decode(ShardRefusal, tls.read(size, until))
        raise ChannelBroken("refused", f"by the other end: {told.error[:40]} {told.rule[:4]}")
    if kind != wanted:
        raise ChannelRefused("message", f"kind {kind} where {wanted.name.lower()} was expected")
    if size > most:
        raise ChannelRefused("message", f"{size} bytes, at most {most}", ChannelFlaw.TOO_LARGE)
    return tls.read(size, until)
