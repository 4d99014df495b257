"""Reading of files into private memory. Several threads read and hash the pieces at the same time. Afterwards the memory is
read-only.

The engine uses exactly the hashed bytes, so replacing or changing the file later has no effect. The memory is in huge pages if
the system has them, because decoding reads every weight once per token. A page-table lookup for every 4 KiB would add a fifth
of the time (ADR-007).
"""

import contextlib
import ctypes
import errno
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

from bytewise.inference import memory
from bytewise.inference.manifest import ArtifactFile, FilePiece
from bytewise.protocol.digests import RunningSha256
from bytewise.protocol.errors.actors import ArtifactMismatch, CannotExecute
from bytewise.protocol.records.statements import CannotReason

STEP = 8 * 2**20
"""Most bytes that a thread hashes between two reports of progress."""


def verified(folder: Path, file: ArtifactFile, progress: Callable[[str, int, int], None] | None) -> memoryview:
    """Reads a file of the artifact, compares every piece with its digest, and returns the bytes as read-only memory.

    Raises `ArtifactMismatch`, which names the file and the piece that differs. Raises `CannotExecute` if memory is short. If
    the file is larger than all memory that this process can have, the function raises `CannotExecute` before it reads anything.
    """
    try:
        with (folder / file.name).open("rb") as source:
            size = os.fstat(source.fileno()).st_size
            if size != file.size:
                raise ArtifactMismatch(folder.name, f"{file.name}: {size} bytes, the manifest says {file.size}")
            most = memory.of_machine()
            if size > most:
                # An overcommitted system would kill the process while it reads, without a message.
                raise CannotExecute(f"{file.name} has {size} bytes, this process can have {most}", CannotReason.RESOURCES)
            pages = _pages(size)
            different = _first_different(source.fileno(), memoryview(pages), file, _Report(file, progress))
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise CannotExecute(f"out of memory for {file.name}, {file.size} bytes", CannotReason.RESOURCES) from None
        raise ArtifactMismatch(folder.name, f"{file.name}: {error.strerror}") from None
    if different is not None:
        where = "" if different.name == file.name else f" in {different.name}"
        raise ArtifactMismatch(folder.name, f"{file.name}: bytes{where} differ from the manifest")
    _protect(pages)
    return memoryview(pages).toreadonly()


def tensor(view: memoryview, offset: int, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    """Returns a tensor that shares the bytes of a file from `offset` on. A write to the tensor kills the process."""
    with warnings.catch_warnings():
        # The library warns of read-only buffers, which weights are meant to be.
        warnings.simplefilter("ignore", UserWarning)
        return torch.frombuffer(view, dtype=dtype, count=prod(shape), offset=offset).view(shape)


def _pages(size: int) -> mmap.mmap | bytearray:
    if size == 0:
        return bytearray()
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # A kernel without huge pages refuses. Small pages are only slower.
        with contextlib.suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


def _protect(pages: mmap.mmap | bytearray) -> None:
    if pages:
        address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        library = ctypes.CDLL(None, use_errno=True)
        if library.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(len(pages)), mmap.PROT_READ):
            raise CannotExecute(f"weights cannot be protected: {os.strerror(ctypes.get_errno())}", CannotReason.RESOURCES)


class _Report:
    """Progress report that adds up the bytes that all threads have hashed."""

    def __init__(self, file: ArtifactFile, progress: Callable[[str, int, int], None] | None) -> None:
        self._file, self._progress = file, progress
        self._done, self._lock = 0, threading.Lock()

    def add(self, size: int) -> None:
        with self._lock:
            self._done += size
            if self._progress is not None:
                self._progress(self._file.name, self._done, self._file.size)


def _first_different(source: int, view: memoryview, file: ArtifactFile, report: _Report) -> FilePiece | None:
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
        same = list(threads.map(lambda part: _read(source, part, report), _parts(view, file)))
    return next((piece for piece, good in zip(file.pieces, same, strict=True) if not good), None)


def _parts(view: memoryview, file: ArtifactFile) -> Iterator[tuple[FilePiece, int, memoryview]]:
    offset = 0
    for piece in file.pieces:
        yield piece, offset, view[offset : offset + piece.size]
        offset += piece.size


def _read(source: int, part: tuple[FilePiece, int, memoryview], report: _Report) -> bool:
    # Whether the piece matches the manifest. It is hashed after the copy, because no other process can change the copy.
    piece, offset, pages = part
    state, done = RunningSha256(), 0
    while done < len(pages):
        step = pages[done : done + STEP]
        count = os.preadv(source, [step], offset + done)
        if count == 0:
            return False
        state.update(step[:count])
        report.add(count)
        done += count
    return state.digest() == piece.sha256
