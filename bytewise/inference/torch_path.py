"""Torch path: transformers' models with an exact module in the place of every computing module, and their forward loop (design
section 6).

The graph is transformers' code: residuals, order of blocks, application of rotary embeddings, heads. Linear layers, norms,
activation, rotary tables, routing, experts, cache and attention are ours. The forward loop turns tokens into head rows. It
works for one sequence or for a batch of sequences with different lengths, in chunks of any size.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bytewise.inference import memory
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.exact.attention import IMPLEMENTATION, AttentionRule, exact_attention
from bytewise.inference.exact.cache import ExactCache, TokenCache
from bytewise.inference.exact.matmul import Backend, FusedBackend
from bytewise.inference.exact.modules import (
    ExactActivation,
    ExactEmbedding,
    ExactExperts,
    ExactLinear,
    ExactNorm,
    ExactRotary,
    ExactRouter,
    Head,
    SharedProduct,
    Tensors,
    activation,
)
from bytewise.inference.exact.quantise import ACTIVATION_BITS, NOT_FINITE, Rows, nearest_float32, quantise
from bytewise.inference.known_answers import known_models, operations
from bytewise.inference.manifest import MANIFEST_FILE, WEIGHTS_FILE, Architecture
from bytewise.protocol.errors.actors import ArtifactMismatch, NotExact
from bytewise.protocol.units import Decimal, Digest, fraction


def build(artifact: Artifact, backend: Backend, device: str = "cpu") -> tuple[Any, Head]:
    """Returns the model with exact modules, and its output head, both on the device. Raises `ArtifactMismatch` if a tensor is
    missing or has a wrong shape, or if the library refuses the sizes of the model."""
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
    """Returns one decoder layer with exact modules, without the rest of the model. In a cache, the layer uses the place of the
    first layer."""
    layer = _graph(dataclasses.replace(shape, layers=1, windows=())).layers[0]
    _Layer(shape, index, tensors, backend).patch(layer)
    return layer.eval()


@functools.cache
def library() -> Any:
    """Returns the package transformers, with our attention registered in it. This function imports the package late, because
    the import takes seconds and the native path does not need it."""
    import transformers
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(IMPLEMENTATION, exact_attention)
    return transformers


def _graph(shape: Architecture) -> Any:
    """Returns the family's model without weights. A configuration member that a family does not know has no effect."""
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
    """Exact modules of one decoder layer."""

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


# The forward loop.

CHUNK = 256
"""Most tokens of one forward call. This limit bounds the memory of the attention scores. No byte depends on it."""


