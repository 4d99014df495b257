"""Inputs of decoders, made of the bytes that a fuzzer chooses: these bytes themselves, or a genuine input with edits.

A canonical encoding refuses nearly every input in which single bytes differ. So half of the inputs are recipes: which genuine
input, where in its tree of JSON, what instead; what is encoded again is canonical where it can be. Records that stand as hex in
other records are edited inside.
"""

import functools
import json
from collections.abc import Sequence
from typing import Any

import rfc8785

RECIPE = 128
"""Inputs whose first byte is at least this are recipes; others are what follows that byte."""

MOST_EDITS = 3
MOST_REPEATED = 2**11
"""Characters of a list that is repeated."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 255, 2**31, 2**53 - 1, 2**53, 2**64, 10**80, "", "0", "00", "-1", "1e3", "0x", "0X00", "0x0",
    "0xzz", "0x" + "00" * 32, "0x" + "ff" * 32, "0x" + "04" * 65, "x" * 2000, "9" * 200, "simulated", "\u0000", "\ud800",
    "ß\u2028", [], {}, [[]], [{}], [None], {"": 0}, [[[[[]]]]],
)  # fmt: skip
"""What stands in the place of another value."""


class Reader:
    """Takes numbers and bytes from the front; zeros once nothing is left."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, below: int) -> int:
        """A number of 0 … `below` - 1."""
        size = 1 if below <= 256 else 2
        return int.from_bytes(self.take(size)) % below

    def take(self, size: int) -> bytes:
        """So many bytes."""
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken.ljust(size, b"\0")

    def rest(self) -> bytes:
        """All that is left."""
        return self._data[self._at :]


def mutant(data: bytes, seeds: Sequence[bytes]) -> bytes:
    """The input that a fuzzer's bytes stand for."""
    read = Reader(data)
    if read.number(256) < RECIPE or not seeds:
        return read.rest()
    return _changed(seeds[read.number(len(seeds))], read)


def _changed(seed: bytes, read: Reader) -> bytes:
    value = _parsed(seed)
    if value is None:
        return _spliced(seed, read)
    for _ in range(read.number(MOST_EDITS + 1)):
        value = _edited(value, read)
    data = _written(value)
    return _spliced(data, read) if read.number(16) == 1 else data


def _edited(value: Any, read: Reader) -> Any:
    """The value with one change somewhere in it."""
    if isinstance(value, dict) and value and read.number(8):
        name = sorted(value)[read.number(len(value))]
        return {**value, name: _edited(value[name], read)}
    if isinstance(value, dict) and value:
        return _other_members(value, read)
    if isinstance(value, list) and value and read.number(6):
        place = read.number(len(value))
        return [*value[:place], _edited(value[place], read), *value[place + 1 :]]
    if isinstance(value, list) and value:
        return _other_items(value, read)
    if isinstance(value, str) and value.startswith("0x") and read.number(4):
        return _other_hex(value, read)
    if isinstance(value, str) and value.isascii() and value.isdigit() and read.number(2):
        return str(max(0, int(value) + read.number(9) - 4))
    if isinstance(value, int) and not isinstance(value, bool) and read.number(2):
        return value + read.number(9) - 4
    return VALUES[read.number(len(VALUES))]


def _other_members(value: dict[str, Any], read: Reader) -> dict[str, Any]:
    name = sorted(value)[read.number(len(value))]
    rest = {key: each for key, each in value.items() if key != name}
    changes: tuple[dict[str, Any], ...] = (rest, {**value, "more": 1}, {**rest, name.upper(): value[name]}, {**value, "": value})
    return changes[read.number(len(changes))]


def _other_items(value: list[Any], read: Reader) -> list[Any]:
    place = read.number(len(value))
    # Not lists of lists of many: a document of 45 MB is read in five seconds, and a fuzzer has better uses for them.
    times = 1 + read.number(70) if len(str(value)) < MOST_REPEATED else 1
    without, many = value[:place] + value[place + 1 :], value * times
    changes: tuple[list[Any], ...] = (without, [*value, value[place]], value[::-1], [], many)
    return changes[read.number(len(changes))]


def _other_hex(value: str, read: Reader) -> str:
    try:
        return "0x" + _changed(bytes.fromhex(value[2:]), read).hex()
    except ValueError:
        return value.upper()


def _spliced(data: bytes, read: Reader) -> bytes:
    """Bytes with some overwritten, taken out, repeated or put in."""
    for _ in range(1 + read.number(MOST_EDITS)):
        how, place = read.number(6), read.number(len(data) + 1)
        length = 1 + read.number(8)
        new = read.take(length)
        data = (
            data[:place] + new + data[place + length :],
            data[:place] + data[place + length :],
            data[:place] + new + data[place:],
            data[:place],
            data[:place] + data[place : place + 32] + data[place:],
            data[:place] + bytes([data[place] ^ 1 << length - 1]) + data[place + 1 :] if place < len(data) else data + new,
        )[how]
    return data


def _written(value: Any) -> bytes:
    try:
        return bytes(rfc8785.dumps(value))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


@functools.lru_cache(maxsize=512)
def _parsed(data: bytes) -> Any:
    # None also for what is no JSON; nothing below changes a value in place.
    if data[:1] not in (b"{", b"["):
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
