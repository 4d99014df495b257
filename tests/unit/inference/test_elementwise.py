"""The functions between products against fractions, and against their own position in a tensor."""

from fractions import Fraction
from math import exp as libm_exp

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from bytewise.inference.exact.elementwise import LN2_HIGH, LN2_LOW, LOG2_E, exp, gelu_tanh, rms_norm, silu, softcap, sqrt32, tanh
from bytewise.inference.exact.quantise import nearest_float32
from bytewise.inference.known_answers.operations import exp_in_fractions, quantise_in_integers
from tests.reference.engine import arithmetic

below_zero = st.floats(-100, 0, width=32)
any_float = st.floats(-(2.0**40), 2.0**40, width=32)


@given(st.lists(below_zero, min_size=1, max_size=20))
def test_exp_equals_the_value_computed_with_fractions(points: list[float]) -> None:
    assert exp(torch.tensor(points)).tolist() == [exp_in_fractions(Fraction(t)) for t in points]


def test_exp_is_accurate_monotone_and_at_most_one() -> None:
    points = torch.linspace(-86, 0, 400_001, dtype=torch.float64).to(torch.float32)
    values = exp(points)
    true = points.to(torch.float64).exp()
    unit = 2.0 ** (torch.floor(torch.log2(true)) - 23)
    assert float(((values.to(torch.float64) - true).abs() / unit).max()) < 1.2
    assert bool((values[1:] >= values[:-1]).all())
    assert float(values.max()) == 1.0 == float(exp(torch.zeros(1)))


def test_exp_of_hidden_keys_and_of_negative_infinity_is_zero() -> None:
    assert exp(torch.tensor([-torch.inf, torch.nan, -86.00001, -1e38])).tolist() == [0.0] * 4


def test_constants_are_correctly_rounded() -> None:
    assert abs(LOG2_E * (LN2_HIGH + LN2_LOW) - 1) < 2**-23
    assert abs(libm_exp(LN2_HIGH + LN2_LOW) - 2) < 2**-34


@given(st.floats(-(2.0**20), 2.0**20, width=32))
def test_silu_equals_the_value_computed_with_fractions(x: float) -> None:
    e = Fraction(exp_in_fractions(-abs(Fraction(x))))
    sigmoid = nearest_float32((Fraction(1) if x >= 0 else e) / Fraction(nearest_float32(e + 1)))
    assert silu(torch.tensor([x])).item() == nearest_float32(Fraction(x) * Fraction(sigmoid))


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=8))
def test_tanh_gelu_and_softcap_equal_values_computed_with_fractions(points: list[float]) -> None:
    exact, cap = [Fraction(x) for x in points], nearest_float32(Fraction("2.7"))
    assert tanh(torch.tensor(points)).tolist() == [float(arithmetic.tanh(x)) for x in exact]
    assert gelu_tanh(torch.tensor(points)).tolist() == [float(arithmetic.gelu_tanh(x)) for x in exact]
    capped = softcap(torch.tensor(points), torch.tensor([cap]))
    assert capped.tolist() == [float(arithmetic.softcap(x, Fraction(cap))) for x in exact]


def test_tanh_and_gelu_are_accurate() -> None:
    points = torch.linspace(-12, 12, 200_001, dtype=torch.float64).to(torch.float32)
    wide = points.to(torch.float64)
    assert float((tanh(points).to(torch.float64) - wide.tanh()).abs().max()) < 2**-23
    true = torch.nn.functional.gelu(wide, approximate="tanh")
    # Of the size of x: where x is very negative the true value is far below the rounding of x.
    assert float(((gelu_tanh(points).to(torch.float64) - true).abs() / wide.abs().clamp(min=1)).max()) < 2**-22


def test_functions_are_defined_for_values_that_are_not_finite() -> None:
    odd = torch.tensor([torch.inf, -torch.inf, torch.nan, 3e38, -3e38])
    assert tanh(odd).tolist() == [1.0, -1.0, -1.0, 1.0, -1.0]
    assert softcap(odd, torch.tensor([2.0])).tolist() == [2.0, -2.0, -2.0, 2.0, -2.0]
    gelu = gelu_tanh(odd).tolist()
    assert gelu[0] == float("inf") and gelu[3] == float(odd[3]) and gelu[4] == 0.0
    assert gelu[1] != gelu[1] and gelu[2] != gelu[2]


def test_values_do_not_depend_on_their_position_or_stride() -> None:
    x = torch.tensor([float(n) / 64 - 40 for n in range(2500)])
    whole = silu(x)
    for start in (1, 3, 7, 15):
        assert torch.equal(silu(x[start : start + 37].clone()), whole[start : start + 37])
        assert torch.equal(silu(x[start::5]), whole[start::5])


def test_every_root_between_one_and_four_is_correctly_rounded() -> None:
    bits = np.arange(0x3F800000, 0x40800000, dtype=np.int32)
    values = bits.view(np.float32)
    # numpy's scalar root is the processor's instruction, which IEEE 754 defines.
    assert np.array_equal(sqrt32(torch.from_numpy(values)).numpy(), np.sqrt(values))


@given(st.lists(any_float, min_size=2, max_size=8))
def test_norm_equals_the_value_computed_with_fractions(row: list[float]) -> None:
    epsilon = nearest_float32(Fraction(1, 100_000))
    exponent, *integers = quantise_in_integers(row, 14)
    mean = Fraction(nearest_float32(Fraction(sum(q * q for q in integers) / len(row))))
    square = Fraction(nearest_float32(Fraction(2) ** (2 * (exponent - 140))))
    variance = nearest_float32(Fraction(nearest_float32(mean * square)) + Fraction(epsilon))
    root = Fraction(float(sqrt32(torch.tensor(variance))))
    right = [nearest_float32(Fraction(nearest_float32(Fraction(x) / root)) * 3) for x in row]
    width = torch.full((1,), float(len(row)), dtype=torch.float64)
    found = rms_norm(torch.tensor(row), torch.full((len(row),), 3.0), torch.tensor([epsilon]), width)
    assert found.tolist() == right
