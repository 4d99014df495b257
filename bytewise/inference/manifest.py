"""What an artifact says of itself: the canonical JSON whose labelled digest is the model id (design section 6)."""

from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors import MalformedValue
from bytewise.protocol.units import Decimal, Digest

FORMAT = 2
"""Layout of the artifact folder."""

MANIFEST_FILE = "manifest.json"
WEIGHTS_FILE = "weights.safetensors"
TOKENIZER_FILE = "tokenizer.json"
TEMPLATE_FILE = "chat_template.jinja"


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """One file of the artifact."""

    name: str
    """Name in the artifact folder."""
    size: int
    """Bytes."""
    sha256: Digest
    """Plain SHA-256 of the bytes."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """The shape of a decoder. A feature that a model lacks is zero, false or empty."""

    family: str
    """`llama`, `mistral`, `qwen2`, `qwen3`, `gemma2`, or a mixture of experts, `mixtral`: whose modelling code is the graph."""
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
class Manifest:
    """The whole model: shape, numbers, tokenizer, template."""

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

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise MalformedValue("artifact format", str(self.format))
        names = [file.name for file in self.files]
        if names != sorted(set(names)) or any("/" in name or name.startswith(".") for name in names):
            raise MalformedValue("artifact files", ", ".join(names)[:200])

    @property
    def model_id(self) -> Digest:
        """Digest of the canonical manifest."""
        return digests.labelled(Label.ARTIFACT, encode(self))
