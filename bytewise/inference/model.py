"""transformers' models with every computing module replaced by an exact one (design section 6).

The graph (residuals, order of blocks, application of rotary embeddings, heads) is transformers' code. Linear layers, norms,
activation, rotary tables, routing, experts, cache and attention are ours.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.exact.attention import DENOMINATOR_ONE, IMPLEMENTATION, AttentionRule, exact_attention
from bytewise.inference.exact.elementwise import exp
from bytewise.inference.exact.matmul import Backend
from bytewise.inference.exact.modules import (
    ExactActivation,
    ExactEmbedding,
    ExactLinear,
    ExactNorm,
    ExactRotary,
    Head,
    SharedProduct,
    Tensors,
    activation,
)
from bytewise.inference.exact.quantise import ACTIVATION_BITS, Rows, nearest_float32, quantise
from bytewise.inference.manifest import MANIFEST_FILE, WEIGHTS_FILE, Architecture
from bytewise.protocol.errors.actors import ArtifactMismatch
from bytewise.protocol.units import Decimal, fraction

# Mixture of experts: exact routing; each chosen expert is an exact gated unit, added in ascending index (design section 6).

Activation = Callable[[Tensor], Tensor]


class ExactRouter(nn.Module):
    """Router of a mixture of experts. It chooses the experts with the largest logits; the lower index wins among equal logits."""

    def __init__(self, product: SharedProduct, chosen: int) -> None:
        super().__init__()
        self._product, self._count = product, chosen

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns three tensors for rows [M, D]: the logits [M, E], the weights [M, E], which are 0 for experts that were not
        chosen, and the choice, bool [M, E]."""
        logits = self._product.of_rows(quantise(x, ACTIVATION_BITS))
        chosen = _rank(logits) < self._count
        shifted = logits - logits.amax(-1, keepdim=True)
        e = exp(torch.where(chosen, shifted, -torch.inf))
        total = (e * DENOMINATOR_ONE).round_().sum(-1, keepdim=True, dtype=torch.float64).to(torch.float32)
        return logits, e / (total * (1 / DENOMINATOR_ONE)), chosen


def _rank(logits: Tensor) -> Tensor:
    """Returns for each logit how many logits of its row come before it: larger logits, and equal logits with a lower index."""
    index = torch.arange(logits.shape[-1])
    own, other = logits[..., :, None], logits[..., None, :]
    before = (other > own) | ((other == own) & (index[:, None] > index[None, :]))
    return before.sum(-1)


