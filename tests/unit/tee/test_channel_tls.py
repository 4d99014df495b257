"""The TLS under an attested channel: version 1.3, a certificate on both sides, and no session that outlives its connection."""

import socket
from contextlib import ExitStack
from typing import ClassVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from OpenSSL import SSL

from bytewise.protocol.errors.evidence import ChannelBroken, ChannelRefused
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.tee.channel import EphemeralKey, TlsSession
from tests.fixtures.tee.channels import PATIENCE_S, Task


def serve(peer: socket.socket, kind: type[TlsSession] = TlsSession) -> TlsSession:
    """Our end of a session that somebody else asked for; says one byte, so that the other has read all that came before."""
    now, until = SystemClock().now(), monotonic_s() + PATIENCE_S
    with ExitStack() as refused:
        refused.callback(peer.close)
        session = kind(peer, EphemeralKey(now), server=True, now=now, until=until)
        session.write(b"!", until)
        refused.pop_all()
    return session


def client_context(key: EphemeralKey | None) -> SSL.Context:
    """A client as libraries make it: tickets welcome, any version."""
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_verify(SSL.VERIFY_NONE)
    if key is not None:
        context.use_certificate(key.certificate)
        context.use_privatekey(key.key)
    return context


class Client:
    """A client of the library alone, over a socket."""

    def __init__(self, context: SSL.Context, kind: type[TlsSession] = TlsSession, session: SSL.Session | None = None) -> None:
        ours, theirs = socket.socketpair()
        self.server = Task(lambda: serve(theirs, kind))
        self._socket = ours
        self.tls = SSL.Connection(context, ours)
        if session is not None:
            self.tls.set_session(session)
        self.tls.set_connect_state()

    def run(self) -> "Client":
        """Itself, after the handshake and a byte from the server."""
        self.tls.do_handshake()
        assert self.tls.recv(1) == b"!"
        return self

    def hang_up(self) -> None:
        """Gone, without a word."""
        self._socket.close()


class Resuming(TlsSession):
    """Our session as it would be with the library's defaults: tickets and one context for all connections."""

    shared: ClassVar[SSL.Context | None] = None
    newest: ClassVar["Resuming"]

    def _context(self, own: EphemeralKey) -> SSL.Context:
        Resuming.newest = self
        if Resuming.shared is None:
            context = client_context(own)
            context.set_session_id(b"resuming")
            flags = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT
            context.set_verify(flags, lambda *given: Resuming.newest._accept(*given))
            Resuming.shared = context
        return Resuming.shared


class Forgetful(Resuming):
    """Does not ask whether a certificate was shown in this very handshake."""

    def __getattribute__(self, name: str) -> object:
        return True if name == "_shown" else super().__getattribute__(name)


def resumed(kind: type[TlsSession]) -> Task[TlsSession]:
    """What became of the second connection of a client that kept the session of the first."""
    Resuming.shared = None
    context = client_context(EphemeralKey(SystemClock().now()))
    first = Client(context, kind).run()
    kept = first.tls.get_session()
    assert kept is not None and first.server.result()
    second = Client(context, kind, kept)
    try:
        second.run()
    except SSL.Error:
        pass  # the server ended it
    return second.server.ended()


def test_saved_session_is_not_resumed() -> None:
    assert resumed(TlsSession).result()._shown


def test_resumed_handshake_is_refused_even_if_the_library_allows_it() -> None:
    error = resumed(Resuming).error
    assert isinstance(error, ChannelRefused) and "resumes another session" in str(error)


def test_control_session_is_resumed_without_the_check() -> None:
    """No certificate is shown in the second handshake, the peer's key is that of the first, and nothing is noticed."""
    assert resumed(Forgetful).result().peer_key


def test_tls_1_2_is_refused() -> None:
    key = EphemeralKey(SystemClock().now())
    old = client_context(key)
    old.set_max_proto_version(SSL.TLS1_2_VERSION)
    client = Client(old)
    with pytest.raises(SSL.Error):
        client.run()
    error = client.server.ended().error
    assert isinstance(error, ChannelBroken) and "protocol" in str(error)
    # Control: the same client with nothing held back.
    assert Client(client_context(key)).run().tls.get_protocol_version_name() == "TLSv1.3"


def test_client_without_certificate_gets_no_session() -> None:
    client = Client(client_context(None))
    with pytest.raises(SSL.Error):
        client.run()
    error = client.server.ended().error
    assert isinstance(error, ChannelBroken) and "certificate" in str(error)


def test_certificate_signed_by_another_key_is_refused() -> None:
    """Who vouches for a key is evidence; a chain would be somebody's word and is not read."""
    authority, leaf = (EphemeralKey(SystemClock().now()) for _ in range(2))
    issued = leaf.certificate
    context = client_context(None)
    context.use_certificate(signed_by(authority, leaf, issued))
    context.use_privatekey(leaf.key)
    client = Client(context)
    with pytest.raises(SSL.Error):
        client.run()
    assert isinstance(client.server.ended().error, ChannelBroken)


def signed_by(authority: EphemeralKey, leaf: EphemeralKey, like: x509.Certificate) -> x509.Certificate:
    """The certificate of a key, by another key under another name."""
    other = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "somebody")])
    builder = x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(other).public_key(leaf.key.public_key())
    builder = builder.serial_number(7).not_valid_before(like.not_valid_before_utc).not_valid_after(like.not_valid_after_utc)
    return builder.sign(authority.key, hashes.SHA256())


def test_both_ends_of_a_session_export_the_same_secret() -> None:
    secrets = set()
    for _ in range(2):
        ours, theirs = socket.socketpair()
        other = Task(lambda theirs=theirs: serve(theirs))  # type: ignore[misc]
        now, until = SystemClock().now(), monotonic_s() + PATIENCE_S
        mine = TlsSession(ours, EphemeralKey(now), server=False, now=now, until=until)
        their = other.result()
        assert mine.exporter() == their.exporter() and mine.own_key == their.peer_key and mine.peer_key == their.own_key
        secrets.add(mine.exporter())
    assert len(secrets) == 2 and all(len(each) == 32 for each in secrets)


def test_message_to_a_closed_peer_is_not_reported_as_sent() -> None:
    client = Client(client_context(EphemeralKey(SystemClock().now()))).run()
    session, until = client.server.result(), monotonic_s() + PATIENCE_S
    client.hang_up()
    with pytest.raises(ChannelBroken, match="BrokenPipeError"):
        session.write(b"x" * 2**20, until)
    session.close()
