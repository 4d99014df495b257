"""Known answers of operations, the choice of a backend that gives them, and the vectors of the profile (design section 6).

The known answers are computed in Python integers and fractions, with the worst operands. Comparing an operation with itself
proves nothing. Int8 products saturate without VNNI, and some processors round float32 roots wrongly. A self-test of that kind
would pass all the same.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isqrt

import torch
from torch import Tensor

from bytewise.inference.exact import elementwise
from bytewise.inference.exact.attention import AttentionRule, attend
from bytewise.inference.exact.cache import ExactCache
from bytewise.inference.exact.elementwise import rms_norm, silu
from bytewise.inference.exact.matmul import MAX_KEYS, Backend
from bytewise.inference.exact.quantise import ACTIVATION_BITS, MIN_EXPONENT, PROBABILITY_BITS, nearest_float32, quantise
from bytewise.inference.sampling.sampler import draw, keep, weigh
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import CannotExecute, NotExact
from bytewise.protocol.units import Decimal, Digest, fraction

# Golden numbers of profile `exact-1`. They never change. Made by tests/vectors/make_exact1.py.

PROFILE_DIGEST = Digest(bytes.fromhex("b6ad51f910a00e8fe98d982680ef7f1cb6cf22e2474243e9d56e6adc6de1e7b8"))
"""Value that `profile_digest` must return on every backend and machine."""

MODEL_DIGESTS = {
    "bias and window": Digest(bytes.fromhex("225619367affa6145bcb1bdf2354dffa9042ead7db002b9a2ffa32d35715af6b")),
    "norms of heads, two limbs": Digest(bytes.fromhex("613e9f835d38f14526c9b2f42ad7b976d36b33ea53e15dcae9d0d78c6fa11e6b")),
    "wide scores": Digest(bytes.fromhex("d758897effbb7e8b3d2af523a43fdbc8e936e44c7aadfdce1e01342247ab4bed")),
    "softcaps": Digest(bytes.fromhex("3224bf5aa60bad9fc535c06717570968a91d8b27f4b884c2773573eddc7b9346")),
    "experts": Digest(bytes.fromhex("194b37acda8fdf21d3d16cc2e040e57fe1e2bef94c98ee975a2e36370f362cf2")),
}
"""Value that `known_models.digest_on` must return for each known model, on every path and machine."""


ACTIVATION_MAX = 2**ACTIVATION_BITS - 1
PROBABILITY_MAX = 2**PROBABILITY_BITS - 1
WEIGHT_MAX, WEIGHT_MIN = 127, -128


def integers(name: str, count: int, limit: int) -> list[int]:
    """Returns `count` integers in ±limit from a counter-mode hash. They are the same on every machine."""
    values = []
    for i in range(-(-count // 8)):
        block = digests.labelled(Label.WEIGHTS, name.encode(), i)
        values += [int.from_bytes(block[j : j + 4]) % (2 * limit + 1) - limit for j in range(0, 32, 4)]
    return values[:count]


def verify_products(backend: Backend, depths: Sequence[int] = (8, 64, 1040, 4096)) -> str:
    """Checks the backend's products with weights at 1, 2 and 35 rows, and returns its name. Raises `NotExact` if one is wrong."""
    for depth in depths:
        # Low limbs of 16-bit weights reach -128.
        rows, columns = _patterns("rows", depth, ACTIVATION_MAX), [*_patterns("columns", depth, WEIGHT_MAX), [WEIGHT_MIN] * depth]
        packed = backend.pack(torch.tensor(columns * 4, dtype=torch.int8))
        right = [[_dot(row, column) for column in columns] * 4 for row in rows]
        for count in (1, 2, 35):
            repeated = (rows * 9)[:count]
            found = backend.product(torch.tensor(repeated, dtype=torch.float32), packed)
            _same(f"product of {backend.name}, depth {depth}, {count} rows", found.tolist(), (right * 9)[:count])
    return backend.name


def verify_attention_products(backend: Backend) -> str:
    """Checks the backend's attention products at both precisions and at the longest sum, and returns its name. Raises
    `NotExact` if one is wrong."""
    for depth, bits in ((32, ACTIVATION_BITS), (520, ACTIVATION_BITS), (1030, PROBABILITY_BITS)):
        rows, columns = _patterns("query", depth, 2**bits - 1), _patterns("key", depth, ACTIVATION_MAX)
        found = backend.batched(_batch(rows, torch.float32), _batch(columns, torch.float64).transpose(1, 2), bits)
        right = [[[_dot(row, column) for column in columns] for row in rows]] * 2
        _same(f"attention product of {backend.name}, depth {depth}", found.tolist(), right)
    left = torch.full((1, 1, MAX_KEYS), float(PROBABILITY_MAX))
    keys = torch.full((1, MAX_KEYS, 1), float(ACTIVATION_MAX), dtype=torch.float64)
    keys[0, -1, 0] = ACTIVATION_MAX - 1
    right_sum = PROBABILITY_MAX * (ACTIVATION_MAX * MAX_KEYS - 1)
    _same(f"longest sum of {backend.name}", backend.batched(left, keys, PROBABILITY_BITS).tolist(), [[[right_sum]]])
    return backend.name


