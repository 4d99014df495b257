"""Rotary position embedding from two float64 factor tables of correctly rounded constants.

For position p = 256 h + l, cos(p) = float32(cos(256h) cos(l) - sin(256h) sin(l)). Each operation rounds once in float64. The
sine is computed alike. The tables are part of the artifact. Only `factor_tables` needs mpmath, at conversion.
"""

from typing import Any

import torch
from torch import Tensor

from bytewise.protocol.errors.actors import UnsupportedModel

STRIDE_BITS = 8
STRIDE = 1 << STRIDE_BITS
"""Number of rows of the low table."""

_PRECISION_BITS = 256
"""Bits of precision with which the constants are computed. A wrong rounding would need an angle within 2^-200 of a float64
midpoint."""

LEAST_FREQUENCY = 2.0**-60
"""Smallest allowed frequency in radians per position. The largest is 1 / LEAST_FREQUENCY."""
LEAST_GAIN = 2.0**-10
"""Smallest allowed factor of cosine and sine. The largest is 1 / LEAST_GAIN."""


def factor_tables(parameters: dict[str, Any], head_width: int, positions: int) -> dict[str, Tensor]:
    """Returns the tables `low.cos` and `low.sin` [256, d/2], and `high.cos` and `high.sin` [⌈positions / 256⌉, d/2].

    The attention factor of YaRN multiplies both cosine and sine, so it is part of the high tables. Raises `UnsupportedModel` if
    the parameters give no usable angles.
    """
    import mpmath  # type: ignore[import-untyped]

    with mpmath.workprec(_PRECISION_BITS):
        frequencies, gain = _frequencies(mpmath, parameters, head_width)
        # Neither an angle nor its cosine may come near what a processor may flush to zero.
        if (
            not all(LEAST_FREQUENCY <= each <= 1 / LEAST_FREQUENCY for each in frequencies)
            or not LEAST_GAIN <= gain <= 1 / LEAST_GAIN
        ):
            raise UnsupportedModel(
                "config.json: rope parameters give no angles: a frequency or the factor of cosines is beyond use"
            )
        rows = {"low": range(STRIDE), "high": range(0, -(-positions // STRIDE) * STRIDE, STRIDE)}
        tables = {}
        for name, values in rows.items():
            factor = gain if name == "high" else mpmath.mpf(1)
            angles = [[mpmath.cos_sin(position * f) for f in frequencies] for position in values]
            for i, part in enumerate(("cos", "sin")):
                numbers = [[float(factor * pair[i]) for pair in row] for row in angles]
                tables[f"{name}.{part}"] = torch.tensor(numbers, dtype=torch.float64)
    return tables


def _frequencies(mpmath: Any, parameters: dict[str, Any], head_width: int) -> tuple[list[Any], Any]:
    """Returns the radians per position of each pair, and the factor of cosine and sine."""
    kind, one = parameters.get("rope_type", "default"), mpmath.mpf(1)
    theta = mpmath.mpf(parameters["rope_theta"])
    plain = [theta ** (-mpmath.mpf(2 * i) / head_width) for i in range(head_width // 2)]
    if kind == "default":
        return plain, one
    if kind == "linear":
        return [f / mpmath.mpf(parameters["factor"]) for f in plain], one
    if kind == "llama3":
        return [_llama3(mpmath, parameters, f) for f in plain], one
    if kind == "yarn":
        return _yarn(mpmath, parameters, plain, head_width), _yarn_gain(mpmath, parameters)
    raise UnsupportedModel(f"rope type {kind}: only default, linear, llama3 and yarn do not depend on the running length")


def _llama3(mpmath: Any, parameters: dict[str, Any], frequency: Any) -> Any:
    # Llama 3.1 model card: low frequencies are divided by the factor, high frequencies stay, and those between are interpolated.
    factor, low, high = (mpmath.mpf(parameters[k]) for k in ("factor", "low_freq_factor", "high_freq_factor"))
    turns = mpmath.mpf(parameters["original_max_position_embeddings"]) * frequency / (2 * mpmath.pi)
    if turns < low:
        return frequency / factor
    if turns > high:
        return frequency
    smooth = (turns - low) / (high - low)
    return (1 - smooth) * frequency / factor + smooth * frequency


def _yarn(mpmath: Any, parameters: dict[str, Any], plain: list[Any], head_width: int) -> list[Any]:
    # YaRN (arXiv 2309.00071): pairs that turn often in the original context are kept, those that turn rarely are divided.
    factor = mpmath.mpf(parameters["factor"])
    bounds = []
    for turns in (parameters.get("beta_fast") or 32, parameters.get("beta_slow") or 1):
        length = mpmath.mpf(parameters["original_max_position_embeddings"]) / (2 * mpmath.pi * mpmath.mpf(turns))
        bounds.append(head_width * mpmath.log(length) / (2 * mpmath.log(mpmath.mpf(parameters["rope_theta"]))))
    if parameters.get("truncate", True):
        bounds = [mpmath.floor(bounds[0]), mpmath.ceil(bounds[1])]
    low, high = max(bounds[0], 0), min(bounds[1], head_width - 1)
    # The same constant as in transformers keeps the ramp finite.
    span = high - low if high != low else mpmath.mpf("0.001")
    divided = [min(max((i - low) / span, mpmath.mpf(0)), mpmath.mpf(1)) for i in range(len(plain))]
    return [f / factor * d + f * (1 - d) for f, d in zip(plain, divided, strict=True)]


def _yarn_gain(mpmath: Any, parameters: dict[str, Any]) -> Any:
    """Returns YaRN's factor of cosine and sine.

    It is `attention_factor` if the parameters have this member. Otherwise it is 1 for a factor up to 1. For a larger factor it
    is (1 + mscale · ln(factor) / 10) / (1 + mscale_all_dim · ln(factor) / 10) if the parameters have `mscale` and
    `mscale_all_dim`, otherwise 1 + ln(factor) / 10.
    """
    if parameters.get("attention_factor") is not None:
        return mpmath.mpf(parameters["attention_factor"])
    factor, over, under = (mpmath.mpf(parameters.get(name) or 0) for name in ("factor", "mscale", "mscale_all_dim"))
    if factor <= 1:
        return mpmath.mpf(1)
    slope = mpmath.log(factor) / 10
    return (slope * over + 1) / (slope * under + 1) if over and under else slope + 1


def rows(tables: dict[str, Tensor], positions: Tensor) -> tuple[Tensor, Tensor]:
    """Returns float32 cosine and sine [..., d] for absolute positions [...]. Both halves of a row are the same, as rotate-half
    expects."""
    high, low = positions >> STRIDE_BITS, positions & (STRIDE - 1)
    high_cos, high_sin = tables["high.cos"][high], tables["high.sin"][high]
    low_cos, low_sin = tables["low.cos"][low], tables["low.sin"][low]
    cos = (high_cos * low_cos - high_sin * low_sin).to(torch.float32)
    sin = (high_sin * low_cos + high_cos * low_sin).to(torch.float32)
    return torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)
