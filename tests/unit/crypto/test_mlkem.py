"""Our encapsulation is ML-KEM-768's: the library, which encapsulates again and compares, decapsulates what we make.

A decapsulation of a ciphertext with one wrong bit gives another secret (implicit rejection), so an equal secret shows that every
bit is right.
"""

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from hypothesis import example, given
from hypothesis import strategies as st

from bytewise.crypto import hpke, mlkem
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.suites import KEM_KEY_BYTES

SEED = hashlib.sha512(b"seed").digest()
KEY = hpke.kem_key(SEED)


@given(st.binary(min_size=64, max_size=64), st.binary(min_size=32, max_size=32))
@example(bytes(64), bytes(32))
@example(b"\xff" * 64, b"\xff" * 32)
def test_the_library_decapsulates_what_we_encapsulate(seed: bytes, message: bytes) -> None:
    made = mlkem.encapsulate(hpke.kem_key(seed), message)
    assert len(made.ciphertext) == mlkem.CIPHERTEXT_BYTES
    assert MLKEM768PrivateKey.from_seed_bytes(seed).decapsulate(made.ciphertext) == made.secret
    assert mlkem.encapsulate(hpke.kem_key(seed), message) == made


@given(st.integers(0, 8 * mlkem.CIPHERTEXT_BYTES - 1))
def test_one_wrong_bit_gives_another_secret(bit: int) -> None:
    made = mlkem.encapsulate(KEY, bytes(32))
    wrong = bytearray(made.ciphertext)
    wrong[bit // 8] ^= 1 << bit % 8
    assert MLKEM768PrivateKey.from_seed_bytes(SEED).decapsulate(bytes(wrong)) != made.secret


def test_other_messages_and_keys_give_other_secrets() -> None:
    made = {mlkem.encapsulate(key, message).secret for key in (KEY, hpke.kem_key(bytes(64))) for message in (bytes(32), KEY[:32])}
    assert len(made) == 4


@pytest.mark.parametrize("key", [b"", KEY[:-1], KEY + b"\0", b"\xff\xff" + KEY[2:], KEY[:1150] + b"\xff\xff" + KEY[1152:]])
def test_malformed_mlkem_key_is_refused(key: bytes) -> None:
    with pytest.raises(MalformedValue, match="ML-KEM-768 key"):
        mlkem.verify_key(key)
    with pytest.raises(MalformedValue, match="ML-KEM-768 key"):
        mlkem.encapsulate(key, bytes(32))


@given(st.integers(0, 767), st.integers(0, 4095))
def test_largest_coefficient_is_below_q(place: int, value: int) -> None:
    bits = int.from_bytes(KEY[:-32], "little") & ~(0xFFF << 12 * place) | value << 12 * place
    key = bits.to_bytes(KEM_KEY_BYTES - 32, "little") + KEY[-32:]
    if value < 3329:
        assert mlkem.verify_key(key) == key
    else:
        with pytest.raises(MalformedValue, match="not below q"):
            mlkem.verify_key(key)


def test_a_message_of_another_length_is_refused() -> None:
    for size in (0, 31, 33):
        with pytest.raises(MalformedValue, match="ML-KEM message"):
            mlkem.encapsulate(KEY, bytes(size))
