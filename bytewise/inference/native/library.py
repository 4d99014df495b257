"""Loads the compiled engine and declares its functions. setup.py builds the engine on a machine with a compiler."""

import ctypes
import functools
import importlib.machinery
import sys
from pathlib import Path

from bytewise.protocol import digests
from bytewise.protocol.errors.actors import CannotExecute
from bytewise.protocol.records.statements import CannotReason
from bytewise.service.installation import is_wheel

STEM = "_engine"
"""Name of the compiled module in this folder."""

KERNELS = {"avx512": 2, "avx2": 1, "scalar": 0}
"""Names of the kernels with their numbers in C. The fastest is first."""

_INT, _LONG, _POINTER, _FLOAT = ctypes.c_int, ctypes.c_int64, ctypes.c_void_p, ctypes.c_float

_SIGNATURES = {
    "native_sources": (ctypes.c_char_p, []),
    "native_kernel": (ctypes.c_char_p, [_INT]),
    "native_pool_open": (_POINTER, [_INT, _INT]),
    "native_pool_close": (None, [_POINTER]),
    "native_product": (_INT, [_POINTER, _POINTER, _LONG, _LONG, _POINTER, _LONG, _LONG, _POINTER]),
    "native_layers_open": (_POINTER, [_POINTER, _LONG, _LONG]),
    "native_layers_close": (None, [_POINTER]),
    "native_linear": (_INT, [_POINTER, _POINTER, _POINTER, _LONG, _LONG, _LONG, _POINTER]),
    "native_norm": (_INT, [_POINTER, _POINTER, _LONG, _LONG, _LONG, _POINTER, _FLOAT, _POINTER]),
    "native_silu": (_INT, [_POINTER, _POINTER, _LONG, _LONG, _LONG, _POINTER]),
    "native_heads_open": (_POINTER, [_POINTER, _LONG, _LONG]),
    "native_heads_bytes": (_LONG, [_POINTER, _LONG, _LONG]),
    "native_attended": (_INT, [_POINTER, _POINTER]),
    "native_engine_open": (_POINTER, [_POINTER, _POINTER, _POINTER, _FLOAT, _FLOAT]),
    "native_engine_bind": (_INT, [_POINTER, _LONG, _LONG, _POINTER, _LONG]),
    "native_engine_ready": (_INT, [_POINTER]),
    "native_engine_close": (None, [_POINTER]),
    "native_cache_open": (_POINTER, [_POINTER, _LONG, _LONG]),
    "native_cache_bytes": (_LONG, [_POINTER, _LONG, _LONG]),
    "native_cache_close": (None, [_POINTER]),
    "native_forward": (
        _INT,
        [_POINTER, _POINTER, _LONG, _POINTER, _POINTER, _POINTER, _LONG, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER],
    ),
    "native_logits": (_INT, [_POINTER, _POINTER, _INT, _POINTER]),
}

_FAILURES = {
    1: ("out of memory", CannotReason.RESOURCES),
    2: ("the native engine does not survive a fork: open one in the child", CannotReason.BACKEND),
    3: ("the native engine refused its arguments", CannotReason.BACKEND),
}


@functools.cache
def library(folder: Path = Path(__file__).parent) -> ctypes.CDLL | None:
    """Returns the compiled engine of a folder. Returns None if the engine was not built, was built from other sources, or is
    for another machine."""
    paths = [folder / f"{STEM}{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES]
    built = next((path for path in paths if path.is_file()), None)
    if built is None or sys.byteorder != "little":
        # Rows of a trace are little-endian, and the engine's output is taken unchanged.
        return None
    try:
        loaded = ctypes.CDLL(str(built))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        return None
    return loaded if loaded.native_sources() == _source_digest(folder).encode() else None


def _source_digest(folder: Path) -> str:
    sources = sorted(path for path in folder.iterdir() if path.suffix in (".c", ".h"))
    return digests.sha256(b"".join(path.read_bytes() for path in sources)).hex()


def unavailable_reason() -> str | None:
    """Returns a message for people if the C engine cannot be used, or None if it can."""
    if library() is not None:
        return None
    again = "install Bytewise again" if is_wheel() else "`touch setup.py && make install`"
    return (
        "no C engine was built here from the sources beside it: torch is used, with the same bytes and several times slower; "
        f"install a C compiler (gcc or clang), then {again}"
    )


def kernels() -> tuple[str, ...]:
    """Returns the names of the kernels that this processor can run, fastest first. The tuple is empty without the compiled
    engine."""
    loaded = library()
    return () if loaded is None else tuple(name for name, number in KERNELS.items() if loaded.native_kernel(number))


def checked(status: int) -> None:
    """Raises `CannotExecute` if a C function failed. `status` is the function's result, and 0 means success."""
    if status:
        raise CannotExecute(*_FAILURES[status])


class ThreadPool:
    """Pool of threads that compute with one kernel. It serves one caller at a time. The method `close` ends the threads."""

    def __init__(self, kernel: str | None = None, threads: int = 1) -> None:
        """Starts the threads. With `kernel` None, the pool takes the fastest kernel. Raises `CannotExecute` if there is no
        compiled engine, if this machine has no such kernel, or if the threads cannot be started."""
        available = kernels()
        name = available[0] if kernel is None and available else kernel
        loaded = library()
        if loaded is None or name not in available:
            raise CannotExecute(f"no native kernel {name or ''} on this machine".replace("  ", " "), CannotReason.BACKEND)
        self.kernel, self.threads = name, threads
        self.library = loaded
        self.handle: int | None = loaded.native_pool_open(KERNELS[name], threads)
        if self.handle is None:
            raise CannotExecute(f"no {threads} threads", CannotReason.RESOURCES)

    def close(self) -> None:
        """Ends the threads. A second call does nothing."""
        if self.handle is not None:
            self.library.native_pool_close(self.handle)
            self.handle = None

    def __del__(self) -> None:
        if getattr(self, "handle", None) is not None:
            self.close()
