"""Dealers that speak last and choose: the key as they like it, or a key of their own (attack 13 of
`docs/evidence/attacks.md`)."""

import os
from collections.abc import Iterator
from dataclasses import replace

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto.curve import GENERATOR, ORDER, decode_point, encode_point, encode_scalar, random_scalar
from bytewise.protocol.keys.ceremony_log import Body, Deal, Judgement
from kms.ceremony.deals import deal, prepare, seal
from tests.unit.kms.ceremonies import Party, Town
from tests.unit.kms.liars import index_of

OWN = 424242
"""The secret that a rogue wants to be the key's."""


def is_wanted(key: EccPoint) -> bool:
    """What a chooser wants of a key: one in eight has it."""
    return encode_point(key)[-1] % 8 == 0


def constants_dealt(town: Town) -> EccPoint:
    """Sum of the constants that the log has, times G."""
    dealt = list(town.state.polynomials.values())
    total = dealt[0][0]
    for each in dealt[1:]:
        total = total + each[0]
    return total


def chooser(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Looks at what the others dealt, and tries constants of its own until the key is as it wants it."""
    if not isinstance(body, Deal):
        yield body
        return
    index, others = index_of(town, who), constants_dealt(town)
    while True:
        opening = prepare(town.state.id, index, random_scalar(os.urandom), town.plan.threshold, os.urandom)
        if is_wanted(others + decode_point(opening.commitments[0])):
            break
    yield deal(town.state.id, town.state.begun, index, opening, town.state.keys, os.urandom)


def withdrawer(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Looks at what the others dealt, and deals only if its own constant makes the key even; else it is silent."""
    if not isinstance(body, Deal) or is_even(constants_dealt(town) + decode_point(body.commitments[0])):
        yield body


def lying_withdrawer(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """As `withdrawer`, but in place of silence it says what makes it a liar."""
    said = list(withdrawer(town, who, body))
    yield from said
    if not said and isinstance(body, Deal):
        yield replace(body, sealed=())


def is_even(key: EccPoint) -> bool:
    """What a withdrawer wants of a key: one in two has it."""
    return encode_point(key)[-1] % 2 == 0


def rogue(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Takes the others' constants away from a key of its own. Of that polynomial it knows the values of shards 1 and 2, which
    look at them, and no other; the two that are left, itself among them, complain of nothing. Threshold 3."""
    if isinstance(body, Judgement):
        yield Judgement(body.begun, ())
        return
    if not isinstance(body, Deal):
        yield body
        return
    known = {0: GENERATOR * OWN + -constants_dealt(town), 1: GENERATOR * 5, 2: GENERATOR * 7}
    e = f = encode_scalar(1)
    keys, index = town.state.keys, index_of(town, who)
    values = {1: 5, 2: 7}
    sealed = tuple(seal(town.state.id, index, i, values.get(i, 1), keys[i], os.urandom) for i in sorted(keys))
    yield Deal(town.state.begun, tuple(encode_point(each) for each in through(known)), e, f, sealed)


def silent_judge(town: Town, who: Party, body: Body) -> Iterator[Body]:
    """Deals as it should, and complains of nothing."""
    yield Judgement(body.begun, ()) if isinstance(body, Judgement) else body


def through(values: dict[int, EccPoint]) -> list[EccPoint]:
    """Coefficients of the polynomial of degree 2 that has these values at 0, 1 and 2, times G."""
    zero, one, two = values[0], values[1], values[2]
    square = (two + -(one + one) + zero) * pow(2, -1, ORDER)
    return [zero, one + -zero + -square, square]
