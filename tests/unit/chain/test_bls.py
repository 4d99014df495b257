"""Certificates' signatures in Python: as the reference library and the chain's own precompiles find them."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py_ecc.bls.ciphersuites import G2ProofOfPossession as Suite
from py_ecc.bls.g2_primitives import G1_to_pubkey, G2_to_signature, pubkey_to_G1, signature_to_G2, subgroup_check
from py_ecc.fields import optimized_bls12_381_FQ as Fq
from py_ecc.fields import optimized_bls12_381_FQ2 as Fq2
from py_ecc.optimized_bls12_381.optimized_curve import G1, curve_order, is_inf, neg, normalize

from bytewise.crypto import bls
from bytewise.crypto.bls import BlsSignature, BlsSigner, PublicKey
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import BadSignature, MalformedValue
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Address, Digest, unhex
from tests.fixtures.chain.anvil import Anvil, running_anvil
from tests.vectors import make_bls

DOMAIN = Domain(31337, Address("0x" + "b1" * 20))
MESSAGE = make_bls.word("message")
NEGATIVE_GENERATOR = b"".join(int(each).to_bytes(64) for each in normalize(neg(G1)))
MAP_TO_G2, ADD_G1, PAIRING = 0x11, 0x0B, 0x0F


@pytest.fixture(scope="module")
def chain() -> Iterator[Anvil]:
    with running_anvil() as anvil:
        yield anvil


def precompile(chain: Anvil, number: int, data: bytes) -> bytes:
    """What the chain answers; raises if it refuses."""
    return unhex(chain.rpc("eth_call", {"to": f"0x{number:040x}", "data": "0x" + data.hex()}, "latest"))


def test_the_committed_vectors_are_what_the_script_writes() -> None:
    assert make_bls.FILE.read_text() == make_bls.text()


def test_the_suite_is_the_one_of_the_reference() -> None:
    assert (bls.MESSAGE_TAG, bls.POSSESSION_TAG) == (Suite.DST, Suite.POP_TAG)
    secret = 7**40
    key = BlsSigner(secret.to_bytes(32))
    signature = key.sign(MESSAGE)
    x, y = (Fq(each) for each in numbers(key.public_key))
    assert G1_to_pubkey((x, y, Fq(1))) == Suite.SkToPk(secret)
    x0, x1, y0, y1 = numbers(signature)
    compressed = G2_to_signature((Fq2([x0, x1]), Fq2([y0, y1]), Fq2([1, 0])))
    assert compressed == Suite.Sign(secret, MESSAGE) and bls.expand_signature(compressed) == signature


def numbers(point: bytes) -> list[int]:
    """Its coordinates."""
    return [int.from_bytes(point[i : i + 64]) for i in range(0, len(point), 64)]


COMPRESSED: dict[int, tuple[bytes, Callable[[Any], Any], Callable[[bytes], bytes]]] = {
    48: (Suite.SkToPk(7), pubkey_to_G1, lambda raw: bls.difference_of_keys([raw], [])),
    96: (Suite.Sign(7, MESSAGE), signature_to_G2, bls.expand_signature),
}


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(COMPRESSED)), st.data())
def test_compressed_points_are_those_of_the_reference(size: int, data: st.DataObject) -> None:
    right, reference, expanded = COMPRESSED[size]
    made = [right, bytes(size), b"\xc0" + bytes(size - 1), b"\xe0" + bytes(size - 1), b"\x40" + bytes(size - 1)]
    raw = bytearray(data.draw(st.sampled_from([right, *made])))
    for bit in data.draw(st.lists(st.integers(0, size * 8 - 1), max_size=2)):
        raw[bit // 8] ^= 1 << bit % 8
    try:
        point = reference(bytes(raw))
        is_point = subgroup_check(point)
    except (ValueError, AssertionError):
        is_point = False
    try:
        found = expanded(bytes(raw))
    except MalformedValue:
        assert not is_point
    else:
        assert is_point and numbers(found) == coordinates(point)


def coordinates(point: Any) -> list[int]:
    """Those of a point of the reference; zeros for infinity."""
    if is_inf(point):
        return [0] * (4 if isinstance(point[0], Fq2) else 2)
    return [int(part) for each in normalize(point) for part in (each.coeffs if isinstance(each, Fq2) else (each,))]


def test_the_chain_accepts_what_python_signs(chain: Anvil) -> None:
    """e(key, hash) e(-generator, signature) = 1 by the precompile, for a committee with several seats."""
    vectors = json.loads(make_bls.FILE.read_text())["aggregate"]
    hashed = bls.hash_to_curve(Digest(unhex(vectors["message"])), Suite.DST)
    pairs = unhex(vectors["key"]) + hashed + NEGATIVE_GENERATOR + unhex(vectors["signature"])
    assert int.from_bytes(precompile(chain, PAIRING, pairs)) == 1
    other = unhex(vectors["members"][0]) + pairs[128:]
    assert int.from_bytes(precompile(chain, PAIRING, other)) == 0


def test_the_chain_adds_keys_as_python_does(chain: Anvil) -> None:
    keys = [make_bls.signer(i).public_key for i in range(2)]
    assert precompile(chain, ADD_G1, keys[0] + keys[1]) == bls.committee_key((key, 1) for key in keys)
    stray = PublicKey(unhex(make_bls.strays()[0]))
    assert len(precompile(chain, ADD_G1, keys[0] + stray)) == 128, "the precompile does not look at the subgroup"
    with pytest.raises(MalformedValue, match="outside the subgroup"):
        bls.committee_key([(stray, 1)])


def test_a_signature_is_checked_against_key_message_and_purpose() -> None:
    key, account = make_bls.signer(1), Address("0x" + "ac" * 20)
    signature = key.sign(MESSAGE)
    bls.check_signature(key.public_key, MESSAGE, signature)
    with pytest.raises(BadSignature, match="BLS signature"):
        bls.check_signature(make_bls.signer(2).public_key, MESSAGE, signature)
    proof = key.prove_possession(DOMAIN, account)
    bls.check_possession(DOMAIN, account, key.public_key, proof)
    with pytest.raises(BadSignature):
        bls.check_signature(key.public_key, bls.possession_digest(DOMAIN, account, key.public_key), proof)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, curve_order - 1), st.integers(1, 9)), min_size=1, max_size=4))
def test_sums_are_signatures_of_the_sum(parts: list[tuple[int, int]]) -> None:
    total = sum(secret * seats for secret, seats in parts) % curve_order
    signers = [BlsSigner(secret.to_bytes(32)) for secret, _ in parts]
    keys = bls.committee_key((signer.public_key, seats) for signer, (_, seats) in zip(signers, parts, strict=True))
    assert keys == (BlsSigner(total.to_bytes(32)).public_key if total else bytes(128))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 128 * 8 - 1))
def test_a_key_with_one_other_bit_is_no_key(bit: int) -> None:
    key = bytearray(make_bls.signer(1).public_key)
    key[bit // 8] ^= 1 << bit % 8
    with pytest.raises(MalformedValue, match="BLS key"):
        bls.committee_key([(PublicKey(bytes(key)), 1)])


@pytest.mark.parametrize("size", [0, 96, 255, 257])
def test_a_signature_of_another_length_is_named(size: int) -> None:
    with pytest.raises(MalformedValue, match=f"{size} bytes instead of 256"):
        bls.aggregate([(BlsSignature(bytes(size)), 1)])


def test_infinity_signs_nothing_and_no_seat_counts_nothing() -> None:
    with pytest.raises(MalformedValue, match="infinity"):
        bls.check_signature(PublicKey(bytes(128)), MESSAGE, BlsSignature(bytes(256)))
    with pytest.raises(MalformedValue, match="seats"):
        bls.committee_key([(make_bls.signer(1).public_key, 0)])


@pytest.mark.parametrize("secret", [b"", bytes(32), bytes(31), curve_order.to_bytes(32), b"\xff" * 32, b"\x01" * 33])
def test_a_secret_outside_the_group_is_refused_without_quoting_it(secret: bytes) -> None:
    with pytest.raises(ConfigurationError, match="no scalar") as caught:
        BlsSigner(secret)
    assert not secret or secret.hex() not in str(caught.value)


def test_a_signer_prints_its_key_hash_and_never_its_secret() -> None:
    secret = bytes(range(1, 33))
    signer = BlsSigner(secret)
    assert bls.key_hash(signer.public_key).hex() in repr(signer) and secret.hex() not in repr(signer)
    assert b"".join(bls.point_words(signer.public_key)) == signer.public_key and len(bls.point_words(signer.public_key)) == 4
