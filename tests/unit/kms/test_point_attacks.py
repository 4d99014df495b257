"""Attack 11, points that are none: a shard that multiplies whatever it is sent gives its share away, factor by factor.

Off the curve there are points of small order. An envelope made of one passes the proof of its maker, who needs no logarithm for
it, and the partial tells the share modulo that order. Our check stops it, and the library's, each alone.
"""

import contextlib
import os
from dataclasses import replace
from typing import cast

import pytest
from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto import curve, envelope, hpke
from bytewise.crypto.curve import (
    FIELD,
    GENERATOR,
    decode_point,
    encode_point,
    encode_scalar,
    point_flaw,
    random_scalar,
    second_generator,
)
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.branches import PointFlaw
from bytewise.protocol.errors.records import EnvelopeProofBad, MalformedPoint, MalformedValue
from bytewise.protocol.keys.epochs import Partial, partial_info
from bytewise.protocol.records.seal import Envelope, envelope_hash
from bytewise.protocol.units import Blob
from kms.shard.release import Shard
from tests.fixtures.kms.memory_chain import Case
from tests.fixtures.kms.release_network import World


class Textbook:
    """A point in a library that asks none where it is; (0, 0) is the identity. The formulas for y² = x³ - 3x + b never use b."""

    def __init__(self, x: int, y: int, _curve: str = "p256") -> None:
        self.x, self.y = int(x) % FIELD, int(y) % FIELD

    def is_point_at_infinity(self) -> bool:
        """Whether it is the identity."""
        return (self.x, self.y) == (0, 0)

    def __neg__(self) -> "Textbook":
        return Textbook(self.x, -self.y)

    def __add__(self, other: "Textbook") -> "Textbook":
        if self.is_point_at_infinity() or other.is_point_at_infinity():
            return other if self.is_point_at_infinity() else self
        if self.x == other.x and (self.y + other.y) % FIELD == 0:
            return Textbook(0, 0)
        rise, run = (3 * self.x**2 - 3, 2 * self.y) if self.x == other.x else (other.y - self.y, other.x - self.x)
        slope = rise * pow(run, -1, FIELD) % FIELD
        x = slope * slope - self.x - other.x
        return Textbook(x, slope * (self.x - x) - self.y)

    def __mul__(self, scalar: int) -> "Textbook":
        total = Textbook(0, 0)
        for bit in bin(scalar)[2:]:
            total += total
            total = total + self if bit == "1" else total
        return total


ORDER_THREE = Textbook(12, 143 * pow(4, -1, FIELD))
"""On another curve, y² = x³ - 3x + b for its own b: doubled it is its negative, since its tangent's slope squared is 3x."""

TRIES = 16
"""A shard's fresh nonce is a multiple of three in a third of them, and its proof then has no encoding."""


def encoded(point: Textbook) -> Blob:
    """As our encoder writes it."""
    return encode_point(cast(EccPoint, point))


def forged(world: World) -> Case:
    """The attacker's own receipt, in a dispute in which it has a seat, over an envelope whose points are of order three."""
    case, point = world.case(), cast(EccPoint, ORDER_THREE)
    honest = decode(Envelope, case.envelope)
    challenge = 1
    while challenge % 3:
        # Where the challenge is a multiple of three the point drops out of the proof: what is left anybody can compute.
        answer = random_scalar(os.urandom)
        points = (point, point, GENERATOR * answer, second_generator() * answer)
        challenge = envelope._challenge(honest.suite, honest.key_epoch, world.context(case), points, honest.ciphertext, b"")
    enc = encode_point(point)
    data = encode(replace(honest, enc=enc, ubar=enc, e=encode_scalar(challenge), f=encode_scalar(answer)))
    own = world.named(case.payload, replace(case.receipt, envelope_hash=envelope_hash(data)), data)
    world.chain.open(own)
    return own


def remainder(world: World, shard: Shard, case: Case) -> int:
    """The shard's share modulo three, from what it answers: the partial, or never any."""
    request, peer, record = encode(world.request(case)), world.peer(shard), world.document.record
    for _ in range(TRIES):
        with contextlib.suppress(MalformedPoint):
            answer = shard.release(request, peer)
            info = partial_info(answer.record.shard, case.id, answer.record.ticket_hash, record.epoch)
            partial = decode(Partial, hpke.open_from_transport(world.secret, info, answer.sealed_partial))
            return [encoded(ORDER_THREE), encoded(-ORDER_THREE)].index(partial.point) + 1
    return 0


def ask_no_equation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our decoder, less its question whether a point is on the curve."""

    def lenient(data: bytes) -> PointFlaw | None:
        flaw = point_flaw(data)
        return None if flaw is PointFlaw.OFF_CURVE else flaw

    monkeypatch.setattr(curve, "point_flaw", lenient)


def let_the_library_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arithmetic by a library that takes any coordinates, wherever a shard computes with what it was sent."""
    first, second = (Textbook(point.x, point.y) for point in (GENERATOR, second_generator()))
    monkeypatch.setattr(curve, "EccPoint", Textbook)
    monkeypatch.setattr(envelope, "GENERATOR", first)
    monkeypatch.setattr(envelope, "second_generator", lambda: second)


def test_attack_11_points_off_the_curve_and_second_encodings_are_refused() -> None:
    identity, compressed = b"\x04" + bytes(64), encode_point(GENERATOR)[:33]
    plus_one = b"\x04" + (int(GENERATOR.x)).to_bytes(32) + (int(GENERATOR.y) + 1).to_bytes(32)
    for data in (identity, compressed, plus_one, encoded(ORDER_THREE), encode_point(GENERATOR) + b"\0", b""):
        with pytest.raises(MalformedValue):
            decode_point(data)
    # Control: the library by itself takes the identity, whose product with a share is the identity.
    assert (EccPoint(0, 0, "p256") * random_scalar(os.urandom)).is_point_at_infinity()


def test_attack_11_off_curve_envelope_is_refused_by_check_and_by_library(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    case, shard = forged(world), world.shard(1)
    with monkeypatch.context() as ours_alone:
        let_the_library_not_ask(ours_alone)
        with pytest.raises(EnvelopeProofBad) as caught:
            world.release(shard, case)
        assert caught.value.reason == PointFlaw.OFF_CURVE
    ask_no_equation(monkeypatch)
    with pytest.raises(ValueError, match="does not belong to the curve"):
        world.release(shard, case)


def test_attack_11_control_unchecked_point_reveals_the_share_modulo_three(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (ORDER_THREE + ORDER_THREE + ORDER_THREE).is_point_at_infinity()
    assert encoded(Textbook(GENERATOR.x, GENERATOR.y) * 7) == encode_point(GENERATOR * 7)
    case, shards = forged(world), [world.shard(index) for index in (1, 2)]
    ask_no_equation(monkeypatch)
    let_the_library_not_ask(monkeypatch)
    for shard in shards:
        assert remainder(world, shard, case) == shard._rotation.share().scalar() % 3
