"""An attested channel and ends that are no ends: whatever bytes come, every size is capped and every wait is over in time."""

import contextlib
import socket
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given, settings
from hypothesis import strategies as st
from OpenSSL import SSL, crypto

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.branches import BytewiseError, Fault
from bytewise.protocol.errors.evidence import ChannelBroken, ChannelRefused
from bytewise.protocol.units import Digest
from bytewise.service.clock import SystemClock
from bytewise.tee import binding
from bytewise.tee.binding import MAX_HELLO_BYTES, MAX_PROOF_BYTES, ChannelStatement
from bytewise.tee.channel import EphemeralKey, accept, connect, verify_certificate
from tests.fixtures.kms.memory_chain import CONTRACTS
from tests.fixtures.tee.channel_alterations import (
    _VERSION_3,
    Alteration,
    unknown_curve,
    unknown_kind_of_key,
    version_4,
)
from tests.fixtures.tee.channels import DATA, HELLO, PATIENCE_S, PROOF, SHARD, Ends, Task, Wire, plain_hello

# --- whatever bytes come ---


@given(st.binary(max_size=300) | st.sampled_from([b"{}", b"[]", b'{"version":1}', b"[" * 1000, b" " * 2000]), st.integers(0, 400))
@settings(deadline=None, max_examples=60)
def test_arbitrary_hello_or_proof_is_refused_by_name(ends: Ends, data: bytes, place: int) -> None:
    terms, genuine = ends.terms(SHARD), encode(plain_hello(ends))
    said = ChannelStatement(
        CONTRACTS, plain_hello(ends), b"\x02" * 32, Digest(b"\x03" * 32), Digest(b"\x04" * 32), Digest(b"\x05" * 32)
    )
    with pytest.raises(Fault):
        binding.verify_proof(terms, said, data, 0)
    with pytest.raises(Fault):
        binding.verify_hello(terms, data)
    # A genuine hello with other bytes somewhere is read or refused, and nothing else happens.
    try:
        binding.verify_hello(terms, genuine[:place] + data[:3] + genuine[place + 3 :])
    except BytewiseError as error:
        assert isinstance(error, Fault)


@given(st.binary(min_size=1, max_size=600))
@settings(deadline=None, max_examples=30)
def test_arbitrary_bytes_instead_of_tls_end_only_that_channel(ends: Ends, data: bytes) -> None:
    ours, theirs = socket.socketpair()
    asked = Task(lambda: accept(theirs, ends.shard, timeout_s=PATIENCE_S))
    ours.sendall(data)
    ours.shutdown(socket.SHUT_WR)
    assert isinstance(asked.ended().error, ChannelBroken)
    ours.close()


# --- certificates that TLS takes and a parser does not ---


def negative_serial(der: bytes) -> bytes:
    first = der.index(_VERSION_3) + len(_VERSION_3) + 2
    # Whatever the number was: 0xff and a byte above 0x7f would be no number of DER, which its first byte could do without.
    return der[:first] + b"\x80" + der[first + 1 :]


def odd_tls(peer: socket.socket, alter: Alteration, *, server: bool) -> None:
    """A TLS end with a real key in a patched certificate; OpenSSL does not look at the signature of one that signed itself."""
    with contextlib.closing(peer):
        _odd_handshake(peer, alter, server)


def _odd_handshake(peer: socket.socket, alter: Alteration, server: bool) -> None:
    own, context = EphemeralKey(SystemClock().now()), SSL.Context(SSL.TLS_METHOD)
    der = own.certificate.public_bytes(Encoding.DER)
    assert alter(der) != der
    context.use_certificate(crypto.load_certificate(crypto.FILETYPE_ASN1, alter(der)))
    context.use_privatekey(own.key)
    context.set_verify(SSL.VERIFY_PEER, lambda *_: True)
    tls = SSL.Connection(context, peer)
    (tls.set_accept_state if server else tls.set_connect_state)()
    try:
        tls.do_handshake()
        peer.shutdown(socket.SHUT_WR)
        tls.recv(1)
    except SSL.Error:
        pass  # refused, which the other end's error tells better


@pytest.mark.parametrize("server", [False, True], ids=["accept", "connect"])
def test_certificate_of_an_unknown_version_is_refused(server: bool, ends: Ends) -> None:
    ours, theirs = socket.socketpair()
    act, end = (connect, ends.enclave) if server else (accept, ends.shard)
    asked = Task(lambda: act(theirs, end, timeout_s=PATIENCE_S))
    stranger = Task(lambda: odd_tls(ours, version_4, server=server))
    error = asked.ended().error
    stranger.result()
    assert isinstance(error, ChannelRefused) and "InvalidVersion" in str(error)


