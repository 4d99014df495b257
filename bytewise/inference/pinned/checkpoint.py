"""The artifact of `pinned-1`: a checkpoint as it is, under a manifest whose digest is the model id. Nothing is converted."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor

from bytewise.inference import checkpoint as checkpoints
from bytewise.inference import generation, mapped
from bytewise.inference.artifact import Progress
from bytewise.inference.manifest import (
    FORMAT,
    MANIFEST_FILE,
    NO_BOUND,
    TEMPLATE_FILE,
    TOKENIZER_FILE,
    ArtifactFile,
    Manifest,
    Piece,
)
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.environment import PROFILE_PINNED_1
from bytewise.protocol.errors import ArtifactMismatch, CannotExecute, ConfigurationError, Fault, UnsupportedModel
from bytewise.protocol.units import Digest

CONFIG_FILE = "config.json"
REQUIRED = (CONFIG_FILE, TOKENIZER_FILE, TEMPLATE_FILE)


@dataclass(frozen=True, slots=True)
class PinnedArtifact:
    """A verified float checkpoint. The bytes that were hashed are kept, so that a file cannot change between check and use."""

    path: Path
    """Folder that it was read from."""
    manifest: Manifest
    """What it says of itself."""
    content: dict[str, bytes] = field(repr=False)
    """Bytes of every file of the manifest."""

    @property
    def name(self) -> str:
        """Name for people: the folder's."""
        return self.path.name

    @property
    def model_id(self) -> Digest:
        """Digest of the manifest."""
        return self.manifest.model_id

    @property
    def tokenizer_digest(self) -> Digest:
        """Digest of the tokenizer file."""
        return self.manifest.tokenizer_digest

    @property
    def template_digest(self) -> Digest:
        """Digest of the chat template."""
        return self.manifest.template_digest

    @property
    def config(self) -> dict[str, Any]:
        """config.json; `ArtifactMismatch` if it is none."""
        try:
            return dict(json.loads(self.content[CONFIG_FILE]))
        except (ValueError, TypeError):
            raise ArtifactMismatch(self.name, f"{CONFIG_FILE}: not a JSON object") from None

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor of every weights file; `ArtifactMismatch` names a file without any, or a tensor that is there twice."""
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
    """Copies a checkpoint to `out` (which must not exist) under a manifest and returns its model id.

    `UnsupportedModel` names what is missing or cannot be read. A failure leaves nothing at `out`.
    """
    if out.exists():
        raise ConfigurationError(out.name, "already exists")
    source = checkpoints.read(checkpoint)
    weights = sorted(path.name for path in checkpoint.glob("*.safetensors"))
    if not weights:
        raise UnsupportedModel("a checkpoint without safetensors files")
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    names, listed, texts = sorted([*REQUIRED, *weights]), [], {}
    for number, name in enumerate(names, 1):
        raw = _file(checkpoint, name)
        (partial / name).write_bytes(raw)
        listed.append(ArtifactFile(name, (Piece(name, len(raw), digests.sha256(raw)),)))
        if name in REQUIRED:
            texts[name] = raw
        if progress is not None:
            progress(name, number, len(names))
    tokenizer, template = (
        digests.labelled(label, texts[name])
        for label, name in ((Label.TOKENIZER, TOKENIZER_FILE), (Label.TEMPLATE, TEMPLATE_FILE))
    )
    defaults, stops = generation.read(checkpoint)
    manifest = Manifest(
        FORMAT, PROFILE_PINNED_1, source.architecture, tuple(listed), tokenizer, template, source.begin_token,
        tuple(sorted({*source.stop_tokens, *stops})), defaults, None, None, NO_BOUND,
    )  # fmt: skip
    (partial / MANIFEST_FILE).write_bytes(encode(manifest))
    partial.rename(out)
    return manifest.model_id


def load(path: Path, progress: Progress | None = None) -> PinnedArtifact:
    """The artifact of a folder, every file checked against the manifest; `ArtifactMismatch` names the file that differs."""
    manifest = read_manifest(path)
    content = {}
    for number, file in enumerate(manifest.files, 1):
        content[file.name] = bytes(mapped.verified(path, file, None))
        if progress is not None:
            progress(file.name, number, len(manifest.files))
    missing = sorted(set(REQUIRED) - content.keys())
    if missing:
        raise ArtifactMismatch(path.name, f"manifest lacks {', '.join(missing)}")
    for name, label, want in (
        (TOKENIZER_FILE, Label.TOKENIZER, manifest.tokenizer_digest),
        (TEMPLATE_FILE, Label.TEMPLATE, manifest.template_digest),
    ):
        if digests.labelled(label, content[name]) != want:
            raise ArtifactMismatch(path.name, f"digest of {name}")
    return PinnedArtifact(path, manifest, content)


def read_manifest(path: Path) -> Manifest:
    """The manifest of an artifact folder; `CannotExecute` without one, `ArtifactMismatch` for one of another profile."""
    try:
        manifest = decode(Manifest, (path / MANIFEST_FILE).read_bytes())
    except OSError as error:
        raise CannotExecute(f"no artifact at {path.name}: {error.strerror}") from None
    except Fault as error:
        raise ArtifactMismatch(path.name, f"{MANIFEST_FILE}: {error}") from None
    if manifest.profile != PROFILE_PINNED_1:
        raise ArtifactMismatch(path.name, f"profile {manifest.profile[:40]}")
    return manifest


def _file(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise UnsupportedModel(f"{name}: {error.strerror}") from None
