"""Points and scalars have one encoding each; everything else is refused."""

import os

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from bytewise.crypto.curve import (
    FIELD,
    GENERATOR,
    ORDER,
    decode_point,
    decode_scalar,
    encode_point,
    encode_scalar,
    random_scalar,
    second_generator,
)
from bytewise.protocol.errors.branches import Bug
from bytewise.protocol.errors.records import MalformedPoint, MalformedValue

GOOD = encode_point(GENERATOR * 5)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x00", GOOD[:-1], GOOD + b"\x00", b"\x02" + GOOD[1:33], b"\x03" + GOOD[1:33], b"\x06" + GOOD[1:],
        b"\x04" + bytes(64), GOOD[:-1] + bytes([GOOD[-1] ^ 1]), b"\x04" + b"\xff" * 64,
        b"\x04" + (int.from_bytes(GOOD[1:33]) + FIELD).to_bytes(33, "big")[1:] + GOOD[33:],
    ],
    ids=[
        "empty", "identity", "short", "trailing byte", "compressed even", "compressed odd", "hybrid", "zero zero",
        "off curve", "above the field", "not reduced",
    ],
)  # fmt: skip
def test_other_encodings_of_points_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedPoint):
        decode_point(data)


@given(st.binary(min_size=60, max_size=70))
def test_random_bytes_are_a_point_or_malformed(data: bytes) -> None:
    try:
        assert encode_point(decode_point(data)) == data
    except MalformedValue:
        pass


@given(st.integers(1, ORDER - 1))
def test_points_agree_with_an_independent_library(scalar: int) -> None:
    theirs = ec.derive_private_key(scalar, ec.SECP256R1()).public_key()
    encoded = theirs.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    assert encode_point(GENERATOR * scalar) == encoded
    assert decode_point(encoded) == GENERATOR * scalar


def test_the_identity_is_never_encoded() -> None:
    with pytest.raises(MalformedPoint) as caught:
        encode_point(GENERATOR * ORDER)
    assert caught.value.reason == "identity"


@pytest.mark.parametrize("data", [b"", bytes(31), bytes(33), ORDER.to_bytes(32, "big"), b"\xff" * 32])
def test_other_encodings_of_scalars_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedValue):
        decode_scalar(data)


@given(st.integers(0, ORDER - 1))
def test_scalars_round_trip(value: int) -> None:
    assert decode_scalar(encode_scalar(value)) == value


def test_second_generator_is_independent_and_fixed() -> None:
    assert second_generator() != GENERATOR
    assert decode_point(encode_point(second_generator())) == second_generator()
    assert encode_point(second_generator()).hex().startswith("04364ab4a4f554d3f7")


def test_generator_of_impossible_scalars_is_a_bug() -> None:
    with pytest.raises(Bug):
        random_scalar(lambda size: bytes(size))
    assert 0 < random_scalar(os.urandom) < ORDER
