"""Engines of all profiles. The module opens the engine of an artifact for the profile that its manifest names. It also computes
the vectors of a model on an engine."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bytewise.inference.artifact import artifact as artifacts
from bytewise.inference.artifact.artifact import Progress
from bytewise.inference.backend_selection import can_run_native
from bytewise.inference.engine import ExactEngine
from bytewise.inference.manifest import profile_of
from bytewise.inference.native.library import unavailable_reason
from bytewise.inference.pinned import checkpoint
from bytewise.inference.pinned.engine import PinnedEngine
from bytewise.protocol.errors.actors import CannotExecute, ConfigurationError, NotExact
from bytewise.protocol.records.environment import PROFILE_PINNED_1, Environment
from bytewise.protocol.records.model_vectors import KINDS, VectorAnswer, Vectors, questions
from bytewise.protocol.units import ZERO_DIGEST, Digest

DEVICES = ("cpu", "cuda")

AnyEngine = ExactEngine | PinnedEngine


def model_id_of(path: Path) -> Digest:
    """Returns the model id that an artifact of any profile claims. This function does not read weights and tokenizer, so it
    checks only the manifest. Raises the errors of the profile's `read_manifest`."""
    return checkpoint.read_manifest(path).model_id if profile_of(path) == PROFILE_PINNED_1 else artifacts.model_id_of(path)


def load_artifact(path: Path, progress: Progress | None = None) -> artifacts.Artifact | checkpoint.PinnedArtifact:
    """Returns the artifact of a folder, of any profile, after checking every byte against the manifest. Raises
    `ArtifactMismatch`, which names the difference, and `CannotExecute` if there is no artifact or memory is short."""
    return checkpoint.load(path, progress) if profile_of(path) == PROFILE_PINNED_1 else artifacts.load(path, progress)


def open_engine(
    path: Path, environment: Environment | None, *, threads: int = 1, backend: str = "", device: str = "cpu",
    progress: Progress | None = None, cache_bytes: int = 0, room: int = 0,
) -> AnyEngine:  # fmt: skip
    """Returns the engine of an artifact on `cpu` or `cuda`. For `pinned-1` the caller must pass an environment. An engine of
    `exact-1` runs in any environment.

    `cache_bytes` bounds the memory of one job's caches; 0 means half of the memory that the weights leave. The caches of a job
    with `room` tokens must fit. Both arguments count only for `exact-1`, because the library makes the caches of `pinned-1`.
    Raises `ArtifactMismatch` if a file differs from the manifest. Raises `CannotExecute` for too little memory or another
    environment. Raises `ConfigurationError` for an unknown device, or if `pinned-1` has no environment.
    """
    engine = verify_artifact(
        path, environment, threads=threads, backend=backend, device=device, progress=progress, cache_bytes=cache_bytes
    ).open()
    if isinstance(engine, ExactEngine):
        engine.verify_room(room)
    return engine


def torch_instead(path: Path, device: str) -> str | None:
    """Returns the message to log if torch runs an `exact-1` artifact on the processor because the C engine is missing. Returns
    None otherwise."""
    return None if device != "cpu" or profile_of(path) == PROFILE_PINNED_1 else unavailable_reason()


@dataclass(frozen=True, slots=True)
class Loaded:
    """Fully verified artifact in memory. This process and its forks can make engines from it."""

    model_id: Digest
    """Digest of the artifact."""
    open: Callable[[], AnyEngine]
    """Function that makes an engine and raises the errors of `open_engine`. Call it after a fork, because the engine starts
    threads and a fork does not copy threads."""
    has_library: bool
    """Whether engines of this artifact compute with transformers, which they import late."""


def verify_artifact(
    path: Path, environment: Environment | None, *, threads: int = 1, backend: str = "", device: str = "cpu",
    progress: Progress | None = None, cache_bytes: int = 0,
) -> Loaded:  # fmt: skip
    """Verifies an artifact for `open_engine`, but makes no engine. Arguments and errors are those of `open_engine`."""
    if device not in DEVICES:
        raise ConfigurationError("device", f"is {device[:40]}: there are {', '.join(DEVICES)}")
    if profile_of(path) != PROFILE_PINNED_1:
        where = "cuda" if device == "cuda" else "auto"
        exact = artifacts.load(path, progress)
        make = functools.partial(
            ExactEngine, exact, threads=threads, path=where, backend=backend or None, cache_bytes=cache_bytes or None
        )
        by_library = bool(backend) or device != "cpu" or not can_run_native(exact.manifest.architecture)
        return Loaded(exact.model_id, make, by_library)
    if environment is None:
        raise ConfigurationError(path.name, "is of profile pinned-1: name the registered environment that this machine is")
    if environment.profile != PROFILE_PINNED_1:
        raise CannotExecute(f"artifact {path.name} is of profile pinned-1, the environment of {environment.profile[:40]}")
    pinned = checkpoint.load(path, progress)
    make_pinned = functools.partial(PinnedEngine, pinned, environment, device=device, threads=threads)
    return Loaded(pinned.model_id, make_pinned, True)


# Vectors of a model. The account that proposes a model publishes their digest. Verifiers that compute the same answers certify
# the model.


ReportProgress = Callable[[str, int, int], None]
"""Function that reports progress. It gets the name of the next question, the number of answered questions and the number of all
questions."""


def vectors_of(engine: AnyEngine, tell: ReportProgress | None = None) -> Vectors:
    """Computes the vectors of the profile and the answers to the questions of the engine's model, and returns both.

    The engine also checks each answer as a claim. Raises `NotExact` or `CannotExecute` if this machine cannot compute the
    vectors.
    """
    environment = engine.environment.digest if isinstance(engine, PinnedEngine) else ZERO_DIGEST
    model_id, shape = engine.artifact.model_id, engine.artifact.manifest.architecture
    profile_vectors = engine.vectors()
    answers, asked = [], questions(model_id, environment, shape.vocabulary, shape.max_context)
    for place, (name, request) in enumerate(zip(KINDS, asked, strict=True)):
        if tell is not None:
            tell(name, place, len(asked))
        made = engine.generate(request)
        # Also checks each answer as a claim, the way that votes use the engine.
        checked = engine.verify(request, made.output, made.out_hash)
        if checked.divergence is not None:
            raise NotExact(f"the answer to vector {place + 1} ({name}) is not the one that this engine confirms")
        answers.append(VectorAnswer(made.output.tokens_hash, made.trace_root))
    return Vectors(engine.profile, profile_vectors, model_id, environment, tuple(answers))
