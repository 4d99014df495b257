"""The P-256 base-mode vectors of RFC 9180 pass through our own KEM and key schedule, opened by any t of n shards."""

import itertools
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.crypto import hpke
from bytewise.crypto.curve import GENERATOR, decode_point, encode_point
from bytewise.crypto.shares import combine, split
from bytewise.protocol.errors.records import MalformedValue
from tests.source import PUBLISHED_VECTORS

TYPED = json.loads((Path(__file__).parents[2] / "vectors" / "rfc9180_p256_base.json").read_text())

PSK_MODE = json.loads((Path(__file__).parents[2] / "vectors" / "cfrg_hpke_p256_psk.json").read_text())


def raw(name: str) -> bytes:
    return bytes.fromhex(TYPED[name])


def test_the_sender_derives_the_rfc_secret() -> None:
    ephemeral = int.from_bytes(raw("skEm"))
    assert encode_point(GENERATOR * ephemeral) == raw("enc")
    assert hpke.shared_secret(decode_point(raw("pkRm")) * ephemeral, raw("enc"), raw("pkRm")) == raw("shared_secret")


def test_any_three_of_five_shards_open_the_rfc_ciphertext() -> None:
    """And two do not."""
    shares, commitments = split(int.from_bytes(raw("skRm")), 3, 5, os.urandom)
    assert encode_point(commitments[0]) == raw("pkRm")
    base = decode_point(raw("enc"))
    for subset in (*itertools.combinations(range(1, 6), 3), (1, 2)):
        secret = hpke.shared_secret(combine({i: base * shares[i] for i in subset}), raw("enc"), raw("pkRm"))
        context = hpke.key_schedule(secret, raw("info"), TYPED["aead_id"])
        assert (context.open(raw("ct"), raw("aad")) == raw("pt")) == (len(subset) == 3)
        if len(subset) == 3:
            assert (secret, context.key, context.base_nonce) == (raw("shared_secret"), raw("key"), raw("base_nonce"))
            assert context.seal(raw("pt"), raw("aad")) == raw("ct")


def test_the_published_vector_file_agrees() -> None:
    vectors = json.loads((PUBLISHED_VECTORS / "hpke" / "rfc9180_base.json").read_text())
    ours = [v for v in vectors if (v["kem_id"], v["kdf_id"], v["aead_id"]) == ("16", "1", "1")]
    assert ours and all(v["shared_secret"] == TYPED["shared_secret"] and v["enc0"]["ct"] == TYPED["ct"] for v in ours)
    for vector in (v for v in vectors if v["kem_id"] == "16"):
        point = decode_point(bytes.fromhex(vector["enc"])) * int(vector["skRm"], 16)
        secret = hpke.shared_secret(point, bytes.fromhex(vector["enc"]), bytes.fromhex(vector["pkRm"]))
        assert secret.hex() == vector["shared_secret"]


@given(st.binary(max_size=300), st.binary(max_size=64))
@settings(max_examples=25, deadline=None)
def test_transport_key_opens_only_messages_sealed_to_it(message: bytes, info: bytes) -> None:
    secret, public = hpke.transport_keypair(os.urandom)
    sealed = hpke.seal_to_transport(public, info, message)
    assert hpke.open_from_transport(secret, info, sealed) == message
    other, _ = hpke.transport_keypair(os.urandom)
    flipped = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for key, about, data in ((other, info, sealed), (secret, info + b"x", sealed), (secret, info, flipped), (secret, info, b"")):
        with pytest.raises(MalformedValue):
            hpke.open_from_transport(key, about, data)


@pytest.mark.parametrize("key", [b"", b"\x04" + bytes(64), b"\x00", b"\x04" + b"\xff" * 64])
def test_a_transport_key_that_is_no_point_is_refused(key: bytes) -> None:
    with pytest.raises(MalformedValue):
        hpke.seal_to_transport(key, b"", b"x")


def test_the_psk_vector_passes_through_our_key_schedule() -> None:
    value = {name: bytes.fromhex(text) for name, text in PSK_MODE.items() if name not in ("source", "checked_by", "aead_id")}
    secret = hpke.shared_secret(decode_point(value["enc"]) * int.from_bytes(value["skRm"]), value["enc"], value["pkRm"])
    context = hpke.key_schedule(secret, value["info"], PSK_MODE["aead_id"], hpke.Psk(value["psk"], value["psk_id"]))
    assert (secret, context.key, context.base_nonce) == (value["shared_secret"], value["key"], value["base_nonce"])
    assert context.open(value["ct"], value["aad"]) == value["pt"]
    assert hpke.key_schedule(secret, value["info"], PSK_MODE["aead_id"]).open(value["ct"], value["aad"]) is None
