"""One TLS 1.3 session of two self-signed keys over a stream socket: every wait has a deadline, what a stranger sends has a cap.

Authenticates nobody: it proves that the other end has the key that it shows, and gives the exporter that evidence binds. Nothing
of a session outlives it: no tickets, no cache, no early data, a fresh key and context each time.
"""

import socket
from collections.abc import Callable
from typing import TypeVar

from cryptography import x509
from OpenSSL import SSL, crypto

from bytewise.protocol.errors import ChannelBroken, ChannelRefused
from bytewise.protocol.reasons import ChannelFlaw
from bytewise.protocol.units import Digest
from bytewise.service.clock import monotonic_s
from bytewise.tee.binding import EXPORTER_BYTES, EXPORTER_LABEL, MAX_PROOF_BYTES
from bytewise.tee.certificates import UNREADABLE
from bytewise.tee.ephemeral import EphemeralKey, key_name, verify_certificate

MAX_STRANGER_BYTES = MAX_PROOF_BYTES + 64 * 1024
"""Most bytes that are taken from the network before the other end is attested: a proof, and a handshake of some 5 KiB."""

_CHUNK_BYTES = 16 * 1024
"""A TLS record's plaintext."""

_CODES = SSL.X509VerificationCodes
_ACCEPTED = {_CODES.OK, _CODES.ERR_DEPTH_ZERO_SELF_SIGNED_CERT, _CODES.ERR_CERT_NOT_YET_VALID, _CODES.ERR_CERT_HAS_EXPIRED}
"""One certificate that signed itself. Its dates are judged after the handshake, by the clock that judges everything else here."""

T = TypeVar("T")


class TlsSession:
    """A session whose handshake is done. For one thread at a time; never printed."""

    def __init__(self, peer: socket.socket, own: EphemeralKey, *, server: bool, now: int, until: float) -> None:
        """Runs the handshake until the monotonic second `until`; certificates are judged at unix second `now`.

        `ChannelBroken` if it does not come about, `ChannelRefused` for a certificate that cannot be the other end's.
        """
        self._peer = peer
        self._left: int | None = MAX_STRANGER_BYTES
        self._shown = False
        self._tls = SSL.Connection(self._context(own), None)
        (self._tls.set_accept_state if server else self._tls.set_connect_state)()
        self._run(self._tls.do_handshake, until)
        certificate = self._shown_certificate()
        # A resumed handshake shows no certificate: what it would give is one of a session before.
        if not self._shown or certificate is None:
            raise ChannelRefused("handshake", "resumes another session")
        self.own_key: Digest = key_name(own.certificate)
        """Name of this end's key."""
        self.peer_key: Digest = verify_certificate(certificate, now)
        """Name of the other end's key."""

    def exporter(self) -> bytes:
        """Secret of this session alone, the same at both ends (RFC 8446 section 7.5)."""
        return self._tls.export_keying_material(EXPORTER_LABEL, EXPORTER_BYTES)

    def trust(self) -> None:
        """The other end is attested: from here on it may send as much as its messages' own caps allow."""
        self._left = None

    def write(self, data: bytes, until: float) -> None:
        """Sends all of it; `ChannelBroken` if the other end does not take it in time."""
        view = memoryview(data)
        while view:
            taken = self._run(lambda: self._tls.send(bytes(view[:_CHUNK_BYTES])), until)  # noqa: B023
            view = view[taken:]

    def read(self, size: int, until: float) -> bytes:
        """Exactly `size` bytes; `ChannelBroken` if they do not come in time."""
        data = bytearray()
        while len(data) < size:
            wanted = min(size - len(data), _CHUNK_BYTES)
            data += self._run(lambda: self._tls.recv(wanted), until)  # noqa: B023
        return bytes(data)

    def close(self) -> None:
        """Says good-bye if that needs no waiting, and closes the socket."""
        try:
            self._tls.shutdown()
            self._flush(monotonic_s() + 1)
        except (SSL.Error, ChannelBroken):
            pass  # the other end is gone, which is what was wanted
        self._peer.close()

    def _shown_certificate(self) -> x509.Certificate | None:
        try:
            return self._tls.get_peer_certificate(as_cryptography=True)
        # OpenSSL is laxer about versions than the parser.
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
            self._peer.settimeout(_seconds_left(until))
            data = self._peer.recv(_CHUNK_BYTES)
        except OSError as error:
            raise ChannelBroken("broken", type(error).__name__) from None
        if not data:
            raise ChannelBroken("ended", "without a good-bye")
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise ChannelRefused("stranger", f"sent more than {MAX_STRANGER_BYTES} bytes", ChannelFlaw.TOO_LARGE)
        self._tls.bio_write(data)

    def _flush(self, until: float) -> None:
        while True:
            try:
                data = self._tls.bio_read(2 * _CHUNK_BYTES)
            except SSL.WantReadError:
                return
            try:
                self._peer.settimeout(_seconds_left(until))
                self._peer.sendall(data)
            except OSError as error:
                raise ChannelBroken("broken", type(error).__name__) from None


def _seconds_left(until: float) -> float:
    left = until - monotonic_s()
    if left <= 0:
        raise ChannelBroken("broken", "out of time")
    return left


def _reason(error: SSL.Error) -> str:
    # OpenSSL's queue: (library, function, reason) each.
    queue = error.args[0] if error.args else ()
    return str(queue[-1][-1]) if isinstance(queue, list) and queue else type(error).__name__
