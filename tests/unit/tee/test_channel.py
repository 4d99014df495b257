"""The attested channel between honest ends, and what it does with ends that are not: every wait ends, every size is capped."""

import dataclasses
import datetime
import os
import socket

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from bytewise.crypto.curve import GENERATOR, encode_point
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.evidence import ChannelBroken, ChannelRefused
from bytewise.protocol.evidence.policy_updates import first_policy_state
from bytewise.protocol.units import U64, Blob
from bytewise.tee import binding
from bytewise.tee.binding import MAX_HELLO_BYTES, MAX_PROOF_BYTES
from bytewise.tee.channel import LIFETIME_S, Channel, EphemeralKey, connect, lifetime_s, verify_certificate
from tests.fixtures.tee.channels import ENCLAVE, PATIENCE_S, SHARD, Ends, Task, plain_hello
from tests.fixtures.tee.simulated_platform import FixedClock

# --- honest ends ---


def test_both_ends_identify_each_other_and_pass_messages_of_any_size(ends: Ends) -> None:
    key, large = encode_point(GENERATOR * 7), os.urandom(3_000_000)
    with ends.open(key=key) as (enclave, shard):
        assert shard.peer.hello.transport_key == key and shard.peer.hello.role is ENCLAVE
        assert enclave.peer.hello.role is SHARD and enclave.peer.evidence.program == ends.bench.policy.measurements[1]
        for message in (b"", b"x", large):
            sent = Task(lambda message=message: enclave.send(message))  # type: ignore[misc]
            assert shard.receive(len(message)) == message
            sent.result()
            shard.send(message[:10])
            assert enclave.receive(10) == message[:10]


def test_every_channel_has_its_own_keys_and_nonces(ends: Ends) -> None:
    with ends.open() as (one, _), ends.open() as (other, _):
        assert one._tls.own_key != other._tls.own_key and one._tls.exporter() != other._tls.exporter()
        assert one.peer.hello.nonce != other.peer.hello.nonce


def test_channel_lives_no_longer_than_its_evidence(ends: Ends) -> None:
    with ends.open() as (enclave, shard):
        expires_at = enclave.peer.evidence.claims.expires_at
        assert lifetime_s(enclave.peer, expires_at - 7) == 7
        assert lifetime_s(enclave.peer, expires_at - 10 * LIFETIME_S) == LIFETIME_S
        over = Channel(enclave._tls, enclave.peer, enclave.shown, 0)
        for act in (lambda: over.send(b"late"), lambda: over.receive(10)):
            with pytest.raises(ChannelBroken, match="too old"):
                act()
        enclave.send(b"in time")
        assert shard.receive(7) == b"in time"


def test_clean_close_is_distinguished_from_a_lost_connection(ends: Ends) -> None:
    with ends.open() as (enclave, shard):
        enclave.close()
        with pytest.raises(ChannelBroken, match="by the other end"):
            shard.receive(10)
    with ends.open() as (enclave, shard):
        enclave._tls._peer.close()
        with pytest.raises(ChannelBroken, match="without a good-bye"):
            shard.receive(10)


def test_no_key_or_nonce_is_printed(ends: Ends) -> None:
    with ends.open() as (enclave, _):
        shown = "".join(map(repr, (enclave, enclave._tls, ends.enclave, ends.shard, EphemeralKey(0))))
        assert enclave._tls.exporter().hex() not in shown and "signer" not in shown and "nonce" not in shown


def test_two_ends_of_one_role_are_refused_at_setup(ends: Ends) -> None:
    with pytest.raises(ConfigurationError, match="both ends are key-shard"):
        ends.terms(SHARD, peer=SHARD)


# --- other terms ---

OTHER_TERMS: dict[str, tuple[dict[str, object], str]] = {
    "epoch": ({"key_epoch": U64(2)}, "key epoch 2 where 1"),
    "policy": ({}, "appraisal policy"),
    "role": ({"own": SHARD, "peer": ENCLAVE}, "role key-shard where verifier-enclave"),
}


