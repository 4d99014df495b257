"""Section 3 of the text: an artifact read without any library."""

import json
import struct
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

Table = list[Any]
_CODES = {"I8": "b", "F16": "e", "F32": "f", "F64": "d"}


@dataclass(frozen=True)
class Files:
    """Shape, and every tensor as nested lists: integers of int8 tensors, fractions of the others."""

    shape: dict[str, Any]
    tensors: dict[str, Table]

    def vector(self, name: str) -> list[Fraction]:
        """A tensor of one dimension."""
        return self.tensors[name]

    def weights(self, name: str) -> list[list[int]]:
        """Integers of a linear layer; of two limbs, 256 · high + low."""
        high, low = self.tensors[name], self.tensors.get(f"{name}.low")
        if low is None:
            return high
        return [[256 * upper + lower for upper, lower in zip(*rows, strict=True)] for rows in zip(high, low, strict=True)]


def read(folder: Path) -> Files:
    """The artifact of a folder; its digests are not checked here."""
    raw = (folder / "weights.safetensors").read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + size])
    data = raw[8 + size :]
    tensors = {
        name: _nested(_numbers(entry["dtype"], data[slice(*entry["data_offsets"])]), entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__"
    }
    return Files(json.loads((folder / "manifest.json").read_bytes())["architecture"], tensors)


def _numbers(kind: str, raw: bytes) -> list[Any]:
    if kind == "BF16":
        # The upper half of a binary32.
        raw, kind = b"".join(b"\0\0" + raw[i : i + 2] for i in range(0, len(raw), 2)), "F32"
    code = _CODES[kind]
    numbers = struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw)
    return list(numbers) if kind == "I8" else [Fraction(number) for number in numbers]


def _nested(numbers: list[Any], shape: list[int]) -> Table:
    if len(shape) < 2:
        return numbers
    return [numbers[i : i + shape[1]] for i in range(0, len(numbers), shape[1])]