def verify_elementwise() -> int:
    """Checks the elementwise operations against fractions, and returns the number of checked operations. Raises `NotExact`,
    which names a wrong operation."""
    numerators = [Fraction(n) for n in [1, 2, 5, 2**24 - 1, *integers("numerators", 60, 2**24 - 1)]]
    divisors = [Fraction(d) for d in [3, 7, 5120, 2**24 - 1, *(abs(d) + 1 for d in integers("divisors", 60, 2**23))]]
    quotients = [nearest_float32(n / d) for n, d in zip(numerators, divisors, strict=True)]
    _same("division", (_floats(numerators) / _floats(divisors)).tolist(), quotients)
    products = [nearest_float32(n * d) for n, d in zip(numerators, divisors, strict=True)]
    _same("multiplication", (_floats(numerators) * _floats(divisors)).tolist(), products)
    roots = [abs(n) for n in numerators]
    _same("square root", elementwise.sqrt32(_floats(roots)).tolist(), [_root(int(n)) for n in roots])
    ties = [2**24 + 1, 2**24 + 3, 2**25 + 2, 2**25 + 6, 2**53 - 1, -(2**30) - 64, *integers("ties", 58, 2**31 - 1)]
    rounded = [nearest_float32(Fraction(t)) for t in ties]
    _same("conversion from float64", torch.tensor(ties, dtype=torch.float64).to(torch.float32).tolist(), rounded)
    _same("conversion from int64", torch.tensor(ties).to(torch.float32).tolist(), rounded)
    halves = [0.5, 1.5, 2.5, -0.5, -1.5, 8388607.5, 4194303.5]
    _same("round half even", torch.tensor(halves).round().tolist(), [float(round(half)) for half in halves])
    points = [-n / 4096 for n in range(0, 64)] + [-n / 3 for n in range(0, 258, 5)] + [-86.0, -86.00001, -1e30]
    points = torch.tensor(points, dtype=torch.float32).tolist()
    _same("exp", elementwise.exp(torch.tensor(points)).tolist(), [exp_in_fractions(Fraction(t)) for t in points])
    for name, row in {
        "ramp": points,
        "tiny": [t * 1e-30 for t in points],
        "zero": [0.0] * 4,
        "tie": [1.0, 0.5, 2.0**-14],
    }.items():
        rows = quantise(torch.tensor([row]), ACTIVATION_BITS)
        exact = torch.tensor([row]).tolist()[0]
        found = [int(rows.exponent), *(int(q) for q in rows.values[0].tolist())]
        _same(f"quantiser, {name}", found, list(quantise_in_integers(exact, ACTIVATION_BITS)))
    return 8


def exp_in_fractions(t: Fraction) -> float:
    """Returns the profile's exp(t), computed in fractions. Each step rounds once to float32."""
    if t < Fraction(elementwise.EXP_LOWEST):
        return 0.0
    n = Fraction(round(_round(t * Fraction(elementwise.LOG2_E))))
    r = _round(t - _round(n * Fraction(elementwise.LN2_HIGH)))
    r = _round(r - _round(n * Fraction(elementwise.LN2_LOW)))
    value = _round(r * Fraction(elementwise.EXP_COEFFICIENTS[0]))
    for coefficient in elementwise.EXP_COEFFICIENTS[1:-1]:
        value = _round(_round(value + Fraction(coefficient)) * r)
    value = _round(value + Fraction(elementwise.EXP_COEFFICIENTS[-1]))
    return float(value * Fraction(2) ** int(n))


def quantise_in_integers(row: Sequence[float], bits: int) -> tuple[int, ...]:
    """Returns E and the integers of Q(row, bits), computed in fractions. The row must be finite."""
    largest = max(abs(Fraction(x)) for x in row)
    exponent = MIN_EXPONENT
    while largest >= Fraction(2) ** (exponent - 126):
        exponent += 1
    limit = 2**bits - 1
    scale = Fraction(2) ** (exponent - 126 - bits)
    return exponent, *(max(-limit, min(limit, round(Fraction(x) / scale))) for x in row)


