"""Selection of the path and backend that run a model on this machine. The fastest one that passes its known-answer tests wins
(design section 6)."""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.cuda.runner import open_cuda
from bytewise.inference.engine_paths import Path
from bytewise.inference.exact.matmul import BACKENDS, Backend, FusedBackend, backend_named
from bytewise.inference.exact.modules import SharedProduct
from bytewise.inference.exact.quantise import ACTIVATION_BITS
from bytewise.inference.known_answers import known_models, operations
from bytewise.inference.known_answers.operations import ACTIVATION_MAX, WEIGHT_MAX
from bytewise.inference.manifest import Architecture
from bytewise.inference.native.backend import NativeBackend
from bytewise.inference.native.library import ThreadPool, kernels
from bytewise.inference.native.path import NativePath, missing_feature
from bytewise.inference.torch_path import Runner
from bytewise.protocol.errors.actors import CannotExecute, NotExact
from bytewise.protocol.records.statements import CannotReason

# Speed is measured, because no rule predicts it for every processor.

SHAPES = ((1, 1024, 1024), (16, 512, 512))
"""Rows, outputs and inputs of the two linear layers that are measured. The first is like decoding one token, the second like
reading a prompt of 16 tokens."""

ATTENTION = (8, 16, 64, 256)
"""Heads, queries, head width and keys of the measured attention products."""

ROUNDS = 4
"""Number of measurements of each product. The shortest time counts, because other load on the machine can only lengthen a
measurement."""

SETTLING_S = 0.05
"""Seconds to wait before a backend is measured. An idle thread of the tensor library spins before it sleeps. The wait is
several times as long."""


def fastest_first(backends: Sequence[Backend], threads: int) -> list[Backend]:
    """Returns the backends, ordered by their measured speed with this thread count. A backend that cannot multiply at all comes
    last.

    A measurement takes some milliseconds, after a wait of `SETTLING_S`. A process makes it once for each backend and thread
    count.
    """
    return sorted(backends, key=lambda backend: _seconds(backend, threads))


@functools.cache
def _seconds(backend: Backend, threads: int) -> float:
    # Measure whole linear layers, because some backends compute one in one call. Decode, prefill and attention count alike:
    # ordering by the product of their times is ordering by their geometric mean.
    total, before = 1.0, torch.get_num_threads()
    # Measure as the engine will use it (`Path.own_threads`), after the library's idle threads have stopped spinning.
    torch.set_num_threads(1 if isinstance(backend, FusedBackend) else threads)
    time.sleep(SETTLING_S)
    try:
        for work in _workload(backend):
            total *= min(_once(work) for _ in range(ROUNDS))
    except (RuntimeError, CannotExecute):
        return float("inf")
    finally:
        torch.set_num_threads(before)
    return total


def _workload(backend: Backend) -> Iterator[Callable[[], Tensor]]:
    for rows, outputs, inputs in SHAPES:
        weight = {"w": torch.full((outputs, inputs), WEIGHT_MAX, dtype=torch.int8), "w.scale": torch.ones(outputs)}
        layer = SharedProduct(backend, weight, ["w"])
        yield functools.partial(layer.of, torch.full((rows, inputs), float(ACTIVATION_MAX)), last=True)
    heads, queries, width, keys = ATTENTION
    left = torch.full((heads, queries, width), float(ACTIVATION_MAX))
    right = torch.full((heads, width, keys), float(ACTIVATION_MAX), dtype=torch.float64)
    yield functools.partial(backend.batched, left, right, ACTIVATION_BITS)


def _once(work: Callable[[], Tensor]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


AnyPath = Path[Any]

PATHS = ("auto", "cuda", "native", "torch")
"""Names that `open_path` accepts. The name `auto` selects the native path if that path can run the model exactly. Otherwise it
selects torch on the processor."""


def open_path(
    artifact: Artifact, threads: int, path: str = "auto", backend: str | None = None, kernel: str | None = None
) -> AnyPath:
    """Returns a path whose backend or kernel has just passed its known-answer tests. Raises `CannotExecute` if none of the
    requested paths passes, if memory is short, or if the arguments are unknown or contradict each other.

    `backend` names a backend of torch, and so selects torch. If `path` is `cuda`, it names a CUDA backend. `kernel` names a
    kernel of the C engine, and so selects the native path. None selects the fastest. Call this function under the switches of
    `determinism.fixed`.
    """
    if path not in PATHS:
        raise CannotExecute(f"no path is called {path[:40]}: there are {', '.join(PATHS)}")
    if path == "cuda":
        if kernel is not None:
            raise CannotExecute("a kernel is of the native path, and the path is cuda: name one of them")
        return open_cuda(artifact, backend)
    wants_native = path == "native" or kernel is not None
    if wants_native and (path == "torch" or backend is not None):
        raise CannotExecute("a kernel is of the native path, a backend of torch: name one of them")
    if wants_native:
        return _native(artifact, threads, kernel)
    if path == "auto" and backend is None and can_run_native(artifact.manifest.architecture):
        try:
            return _native(artifact, threads, None)
        except CannotExecute as error:
            # If memory is short, torch would lack it, too. If a kernel is wrong, torch has other ways to multiply.
            if error.values[1:] == (CannotReason.RESOURCES,):
                raise
    backends = _backends(threads)
    wanted = fastest_first(backends, threads) if backend is None else [backend_named(backend, backends)]
    return Runner(artifact, _own(operations.first_exact(wanted, _verify), threads))


def can_run_native(shape: Architecture) -> bool:
    """Returns whether the path `auto` tries the C engine for a model: the engine is built and lacks no feature of the model."""
    return bool(kernels()) and missing_feature(shape) is None


def other_backend(first: AnyPath, threads: int) -> str:
    """Returns the name of the fastest torch backend that multiplies in another way than the path `first`.

    If `first` uses the product of the C engine, this function also excludes the other backends with that product. Raises
    `CannotExecute` if no remaining backend passes its known-answer tests.
    """
    others = [
        backend for backend in fastest_first(_backends(threads), threads)
        if f"torch-{backend.name}" != first.name and not (backend.name.startswith("native") and "native" in first.name)
    ]  # fmt: skip
    return operations.first_exact(others, _verify).name


def _native(artifact: Artifact, threads: int, kernel: str | None) -> AnyPath:
    path = NativePath(artifact, kernel=kernel, threads=threads)
    try:
        path.vectors()
    except NotExact as error:
        path.close()
        raise CannotExecute(f"the native path is not exact on this machine: {error}", CannotReason.BACKEND) from None
    return path


def _own(backend: Backend, threads: int) -> Backend:
    # A thread pool serves one caller at a time, and the measured backend's pool belongs to the process.
    return NativeBackend(ThreadPool(backend.kernel, threads)) if isinstance(backend, NativeBackend) else backend


def _verify(backend: Backend) -> None:
    operations.verify_operations(backend)
    if isinstance(backend, FusedBackend):
        # A fused backend takes the operations around its products from the C engine, too. So check whole models with golden rows,
        # as for the native path.
        known_models.verify(lambda known: Runner(known, backend), lambda _: True)


@functools.cache
def _backends(threads: int) -> tuple[Backend, ...]:
    # Torch can multiply with the C product too, for models that the C engine does not know. The threads of this pool stay alive.
    return (*BACKENDS, *(NativeBackend(ThreadPool(kernel, threads)) for kernel in kernels()[:1]))
