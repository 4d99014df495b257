"""Artifact of `pinned-1`: an unconverted checkpoint with a manifest. The digest of the manifest is the model id."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor

from bytewise.inference.artifact import mapped_weights
from bytewise.inference.artifact.artifact import Progress
from bytewise.inference.artifact.token_table import TokenTable
from bytewise.inference.convert import checkpoint as checkpoints
from bytewise.inference.convert.staging_dir import staging_dir
from bytewise.inference.manifest import (
    FORMAT,
    MANIFEST_FILE,
    TEMPLATE_FILE,
    TOKENIZER_FILE,
    ArtifactFile,
    FilePiece,
    ModelDescription,
    VerifiedArtifact,
    manifest_of,
    verify_named,
    verify_texts,
)
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode, verify_depth
from bytewise.protocol.errors.actors import ArtifactMismatch, UnsupportedModel
from bytewise.protocol.errors.records import MalformedValue, TooLarge
from bytewise.protocol.records.environment import PROFILE_PINNED_1
from bytewise.protocol.units import Digest

CONFIG_FILE = "config.json"
REQUIRED = (CONFIG_FILE, TOKENIZER_FILE, TEMPLATE_FILE)

PIECE_BYTES = 64 * 2**20
"""Size of the pieces of a file. Several threads hash the pieces at the same time."""


@dataclass(frozen=True, slots=True)
class PinnedManifest(ModelDescription):
    """Manifest of an unconverted float checkpoint. It has only the fields that the manifests of all profiles have."""

    def __post_init__(self) -> None:
        # Do not call super() without arguments: `slots` makes a new class, which is not the one written here.
        ModelDescription.__post_init__(self)
        if self.profile != PROFILE_PINNED_1:
            raise MalformedValue("profile", self.profile[:40])


@dataclass(frozen=True, slots=True)
class PinnedArtifact(VerifiedArtifact[PinnedManifest]):
    """Verified float checkpoint in memory."""

    @property
    def config(self) -> dict[str, Any]:
        """Content of config.json. Reading it raises `ArtifactMismatch` if the file is not a JSON object."""
        try:
            value = json.loads(verify_depth(self.content[CONFIG_FILE]).decode())
        except (TooLarge, ValueError):
            value = None
        if not isinstance(value, dict):
            raise ArtifactMismatch(self.name, f"{CONFIG_FILE}: not a JSON object")
        return value

    def tensors(self) -> dict[str, Tensor]:
        """Returns every tensor of every weights file by name. Raises `ArtifactMismatch` if a file has no readable tensors or a
        tensor is in two files."""
        found: dict[str, Tensor] = {}
        for name in sorted(self.content):
            if name.endswith(".safetensors"):
                try:
                    tensors = load_tensors(self.content[name])
                except SafetensorError as error:
                    raise ArtifactMismatch(self.name, f"{name}: {error}") from None
                twice = sorted(found.keys() & tensors.keys())
                if twice:
                    raise ArtifactMismatch(self.name, f"{name}: {twice[0]} is in another file too")
                found |= tensors
        return found


def pin(checkpoint: Path, out: Path, progress: Progress | None = None) -> Digest:
    """Copies a checkpoint with a new manifest to `out`, which must not exist, and returns its model id.

    Raises `UnsupportedModel`, which names the part that is missing, unreadable or not supported. Raises `ConfigurationError` if
    `out` exists, cannot be written, or is being written by another process. A failure leaves nothing new at `out`.
    """
    with staging_dir(out) as partial:
        source = checkpoints.read(checkpoint)
        # Stop strings and schemas use the bytes of tokens, so refuse by name a tokenizer that does not define them.
        TokenTable(_file(checkpoint, TOKENIZER_FILE), source.architecture.vocabulary).verify()
        weights = sorted(path.name for path in checkpoint.glob("*.safetensors"))
        if not weights:
            raise UnsupportedModel("a checkpoint without safetensors files")
        files, texts = [], {}
        for number, name in enumerate(names := sorted([*REQUIRED, *weights]), 1):
            raw = _file(checkpoint, name)
            (partial / name).write_bytes(raw)
            files.append(_described(name, raw))
            if name in REQUIRED:
                texts[name] = raw
            if progress is not None:
                progress(name, number, len(names))
        defaults, stops = checkpoints.read_generation(checkpoint, source.architecture.vocabulary)
        manifest = PinnedManifest(
            FORMAT, PROFILE_PINNED_1, source.architecture, tuple(files),
            digests.labelled(Label.TOKENIZER, texts[TOKENIZER_FILE]), digests.labelled(Label.TEMPLATE, texts[TEMPLATE_FILE]),
            source.begin_token, checkpoints.all_stop_tokens(source.stop_tokens, stops), defaults,
        )  # fmt: skip
        (partial / MANIFEST_FILE).write_bytes(encode(manifest))
    return manifest.model_id


def load(path: Path, progress: Progress | None = None) -> PinnedArtifact:
    """Returns the artifact of a folder after checking every byte against the manifest. Raises `ArtifactMismatch`, which names
    the file that differs, and `CannotExecute` if there is no artifact or memory is short."""
    manifest = read_manifest(path)
    verify_named(path, manifest, *REQUIRED)
    content = {file.name: bytes(mapped_weights.verified(path, file, progress)) for file in manifest.files}
    verify_texts(path, manifest, content)
    return PinnedArtifact(path, manifest, manifest.model_id, content)


def read_manifest(path: Path) -> PinnedManifest:
    """Returns the manifest of an artifact folder. Raises `CannotExecute` if there is no manifest. Raises `ArtifactMismatch` if
    the manifest is malformed or of another profile."""
    return manifest_of(path, PinnedManifest)


def _described(name: str, raw: bytes) -> ArtifactFile:
    starts = range(0, max(len(raw), 1), PIECE_BYTES)
    parts = [raw[start : start + PIECE_BYTES] for start in starts]
    return ArtifactFile(name, tuple(FilePiece(name, len(part), digests.sha256(part)) for part in parts))


def _file(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise UnsupportedModel(f"{name}: {error.strerror}") from None
