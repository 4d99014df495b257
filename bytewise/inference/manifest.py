"""What an artifact says of itself: the canonical JSON whose labelled digest is the model id (design section 6)."""

from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.request import MAX_STOP_TOKENS
from bytewise.protocol.units import Decimal, Digest

FORMAT = 2
"""Layout of the artifact folder."""

MANIFEST_FILE = "manifest.json"
WEIGHTS_FILE = "weights.safetensors"
TOKENIZER_FILE = "tokenizer.json"
TEMPLATE_FILE = "chat_template.jinja"
MODEL_ID_FILE = "model_id"
"""The digest of the manifest as text: a checksum against damage. Who wants a certain model compares with its own id."""

HEADER_PIECE = "header"
"""Name of the piece of the weights file that is no tensor."""

MAX_BOUND = 187
"""E of 2^60: a model whose activations might exceed it is not converted."""


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Consecutive bytes of a file: hashed alone, so that a file is hashed in parallel and a flipped byte has a name."""

    name: str
    """Of the weights file: `header`, or the tensor. Of another file: the file's own name."""
    size: int
    """Bytes."""
    sha256: Digest
    """Plain SHA-256 of the bytes."""


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """One file of the artifact."""

    name: str
    """Name in the artifact folder."""
    pieces: tuple[FilePiece, ...]
    """The whole file, in order."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(piece.size for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Architecture:
    """The shape of a decoder. A feature that a model lacks is zero, false or empty."""

    family: str
    """`llama`, `mistral`, `qwen2`, `qwen3`, `gemma2`, or of experts `mixtral`, `qwen3_moe`: whose modelling code is the graph."""
    layers: int
    """Decoder layers."""
    width: int
    """Residual stream."""
    intermediate: int
    """Width of the gated unit."""
    heads: int
    """Query heads."""
    key_value_heads: int
    """Key and value heads."""
    head_width: int
    """Width of one head; even."""
    vocabulary: int
    """Token ids are below this."""
    max_context: int
    """Most tokens of prompt and answer together."""
    attention_bias: bool
    """Whether query, key and value projections have a bias."""
    output_bias: bool
    """Whether the attention's output projection has a bias."""
    mlp_bias: bool
    """Whether the gated unit has a bias."""
    activation: str
    """`silu` or `gelu_tanh`."""
    query_key_norm: bool
    """Whether queries and keys are normalised per head before the rotation (Qwen3)."""
    extra_norms: bool
    """Whether the outputs of attention and gated unit are normalised too (Gemma 2)."""
    windows: tuple[int, ...]
    """Sliding window of each layer in tokens, its own included; 0 sees everything. Empty: no layer has one."""
    attention_softcap: Decimal
    """Cap of scores, `0` for none: x becomes cap · tanh(x / cap)."""
    final_softcap: Decimal
    """Cap of logits, `0` for none."""
    experts: int
    """Experts of each layer; 0 is a dense model."""
    experts_per_token: int
    """Experts that a token is routed to."""

    def window(self, layer: int) -> int:
        """Sliding window of a layer; 0 sees everything."""
        return self.windows[layer] if self.windows else 0


@dataclass(frozen=True, slots=True)
class Precision:
    """How weights are stored."""

    weight_bits: int
    """8, or 16 in two int8 limbs: of all linear layers but the head."""
    head_bits: int
    """The same of the output head."""
    embedding: str
    """`float32`, `bfloat16` or `float16`: the checkpoint's own, widened exactly when a row is used."""

    def __post_init__(self) -> None:
        if {self.weight_bits, self.head_bits} - {8, 16}:
            raise MalformedValue("bits of a weight", f"{self.weight_bits}, {self.head_bits}")
        if self.embedding not in ("float32", "bfloat16", "float16"):
            raise MalformedValue("embedding type", self.embedding[:40])


@dataclass(frozen=True, slots=True)
class Generation:
    """How the makers of the model want answers drawn: for who writes a request to read. No request is completed by it."""

    temperature: Decimal
    """0 is greedy."""
    top_p: Decimal
    """1 keeps all."""
    top_k: int
    """0 keeps all."""
    max_new_tokens: int | None
    """Longest answer, if they name one."""


@dataclass(frozen=True, slots=True)
class ScaledPair:
    """Producer and consumers of channels that were scaled against each other."""

    name: str
    """`producer > consumer`, as tensors of the artifact."""
    quarters: int
    """Strength of equalisation, alpha = quarters / 4; 0 left the pair as it was."""


@dataclass(frozen=True, slots=True)
class Equalisation:
    """What conversion did to channels: exact powers of two that cancel, so only the rounding of weights is affected."""

    calibration: Digest
    """labelled(CALIBRATION, token ids) of the tokens on which the error was measured."""
    tokens: int
    """How many they were."""
    pairs: tuple[ScaledPair, ...]
    """In the order of computation."""
    skipped: tuple[str, ...]
    """Pairs that the architecture does not allow, or that were not measured, in the same form."""


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """What artifacts of every profile say of themselves: shape, files, tokenizer, template, defaults."""

    format: int
    """2."""
    profile: str
    """Arithmetic profile that the artifact is made for."""
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
    """What the makers recommend for requests."""

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise MalformedValue("artifact format", str(self.format))
        names = [file.name for file in self.files]
        if names != sorted(set(names)) or any("/" in name or name.startswith(".") for name in names):
            raise MalformedValue("artifact files", ", ".join(names)[:200])
        stops = list(self.stop_tokens)
        # What every request carries: one that is no decode policy could be answered by nobody.
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
    """A whole model of `exact-1`: with the numbers that integers are scaled by."""

    precision: Precision
    """Of the weights."""
    equalisation: Equalisation | None
    """None where conversion was told to leave channels alone."""
    bound: int
    """No activation's E is above it: proven at conversion by interval arithmetic."""

    def __post_init__(self) -> None:
        # Not super() without arguments: a class with slots is another one than was written here.
        ModelDescription.__post_init__(self)
        if not 64 <= self.bound <= MAX_BOUND:
            raise MalformedValue("bound of activations", str(self.bound))
