"""Sections 2 and 5 of the text: roundings, the quantiser, roots and functions."""

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt

Vector = list[Fraction]

ZERO, ONE = Fraction(0), Fraction(1)
LOG2_E = Fraction(0x1715476, 2**24)
LN2_HIGH = Fraction(0x163, 2**9)
LN2_LOW = -Fraction(0x1BD0106, 2**24) / 2**13
GELU_SLOPE = Fraction(0x1988454, 2**24)
GELU_CUBIC = Fraction(0x16E4E26, 2**24) / 2**5
FACTORIALS = (5040, 720, 120, 24, 6, 2, 1)


def power(exponent: int) -> Fraction:
    """2^exponent."""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def f32(value: Fraction) -> Fraction:
    """Rounded once to binary32; OverflowError where that is infinite."""
    return _rounded(value, 24, -149, 128)


def f64(value: Fraction) -> Fraction:
    """Rounded once to binary64."""
    return _rounded(value, 53, -1074, 1024)


def _rounded(value: Fraction, digits: int, lowest: int, highest: int) -> Fraction:
    over, under = abs(value.numerator), value.denominator
    top = over.bit_length() - under.bit_length()
    # 2^(top - 1) < |value| < 2^(top + 1); the last digit of the result weighs 2^place.
    at_least = over >= under << top if top >= 0 else over << -top >= under
    place = max(top - digits + at_least, lowest)
    whole, rest = divmod(over << max(-place, 0), under << max(place, 0))
    whole += 2 * rest > under << max(place, 0) or (2 * rest == under << max(place, 0) and whole & 1)
    if whole.bit_length() + place > highest:
        raise OverflowError(f"{float(value):.3g} has no place in {digits} digits")
    whole = whole if value.numerator >= 0 else -whole
    return Fraction(whole << place) if place >= 0 else Fraction(whole, 1 << -place)


def quantised(row: Sequence[Fraction], bits: int) -> tuple[list[int], int]:
    """Q(row, bits): integers and E."""
    largest, exponent = max(abs(x) for x in row), 64
    while largest >= power(exponent - 126):
        exponent += 1
    limit, unit = 2**bits - 1, scale(exponent, bits)
    return [max(-limit, min(limit, round(x / unit))) for x in row], exponent


def scale(exponent: int, bits: int) -> Fraction:
    """s of a row with exponent E."""
    return power(exponent - 126 - bits)


def dot(left: Sequence[int], right: Sequence[int]) -> int:
    """Sum of products."""
    return sum(a * b for a, b in zip(left, right, strict=True))


def root(x: Fraction) -> Fraction:
    """sqrt32: the correctly rounded root, from an integer root with 64 more bits and a sticky bit."""
    if x == 0:
        return ZERO
    shift = 2 * (64 + max(0, x.denominator.bit_length() - x.numerator.bit_length()))
    scaled = (x.numerator << shift) // x.denominator
    found = isqrt(scaled)
    exact = found * found * x.denominator == x.numerator << shift
    return f32(Fraction(2 * found + (not exact), 2 << (shift // 2)))


def exponential(t: Fraction) -> Fraction:
    """exp for t <= 0."""
    if t < -86:
        return ZERO
    n = round(f32(t * LOG2_E))
    r = f32(f32(t - f32(n * LN2_HIGH)) - f32(n * LN2_LOW))
    value = f32(r * f32(Fraction(1, FACTORIALS[0])))
    for factorial in FACTORIALS[1:]:
        value = f32(f32(value + f32(Fraction(1, factorial))) * r)
    return f32(value + 1) * power(n)


def sigmoid(x: Fraction) -> Fraction:
    """σ."""
    e = exponential(-abs(x))
    return f32((ONE if x >= 0 else e) / f32(e + 1))


def silu(x: Fraction) -> Fraction:
    """x · σ(x)."""
    return f32(x * sigmoid(x))


def gelu_tanh(x: Fraction) -> Fraction:
    """x · σ(v)."""
    cube = f32(f32(x * x) * x)
    return f32(x * sigmoid(f32(f32(f32(cube * GELU_CUBIC) + x) * GELU_SLOPE)))


def tanh(x: Fraction) -> Fraction:
    """Hyperbolic tangent."""
    e = exponential(-2 * abs(x))
    size = f32(f32(1 - e) / f32(e + 1))
    return size if x >= 0 else -size


def softcap(x: Fraction, cap: Fraction) -> Fraction:
    """cap · tanh(x / cap)."""
    return f32(tanh(f32(x / cap)) * cap)


def norm(x: Vector, weight: Vector, epsilon: Fraction) -> Vector:
    """RMSNorm."""
    integers, exponent = quantised(x, 14)
    mean = f32(f64(Fraction(dot(integers, integers), len(x))))
    divisor = root(f32(f32(mean * f32(scale(exponent, 14) ** 2)) + epsilon))
    return [f32(f32(v / divisor) * w) for v, w in zip(x, weight, strict=True)]


def softmax(scores: Vector) -> tuple[Vector, Fraction]:
    """e of each score, and the denominator den · 2^-30."""
    largest = max(scores)
    e = [exponential(f32(score - largest)) for score in scores]
    return e, f32(Fraction(sum(round(w * 2**30) for w in e))) / 2**30
