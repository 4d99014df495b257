"""Loading of an artifact: its bytes are verified against the model id before anything is used (design section 6).

The engine multiplies with exactly the memory that was hashed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from bytewise.inference.artifact import families, layout, mapped_weights
from bytewise.inference.artifact.verified import VerifiedArtifact, manifest_of, verify_named, verify_texts
from bytewise.inference.manifest import (
    HEADER_PIECE,
    MANIFEST_FILE,
    MODEL_ID_FILE,
    TEMPLATE_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    ArtifactFile,
    Manifest,
)
from bytewise.protocol.errors.actors import ArtifactMismatch, UnsupportedModel
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.protocol.units import Digest, hex0x

CONSTANTS = {"epsilon", "attention_scale", "embedding_scale"}
"""Names of the tensors that have a single number, for example a factor for rows. Such a number must be positive and finite."""

Progress = Callable[[str, int, int], None]
"""Function that is called with a file name, the number of bytes done and the number of all bytes, from one thread at a time."""


@dataclass(frozen=True, slots=True)
class Artifact(VerifiedArtifact[Manifest]):
    """A verified artifact of `exact-1`."""

    tensors: dict[str, Tensor] = field(repr=False)
    """Tensors of the weights file by name. They are views on one block of read-only memory."""


def model_id_of(path: Path) -> Digest:
    """Returns the model id that an `exact-1` artifact claims. Only the manifest is read, so the files are not checked."""
    return read_manifest(path).model_id


def read_manifest(path: Path) -> Manifest:
    """Returns the manifest of an `exact-1` artifact folder, after comparing it with the model id file.

    Raises `CannotExecute` if there is no manifest, and `ArtifactMismatch` if it is malformed or damaged.
    """
    manifest = manifest_of(path, Manifest)
    if manifest.profile != PROFILE_EXACT_1:
        raise ArtifactMismatch(path.name, f"profile {manifest.profile[:40]}")
    try:
        claimed = (path / MODEL_ID_FILE).read_bytes()
    except OSError as error:
        raise ArtifactMismatch(path.name, f"{MODEL_ID_FILE}: {error.strerror}") from None
    if claimed != model_id_line(manifest.model_id):
        raise ArtifactMismatch(path.name, f"{MANIFEST_FILE} is not the one that {MODEL_ID_FILE} names: one of them was altered")
    return manifest


def model_id_line(model_id: Digest) -> bytes:
    """Returns the content of the model id file for this model id."""
    return hex0x(model_id).encode() + b"\n"


def load(path: Path, progress: Progress | None = None) -> Artifact:
    """Returns the artifact of a folder after checking every byte against the manifest. Raises `ArtifactMismatch`, which names
    the difference.

    As many threads as there are processors hash pieces of the files.
    """
    manifest = read_manifest(path)
    files = {file.name: file for file in manifest.files}
    verify_named(path, manifest, WEIGHTS_FILE, TOKENIZER_FILE, TEMPLATE_FILE)
    views = {name: mapped_weights.verified(path, file, progress) for name, file in files.items()}
    content = {name: bytes(view) for name, view in views.items() if name != WEIGHTS_FILE}
    verify_texts(path, manifest, content)
    tensors = _tensors(path, manifest, files[WEIGHTS_FILE], views[WEIGHTS_FILE])
    return Artifact(path, manifest, manifest.model_id, content, tensors)


def _tensors(path: Path, manifest: Manifest, file: ArtifactFile, view: memoryview) -> dict[str, Tensor]:
    shape = manifest.architecture
    if max(shape.layers, shape.experts) > len(file.pieces):
        raise ArtifactMismatch(path.name, f"{WEIGHTS_FILE}: fewer tensors than layers or experts")
    try:
        families.verify(shape)
    except UnsupportedModel as error:
        raise ArtifactMismatch(path.name, f"{MANIFEST_FILE}: {error}") from None
    specs = layout.tensor_specs(shape, manifest.precision)
    header = layout.header(specs)
    expected = [(HEADER_PIECE, len(header)), *((spec.name, spec.size) for spec in specs)]
    if [(piece.name, piece.size) for piece in file.pieces] != expected or view[: len(header)] != header:
        raise ArtifactMismatch(path.name, f"{WEIGHTS_FILE}: not the tensors of a {shape.family} of this shape")
    offset, tensors = len(header), {}
    for spec in specs:
        tensors[spec.name] = mapped_weights.tensor(view, offset, layout.DTYPES[spec.dtype][0], spec.shape)
        offset += spec.size
    for name in tensors.keys() & CONSTANTS:
        if not bool((torch.isfinite(tensors[name]) & (tensors[name] > 0)).all()):
            raise ArtifactMismatch(path.name, f"{WEIGHTS_FILE}: {name} is not positive and finite")
    return tensors
