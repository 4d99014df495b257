"""Which engine runs an artifact: the one of the profile that its manifest names."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bytewise.inference.artifact import artifact as artifacts
from bytewise.inference.artifact.artifact import Progress
from bytewise.inference.engine import ExactEngine
from bytewise.inference.manifest import MANIFEST_FILE
from bytewise.inference.native.library import kernels, unavailable_reason
from bytewise.inference.pinned import checkpoint
from bytewise.inference.pinned.engine import PinnedEngine
from bytewise.protocol.encoding import parse
from bytewise.protocol.errors.actors import CannotExecute, ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.records.environment import PROFILE_PINNED_1, Environment
from bytewise.protocol.units import Digest

DEVICES = ("cpu", "cuda")

AnyEngine = ExactEngine | PinnedEngine


def profile_of(path: Path) -> str:
    """Profile of an artifact folder, from its manifest alone; empty if there is none that can be read."""
    try:
        value = parse((path / MANIFEST_FILE).read_bytes())
    except (OSError, Fault):
        return ""
    return str(value.get("profile", "")) if isinstance(value, dict) else ""


def model_id_of(path: Path) -> Digest:
    """Model id that an artifact of any profile claims, from its manifest alone; the other files are not read."""
    return checkpoint.read_manifest(path).model_id if profile_of(path) == PROFILE_PINNED_1 else artifacts.model_id_of(path)


def open_engine(
    path: Path, environment: Environment | None, *, threads: int = 1, backend: str = "", device: str = "cpu",
    progress: Progress | None = None, cache_bytes: int = 0, room: int = 0,
) -> AnyEngine:  # fmt: skip
    """The engine of an artifact, on `cpu` or `cuda`. `pinned-1` needs the environment that it is to be; `exact-1` runs in any.

    `cache_bytes` is the most memory of the caches of one job, 0 for half of what the weights leave; with `room` a job of so many
    tokens must fit (both of `exact-1` only: the library makes the caches of the other profile).
    `ArtifactMismatch`, `CannotExecute` (memory or a foreign environment among them), or `ConfigurationError` for a device that
    there is not and for an argument of the other profile.
    """
    engine = verify_artifact(
        path, environment, threads=threads, backend=backend, device=device, progress=progress, cache_bytes=cache_bytes
    ).open()
    if isinstance(engine, ExactEngine):
        engine.verify_room(room)
    return engine


def torch_instead(path: Path, device: str) -> str | None:
    """What is logged where an artifact of `exact-1` is run by torch on the processor for want of the C engine; else None."""
    return None if device != "cpu" or profile_of(path) == PROFILE_PINNED_1 else unavailable_reason()


@dataclass(frozen=True, slots=True)
class Loaded:
    """An artifact in memory whose every byte was verified: what engines are made of, in this process and in forks of it."""

    model_id: Digest
    """Its digest."""
    open: Callable[[], AnyEngine]
    """Makes an engine of it; errors as of `open_engine`. Starts threads, which no fork would have."""
    has_library: bool
    """Whether they compute with transformers, which they load late."""


def verify_artifact(
    path: Path, environment: Environment | None, *, threads: int = 1, backend: str = "", device: str = "cpu",
    progress: Progress | None = None, cache_bytes: int = 0,
) -> Loaded:  # fmt: skip
    """The first half of `open_engine`: the artifact, verified; arguments and errors as there."""
    if device not in DEVICES:
        raise ConfigurationError("device", f"is {device[:40]}: there are {', '.join(DEVICES)}")
    if profile_of(path) != PROFILE_PINNED_1:
        where = "cuda" if device == "cuda" else "auto"
        exact = artifacts.load(path, progress)
        make = functools.partial(
            ExactEngine, exact, threads=threads, path=where, backend=backend or None, cache_bytes=cache_bytes or None
        )
        by_library = bool(backend) or device != "cpu" or not kernels()
        return Loaded(exact.model_id, make, by_library)
    if environment is None:
        raise ConfigurationError(path.name, "is of profile pinned-1: name the registered environment that this machine is")
    if environment.profile != PROFILE_PINNED_1:
        raise CannotExecute(f"artifact {path.name} is of profile pinned-1, the environment of {environment.profile[:40]}")
    pinned = checkpoint.load(path, progress)
    make_pinned = functools.partial(PinnedEngine, pinned, environment, device=device, threads=threads)
    return Loaded(pinned.model_id, make_pinned, True)
