"""Tensors of a Hugging Face checkpoint by name, whichever shard holds them: mapped, one shard open at a time."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bytewise.inference.weights import blocks
from bytewise.protocol.errors import UnsupportedModel

INDEX_FILE = "model.safetensors.index.json"
SINGLE_FILE = "model.safetensors"

_KNOWN_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class TensorReader:
    """The tensors that a checkpoint's index, or its only file, names."""

    def __init__(self, path: Path) -> None:
        """`UnsupportedModel` for a shard that is missing, unreadable or cut, and for a tensor that is missing or there twice."""
        self._path = path
        self._where: dict[str, str] = {}
        self._open: tuple[str, Any] = ("", None)
        expected = _index(path)
        for file in sorted(set(expected.values())) if expected is not None else [SINGLE_FILE]:
            for name in self._handle(file).keys():
                if name in self._where:
                    raise UnsupportedModel(f"{name} is in {self._where[name]} and in {file}")
                self._where[name] = file
        for name, file in (expected or {}).items():
            if self._where.get(name) != file:
                raise UnsupportedModel(f"{INDEX_FILE}: {file} lacks {name[:80]}")
        self._unread = set(self._where)

    def has(self, name: str) -> bool:
        """Whether the checkpoint holds a tensor of that name."""
        return name in self._where

    def tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """The tensor in its own type, as a view on the mapped shard; `UnsupportedModel` if missing, misshapen or of integers."""
        if name not in self._where:
            raise UnsupportedModel(f"checkpoint lacks {name}")
        tensor: Tensor = self._handle(self._where[name]).get_tensor(name)
        self._unread.discard(name)
        if tuple(tensor.shape) != shape or tensor.dtype not in _KNOWN_DTYPES:
            raise UnsupportedModel(f"{name} is {tensor.dtype} {tuple(tensor.shape)}, expected {shape}")
        return tensor

    def read(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """The whole tensor as float32 (exact), for small ones; `UnsupportedModel` also where a value is not finite."""
        return torch.cat(list(blocks(name, self.tensor(name, shape))))

    def finish(self) -> None:
        """`UnsupportedModel` if a tensor was never read: an operation that the profile does not know."""
        left = sorted(name for name in self._unread if not name.endswith("rotary_emb.inv_freq"))
        if left:
            raise UnsupportedModel(f"unknown tensors {', '.join(left[:3])}")

    def _handle(self, file: str) -> Any:
        if self._open[0] != file:
            try:
                self._open = (file, safe_open(self._path / file, framework="pt"))
            except (OSError, SafetensorError) as error:
                raise UnsupportedModel(f"{file}: {str(error)[:200]}") from None
        return self._open[1]


def _index(path: Path) -> dict[str, str] | None:
    try:
        raw = (path / INDEX_FILE).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnsupportedModel(f"{INDEX_FILE}: {error.strerror}") from None
    try:
        names = json.loads(raw)["weight_map"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UnsupportedModel(f"{INDEX_FILE}: no weight_map") from None
    if not isinstance(names, dict) or not all(isinstance(file, str) and Path(file).name == file for file in names.values()):
        raise UnsupportedModel(f"{INDEX_FILE}: weight_map must name files of the checkpoint's own folder")
    return names
