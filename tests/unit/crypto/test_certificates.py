"""The sum of signatures shows that all are right; where it is wrong, each wrong one is named."""

import pytest

from bytewise.crypto.bls import BlsSignature, BlsSigner, is_signed, is_signed_by_all
from bytewise.protocol.decisions.snapshot import Seat
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest

MESSAGE, OTHER = Digest(b"m" * 32), Digest(b"o" * 32)
WHO = tuple(Address(f"0x{number:040x}") for number in (1, 2, 3))
SIGNERS = {who: BlsSigner((number + 5).to_bytes(32)) for number, who in enumerate(WHO)}
KEYS = {who: signer.public_key for who, signer in SIGNERS.items()}
SEATS = tuple(Seat(who, mask, ZERO_DIGEST, ZERO_DIGEST) for who, mask in zip(WHO, (0b1, 0b110, 0b111000), strict=True))
RIGHT = {who: signer.sign(MESSAGE) for who, signer in SIGNERS.items()}


def test_right_signatures_are_right_together_and_alone() -> None:
    assert is_signed_by_all(SEATS, KEYS, MESSAGE, RIGHT)
    assert is_signed(KEYS[WHO[0]], MESSAGE, RIGHT[WHO[0]])


@pytest.mark.parametrize(
    "bad", [SIGNERS[WHO[1]].sign(OTHER), SIGNERS[WHO[0]].sign(MESSAGE), BlsSignature(bytes(256)), BlsSignature(b"\1" * 256)],
    ids=["another message", "a key of another", "infinity", "no point"],
)  # fmt: skip
def test_wrong_signature_is_wrong_in_the_sum_and_alone(bad: BlsSignature) -> None:
    assert not is_signed_by_all(SEATS, KEYS, MESSAGE, {**RIGHT, WHO[1]: bad})
    assert not is_signed(KEYS[WHO[1]], MESSAGE, bad)
