"""Artifact of `exact-1`: the layout of its weights file, and its loading (design section 6). The loader verifies every byte
against the model id before anything is used.

The engine multiplies with exactly the memory that was hashed.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from bytewise.inference.artifact import families, mapped_weights
from bytewise.inference.artifact.families import family_of, linears, norms
from bytewise.inference.exact import rope
from bytewise.inference.manifest import (
    HEADER_PIECE,
    MANIFEST_FILE,
    MODEL_ID_FILE,
    TEMPLATE_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    Architecture,
    ArtifactFile,
    Manifest,
    Precision,
    VerifiedArtifact,
    manifest_of,
    verify_named,
    verify_texts,
)
from bytewise.protocol.errors.actors import ArtifactMismatch, UnsupportedModel
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.protocol.units import Digest, hex0x

# Layout of the weights file. The model's shape determines it: a header is checked by making it again and comparing.

DTYPES = {
    "float64": (torch.float64, "F64", 8), "float32": (torch.float32, "F32", 4), "bfloat16": (torch.bfloat16, "BF16", 2),
    "float16": (torch.float16, "F16", 2), "int8": (torch.int8, "I8", 1),
}  # fmt: skip
"""Maps each type in an artifact to torch's type, its name in a safetensors header, and its bytes per element."""

ALIGNMENT = 64
"""Alignment in bytes: the header is padded so that it ends at a multiple of this number."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Description of one tensor of the weights file."""

    name: str
    """Name of the tensor, unique in the file."""
    dtype: str
    """Type of the elements: a key of `DTYPES`."""
    shape: tuple[int, ...]
    """Sizes of the tensor's one or two dimensions."""

    @property
    def size(self) -> int:
        """Number of bytes of the tensor."""
        return prod(self.shape) * DTYPES[self.dtype][2]


def tensor_specs(shape: Architecture, precision: Precision) -> list[TensorSpec]:
    """Returns the tensors in file order. Wider element types come first, so that each tensor begins at a multiple of its
    element size. Tensors of equal element size stay in the order in which the model uses them."""
    return sorted(_in_order(shape, precision), key=lambda spec: -DTYPES[spec.dtype][2])


def header(specs: list[TensorSpec]) -> bytes:
    """Returns the safetensors header of these tensors: 8 bytes of length, then JSON padded with spaces."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for spec in specs:
        code, stop = DTYPES[spec.dtype][1], offset + spec.size
        entries[spec.name] = {"dtype": code, "shape": list(spec.shape), "data_offsets": [offset, stop]}
        offset = stop
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _in_order(shape: Architecture, precision: Precision) -> Iterator[TensorSpec]:
    yield TensorSpec("embedding", precision.embedding, (shape.vocabulary, shape.width))
    if family_of(shape.family).scaled_embedding:
        yield TensorSpec("embedding_scale", "float32", (1,))
    for layer in range(shape.layers):
        for linear in linears(shape, layer):
            yield from _linear(linear.name, (linear.rows, linear.columns), precision.weight_bits)
            if linear.biased:
                yield TensorSpec(f"{linear.name}.bias", "float32", (linear.rows,))
        for norm in norms(shape, layer):
            yield TensorSpec(norm.name, "float32", (norm.width,))
    yield TensorSpec("norm", "float32", (shape.width,))
    yield from _linear("head", (shape.vocabulary, shape.width), precision.head_bits)
    # Positions 0 to max_context: one more than a context holds.
    for part, rows in (("low", rope.STRIDE), ("high", shape.max_context // rope.STRIDE + 1)):
        for name in ("cos", "sin"):
            yield TensorSpec(f"rope.{part}.{name}", "float64", (rows, shape.head_width // 2))
    yield TensorSpec("epsilon", "float32", (1,))
    yield TensorSpec("attention_scale", "float32", (1,))


def _linear(name: str, shape: tuple[int, int], bits: int) -> Iterator[TensorSpec]:
    yield TensorSpec(name, "int8", shape)
    if bits == 16:
        yield TensorSpec(f"{name}.low", "int8", shape)
    yield TensorSpec(f"{name}.scale", "float32", shape[:1])


# Loading.

CONSTANTS = {"epsilon", "attention_scale", "embedding_scale"}
"""Names of the tensors that have a single number, for example a factor for rows. The loader refuses such a number unless it is
positive and finite."""

Progress = Callable[[str, int, int], None]
"""Function that reports progress. It gets a file name, the amount that is done and the whole amount: bytes of that file, or when
a checkpoint is pinned, files. Only one thread calls it at a time."""


@dataclass(frozen=True, slots=True)
class Artifact(VerifiedArtifact[Manifest]):
    """A verified artifact of `exact-1`."""

    tensors: dict[str, Tensor] = field(repr=False)
    """Tensors of the weights file by name. They are views on one block of read-only memory."""


def model_id_of(path: Path) -> Digest:
    """Returns the model id that an `exact-1` artifact claims. This function reads only the manifest and the model id file, so it
    does not check the other files. Raises the errors of `read_manifest`."""
    return read_manifest(path).model_id


def read_manifest(path: Path) -> Manifest:
    """Returns the manifest of an `exact-1` artifact folder, after comparing it with the model id file.

    Raises `CannotExecute` if there is no manifest, and `ArtifactMismatch` if the manifest is malformed, damaged or of another
    profile.
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
    the difference, and `CannotExecute` if there is no artifact or memory is short.

    The check runs in as many threads as there are processors. Each thread hashes pieces of the files.
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
    specs = tensor_specs(shape, manifest.precision)
    head = header(specs)
    expected = [(HEADER_PIECE, len(head)), *((spec.name, spec.size) for spec in specs)]
    if [(piece.name, piece.size) for piece in file.pieces] != expected or view[: len(head)] != head:
        raise ArtifactMismatch(path.name, f"{WEIGHTS_FILE}: not the tensors of a {shape.family} of this shape")
    offset, tensors = len(head), {}
    for spec in specs:
        tensors[spec.name] = mapped_weights.tensor(view, offset, DTYPES[spec.dtype][0], spec.shape)
        offset += spec.size
    for name in tensors.keys() & CONSTANTS:
        if not bool((torch.isfinite(tensors[name]) & (tensors[name] > 0)).all()):
            raise ArtifactMismatch(path.name, f"{WEIGHTS_FILE}: {name} is not positive and finite")
    return tensors
