"""Model families of the profile: a table of their differences, and the tensors of a layer.

The configuration classes of `transformers` read config.json. So a member and its default have the same meaning as in
`transformers`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bytewise.inference.exact.matmul import MAX_DEPTH, MAX_KEYS, MIN_DEPTH
from bytewise.inference.manifest import Architecture
from bytewise.protocol.errors.actors import UnsupportedModel

MOST_PARTS, MOST_TOKENS = 1024, 2**20
"""Two limits: the most layers, heads or experts, and the largest vocabulary. The C engine has the same limits."""


@dataclass(frozen=True, slots=True)
class Family:
    """Model family. Each family has one modelling file of transformers. The fields say how the family differs from the others."""

    name: str
    """Name of the family, as in `model_type` of config.json."""
    model_class: str
    """The only entry that `architectures` in config.json may have."""
    query_bias: bool = False
    """Whether queries, keys and values always have a bias. Otherwise they have one if config.json says `attention_bias`."""
    query_key_norm: bool = False
    """Whether queries and keys are normalised per head before the rotation."""
    extra_norms: bool = False
    """Whether the outputs of attention and gated unit are normalised too."""
    norm_offset: bool = False
    """Whether a norm multiplies by 1 + its weight."""
    scaled_embedding: bool = False
    """Whether the embedding is multiplied by the square root of its width."""
    activation_member: str = "hidden_act"
    """Member of config.json that names the activation."""
    heads_divide_width: bool = False
    """Whether the width must be a multiple of the number of heads. If it must, transformers cannot build a model with other
    sizes."""
    window_in_every_layer: bool = False
    """Whether `sliding_window` of config.json is the window of all layers. Otherwise it is the window of the layers that
    `layer_types` names."""
    router: str = ""
    """Name of the router's tensor in a layer; empty for a family without experts."""
    experts: tuple[str, str, str, str] = ("", "", "", "")
    """Four names: the prefix of a layer's experts, then the gate, up and down projection in each expert."""
    required: tuple[tuple[str, object], ...] = ()
    """Pairs of a member of config.json and the only value that the profile accepts for it."""


FAMILIES = {
    family.name: family
    for family in (
        Family("llama", "LlamaForCausalLM", heads_divide_width=True),
        Family("mistral", "MistralForCausalLM", window_in_every_layer=True),
        Family("qwen2", "Qwen2ForCausalLM", query_bias=True),
        Family("qwen3", "Qwen3ForCausalLM", query_key_norm=True),
        Family(
            "gemma2", "Gemma2ForCausalLM", extra_norms=True, norm_offset=True, scaled_embedding=True,
            activation_member="hidden_activation", heads_divide_width=True, required=(("use_bidirectional_attention", None),),
        ),
        Family(
            "mixtral", "MixtralForCausalLM", window_in_every_layer=True, router="block_sparse_moe.gate",
            experts=("block_sparse_moe.experts", "w1", "w3", "w2"),
        ),
        Family(
            "qwen3_moe", "Qwen3MoeForCausalLM", query_key_norm=True, window_in_every_layer=True, router="mlp.gate",
            experts=("mlp.experts", "gate_proj", "up_proj", "down_proj"),
            required=(("decoder_sparse_step", 1), ("mlp_only_layers", []), ("norm_topk_prob", True)),
        ),
    )
}  # fmt: skip
"""Supported model families by name."""


def family_of(name: str) -> Family:
    """Returns the family with this name. Raises `UnsupportedModel` if the profile does not support it."""
    if name not in FAMILIES:
        raise UnsupportedModel(f"architecture {name[:40]}: supported are {', '.join(FAMILIES)}")
    return FAMILIES[name]


