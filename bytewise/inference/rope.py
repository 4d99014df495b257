"""Rotary position embedding as two float64 factor tables of correctly rounded constants (arithmetic review 1.5).

Position p = 256 h + l: cos(p) = float32(cos(256h) cos(l) - sin(256h) sin(l)), sine alike, each operation rounded once in float64.
The tables are part of the artifact; only `factor_tables` needs mpmath, at conversion.
"""

from typing import Any

import torch
from torch import Tensor

from bytewise.protocol.errors import UnsupportedModel

STRIDE = 256
"""Rows of the low table."""

_PRECISION_BITS = 256
"""Working precision of the constants: a wrong rounding would need an angle within 2^-200 of a float64 midpoint."""


def factor_tables(parameters: dict[str, Any], head_width: int, positions: int) -> dict[str, Tensor]:
    """Tables `low.cos`, `low.sin` [256, d/2] and `high.cos`, `high.sin` [⌈positions / 256⌉, d/2]; `UnsupportedModel` by name."""
    import mpmath  # type: ignore[import-untyped]

    with mpmath.workprec(_PRECISION_BITS):
        frequencies = _frequencies(mpmath, parameters, head_width)
        rows = {"low": range(STRIDE), "high": range(0, -(-positions // STRIDE) * STRIDE, STRIDE)}
        tables = {}
        for name, values in rows.items():
            angles = [[mpmath.cos_sin(position * f) for f in frequencies] for position in values]
            for i, part in enumerate(("cos", "sin")):
                numbers = [[float(pair[i]) for pair in row] for row in angles]
                tables[f"{name}.{part}"] = torch.tensor(numbers, dtype=torch.float64)
    return tables


def _frequencies(mpmath: Any, parameters: dict[str, Any], head_width: int) -> list[Any]:
    kind = parameters.get("rope_type", "default")
    theta = mpmath.mpf(parameters["rope_theta"])
    plain = [theta ** (-mpmath.mpf(2 * i) / head_width) for i in range(head_width // 2)]
    if kind == "default":
        return plain
    if kind == "linear":
        return [f / mpmath.mpf(parameters["factor"]) for f in plain]
    if kind == "llama3":
        return [_llama3(mpmath, parameters, f) for f in plain]
    raise UnsupportedModel(f"rope type {kind}: only default, linear and llama3 do not depend on the running length")


def _llama3(mpmath: Any, parameters: dict[str, Any], frequency: Any) -> Any:
    # Llama 3.1 model card: long wavelengths are divided by the factor, short ones kept, those between interpolated.
    factor, low, high = (mpmath.mpf(parameters[k]) for k in ("factor", "low_freq_factor", "high_freq_factor"))
    turns = mpmath.mpf(parameters["original_max_position_embeddings"]) * frequency / (2 * mpmath.pi)
    if turns < low:
        return frequency / factor
    if turns > high:
        return frequency
    smooth = (turns - low) / (high - low)
    return (1 - smooth) * frequency / factor + smooth * frequency


def position_tables(tables: dict[str, Tensor], positions: int) -> tuple[Tensor, Tensor]:
    """float32 cosine and sine [positions, d], each half of a row the same, as rotate-half expects."""
    high_cos, high_sin = (tables[f"high.{part}"][:, None, :] for part in ("cos", "sin"))
    low_cos, low_sin = (tables[f"low.{part}"][None, :, :] for part in ("cos", "sin"))
    cos = high_cos * low_cos - high_sin * low_sin
    sin = high_sin * low_cos + high_cos * low_sin
    halves = (part.flatten(0, 1)[:positions].to(torch.float32) for part in (cos, sin))
    first, second = (torch.cat((half, half), dim=-1) for half in halves)
    return first, second
