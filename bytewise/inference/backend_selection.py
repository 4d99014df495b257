"""Which path runs a model on this machine: what passes its known answers, and of that the fastest (design section 6)."""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.cuda.runner import open_cuda
from bytewise.inference.engine_paths import Path
from bytewise.inference.exact.linear import SharedProduct
from bytewise.inference.exact.matmul import BACKENDS, Backend, FusedBackend, backend_named
from bytewise.inference.exact.quantise import ACTIVATION_BITS
from bytewise.inference.known_answers import known_models, self_test
from bytewise.inference.known_answers.operations import ACTIVATION_MAX, WEIGHT_MAX
from bytewise.inference.native.backend import NativeBackend
from bytewise.inference.native.library import ThreadPool, kernels
from bytewise.inference.native.path import NativePath, missing_feature
from bytewise.inference.runner import Runner
from bytewise.protocol.errors.actors import CannotExecute, NotExact
from bytewise.protocol.records.statements import CannotReason

# Which way to multiply is the fastest on this machine: measured, because no rule about processors is right for all of them.

SHAPES = ((1, 1024, 1024), (16, 512, 512))
"""Rows, outputs and inputs of linear layers: a token of decode, a few of prefill."""

ATTENTION = (8, 16, 64, 256)
"""Heads, queries, their width and keys of the products of attention."""

ROUNDS = 4
"""Measurements of each; the fastest counts: whatever else the machine does only makes them slower."""

SETTLING_S = 0.05
"""Several times what a thread of the tensor library spins after its last work before it sleeps."""


def fastest_first(backends: Sequence[Backend], threads: int) -> list[Backend]:
    """The backends by measured speed, for the thread count that is set; one that cannot multiply at all comes last.

    Takes some milliseconds for each backend, once in a process.
    """
    return sorted(backends, key=lambda backend: _seconds(backend, threads))


@functools.cache
def _seconds(backend: Backend, threads: int) -> float:
    # Whole linear layers, since some backends have one in one call. Decode, prefill and attention count alike: the product of
    # their times orders as their geometric mean does.
    total, before = 1.0, torch.get_num_threads()
    # As the engine will use it (`paths.Path.own_threads`), and after the library's idle threads have stopped spinning.
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
"""What may be asked for: `auto` is the native path where it can run the model exactly, else torch on the processor."""


def open_path(
    artifact: Artifact, threads: int, path: str = "auto", backend: str | None = None, kernel: str | None = None
) -> AnyPath:
    """A path that has just passed its known answers; `CannotExecute` if none of those asked for does.

    `backend` names how torch multiplies (and so asks for torch), `kernel` the native kernel; None is the fastest. Under the
    switches of `determinism.fixed`.
    """
    if path not in PATHS:
        raise CannotExecute(f"no path is called {path[:40]}: there are {', '.join(PATHS)}")
    if path == "cuda":
        return open_cuda(artifact, backend)
    wants_native = path == "native" or kernel is not None
    if wants_native and (path == "torch" or backend is not None):
        raise CannotExecute("a kernel is of the native path, a backend of torch: name one of them")
    if wants_native:
        return _native(artifact, threads, kernel)
    if path == "auto" and backend is None and kernels() and missing_feature(artifact.manifest.architecture) is None:
        try:
            return _native(artifact, threads, None)
        except CannotExecute as error:
            # A machine that is short of memory is so for torch, too; one whose kernel is wrong has another way to multiply.
            if error.values[1:] == (CannotReason.RESOURCES,):
                raise
    backends = _backends(threads)
    wanted = fastest_first(backends, threads) if backend is None else [backend_named(backend, backends)]
    return Runner(artifact, _own(self_test.first_exact(wanted, _verify), threads))


def other_backend(first: AnyPath, threads: int) -> str:
    """The fastest torch backend that multiplies in another way than the path given; `CannotExecute` if no other passes.

    Its products are not those of the first: neither the C engine's after the C engine's, nor the same backend again.
    """
    others = [
        backend for backend in fastest_first(_backends(threads), threads)
        if f"torch-{backend.name}" != first.name and not (backend.name.startswith("native") and "native" in first.name)
    ]  # fmt: skip
    return self_test.first_exact(others, _verify).name


def _native(artifact: Artifact, threads: int, kernel: str | None) -> AnyPath:
    path = NativePath(artifact, kernel=kernel, threads=threads)
    try:
        path.vectors()
    except NotExact as error:
        path.close()
        raise CannotExecute(f"the native path is not exact on this machine: {error}", CannotReason.BACKEND) from None
    return path


def _own(backend: Backend, threads: int) -> Backend:
    # A pool serves one caller at a time, and the one that was measured belongs to the process.
    return NativeBackend(ThreadPool(backend.kernel, threads)) if isinstance(backend, NativeBackend) else backend


def _verify(backend: Backend) -> None:
    self_test.verify_operations(backend)
    if isinstance(backend, FusedBackend):
        # What is between its products is the C engine's, too: whole models with golden rows, as the native path has to pass.
        known_models.verify(lambda known: Runner(known, backend), lambda _: True)


@functools.cache
def _backends(threads: int) -> tuple[Backend, ...]:
    # The C product is a way for torch to multiply, too: of models that the C engine does not know. Its threads live on.
    return (*BACKENDS, *(NativeBackend(ThreadPool(kernel, threads)) for kernel in kernels()[:1]))