def verify(shape: Architecture) -> None:
    """Checks the sizes that a checkpoint or manifest states.

    Raises `UnsupportedModel` if a sum could exceed the bounds of exact arithmetic, or if two paths could interpret the sizes
    differently.
    """
    sizes = (shape.layers, shape.width, shape.intermediate, shape.heads, shape.key_value_heads, shape.head_width)
    if min(*sizes, shape.vocabulary, shape.max_context) < 1:
        raise UnsupportedModel("a size below 1")
    if max(shape.layers, shape.heads, shape.experts) > MOST_PARTS or shape.vocabulary > MOST_TOKENS:
        raise UnsupportedModel(f"more than {MOST_PARTS} layers, heads or experts, or more than {MOST_TOKENS} tokens")
    depths = (shape.width, shape.intermediate, shape.heads * shape.head_width)
    if not MIN_DEPTH <= min(depths) <= max(depths) <= MAX_DEPTH:
        raise UnsupportedModel(f"a sum of fewer than {MIN_DEPTH} or more than {MAX_DEPTH} products")
    if shape.max_context > MAX_KEYS:
        raise UnsupportedModel(f"context of {shape.max_context} tokens: attention is exact up to {MAX_KEYS}")
    if shape.head_width % 2 or shape.head_width > 512 or shape.heads % shape.key_value_heads:
        raise UnsupportedModel(f"{shape.heads} heads of width {shape.head_width} on {shape.key_value_heads}")
    if shape.windows and (len(shape.windows) != shape.layers or not 0 <= min(shape.windows) <= max(shape.windows) <= MAX_KEYS):
        raise UnsupportedModel(f"{len(shape.windows)} windows of {shape.layers} layers, the shortest {min(shape.windows)}")
    family = family_of(shape.family)
    if family.heads_divide_width and shape.width % shape.heads:
        raise UnsupportedModel(f"width {shape.width} is not a multiple of {shape.heads} heads in {family.name}")
    if (shape.query_key_norm, shape.extra_norms) != (family.query_key_norm, family.extra_norms):
        raise UnsupportedModel(f"norms that are not those of {family.name}")
    most = shape.experts if family.router else 0
    if shape.experts != most or not min(most, 1) <= shape.experts_per_token <= most or (family.router and not most):
        raise UnsupportedModel(f"num_experts_per_tok {shape.experts_per_token} of {shape.experts} experts in {family.name}")


@dataclass(frozen=True, slots=True)
class Linear:
    """One linear layer: its name in the artifact, its name in the checkpoint, and its shape."""

    name: str
    """Name in the artifact."""
    source: str
    """Name in the checkpoint, without `.weight` or `.bias`."""
    rows: int
    """Number of outputs."""
    columns: int
    """Number of inputs."""
    biased: bool
    """Whether the layer has a bias."""


@dataclass(frozen=True, slots=True)
class Norm:
    """One RMSNorm weight."""

    name: str
    """Name in the artifact."""
    source: str
    """Name in the checkpoint."""
    width: int
    """Number of elements."""


def linears(shape: Architecture, layer: int) -> Iterator[Linear]:
    """Yields the linear layers of one decoder layer, in the order of the artifact."""
    name, source = f"layers.{layer}", f"model.layers.{layer}"
    inner, outer = shape.heads * shape.head_width, shape.key_value_heads * shape.head_width
    for part, rows in (("q_proj", inner), ("k_proj", outer), ("v_proj", outer)):
        yield Linear(f"{name}.{part}", f"{source}.self_attn.{part}", rows, shape.width, shape.attention_bias)
    yield Linear(f"{name}.o_proj", f"{source}.self_attn.o_proj", shape.width, inner, shape.output_bias)
    if not shape.experts:
        yield from _gated_unit(shape, name, f"{source}.mlp", ("gate_proj", "up_proj", "down_proj"))
        return
    family = family_of(shape.family)
    yield Linear(f"{name}.router", f"{source}.{family.router}", shape.experts, shape.width, False)
    folder, *parts = family.experts
    for expert in range(shape.experts):
        yield from _gated_unit(shape, f"{name}.experts.{expert}", f"{source}.{folder}.{expert}", parts)


def _gated_unit(shape: Architecture, name: str, source: str, parts: list[str] | tuple[str, ...]) -> Iterator[Linear]:
    gate, up, down = parts
    yield Linear(f"{name}.gate_proj", f"{source}.{gate}", shape.intermediate, shape.width, shape.mlp_bias)
    yield Linear(f"{name}.up_proj", f"{source}.{up}", shape.intermediate, shape.width, shape.mlp_bias)
    yield Linear(f"{name}.down_proj", f"{source}.{down}", shape.width, shape.intermediate, shape.mlp_bias)


def norms(shape: Architecture, layer: int) -> Iterator[Norm]:
    """Yields the norm weights of one decoder layer, in the order of the artifact."""
    names = ["input_layernorm", "post_attention_layernorm"]
    if shape.extra_norms:
        names += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for part in names:
        yield Norm(f"layers.{layer}.{part}", f"model.layers.{layer}.{part}.weight", shape.width)
    for part in ("q_norm", "k_norm") if shape.query_key_norm else ():
        yield Norm(f"layers.{layer}.{part}", f"model.layers.{layer}.self_attn.{part}.weight", shape.head_width)