class ExactExperts(nn.Module):
    """Experts of one layer of a mixture-of-experts model."""

    def __init__(self, experts: list[tuple[SharedProduct, SharedProduct]], activation: Activation) -> None:
        """Takes one pair for each expert: the product of its gate and up projections, and the product of its down projection."""
        super().__init__()
        self._experts, self._activation = experts, activation

    def forward(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Returns Σ weight · expert(x) over the chosen experts of each row. The sum starts from 0, and experts are added by
        ascending index."""
        rows, result = quantise(x, ACTIVATION_BITS), torch.zeros_like(x)
        for expert, column in enumerate(chosen.t().tolist()):
            picked = [row for row, hit in enumerate(column) if hit]
            if picked:
                index = torch.tensor(picked)
                part = Rows(rows.values[index], rows.scale[index], ACTIVATION_BITS)
                scaled = self._unit(expert, part).mul_(weights[index, expert : expert + 1])
                result.index_copy_(0, index, result[index].add_(scaled))
        return result

    def _unit(self, expert: int, rows: Rows) -> Tensor:
        gate_up, down = self._experts[expert]
        both = gate_up.of_rows(rows)
        half = both.shape[-1] // 2
        return down.of_rows(quantise(self._activation(both[:, :half]).mul_(both[:, half:]), ACTIVATION_BITS))


def build(artifact: Artifact, backend: Backend, device: str = "cpu") -> tuple[Any, Head]:
    """Returns the model with exact modules, and its output head, both on the device. Raises `ArtifactMismatch` if a tensor is
    missing or has a wrong shape."""
    # Import this together with the library, to which it belongs.
    from huggingface_hub.errors import StrictDataclassError

    shape = artifact.manifest.architecture
    tensors = {name: tensor.to(device) for name, tensor in artifact.tensors.items()}
    try:
        model = _graph(shape)
        model.embed_tokens = ExactEmbedding(tensors["embedding"], tensors.get("embedding_scale"))
        model.norm = ExactNorm(tensors["norm"], tensors["epsilon"], backend)
        tables = {name.removeprefix("rope."): table for name, table in tensors.items() if name.startswith("rope.")}
        model.rotary_emb = ExactRotary(tables)
        for index, layer in enumerate(model.layers):
            _Layer(shape, index, tensors, backend).patch(layer)
        return model.eval(), Head(SharedProduct(backend, tensors, ["head"]), _cap(shape.final_softcap))
    except (StrictDataclassError, ValueError) as error:
        # Error of the library's configuration classes for sizes that do not fit together.
        raise ArtifactMismatch(artifact.name, f"{MANIFEST_FILE}: {' '.join(str(error).split())[:200]}") from error
    except (KeyError, RuntimeError) as error:
        raise ArtifactMismatch(artifact.name, f"{WEIGHTS_FILE}: {str(error)[:200]}") from error


def decoder_layer(shape: Architecture, index: int, tensors: Tensors, backend: Backend) -> Any:
    """Returns one decoder layer with exact modules, without the rest of the model. The layer uses the first layer's place in a
    cache."""
    layer = _graph(dataclasses.replace(shape, layers=1, windows=())).layers[0]
    _Layer(shape, index, tensors, backend).patch(layer)
    return layer.eval()


@functools.cache
def library() -> Any:
    """Returns the package transformers, in which our attention is registered. The package is imported late, because the import
    takes seconds and the native path does not need it."""
    import transformers
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(IMPLEMENTATION, exact_attention)
    return transformers


def _graph(shape: Architecture) -> Any:
    """Returns the family's model without weights. Configuration members that a family does not know have no effect."""
    config = library().AutoConfig.for_model(
        shape.family, vocab_size=shape.vocabulary, hidden_size=shape.width, intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.key_value_heads,
        head_dim=shape.head_width, max_position_embeddings=shape.max_context, attention_bias=shape.attention_bias,
        mlp_bias=shape.mlp_bias, num_experts_per_tok=shape.experts_per_token, num_local_experts=shape.experts,
        moe_intermediate_size=shape.intermediate, pad_token_id=None, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    with torch.device("meta"):
        return library().AutoModel.from_config(config, attn_implementation=IMPLEMENTATION)


def _cap(value: Decimal) -> Tensor | None:
    return None if value == "0" else torch.full((1,), nearest_float32(fraction(value)))


class _Layer:
    """Replacement of the modules of one decoder layer."""

    def __init__(self, shape: Architecture, index: int, tensors: Tensors, backend: Backend) -> None:
        self._shape, self._tensors, self._backend = shape, tensors, backend
        self._prefix = f"layers.{index}."
        cap = _cap(shape.attention_softcap)
        self._rule = AttentionRule(backend, tensors["attention_scale"], shape.window(index), cap)

    def patch(self, layer: Any) -> None:
        """Puts exact modules into a decoder layer of transformers."""
        shape, attention, unit = self._shape, layer.self_attn, layer.mlp
        attention.rule = self._rule
        self._linears(attention, ["q_proj", "k_proj", "v_proj"])
        self._linears(attention, ["o_proj"])
        if shape.experts:
            unit.gate = ExactRouter(self._product(["router"]), shape.experts_per_token)
            experts = [self._expert(i) for i in range(shape.experts)]
            unit.experts = ExactExperts(experts, activation(shape.activation, self._backend))
        else:
            self._linears(unit, ["gate_proj", "up_proj"])
            self._linears(unit, ["down_proj"])
            unit.act_fn = ExactActivation(shape.activation, self._backend)
        self._norms(layer, ["input_layernorm", "post_attention_layernorm"])
        self._norms(layer, ["pre_feedforward_layernorm", "post_feedforward_layernorm"] if shape.extra_norms else [])
        self._norms(attention, ["q_norm", "k_norm"] if shape.query_key_norm else [])

    def _expert(self, index: int) -> tuple[SharedProduct, SharedProduct]:
        name = f"experts.{index}."
        return self._product([f"{name}gate_proj", f"{name}up_proj"]), self._product([f"{name}down_proj"])

    def _linears(self, owner: nn.Module, names: list[str]) -> None:
        product, start = self._product(names), 0
        for name in names:
            stop = start + self._tensors[self._prefix + name].shape[0]
            setattr(owner, name, ExactLinear(product, start, stop, last=name == names[-1]))
            start = stop

    def _product(self, names: list[str]) -> SharedProduct:
        return SharedProduct(self._backend, self._tensors, [self._prefix + name for name in names])

    def _norms(self, owner: nn.Module, names: list[str]) -> None:
        for name in names:
            setattr(owner, name, ExactNorm(self._tensors[self._prefix + name], self._tensors["epsilon"], self._backend))
