"""Writes the weights file tensor by tensor in any order: the header first; each tensor is hashed as its rows arrive."""

import os
from pathlib import Path

from torch import Tensor, uint8

from bytewise.inference.artifact.artifact import Progress
from bytewise.inference.artifact.layout import DTYPES, TensorSpec, header
from bytewise.inference.manifest import HEADER_PIECE, WEIGHTS_FILE, FilePiece
from bytewise.protocol import digests
from bytewise.protocol.digests import RunningSha256


class TensorWriter:
    """Rows of one tensor arrive in order. Tensors arrive in any order, also at the same time."""

    def __init__(self, path: Path, specs: list[TensorSpec], progress: Progress | None) -> None:
        """Creates the file at its full size, so that a full disk is noticed at once. Raises `OSError`."""
        self._specs = {spec.name: spec for spec in specs}
        self._header = header(specs)
        self._start, self._offset = {}, len(self._header)
        for spec in specs:
            self._start[spec.name] = self._offset
            self._offset += spec.size
        self._written = dict.fromkeys(self._specs, 0)
        self._state = {name: RunningSha256() for name in self._specs}
        self._done, self._progress = len(self._header), progress
        self._file = path.open("xb", buffering=0)
        os.posix_fallocate(self._file.fileno(), 0, self._offset)
        _write_all(self._file.fileno(), memoryview(self._header), 0)

    def write(self, name: str, rows: Tensor) -> None:
        """Appends rows, or a whole tensor. `ValueError` for other types and sizes than announced, which is a bug."""
        spec = self._specs[name]
        data = rows.contiguous().flatten().view(uint8).numpy().data
        if rows.dtype != DTYPES[spec.dtype][0] or self._written[name] + len(data) > spec.size:
            raise ValueError(f"{name}: {rows.dtype} {tuple(rows.shape)} after {self._written[name]} of {spec.size} bytes")
        _write_all(self._file.fileno(), data, self._start[name] + self._written[name])
        self._state[name].update(data)
        self._written[name] += len(data)
        self._done += len(data)
        if self._progress is not None:
            self._progress(WEIGHTS_FILE, self._done, self._offset)

    def finish(self) -> tuple[FilePiece, ...]:
        """The pieces of the file, once it is safe on disk. `ValueError` if a tensor is incomplete."""
        missing = [name for name, spec in self._specs.items() if self._written[name] != spec.size]
        if missing:
            raise ValueError(f"tensors were not written: {missing[:3]}")
        os.fsync(self._file.fileno())
        self._file.close()
        head = FilePiece(HEADER_PIECE, len(self._header), digests.sha256(self._header))
        tensors = [FilePiece(name, spec.size, self._state[name].digest()) for name, spec in self._specs.items()]
        return head, *tensors

    def close(self) -> None:
        """Closes the file, finished or not."""
        self._file.close()


def _write_all(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written
