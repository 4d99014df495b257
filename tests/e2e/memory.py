"""Searches processes and files for a secret in every form in which software tends to keep it (proc(5))."""

import base64
import contextlib
import functools
import json
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

CHUNK = 2**20
UNTOUCHED = bytes(CHUNK)
"""Most of what a process may write to: pages that it never touched are zeros."""


def forms(text: str, token_ids: Sequence[int]) -> dict[str, bytes]:
    """UTF-8, UTF-16, UTF-32, JSON, base64 at its three offsets, hex, JSON lists and int32/int64 arrays of token ids."""
    raw = text.encode()
    numbers = list(token_ids)
    found = {
        "utf-8": raw,
        "utf-16": text.encode("utf-16-le"),
        "utf-32": text.encode("utf-32-le"),
        "json": json.dumps(text).strip('"').encode(),
        "hex": raw.hex().encode(),
        "ids as json": json.dumps(numbers)[1:-1].encode(),
        "ids as compact json": json.dumps(numbers, separators=(",", ":"))[1:-1].encode(),
        "int32": struct.pack(f"<{len(numbers)}i", *numbers),
        "int64": struct.pack(f"<{len(numbers)}q", *numbers),
    }
    for offset in range(3):
        # Characters that also depend on unknown neighbours are cut off at both ends.
        encoded = base64.b64encode(b"\0" * offset + raw)
        found[f"base64+{offset}"] = encoded[(offset * 8 + 5) // 6 : len(encoded) - 4]
    return found


def scalar_forms(value: int) -> dict[str, bytes]:
    """How software may write a number of 32 bytes: both byte orders, hex, decimal, and as a Python `int` has it in memory."""
    raw = value.to_bytes(32, "big")
    forms = {"big": raw, "little": raw[::-1], "hex": raw.hex().encode(), "decimal": str(value).encode()}
    return {**forms, "python": _as_python_has_it(value)}


def _as_python_has_it(value: int) -> bytes:
    """Digits of 30 bits in words of 32, lowest first (CPython's `longintrepr.h`)."""
    return b"".join(struct.pack("<I", value >> shift & (2**30 - 1)) for shift in range(0, 256, 30))


@functools.cache
def sees_closed() -> bool:
    """Whether this user can search a process that is closed to processes of its own user (prctl(2), PR_SET_DUMPABLE).

    Root can with CAP_SYS_PTRACE, which many containers lack.
    """
    code = "import ctypes, sys; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as closed:
        assert closed.stdout is not None and closed.stdout.readline() == b"\n"
        try:
            open(f"/proc/{closed.pid}/mem", "rb").close()
        except PermissionError:
            return False
        return True


def in_memory(pid: int, needles: dict[str, bytes]) -> set[str]:
    """Names of the forms that the process holds in writable or anonymous memory; none of an enclave's or shard's that is closed
    to us (`sees_closed`)."""
    found: set[str] = set()
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for start, end in _regions(pid):
                found |= _scan_region(memory, start, end, needles)
    except PermissionError:
        if sees_closed() or _is_ours(pid):
            raise
    return found


def verify_closed(pid: int) -> int:
    """The process, which nobody of its user can search but who can search every process; `AssertionError` if this one can."""
    try:
        open(f"/proc/{pid}/mem", "rb").close()
    except PermissionError:
        return pid
    raise AssertionError(f"process {pid} is open to its user")


def in_children(pid: int, needles: dict[str, bytes]) -> set[str]:
    """The same of the processes that this one started, as far as they live so long."""
    found: set[str] = set()
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found |= in_memory(child.pid, needles)
    return found


def _is_ours(pid: int) -> bool:
    # What is closed belongs to root (proc(5)). Who is root cannot tell by that.
    return os.geteuid() != 0 and os.stat(f"/proc/{pid}/mem").st_uid == os.geteuid()


def in_files(folder: Path, needles: dict[str, bytes]) -> dict[Path, set[str]]:
    """Files below a folder that hold any form."""
    hits = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            names = {name for name, needle in needles.items() if needle in data}
            if names:
                hits[path] = names
    return hits


def _regions(pid: int) -> list[tuple[int, int]]:
    regions = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, mode, *rest = line.split(maxsplit=5)
        special = len(rest) == 4 and rest[3].startswith("[v")
        if mode.startswith("rw") and not special:
            low, high = span.split("-")
            regions.append((int(low, 16), int(high, 16)))
    return regions


def _scan_region(memory: "object", start: int, end: int, needles: dict[str, bytes]) -> set[str]:
    found: set[str] = set()
    overlap = max(map(len, needles.values())) - 1
    tail = b""
    position = start
    while position < end:
        try:
            memory.seek(position)  # type: ignore[attr-defined]
            block = memory.read(min(CHUNK, end - position))  # type: ignore[attr-defined]
        except OSError:
            return found
        if not block:
            return found
        # No form is all zeros: what ends in these began before them, and what begins in them is met with the next block.
        data = tail + (block[:overlap] if block == UNTOUCHED else block)
        found |= {name for name, needle in needles.items() if needle in data}
        tail = data[-overlap:]
        position += len(block)
    return found