class Runner:
    """Torch path: the model of one artifact on one backend."""

    chunk = CHUNK

    def __init__(self, artifact: Artifact, backend: Backend, device: str = "cpu") -> None:
        self.backend = backend
        self.name = f"torch-{backend.name}"
        self.shape = artifact.manifest.architecture
        self.own_threads = isinstance(backend, FusedBackend)
        self._model, self._head = build(artifact, backend, device)
        if device == "cpu":
            # On other devices, reading the numbers would wait for the device at every layer.
            for index, layer in enumerate(self._model.layers):
                layer.register_forward_hook(_bounded(index, artifact.manifest.bound))

    def cache(self, batch: int, capacity: int) -> TokenCache:
        """Returns an empty cache with room for `capacity` tokens of each of `batch` sequences."""
        shape = self.shape
        attending = self.backend.cache(shape, batch, capacity) if isinstance(self.backend, FusedBackend) else None
        return attending or ExactCache(shape.layers, batch, shape.key_value_heads, shape.head_width, capacity)

    def cache_bytes(self, batch: int, capacity: int) -> int:
        """Returns the size in bytes of the cache that `cache` would make."""
        shape = self.shape
        attending = self.backend.cache_bytes(shape, batch, capacity) if isinstance(self.backend, FusedBackend) else None
        return attending or ExactCache.bytes_of(shape.layers, batch, shape.key_value_heads, shape.head_width, capacity)

    def memory(self) -> int:
        """Returns the size in bytes of the memory in which caches are allocated."""
        return memory.of_machine()

    def feed(self, cache: TokenCache, token: int, position: int, logits: bool = True) -> HeadRow:
        """Decodes one step: feeds one more token of one sequence, and returns the head row. The row always keeps its logits."""
        hidden = self._forward(cache, torch.tensor([[token]]), torch.tensor([[position]]))
        return self.head(hidden[0])[0]

    def teacher_force(
        self, cache: TokenCache, sequences: Sequence[Sequence[int]], keep: Sequence[int], chunk: int = CHUNK, logits: bool = True
    ) -> list[list[HeadRow]]:
        """Appends the sequences to the cache, and returns the head rows of each sequence `i` from its index `keep[i]` on.
        Shorter sequences are padded on the right."""
        longest, first = max(len(sequence) for sequence in sequences), cache.length
        tokens = torch.zeros((len(sequences), longest), dtype=torch.int64)
        # Padding comes after every real token of its sequence, so no token sees it.
        positions = torch.arange(first, first + longest).expand(len(sequences), longest)
        for i, sequence in enumerate(sequences):
            tokens[i, : len(sequence)] = torch.tensor(sequence, dtype=torch.int64)
        rows: list[list[HeadRow]] = [[] for _ in sequences]
        for start in range(0, longest, chunk):
            stop = min(start + chunk, longest)
            hidden = self._forward(cache, tokens[:, start:stop], positions[:, start:stop])
            for i, sequence in enumerate(sequences):
                kept, end = max(keep[i] - start, 0), min(len(sequence), stop) - start
                if kept < end:
                    rows[i].extend(self.head(hidden[i, kept:end]))
        return rows

    def head(self, hidden: Tensor) -> list[HeadRow]:
        """Quantises outputs [M, D] of the final norm, multiplies them with the output head, and returns the head rows."""
        rows = quantise(hidden, ACTIVATION_BITS)
        return head_rows(rows, self._head.of_rows(rows))

    def vectors(self) -> Digest:
        """Runs the known-answer tests, the profile's golden vectors and the known models on this backend, and returns the digest
        of the vectors. Raises `NotExact`, which names the difference."""
        found = operations.verify_profile(self.backend)
        known_models.verify(lambda known: Runner(known, self.backend), lambda _: True)
        return found

    def close(self) -> None:
        """Does nothing. Python frees the memory, and the threads of a native backend, together with this object."""

    def _forward(self, cache: TokenCache, tokens: Tensor, positions: Tensor) -> Tensor:
        # No mask is needed: a slot is a position, and attention knows for each layer what its last slots see.
        hidden: Tensor = self._model(
            input_ids=tokens, position_ids=positions, past_key_values=cache, use_cache=True
        ).last_hidden_state
        cache.advance(tokens.shape[1])
        return hidden


def head_rows(rows: Rows, logits: Tensor) -> list[HeadRow]:
    """Returns head rows for the input [M, D] and output [M, V] of the output head, on any device. Logits are copied to the
    processor, because sampling runs there."""
    said = logits.cpu()
    finite = torch.isfinite(said).all(-1).tolist()
    exponents = rows.exponent.squeeze(-1).tolist()
    integers = rows.values.to(torch.int16).cpu().numpy().astype("<i2")
    return [
        HeadRow(integers[i].tobytes(), exponents[i], said[i] if finite[i] and exponents[i] != NOT_FINITE else None)
        for i in range(len(exponents))
    ]


def _bounded(layer: int, bound: int) -> Callable[[Any, Any, Tensor], None]:
    def check(module: Any, inputs: Any, residual: Tensor) -> None:
        largest = int((residual.abs().amax().view(torch.int32) >> 23).item())
        if bound < largest < NOT_FINITE:
            raise NotExact(f"layer {layer} with E = {largest}, proven to be at most {bound}")

    return check
