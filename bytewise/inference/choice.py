"""Which path runs a model on this machine: what passes its known answers, and of that the fastest (design section 6)."""

from typing import Any

from bytewise.inference import self_test
from bytewise.inference.artifact import Artifact
from bytewise.inference.matmul import BACKENDS, backend_named
from bytewise.inference.paths import Path
from bytewise.inference.runner import Runner
from bytewise.inference.speed import fastest_first

AnyPath = Path[Any]


def open_path(artifact: Artifact, threads: int, backend: str | None = None) -> AnyPath:
    """The path of that name, or the fastest; `CannotExecute` if none passes. Under the switches of `determinism.fixed`."""
    wanted = fastest_first(BACKENDS, threads) if backend is None else [backend_named(backend)]
    return Runner(artifact, self_test.first_exact(wanted))


def other_backend(first: AnyPath, threads: int) -> str:
    """The fastest torch backend that multiplies in another way than the path given; `CannotExecute` if no other passes."""
    others = [backend for backend in fastest_first(BACKENDS, threads) if f"torch-{backend.name}" != first.name]
    return self_test.first_exact(others).name