@pytest.mark.parametrize("what", OTHER_TERMS)
def test_different_terms_are_refused_before_quoting_and_the_peer_informed(what: str, ends: Ends) -> None:
    changes, said = OTHER_TERMS[what]
    policy = dataclasses.replace(ends.bench.policy, serial=U64(2))
    changed = changes or {"standing": first_policy_state(policy)}
    terms = dataclasses.replace(ends.terms(ENCLAVE, account=None), **changed)  # type: ignore[arg-type]
    quoted: list[bytes] = []

    class Watched:
        def quote(self, report_data: bytes) -> Blob:
            quoted.append(report_data)
            return ends.quoter().quote(report_data)

    shard = dataclasses.replace(ends.shard, quoter=Watched())
    asking, asked = ends.attempt(enclave=dataclasses.replace(ends.enclave, terms=terms), shard=shard)
    assert isinstance(asked.error, ChannelRefused) and said in str(asked.error)
    assert isinstance(asking.error, ChannelBroken) and "ChannelRefused R-78" in str(asking.error)
    assert not quoted
    # Control: with the shard's own terms it does quote.
    ends.attempt(shard=shard)
    assert len(quoted) == 1


BAD_KEYS = {
    "the identity": b"\x00", "compressed": b"\x02" + encode_point(GENERATOR)[1:33], "off the curve": b"\x04" + b"\x01" * 64,
    "too long": encode_point(GENERATOR) + b"\0", "too short": encode_point(GENERATOR)[:-1],
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_KEYS)
def test_a_transport_key_that_is_no_point_is_refused(name: str, ends: Ends) -> None:
    terms = ends.terms(SHARD)
    assert binding.verify_hello(terms, encode(plain_hello(ends, transport_key=encode_point(GENERATOR))))
    with pytest.raises(ChannelRefused, match="transport key"):
        binding.verify_hello(terms, encode(plain_hello(ends, transport_key=Blob(BAD_KEYS[name]))))


def test_other_version_is_refused_and_not_negotiated(ends: Ends) -> None:
    with pytest.raises(ChannelRefused, match="version 2"):
        binding.verify_hello(ends.terms(SHARD), encode(plain_hello(ends, version=2)))


def test_evidence_signed_by_an_account_is_refused_where_none_is_expected(ends: Ends) -> None:
    _, asked = ends.attempt(enclave=dataclasses.replace(ends.enclave, signer=ends.shard.signer))
    assert isinstance(asked.error, ChannelRefused) and "signed by an account" in str(asked.error)


def test_caps_are_above_what_honest_ends_send(ends: Ends) -> None:
    hello = encode(plain_hello(ends, transport_key=encode_point(GENERATOR), key_epoch=U64(2**64 - 1)))
    assert len(hello) < MAX_HELLO_BYTES // 2
    for most in (MAX_HELLO_BYTES, MAX_PROOF_BYTES):
        with pytest.raises(Fault):
            binding.verify_hello(ends.terms(SHARD), b" " * (most + 1))


# --- certificates ---


def certificate(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, start: int, end: int) -> x509.Certificate:
    nobody = x509.Name([])
    return (
        x509.CertificateBuilder()
        .subject_name(nobody).issuer_name(nobody).public_key(key.public_key()).serial_number(1)
        .not_valid_before(datetime.datetime.fromtimestamp(start, datetime.UTC))
        .not_valid_after(datetime.datetime.fromtimestamp(end, datetime.UTC))
        .sign(key, hashes.SHA256())
    )  # fmt: skip


NOW = 2_000_000_000


def test_only_a_short_certificate_of_a_p256_key_is_accepted() -> None:
    good = ec.generate_private_key(ec.SECP256R1())
    assert verify_certificate(certificate(good, NOW - 1, NOW + 599), NOW)
    assert verify_certificate(EphemeralKey(NOW).certificate, NOW)
    for key, start, end, said in (
        (ec.generate_private_key(ec.SECP384R1()), NOW - 1, NOW + 1, "not on P-256"),
        (rsa.generate_private_key(65537, 2048), NOW - 1, NOW + 1, "not on P-256"),
        (good, NOW - 1, NOW + 600, "valid for 601 s"),
        (good, NOW + 1, NOW + 2, "valid from"),
        (good, NOW - 2, NOW, "valid from"),
    ):
        with pytest.raises(ChannelRefused, match=said):
            verify_certificate(certificate(key, start, end), NOW)


def test_end_with_a_wrong_clock_is_refused_by_its_certificate(ends: Ends) -> None:
    late = dataclasses.replace(ends.shard, clock=FixedClock(ends.shard.clock.now() + LIFETIME_S))
    asking, asked = ends.attempt(shard=late)
    assert isinstance(asking.error, ChannelRefused) and "valid from" in str(asking.error)
    # The shard finds the same, or first that the enclave is gone.
    assert isinstance(asked.error, ChannelRefused | ChannelBroken)


def test_failed_connect_returns_no_channel_and_closes_its_socket(ends: Ends) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with pytest.raises(ChannelBroken):
        connect(ours, ends.enclave, timeout_s=PATIENCE_S)
    assert ours.fileno() == -1
