"""generation_config.json: how the makers of a checkpoint want answers drawn, as exact decimals."""

import json
from decimal import Decimal as PlainDecimal
from pathlib import Path
from typing import Any

from bytewise.inference.manifest import Generation
from bytewise.protocol.errors import UnsupportedModel
from bytewise.protocol.units import Decimal

FILE = "generation_config.json"

RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 100), "top_p": (1e-6, 1), "top_k": (0, 2**31), "max_new_tokens": (1, 2**31),
}  # fmt: skip
"""Smallest and largest value of each member that is read."""


def read(folder: Path) -> tuple[Generation, tuple[int, ...]]:
    """Defaults and stop tokens of a checkpoint folder; greedy and none without the file. `UnsupportedModel` names a bad member.

    Without `do_sample` answers are greedy, whatever temperature is named: so `transformers` reads it.
    """
    try:
        values = json.loads((folder / FILE).read_bytes())
    except FileNotFoundError:
        values = {}
    except (OSError, ValueError, RecursionError) as error:
        raise UnsupportedModel(f"{FILE}: {str(error)[:200]}") from None
    if not isinstance(values, dict):
        raise UnsupportedModel(f"{FILE}: not an object")
    drawn = values.get("do_sample") is True
    temperature = _number(values, "temperature", 1) if drawn else 0
    longest = None if values.get("max_new_tokens") is None else int(_number(values, "max_new_tokens", 1))
    top_p, top_k = _number(values, "top_p", 1), _number(values, "top_k", 0)
    return Generation(_decimal(temperature), _decimal(top_p), int(top_k), longest), _stops(values)


def _number(values: dict[str, Any], name: str, default: int) -> int | float:
    value = default if values.get(name) is None else values[name]
    low, high = RANGES[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise UnsupportedModel(f"{FILE}: {name} is {str(value)[:40]}")
    return value


def _decimal(value: float) -> Decimal:
    # The shortest decimal that names the float, as its makers wrote it.
    return Decimal(f"{PlainDecimal(repr(value)).normalize():f}")


def _stops(values: dict[str, Any]) -> tuple[int, ...]:
    stop = values.get("eos_token_id")
    stops = stop if isinstance(stop, list) else [] if stop is None else [stop]
    if not all(isinstance(token, int) and not isinstance(token, bool) and token >= 0 for token in stops):
        raise UnsupportedModel(f"{FILE}: eos_token_id is {str(stop)[:40]}")
    return tuple(stops)
