"""Inputs of a model's linear layers: calibration tokens through the exact model, one layer in memory at a time.

The weights are those of the artifact without equalisation. Everything is exact, so every machine gets the same inputs.
"""

from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor, nn

from bytewise.inference.artifact.weights import BLOCK
from bytewise.inference.exact.cache import ExactCache
from bytewise.inference.exact.elementwise import rms_norm
from bytewise.inference.exact.linear import ExactLinear, Tensors
from bytewise.inference.exact.matmul import Float64Backend
from bytewise.inference.exact.modules import ExactRotary
from bytewise.inference.manifest import TOKENIZER_FILE, Architecture
from bytewise.inference.model import decoder_layer
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import ConfigurationError

DEFAULT_TOKENS = 128
"""Number of hashed tokens, where no text is given."""

MOST_TOKENS = 256
"""Largest number of tokens taken from a text."""


def hashed_tokens(shape: Architecture) -> tuple[int, ...]:
    """Token ids from a hash, which anyone can compute. They have no meaning."""
    count = min(DEFAULT_TOKENS, shape.max_context)
    return tuple(int.from_bytes(digests.labelled(Label.CALIBRATION, i), "big") % shape.vocabulary for i in range(count))


def text_tokens(shape: Architecture, checkpoint: Path, text: Path) -> tuple[int, ...]:
    """The first tokens of a text file. `ConfigurationError` if it cannot be read, is empty or has unknown tokens."""
    try:
        tokenizer = tokenizers.Tokenizer.from_str((checkpoint / TOKENIZER_FILE).read_text("utf-8"))
        # No tokenizer makes a token longer than some kilobytes, so a long text need not be tokenised whole.
        ids = tokenizer.encode(text.read_text("utf-8")[: 64 * MOST_TOKENS], add_special_tokens=False).ids
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(text.name, f"no text to calibrate with: {error}") from None
    ids = ids[: min(MOST_TOKENS, shape.max_context)]
    if not ids or max(ids) >= shape.vocabulary:
        raise ConfigurationError(text.name, "no text to calibrate with: empty, or its tokens are not the model's")
    return tuple(ids)


class Calibration:
    """The residual stream of the calibration tokens, which moves through the model layer by layer."""

    def __init__(self, shape: Architecture, hidden: Tensor, constants: Tensors) -> None:
        """`hidden` are embedded tokens, float32 [T, D]; `constants` the artifact's tables, epsilon and attention scale."""
        self._shape, self._hidden, self._constants = shape, hidden[None], constants
        positions = torch.arange(hidden.shape[0])[None]
        tables = {name.removeprefix("rope."): table for name, table in constants.items() if name.startswith("rope.")}
        self._rotation = ExactRotary(tables)(self._hidden, positions)
        self._backend = BlockBackend()

    def layer(self, index: int, tensors: Tensors) -> Tensors:
        """Moves through one decoder layer. Returns the inputs [T, K] of its linear layers by name, without those of experts."""
        seen: Tensors = {}
        layer = decoder_layer(self._shape, index, tensors | self._constants, self._backend)
        for name, module in layer.named_modules():
            if isinstance(module, ExactLinear):
                module.register_forward_pre_hook(_keep(seen, name.rsplit(".", 1)[-1]))
        count = self._hidden.shape[1]
        cache = ExactCache(1, 1, self._shape.key_value_heads, self._shape.head_width, count)
        result = layer(self._hidden, position_embeddings=self._rotation, past_key_values=cache, use_cache=True)
        self._hidden = result[0] if isinstance(result, tuple) else result
        return seen

    def normed(self, weight: Tensor) -> Tensor:
        """The stream after the norm with that weight, [T, D]."""
        width = torch.full((1,), float(weight.shape[0]), dtype=torch.float64)
        return rms_norm(self._hidden[0], weight, self._constants["epsilon"], width)


def _keep(seen: Tensors, name: str) -> Any:
    def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen[name] = inputs[0].reshape(-1, inputs[0].shape[-1])

    return hook


class BlockBackend(Float64Backend):
    """float64 products that widen some rows of the weights at a time, because each layer is used once and memory is scarce."""

    name = "float64-blocks"

    def pack(self, weight: Tensor) -> Tensor:
        """The int8 weights unchanged."""
        return weight

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """Exact products, some rows at a time."""
        step = max(1, BLOCK // packed.shape[1])
        left = values.to(torch.float64)
        parts = [left @ packed[i : i + step].to(torch.float64).t() for i in range(0, packed.shape[0], step)]
        return torch.cat(parts, dim=1)
