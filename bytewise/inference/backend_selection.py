"""Which path runs a model on this machine: what passes its known answers, and of that the fastest (design section 6)."""

import functools
from typing import Any

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.cuda.runner import open_cuda
from bytewise.inference.engine_paths import Path
from bytewise.inference.exact.matmul import BACKENDS, Backend, FusedBackend, backend_named
from bytewise.inference.known_answers import known_models, self_test
from bytewise.inference.native.backend import NativeBackend
from bytewise.inference.native.library import Pool, kernels
from bytewise.inference.native.path import NativePath, missing_feature
from bytewise.inference.runner import Runner
from bytewise.inference.speed import fastest_first
from bytewise.protocol.errors import CannotExecute, NotExact
from bytewise.protocol.records.statements import CannotReason

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
    return NativeBackend(Pool(backend.kernel, threads)) if isinstance(backend, NativeBackend) else backend


def _verify(backend: Backend) -> None:
    self_test.verify_operations(backend)
    if isinstance(backend, FusedBackend):
        # What is between its products is the C engine's, too: whole models with golden rows, as the native path has to pass.
        known_models.verify(lambda known: Runner(known, backend), lambda _: True)


@functools.cache
def _backends(threads: int) -> tuple[Backend, ...]:
    # The C product is a way for torch to multiply, too: of models that the C engine does not know. Its threads live on.
    return (*BACKENDS, *(NativeBackend(Pool(kernel, threads)) for kernel in kernels()[:1]))
