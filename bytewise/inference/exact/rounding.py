"""Conversion of rationals to float32, rounded once, for the known-answer tests and the sampler's temperature."""

from fractions import Fraction

from bytewise.protocol.errors.records import MalformedValue

LOWEST_EXPONENT = -149
"""Exponent of the smallest float32: all float32 values are multiples of 2^-149."""


def nearest_float32(value: Fraction) -> float:
    """Returns the float32 nearest to a rational, ties to even, subnormals included. Raises `MalformedValue` if it is beyond the
    largest float32."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length() - 24
    if size / _power(exponent) >= 2**24:
        exponent += 1
    exponent = max(exponent, LOWEST_EXPONENT)
    # Python rounds Fractions half to even.
    rounded = round(value / _power(exponent)) * _power(exponent)
    if abs(rounded) >= _power(128):
        raise MalformedValue("float32", f"{float(size):.4g}")
    return float(rounded)


def _power(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)
