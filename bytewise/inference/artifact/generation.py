"""Reading of generation_config.json: the sampling parameters that a checkpoint recommends, as exact decimals."""

import json
from decimal import Decimal as PlainDecimal
from pathlib import Path
from typing import Any

from bytewise.inference.manifest import Generation
from bytewise.protocol.errors.actors import UnsupportedModel
from bytewise.protocol.records.request import MAX_STOP_TOKENS
from bytewise.protocol.units import Decimal

FILE = "generation_config.json"

RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 100), "top_p": (1e-6, 1), "top_k": (0, 2**31), "max_new_tokens": (1, 2**31),
}  # fmt: skip
"""Smallest and largest accepted value of each member of the file."""


def read(folder: Path, vocabulary: int) -> tuple[Generation, tuple[int, ...]]:
    """Returns the recommended parameters and the stop tokens of a checkpoint folder.

    Without the file the parameters are greedy and there are no stop tokens. Without `do_sample` they are greedy at any
    temperature, because `transformers` reads the file so. Raises `UnsupportedModel`, which names a bad member.
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
    defaults = Generation(_decimal(temperature), _decimal(top_p), int(top_k), longest)
    return defaults, token_ids(FILE, values, "eos_token_id", vocabulary)


def all_stop_tokens(*named: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the stop tokens of several files together, ascending. Raises `UnsupportedModel` if a request cannot carry so
    many."""
    tokens = tuple(sorted({token for each in named for token in each}))
    if len(tokens) > MAX_STOP_TOKENS:
        raise UnsupportedModel(f"config.json and {FILE} name {len(tokens)} stop tokens, most are {MAX_STOP_TOKENS}")
    return tokens


def _number(values: dict[str, Any], name: str, default: int) -> int | float:
    value = default if values.get(name) is None else values[name]
    low, high = RANGES[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise UnsupportedModel(f"{FILE}: {name} is {str(value)[:40]}")
    return value


def _decimal(value: float) -> Decimal:
    # The shortest decimal that reads as this float is the text that the model's makers wrote.
    return Decimal(f"{PlainDecimal(repr(value)).normalize():f}")


def token_ids(file: str, values: dict[str, Any], name: str, vocabulary: int) -> tuple[int, ...]:
    """Returns the token ids of a member that is one id, a list of ids, null or missing. Raises `UnsupportedModel` if a value is
    not a token of the vocabulary, or if there are more stop tokens than a request can carry."""
    value = values.get(name)
    tokens = value if isinstance(value, list) else [] if value is None else [value]
    if len(tokens) > MAX_STOP_TOKENS:
        raise UnsupportedModel(f"{file}: {name} names {len(tokens)} tokens, most are {MAX_STOP_TOKENS}")
    for token in tokens:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocabulary:
            raise UnsupportedModel(f"{file}: {name} is {str(token)[:40]}, the vocabulary has {vocabulary} tokens")
    return tuple(tokens)
