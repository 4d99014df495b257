"""The artifact manifest: canonical JSON whose labelled digest is the model id (design section 6). The module also reads the
manifest of a folder, and has the common part of the artifacts of every profile."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode, encode, parse
from bytewise.protocol.errors.actors import ArtifactMismatch, CannotExecute
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.request import MAX_STOP_TOKENS
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.units import Decimal, Digest

FORMAT = 2
"""Version of the layout of the artifact folder."""

MANIFEST_FILE = "manifest.json"
WEIGHTS_FILE = "weights.safetensors"
TOKENIZER_FILE = "tokenizer.json"
TEMPLATE_FILE = "chat_template.jinja"
MODEL_ID_FILE = "model_id"
"""Name of the file with the digest of the manifest as text. The file is a checksum against damage. To be sure of a certain
model, compare its id with the id that you expect."""

HEADER_PIECE = "header"
"""Name of the header in the weights file. The header is the only piece of this file that is not a tensor."""

MAX_BOUND = 187
"""Largest exponent field E of an activation: 187, the field of 2^60. If a model's activations might exceed it, the model cannot
be converted."""


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Consecutive bytes of a file with their own hash. With pieces, several threads can hash a file, and an error can say where
    the damage is."""

    name: str
    """Name of the piece. In the weights file it is `header` or the tensor's name. In any other file it is the file's name."""
    size: int
    """Number of bytes."""
    sha256: Digest
    """Plain SHA-256 of the bytes."""


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """One file of the artifact."""

    name: str
    """Name in the artifact folder."""
    pieces: tuple[FilePiece, ...]
    """All pieces of the file, in order."""

    @property
    def size(self) -> int:
        """Number of bytes of the file."""
        return sum(piece.size for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Architecture:
    """Shape of a decoder. If a model lacks a feature, the feature's field is zero, false or empty."""

    family: str
    """Model family, whose modelling code defines the computation: `llama`, `mistral`, `qwen2`, `qwen3`, `gemma2`; with experts
    `mixtral`, `qwen3_moe`."""
    layers: int
    """Number of decoder layers."""
    width: int
    """Width of the residual stream."""
    intermediate: int
    """Width inside the gated unit (the feed-forward block)."""
    heads: int
    """Number of query heads."""
    key_value_heads: int
    """Number of key and value heads."""
    head_width: int
    """Width of one head, an even number."""
    vocabulary: int
    """Number of token ids. Every token id is smaller than this number."""
    max_context: int
    """Most tokens of prompt and answer together."""
    attention_bias: bool
    """Whether query, key and value projections have a bias."""
    output_bias: bool
    """Whether the attention's output projection has a bias."""
    mlp_bias: bool
    """Whether the gated unit has a bias."""
    activation: str
    """Activation function of the gated unit: `silu` or `gelu_tanh`."""
    query_key_norm: bool
    """Whether queries and keys are normalised per head before the rotation (Qwen3)."""
    extra_norms: bool
    """Whether the outputs of attention and gated unit are normalised too (Gemma 2)."""
    windows: tuple[int, ...]
    """Sliding window of each layer: the number of tokens that a token sees, including itself. 0 means all. Empty if no layer
    has a window."""
    attention_softcap: Decimal
    """Soft cap of attention scores. A score x becomes cap · tanh(x / cap). `0` means that scores have no cap."""
    final_softcap: Decimal
    """Soft cap of logits. A logit x becomes cap · tanh(x / cap). `0` means that logits have no cap."""
    experts: int
    """Number of experts in each layer. 0 means that the model has no experts."""
    experts_per_token: int
    """Number of experts that compute each token."""

    def window(self, layer: int) -> int:
        """Returns the sliding window of a layer in tokens. 0 means that a token sees all earlier tokens."""
        return self.windows[layer] if self.windows else 0


@dataclass(frozen=True, slots=True)
class Precision:
    """Storage format of the weights."""

    weight_bits: int
    """Bits of all linear layers except the head: 8, or 16 in two int8 limbs."""
    head_bits: int
    """Bits of the output head: 8, or 16 in two int8 limbs."""
    embedding: str
    """Type of the stored embedding, as in the checkpoint: `float32`, `bfloat16` or `float16`. The engine converts a row to
    float32 when it uses the row. The conversion does not round."""

    def __post_init__(self) -> None:
        if {self.weight_bits, self.head_bits} - {8, 16}:
            raise MalformedValue("bits of a weight", f"{self.weight_bits}, {self.head_bits}")
        if self.embedding not in ("float32", "bfloat16", "float16"):
            raise MalformedValue("embedding type", self.embedding[:40])


@dataclass(frozen=True, slots=True)
class Generation:
    """Sampling parameters that the model's makers recommend. They are advice for the author of a request. The engine does not
    add them to a request."""

    temperature: Decimal
    """Recommended temperature; 0 is greedy."""
    top_p: Decimal
    """Recommended top_p; 1 keeps all tokens."""
    top_k: int
    """Recommended top_k; 0 keeps all tokens."""
    max_new_tokens: int | None
    """Recommended longest answer in tokens. None if the makers recommend none."""


@dataclass(frozen=True, slots=True)
class ScaledPair:
    """A norm or linear layer (the producer of channels) and the linear layers that read its channels (its consumers). The
    conversion scaled them against each other."""

    name: str
    """`producer > consumer`, with names of tensors in the artifact. Commas separate several consumers."""
    quarters: int
    """Strength of the equalisation: alpha = quarters / 4. With 0 the pair is unchanged."""


@dataclass(frozen=True, slots=True)
class Equalisation:
    """Channel scaling at conversion. Its factors are exact powers of two that cancel. So they only affect the rounding of
    weights."""

    calibration: Digest
    """Digest of the ids of the calibration tokens, under the label CALIBRATION. The conversion measured the error on these
    tokens."""
    tokens: int
    """Number of calibration tokens."""
    pairs: tuple[ScaledPair, ...]
    """Scaled pairs, in the order of computation."""
    skipped: tuple[str, ...]
    """Names of pairs that were not scaled, as `producer > consumer`. The architecture does not allow them, or the conversion
    did not measure them."""


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """Parts of a manifest that all profiles share: shape, files, tokenizer, template, defaults."""

    format: int
    """Version of the layout of the artifact folder; always 2."""
    profile: str
    """Arithmetic profile for which the artifact is made."""
    architecture: Architecture
    """Shape of the decoder."""
    files: tuple[ArtifactFile, ...]
    """Files of the artifact, ascending by name."""
    tokenizer_digest: Digest
    """Digest of the tokenizer file, under the label TOKENIZER."""
    template_digest: Digest
    """Digest of the chat template, under the label TEMPLATE."""
    begin_token: int | None
    """Token that a chat template may name `bos_token`. None if the model has no such token."""
    stop_tokens: tuple[int, ...]
    """Tokens that end an answer, ascending."""
    generation: Generation
    """Recommended sampling parameters."""

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise MalformedValue("artifact format", str(self.format))
        names = [file.name for file in self.files]
        if names != sorted(set(names)) or any("/" in name or name.startswith(".") for name in names):
            raise MalformedValue("artifact files", ", ".join(names)[:200])
        stops = list(self.stop_tokens)
        # Every request carries these stop tokens. A request with an invalid decode policy could not be answered.
        if (
            len(stops) > MAX_STOP_TOKENS
            or stops != sorted(set(stops))
            or any(not 0 <= stop < self.architecture.vocabulary for stop in stops)
        ):
            raise MalformedValue("stop tokens", str(stops)[:200])

    @property
    def model_id(self) -> Digest:
        """Digest of the canonical manifest."""
        return digests.labelled(Label.ARTIFACT, encode(self))


@dataclass(frozen=True, slots=True)
class Manifest(ModelDescription):
    """Manifest of an `exact-1` artifact. Besides the common parts it says how the conversion made the integers."""

    precision: Precision
    """Storage format of the weights."""
    equalisation: Equalisation | None
    """Channel scaling at conversion. None if the conversion left channels unchanged."""
    bound: int
    """Largest exponent field E that an activation can have. The conversion proves this bound by interval arithmetic."""

    def __post_init__(self) -> None:
        # Do not call super() without arguments: `slots` makes a new class, which is not the one written here.
        ModelDescription.__post_init__(self)
        if not 64 <= self.bound <= MAX_BOUND:
            raise MalformedValue("bound of activations", str(self.bound))


def profile_of(path: Path) -> str:
    """Returns the profile that the manifest of an artifact folder names. Returns an empty string if there is no readable
    manifest."""
    try:
        value = parse((path / MANIFEST_FILE).read_bytes())
    except (OSError, Fault):
        return ""
    return str(value.get("profile", "")) if isinstance(value, dict) else ""


# Common part of loaded artifacts of every profile: a manifest, and the bytes that the loader checked against it.


AnyManifest = TypeVar("AnyManifest", bound=ModelDescription)


@dataclass(frozen=True, slots=True)
class VerifiedArtifact(Generic[AnyManifest]):
    """Verified artifact. It keeps the hashed bytes in memory, so replacing a file after the check has no effect."""

    path: Path
    """Folder from which the artifact was read."""
    manifest: AnyManifest
    """Manifest of the artifact."""
    model_id: Digest
    """Digest of the manifest."""
    content: dict[str, bytes] = field(repr=False)
    """Bytes of the manifest's files by name. An `exact-1` artifact leaves out the weights file, whose bytes are in its
    tensors."""

    @property
    def name(self) -> str:
        """Name for people: the folder's name. It is not part of the model id."""
        return self.path.name

    @property
    def tokenizer_digest(self) -> Digest:
        """Digest of the tokenizer file."""
        return self.manifest.tokenizer_digest

    @property
    def template_digest(self) -> Digest:
        """Digest of the chat template."""
        return self.manifest.template_digest


def manifest_of(path: Path, kind: type[AnyManifest]) -> AnyManifest:
    """Returns the manifest of an artifact folder. Raises `CannotExecute` if there is no manifest, and `ArtifactMismatch` if the
    manifest is malformed."""
    try:
        return decode(kind, (path / MANIFEST_FILE).read_bytes())
    except OSError as error:
        raise CannotExecute(f"no artifact at {path.name or path}: {error.strerror}", CannotReason.MODEL_MISSING) from None
    except Fault as error:
        raise ArtifactMismatch(path.name, f"{MANIFEST_FILE}: {error}") from None


def verify_named(path: Path, manifest: ModelDescription, *needed: str) -> None:
    """Raises `ArtifactMismatch` if the manifest lacks one of the files that its profile needs."""
    missing = sorted(set(needed) - {file.name for file in manifest.files})
    if missing:
        raise ArtifactMismatch(path.name, f"manifest lacks {', '.join(missing)}")


def verify_texts(path: Path, manifest: ModelDescription, content: dict[str, bytes]) -> None:
    """Raises `ArtifactMismatch` if the tokenizer or the chat template does not have the digest in the manifest. Every request
    contains these digests."""
    if digests.labelled(Label.TOKENIZER, content[TOKENIZER_FILE]) != manifest.tokenizer_digest:
        raise ArtifactMismatch(path.name, "tokenizer digest")
    if digests.labelled(Label.TEMPLATE, content[TEMPLATE_FILE]) != manifest.template_digest:
        raise ArtifactMismatch(path.name, "template digest")
