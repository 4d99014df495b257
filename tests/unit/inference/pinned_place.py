"""A pinned artifact on this machine, for the tests of `pinned-1`."""

from pathlib import Path
from typing import NamedTuple

from bytewise.inference.convert.make import make_model
from bytewise.inference.pinned import checkpoint
from bytewise.inference.pinned.checkpoint import PinnedArtifact
from bytewise.inference.pinned.engine import PinnedEngine
from bytewise.inference.pinned.fingerprint import fingerprint
from bytewise.protocol.records.environment import Environment


class Place(NamedTuple):
    """A pinned artifact on this machine."""

    source: Path
    artifact: PinnedArtifact
    environment: Environment
    engine: PinnedEngine


def make_place(folder: Path) -> Place:
    """A small model, pinned in a folder and loaded in the environment of this machine."""
    make_model(folder / "checkpoint", 7, layers=2, width=64, heads=4, key_value_heads=2, context=128)
    model_id = checkpoint.pin(folder / "checkpoint", folder / "artifact")
    artifact = checkpoint.load(folder / "artifact")
    assert artifact.model_id == model_id
    here = fingerprint(artifact.manifest.architecture)
    return Place(folder / "checkpoint", artifact, here, PinnedEngine(artifact, here))
