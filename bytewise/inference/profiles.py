"""Which engine runs an artifact: the one of the profile that its manifest names."""

from pathlib import Path

from bytewise.inference import artifact as artifacts
from bytewise.inference.artifact import Progress
from bytewise.inference.engine import ExactEngine
from bytewise.inference.manifest import MANIFEST_FILE
from bytewise.inference.pinned import checkpoint
from bytewise.inference.pinned.engine import PinnedEngine
from bytewise.protocol.encoding import parse
from bytewise.protocol.environment import PROFILE_PINNED_1, Environment
from bytewise.protocol.errors import CannotExecute, ConfigurationError, Fault
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
    if device not in DEVICES:
        raise ConfigurationError("device", f"is {device[:40]}: there are {', '.join(DEVICES)}")
    if profile_of(path) != PROFILE_PINNED_1:
        where = "cuda" if device == "cuda" else "auto"
        engine = ExactEngine(
            artifacts.load(path, progress), threads=threads, path=where, backend=backend or None, cache_bytes=cache_bytes or None
        )
        engine.verify_room(room)
        return engine
    if environment is None:
        raise ConfigurationError(path.name, "is of profile pinned-1: name the registered environment that this machine is")
    if environment.profile != PROFILE_PINNED_1:
        raise CannotExecute(f"artifact {path.name} is of profile pinned-1, the environment of {environment.profile[:40]}")
    return PinnedEngine(checkpoint.load(path, progress), environment, device=device, threads=threads)