def _patterns(name: str, depth: int, limit: int) -> list[list[int]]:
    # Extremes of one sign saturate first. Alternating extremes catch errors of pairwise sums. Hashed numbers catch other errors.
    return [[limit] * depth, [-limit] * depth, [limit, -limit] * (depth // 2), integers(f"{name}-{depth}", depth, limit)]


def _dot(left: Sequence[int], right: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _batch(rows: list[list[int]], kind: torch.dtype) -> Tensor:
    return torch.tensor([rows, rows], dtype=kind)


def _floats(values: Sequence[Fraction]) -> Tensor:
    return torch.tensor([float(value) for value in values], dtype=torch.float32)


def _round(value: Fraction) -> Fraction:
    return Fraction(nearest_float32(value))


def _root(square: int) -> float:
    # At least 16 more bits than float32 keeps, and a sticky bit. Rounding them equals rounding the root itself.
    root = isqrt(square << 80)
    return nearest_float32(Fraction(2 * root + (root * root != square << 80), 1 << 41))


def _same(what: str, found: object, right: object) -> None:
    if found != right:
        raise NotExact(f"known answer of {what}")


# Selection of backends that are exact on this machine, and the vectors of the profile.


WIDTH, HEADS, SHARED, TOKENS = 64, 4, 2, 9
"""Shape of the block that computes the vectors: width, query heads, key and value heads, tokens."""


def first_exact(backends: Sequence[Backend], verify: Callable[[Backend], object] | None = None) -> Backend:
    """Returns the first backend that passes `verify`. If `verify` is None, the backend must pass the known answers of all
    operations.

    Raises `CannotExecute` if no backend passes. Its message says why the last backend failed.
    """
    reason = "no backend"
    for backend in backends:
        try:
            (verify or verify_operations)(backend)
            return backend
        except (NotExact, CannotExecute, RuntimeError) as error:
            reason = f"{backend.name}: {str(error)[:120]}"
    raise CannotExecute(f"no backend passes the known answers; {reason}")


def verify_profile(backend: Backend) -> Digest:
    """Checks all known answers on this backend, and computes the profile's vectors again. Returns the digest of the vectors.
    Raises `NotExact` if anything differs."""
    verify_operations(backend)
    found = profile_digest(backend)
    if found != PROFILE_DIGEST:
        raise NotExact(f"profile vectors on {backend.name}: {found.hex()}")
    return found


def verify_operations(backend: Backend) -> str:
    """Checks the known answers of every operation that a path with this backend uses. Returns the backend's name. Raises
    `NotExact` if an operation gives another answer."""
    verify_elementwise()
    verify_products(backend)
    return verify_attention_products(backend)


def profile_digest(backend: Backend) -> Digest:
    """Returns a hash of the intermediate values of one block on fixed numbers: norm, product, attention, SiLU, product,
    sampler."""
    x = _numbers("input", (1, TOKENS, WIDTH), 2.0**-9)
    norm, epsilon = _numbers("norm", (WIDTH,), 2.0**-12), torch.full((1,), 2.0**-17)
    normed = rms_norm(x, norm, epsilon, torch.full((1,), float(WIDTH), dtype=torch.float64))
    projected = _linear(backend, "qkv", normed, WIDTH * (HEADS + 2 * SHARED) // HEADS)
    heads = projected.view(1, TOKENS, HEADS + 2 * SHARED, WIDTH // HEADS).transpose(1, 2)
    query, keys, values = heads[:, :HEADS], heads[:, HEADS:-SHARED], heads[:, -SHARED:]
    cache = ExactCache(1, 1, SHARED, WIDTH // HEADS, TOKENS)
    stored = cache.update(keys, values, 0)
    mixed = attend(AttentionRule(backend, torch.full((1,), 0.25)), query, *stored).transpose(1, 2)
    logits = _linear(backend, "head", silu(mixed.reshape(1, TOKENS, WIDTH)), 4 * WIDTH)
    draws = [_draws(logits[0, i], i) for i in range(TOKENS)]
    parts = [tensor.contiguous().cpu().numpy().tobytes() for tensor in (normed, projected, mixed, logits)]
    return digests.labelled(Label.VECTORS, *parts, *[token for row in draws for token in row])


def _draws(logits: Tensor, position: int) -> list[int]:
    tokens = []
    for temperature, top_k, top_p in (("0.7", 0, "1"), ("1.3", 17, "0.95"), ("0.01", 0, "0.5")):
        weights = weigh(logits, fraction(Decimal(temperature)))
        key = digests.labelled(Label.SAMPLER, position, temperature.encode())
        tokens.append(draw(keep(weights, top_k, fraction(Decimal(top_p))), key))
    return tokens


def _linear(backend: Backend, name: str, x: Tensor, outputs: int) -> Tensor:
    weight = _numbers(name, (outputs, x.shape[-1]), 1.0, 127).to(torch.int8)
    rows = quantise(x.reshape(-1, x.shape[-1]), ACTIVATION_BITS)
    sums = backend.product(rows.values, backend.pack(weight)).to(torch.float32)
    return (sums * rows.scale * _numbers(f"{name}-scale", (outputs,), 2.0**-22, 4095)).view(*x.shape[:-1], outputs)


def _numbers(name: str, shape: tuple[int, ...], unit: float, limit: int = 4095) -> Tensor:
    count = torch.Size(shape).numel()
    return torch.tensor(integers(name, count, limit), dtype=torch.float32).view(shape) * unit