@pytest.mark.parametrize("alter", [unknown_curve, unknown_kind_of_key])
def test_unknown_key_is_refused(alter: Alteration) -> None:
    """Our OpenSSL does not even use such keys; another one might."""
    now = SystemClock().now()
    der = EphemeralKey(now).certificate.public_bytes(Encoding.DER)
    with pytest.raises(ChannelRefused, match="does not parse"):
        verify_certificate(x509.load_der_x509_certificate(alter(der)), now)


def test_channel_accepts_any_certificate_serial_number(ends: Ends) -> None:
    """A negative one is refused or not, as the parser's version likes; no other kind of error comes of it."""
    ours, theirs = socket.socketpair()
    asked = Task(lambda: accept(theirs, ends.shard, timeout_s=PATIENCE_S))
    stranger = Task(lambda: odd_tls(ours, negative_serial, server=False))
    error = asked.ended().error
    stranger.result()
    assert isinstance(error, ChannelRefused | ChannelBroken)


# --- ends that take their time, or send too much ---

Stranger = Callable[[Wire, Ends], None]


def too_long_a_hello(wire: Wire, ends: Ends) -> None:
    wire.put(HELLO, b" " * (MAX_HELLO_BYTES + 1))


def too_long_a_proof(wire: Wire, ends: Ends) -> None:
    wire.put(HELLO, encode(plain_hello(ends)))
    wire.put(PROOF, b" " * (MAX_PROOF_BYTES + 1))


def data_before_proof(wire: Wire, ends: Ends) -> None:
    wire.put(HELLO, encode(plain_hello(ends)))
    wire.put(DATA, b"let me in")


def a_proof_in_tiny_records(wire: Wire, ends: Ends) -> None:
    """Each byte in a record of its own costs us twenty times its size."""
    wire.put(HELLO, encode(plain_hello(ends)))
    wire.tls.write(bytes([PROOF]) + MAX_PROOF_BYTES.to_bytes(4, "big"), wire._until)
    for _ in range(10_000):
        wire.tls.write(b" ", wire._until)


STRANGERS: dict[str, tuple[Stranger, str]] = {
    "a hello above the cap": (too_long_a_hello, "1025 bytes, at most 1024"),
    "a proof above the cap": (too_long_a_proof, "bytes, at most"),
    "data before a proof": (data_before_proof, "kind 4 where proof was expected"),
    "a proof in tiny records": (a_proof_in_tiny_records, "stranger"),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_peer_that_sends_too_much_is_refused(name: str, ends: Ends) -> None:
    act, said = STRANGERS[name]
    ours, theirs = socket.socketpair()
    asked = Task(lambda: accept(theirs, ends.shard, timeout_s=PATIENCE_S))
    sent = Task(lambda: act(Wire(ours, server=False), ends))
    error = asked.ended().error
    assert isinstance(error, ChannelRefused) and said in str(error)
    ours.close()
    sent.ended()


def silent(peer: socket.socket, ends: Ends) -> None:
    pass


def silent_after_tls(peer: socket.socket, ends: Ends) -> None:
    Wire(peer, server=False)


def silent_after_hello(peer: socket.socket, ends: Ends) -> None:
    Wire(peer, server=False).put(HELLO, encode(plain_hello(ends)))


@pytest.mark.parametrize("act", [silent, silent_after_tls, silent_after_hello])
def test_silent_peer_is_dropped_at_its_deadline(act: Callable[[socket.socket, Ends], None], ends: Ends) -> None:
    ours, theirs = socket.socketpair()
    asked = Task(lambda: accept(theirs, ends.shard, timeout_s=0.5))
    Task(lambda: act(ours, ends)).ended()
    error = asked.ended().error
    assert isinstance(error, ChannelBroken) and ("out of time" in str(error) or "TimeoutError" in str(error))
    ours.close()


def test_slow_sending_does_not_extend_the_deadline(ends: Ends) -> None:
    """A byte at a time keeps every single read busy, and the channel's own deadline ends it."""
    ours, theirs = socket.socketpair()
    asked = Task(lambda: accept(theirs, ends.shard, timeout_s=0.5))
    with pytest.raises(BrokenPipeError):
        # A record that announces 16 KiB: at this pace its end is an hour away.
        for byte in b"\x16\x03\x01\x40\x00" + bytes(16384):
            ours.send(bytes([byte]))
            asked._thread.join(0.02)
    assert isinstance(asked.ended().error, ChannelBroken)
    ours.close()


def test_message_above_the_cap_is_refused_unread_and_one_at_it_is_read(ends: Ends) -> None:
    with ends.open() as (enclave, shard):
        enclave.send(b"12345")
        assert shard.receive(5) == b"12345"
        enclave.send(b"123456")
        with pytest.raises(ChannelRefused, match="6 bytes, at most 5"):
            shard.receive(5)


def test_peer_that_reads_nothing_is_dropped_at_its_deadline(ends: Ends) -> None:
    with ends.open() as (enclave, _), pytest.raises(ChannelBroken):
        enclave.send(bytes(50_000_000), timeout_s=0.3)
