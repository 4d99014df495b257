"""The artifact of `pinned-1`: a checkpoint as it is, under a manifest whose digest is the model id. Nothing is converted."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor

from bytewise.inference import checkpoint as checkpoints
from bytewise.inference import generation, held
from bytewise.inference.artifact import Progress
from bytewise.inference.manifest import (
    FORMAT,
    MANIFEST_FILE,
    TEMPLATE_FILE,
    TOKENIZER_FILE,
    Architecture,
    ArtifactFile,
    Generation,
    Piece,
)
from bytewise.inference.workplace import claimed
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.environment import PROFILE_PINNED_1
from bytewise.protocol.errors import ArtifactMismatch, CannotExecute, Fault, MalformedValue, UnsupportedModel
from bytewise.protocol.units import Digest

CONFIG_FILE = "config.json"
REQUIRED = (CONFIG_FILE, TOKENIZER_FILE, TEMPLATE_FILE)

PIECE_BYTES = 64 * 2**20
"""Files are hashed in pieces of this size, in parallel."""


@dataclass(frozen=True, slots=True)
class PinnedManifest:
    """What the artifact says of itself: the canonical JSON whose labelled digest is the model id."""

    format: int
    """2."""
    profile: str
    """`pinned-1`."""
    architecture: Architecture
    """Shape."""
    files: tuple[ArtifactFile, ...]
    """Ascending by name."""
    tokenizer_digest: Digest
    """labelled(TOKENIZER, tokenizer file)."""
    template_digest: Digest
    """labelled(TEMPLATE, chat template)."""
    begin_token: int | None
    """Token that a chat template may name `bos_token`."""
    stop_tokens: tuple[int, ...]
    """Tokens that end an answer, ascending."""
    generation: Generation
    """Defaults for requests."""

    def __post_init__(self) -> None:
        if self.format != FORMAT or self.profile != PROFILE_PINNED_1:
            raise MalformedValue("artifact", f"format {self.format}, profile {self.profile[:40]}")
        names = [file.name for file in self.files]
        if names != sorted(set(names)) or any("/" in name or name.startswith(".") for name in names):
            raise MalformedValue("artifact files", ", ".join(names)[:200])

    @property
    def model_id(self) -> Digest:
        """Digest of the canonical manifest."""
        return digests.labelled(Label.ARTIFACT, encode(self))


@dataclass(frozen=True, slots=True)
class PinnedArtifact:
    """A verified float checkpoint. The bytes that were hashed are kept, so that a file cannot change between check and use."""

    path: Path
    """Folder that it was read from."""
    manifest: PinnedManifest
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
    with claimed(out) as partial:
        source = checkpoints.read(checkpoint)
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
        defaults, stops = generation.read(checkpoint, source.architecture.vocabulary)
        manifest = PinnedManifest(
            FORMAT, PROFILE_PINNED_1, source.architecture, tuple(files),
            digests.labelled(Label.TOKENIZER, texts[TOKENIZER_FILE]), digests.labelled(Label.TEMPLATE, texts[TEMPLATE_FILE]),
            source.begin_token, tuple(sorted({*source.stop_tokens, *stops})), defaults,
        )  # fmt: skip
        (partial / MANIFEST_FILE).write_bytes(encode(manifest))
    return manifest.model_id


def load(path: Path, progress: Progress | None = None) -> PinnedArtifact:
    """The artifact of a folder, every byte checked against the manifest; `ArtifactMismatch` names the file that differs."""
    manifest = read_manifest(path)
    content = {file.name: bytes(held.verified(path, file, progress)) for file in manifest.files}
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


def read_manifest(path: Path) -> PinnedManifest:
    """The manifest of an artifact folder; `CannotExecute` without one, `ArtifactMismatch` for one of another profile."""
    try:
        return decode(PinnedManifest, (path / MANIFEST_FILE).read_bytes())
    except OSError as error:
        raise CannotExecute(f"no artifact at {path.name}: {error.strerror}") from None
    except Fault as error:
        raise ArtifactMismatch(path.name, f"{MANIFEST_FILE}: {error}") from None


def _described(name: str, raw: bytes) -> ArtifactFile:
    starts = range(0, max(len(raw), 1), PIECE_BYTES)
    parts = [raw[start : start + PIECE_BYTES] for start in starts]
    return ArtifactFile(name, tuple(Piece(name, len(part), digests.sha256(part)) for part in parts))


def _file(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise UnsupportedModel(f"{name}: {error.strerror}") from None
