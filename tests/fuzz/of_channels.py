"""The attested channel: what an end reads of a peer that it does not know yet."""

import socket
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.evidence import ChannelBroken, ChannelRefused
from bytewise.protocol.keys.epochs import ShardRefusal
from bytewise.protocol.units import Blob, Digest
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.tee import binding
from bytewise.tee.binding import ChannelStatement, Proof
from bytewise.tee.channel import EphemeralKey, TlsSession, _Kind, _receive, verify_certificate
from bytewise.tee.documents import UNREADABLE
from tests.fixtures.kms.memory_chain import CONTRACTS
from tests.fixtures.tee.channels import SHARD, Ends, plain_hello
from tests.fuzz.edits import mutant
from tests.fuzz.of_evidence import shared_bench
from tests.fuzz.target import Target, corpus, same, target

HANDSHAKE_RECORD = 22
"""Content type (RFC 8446, 5.1)."""


def hellos(_folder: Path) -> Target:
    """Hellos, at a shard."""
    ends = Ends(shared_bench())
    terms, seed = ends.terms(SHARD), encode(plain_hello(ends))
    return target(lambda data: same(binding.verify_hello(terms, data), data), [seed])


def proofs(_folder: Path) -> Target:
    """Proofs, at a shard, for a statement that genuine evidence binds."""
    ends = Ends(shared_bench())
    names = (Digest(bytes([each]) * 32) for each in (3, 4, 5))
    said = ChannelStatement(CONTRACTS, plain_hello(ends), b"\x02" * 32, *names)
    seed = encode(Proof(ends.quoter().quote(binding.report_data(said)), Blob(b"")))
    terms, now = ends.terms(SHARD), SystemClock().now()
    return target(lambda data: binding.verify_proof(terms, said, data, now), [seed])


class Bytes:
    """A peer whose bytes are all there; then it is gone."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int, until: float) -> bytes:
        """As `TlsSession.read`."""
        if size > len(self._data):
            raise ChannelBroken("ended", "without a good-bye")
        taken, self._data = self._data[:size], self._data[size:]
        return taken


def frames(_folder: Path) -> Target:
    """Messages of a channel with their heads, refusals among them."""

    def framed(kind: _Kind, data: bytes) -> bytes:
        return bytes([kind]) + len(data).to_bytes(4, "big") + data

    refusal = encode(ShardRefusal("EvidenceRefused", "R-31", False))
    seeds = (framed(_Kind.DATA, b"a message"), framed(_Kind.REFUSAL, refusal), framed(_Kind.HELLO, b"{}"))

    def read(data: bytes) -> None:
        taken = _receive(Bytes(data), _Kind.DATA, 1024, 0.0)  # type: ignore[arg-type]
        if len(taken) > 1024:
            raise AssertionError("more than was asked for")

    return target(read, seeds, (Fault, ChannelBroken))


def certificates(_folder: Path) -> Target:
    """Certificates that TLS took."""
    now = SystemClock().now()
    seed = EphemeralKey(now).certificate.public_bytes(Encoding.DER)

    def read(data: bytes) -> None:
        try:
            certificate = x509.load_der_x509_certificate(data)
        except UNREADABLE:
            raise ChannelRefused("certificate", "does not parse") from None
        verify_certificate(certificate, now)

    return target(read, [seed], ChannelRefused)


def handshakes(_folder: Path) -> Target:
    """The first bytes of a TLS peer, at an end that was asked and at one that asks; taken is what is answered."""
    ours = SSL.Connection(SSL.Context(SSL.TLS_METHOD), None)
    ours.set_connect_state()
    try:
        ours.do_handshake()
    except SSL.WantReadError:
        seed = ours.bio_read(16 * 1024)
    now = SystemClock().now()

    def one(data: bytes) -> bool:
        peer, other = socket.socketpair()
        with peer, other:
            other.sendall(mutant(data, [seed])[: 32 * 1024])
            other.shutdown(socket.SHUT_WR)
            try:
                TlsSession(peer, EphemeralKey(now), server=len(data) % 8 != 7, now=now, until=monotonic_s() + 60)
            except (ChannelBroken, ChannelRefused):
                other.setblocking(False)
                # A record of a handshake is an answer, another one an alert.
                return peer.fileno() >= 0 and _first(other) == HANDSHAKE_RECORD
        raise AssertionError("a session with a peer that is gone")

    return Target(one, corpus([seed]))


def _first(peer: socket.socket) -> int:
    try:
        return next(iter(peer.recv(1)), 0)
    except OSError:
        return 0
