"""Reading of a Hugging Face checkpoint's tensors by name, some rows at a time. A checkpoint has one or several files (shards)."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bytewise.inference.exact.quantise import BLOCK
from bytewise.protocol.encoding import verify_depth
from bytewise.protocol.errors.actors import UnsupportedModel
from bytewise.protocol.errors.records import TooLarge

INDEX_FILE = "model.safetensors.index.json"
SINGLE_FILE = "model.safetensors"

_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
"""Types of tensors in published models, by their safetensors names."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Tensor in a file of the checkpoint. It reads rows on demand, because a mapped file would count as memory of this
    process."""

    name: str
    """Name in the checkpoint."""
    dtype: torch.dtype
    """Type of the elements in the file."""
    shape: tuple[int, ...]
    """Shape; rows come first."""
    file: BinaryIO
    """Open file (shard) of the checkpoint that contains the tensor."""
    offset: int
    """Offset of the tensor's first byte in the file."""

    def rows(self, start: int, stop: int) -> Tensor:
        """Returns the rows from `start` to before `stop`, in the tensor's own type. Raises `UnsupportedModel` if the file ends
        within these rows."""
        size = self.dtype.itemsize * prod(self.shape[1:])
        data = bytearray((stop - start) * size)
        if os.preadv(self.file.fileno(), [data], self.offset + start * size) != len(data):
            raise UnsupportedModel(f"{Path(self.file.name).name} ends within {self.name}")
        return torch.frombuffer(data, dtype=self.dtype).view(stop - start, *self.shape[1:])

    def pick(self, rows: Iterable[int]) -> Tensor:
        """Returns the selected rows as float32. The conversion is exact."""
        return torch.cat([self.rows(row, row + 1) for row in rows]).to(torch.float32)

    def blocks(self) -> Iterator[Tensor]:
        """Yields the whole tensor as float32, some rows at a time. The conversion is exact. Raises `UnsupportedModel` if a
        value is not finite."""
        step = max(1, BLOCK // prod(self.shape[1:]))
        for start in range(0, self.shape[0], step):
            block = self.rows(start, min(start + step, self.shape[0])).to(torch.float32)
            if not bool(torch.isfinite(block).all()):
                raise UnsupportedModel(f"{self.name} holds an infinity or a NaN")
            yield block


class TensorReader:
    """Reader of all tensors of a checkpoint. The checkpoint's index file, or its only weights file, names them."""

    def __init__(self, path: Path) -> None:
        """Opens the files. Raises `UnsupportedModel` if a file is missing, unreadable or truncated, or if a tensor is missing
        or repeated."""
        self._entries: dict[str, tuple[BinaryIO, dict[str, Any], int]] = {}
        self._files: list[BinaryIO] = []
        expected = _index(path)
        for file in sorted(set(expected.values())) if expected is not None else [SINGLE_FILE]:
            self._add(path / file)
        for name, file in (expected or {}).items():
            if name not in self._entries or Path(self._entries[name][0].name).name != file:
                raise UnsupportedModel(f"{INDEX_FILE}: {file} lacks {name[:80]}")
        self._unread = set(self._entries)

    def has(self, name: str) -> bool:
        """Returns whether the checkpoint has a tensor of that name."""
        return name in self._entries

    def tensor(self, name: str, shape: tuple[int, ...]) -> StoredTensor:
        """Returns a tensor of the checkpoint, without reading its rows. Raises `UnsupportedModel` if the tensor is missing, has
        another shape or is not of a float type in `_DTYPES`."""
        if name not in self._entries:
            raise UnsupportedModel(f"checkpoint lacks {name}")
        file, entry, start = self._entries[name]
        self._unread.discard(name)
        if tuple(entry["shape"]) != shape or entry["dtype"] not in _DTYPES:
            raise UnsupportedModel(f"{name} is {entry['dtype']} {tuple(entry['shape'])}, expected {shape}")
        return StoredTensor(name, _DTYPES[entry["dtype"]], shape, file, start + entry["data_offsets"][0])

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Reads a whole small tensor and returns it as float32, which is exact. Raises the errors of `tensor`, and
        `UnsupportedModel` if a value is not finite."""
        return torch.cat(list(self.tensor(name, shape).blocks()))

    def finish(self) -> None:
        """Checks that the caller has asked for every tensor of the checkpoint. Raises `UnsupportedModel` otherwise, because a
        tensor that nobody asks for belongs to an operation outside the profile. Tensors whose names end in
        `rotary_emb.inv_freq` are exempt."""
        left = sorted(name for name in self._unread if not name.endswith("rotary_emb.inv_freq"))
        if left:
            raise UnsupportedModel(f"unknown tensors {', '.join(left[:3])}")

    def close(self) -> None:
        """Closes the files."""
        for file in self._files:
            file.close()

    def _add(self, path: Path) -> None:
        try:
            # The library checks the header: offsets fit shapes, do not overlap, and end where the file ends.
            with safe_open(path, framework="pt"):
                file = path.open("rb", buffering=0)
        except (OSError, SafetensorError) as error:
            raise UnsupportedModel(f"{path.name}: {str(error)[:200]}") from None
        self._files.append(file)
        size = int.from_bytes(file.read(8), "little")
        for name, entry in json.loads(file.read(size)).items():
            if name in self._entries:
                raise UnsupportedModel(f"{name} is in {Path(self._entries[name][0].name).name} and in {path.name}")
            if name != "__metadata__":
                self._entries[name] = (file, entry, 8 + size)


def _index(path: Path) -> dict[str, str] | None:
    try:
        raw = (path / INDEX_FILE).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnsupportedModel(f"{INDEX_FILE}: {error.strerror}") from None
    try:
        names = json.loads(verify_depth(raw).decode())["weight_map"]
    except (TooLarge, ValueError, KeyError, TypeError):
        raise UnsupportedModel(f"{INDEX_FILE}: no weight_map") from None
    if not isinstance(names, dict) or not all(isinstance(file, str) and Path(file).name == file for file in names.values()):
        raise UnsupportedModel(f"{INDEX_FILE}: weight_map must name files of the checkpoint's own folder")
    return names
