"""Files as read-only mappings, hashed piece by piece in parallel before anything uses them.

A mapping belongs to a file, not to its name: replacing the file changes nothing here. Who may write to the file itself
could still change it, as they could change the memory of the process: the folder must belong to who runs the engine.
"""

import mmap
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from bytewise.inference.manifest import ArtifactFile, Piece
from bytewise.protocol.digests import RunningSha256
from bytewise.protocol.errors import ArtifactMismatch

STEP = 8 * 2**20
"""Bytes hashed between two reports of progress."""


def verified(folder: Path, file: ArtifactFile, progress: Callable[[str, int, int], None] | None) -> memoryview:
    """The mapped file, after every piece was compared with its digest; `ArtifactMismatch` names file and piece."""
    try:
        with (folder / file.name).open("rb") as source:
            before = os.fstat(source.fileno())
            if before.st_size != file.size:
                raise ArtifactMismatch(folder.name, f"{file.name}: {before.st_size} bytes, the manifest says {file.size}")
            # An empty file cannot be mapped.
            view = memoryview(mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) if file.size else b"")
            different = _first_different(view, file, _Report(file, progress))
            after = os.fstat(source.fileno())
    except OSError as error:
        raise ArtifactMismatch(folder.name, f"{file.name}: {error.strerror}") from None
    if different is not None:
        where = "" if different.name == file.name else f" in {different.name}"
        raise ArtifactMismatch(folder.name, f"{file.name}: bytes{where} differ from the manifest")
    if (before.st_size, before.st_mtime_ns, before.st_ino) != (after.st_size, after.st_mtime_ns, after.st_ino):
        raise ArtifactMismatch(folder.name, f"{file.name}: somebody wrote to it while it was checked")
    return view


def tensor(view: memoryview, offset: int, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    """A tensor that shares the bytes of a mapping from `offset` on. Writing to it ends the process."""
    with warnings.catch_warnings():
        # The library warns of buffers that must not be written to: that is what we want of weights.
        warnings.simplefilter("ignore", UserWarning)
        return torch.frombuffer(view, dtype=dtype, count=prod(shape), offset=offset).view(shape)


class _Report:
    """Adds up what the threads have hashed."""

    def __init__(self, file: ArtifactFile, progress: Callable[[str, int, int], None] | None) -> None:
        self._file, self._progress = file, progress
        self._done, self._lock = 0, threading.Lock()

    def add(self, size: int) -> None:
        with self._lock:
            self._done += size
            if self._progress is not None:
                self._progress(self._file.name, self._done, self._file.size)


def _first_different(view: memoryview, file: ArtifactFile, report: _Report) -> Piece | None:
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
        same = list(threads.map(lambda part: _same(part, report), _parts(view, file)))
    return next((piece for piece, good in zip(file.pieces, same, strict=True) if not good), None)


def _parts(view: memoryview, file: ArtifactFile) -> Iterator[tuple[Piece, memoryview]]:
    offset = 0
    for piece in file.pieces:
        yield piece, view[offset : offset + piece.size]
        offset += piece.size


def _same(part: tuple[Piece, memoryview], report: _Report) -> bool:
    (piece, data), state = part, RunningSha256()
    for start in range(0, len(data), STEP):
        step = data[start : start + STEP]
        state.update(step)
        report.add(len(step))
    return state.digest() == piece.sha256
