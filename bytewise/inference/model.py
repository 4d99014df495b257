"""transformers' own Llama with every module that computes replaced by an exact one (design section 6).

The graph (residuals, order of blocks, rotary application, heads) stays transformers' code; linear layers, norms, activation,
rotary tables, cache and attention are ours.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_utils import AttentionInterface
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM

from bytewise.inference import rope
from bytewise.inference.artifact import Artifact
from bytewise.inference.attention import IMPLEMENTATION, exact_attention
from bytewise.inference.elementwise import rms_norm, silu
from bytewise.inference.linear import ExactLinear, SharedProduct, Tensors
from bytewise.inference.manifest import WEIGHTS_FILE, Architecture
from bytewise.inference.matmul import Backend
from bytewise.protocol.errors import ArtifactMismatch

AttentionInterface.register(IMPLEMENTATION, exact_attention)


class ExactEmbedding(nn.Module):
    """Rows of the embedding, kept in the dtype of the checkpoint and widened, which is exact, when they are used."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self._weight = weight

    def forward(self, tokens: Tensor) -> Tensor:
        """float32 rows [B, T, D] of token ids [B, T]."""
        return self._weight[tokens].to(torch.float32)


class ExactNorm(nn.Module):
    """RMSNorm of the profile."""

    def __init__(self, weight: Tensor, epsilon: Tensor) -> None:
        super().__init__()
        self._weight, self._epsilon = weight, epsilon
        self._width = torch.full((1,), float(weight.shape[0]), dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        """Normalised rows."""
        return rms_norm(x, self._weight, self._epsilon, self._width)


class ExactRotary(nn.Module):
    """Rows of the cosine and sine tables."""

    def __init__(self, cos: Tensor, sin: Tensor) -> None:
        super().__init__()
        self._cos, self._sin = cos, sin

    def forward(self, _: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [B, T, d] of absolute positions [B, T]."""
        return self._cos[position_ids], self._sin[position_ids]


class ExactSilu(nn.Module):
    """SiLU of the profile."""

    def forward(self, x: Tensor) -> Tensor:
        """x · σ(x)."""
        return silu(x)


def build(artifact: Artifact, backend: Backend) -> tuple[Any, SharedProduct]:
    """The patched `LlamaModel` and the output head; `ArtifactMismatch` if a tensor is missing or misshapen."""
    shape = artifact.manifest.architecture
    tensors = artifact.tensors
    try:
        with torch.device("meta"):
            model = LlamaForCausalLM(_config(shape)).model
        model.embed_tokens = ExactEmbedding(tensors["embedding"])
        model.norm = ExactNorm(tensors["norm"], tensors["epsilon"])
        tables = {name.removeprefix("rope."): table for name, table in tensors.items() if name.startswith("rope.")}
        model.rotary_emb = ExactRotary(*rope.position_tables(tables, shape.max_context + 1))
        for index, layer in enumerate(model.layers):
            _patch_layer(layer, f"layers.{index}.", tensors, backend)
        return model.eval(), SharedProduct(backend, tensors, ["head"])
    except (KeyError, RuntimeError) as error:
        raise ArtifactMismatch(artifact.name, f"{WEIGHTS_FILE}: {str(error)[:200]}") from error


def _config(shape: Architecture) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=shape.vocabulary, hidden_size=shape.width, intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.key_value_heads,
        head_dim=shape.head_width,
        max_position_embeddings=shape.max_context, attention_bias=shape.attention_bias, mlp_bias=shape.mlp_bias,
        pad_token_id=None, bos_token_id=None, eos_token_id=None, attn_implementation=IMPLEMENTATION,
    )  # fmt: skip


def _patch_layer(layer: Any, prefix: str, tensors: Tensors, backend: Backend) -> None:
    attention, unit = layer.self_attn, layer.mlp
    for owner, names in (
        (attention, ["q_proj", "k_proj", "v_proj"]),
        (attention, ["o_proj"]),
        (unit, ["gate_proj", "up_proj"]),
        (unit, ["down_proj"]),
    ):
        _patch_linears(owner, prefix, names, tensors, backend)
    attention.backend, attention.attention_scale = backend, tensors["attention_scale"]
    unit.act_fn = ExactSilu()
    for name in ("input_layernorm", "post_attention_layernorm"):
        setattr(layer, name, ExactNorm(tensors[prefix + name], tensors["epsilon"]))


def _patch_linears(owner: nn.Module, prefix: str, names: list[str], tensors: Tensors, backend: Backend) -> None:
    product, start = SharedProduct(backend, tensors, [prefix + name for name in names]), 0
    for name in names:
        stop = start + tensors[prefix + name].shape[0]
        setattr(owner, name, ExactLinear(product, start, stop, last=name == names[-1]))
        start = stop
