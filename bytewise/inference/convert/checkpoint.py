"""Reading of a Hugging Face checkpoint: its config.json and its generation_config.json (design section 6). If the profile
cannot run a feature exactly, reading fails and names the feature.

transformers' own configuration classes read config.json. So defaults and older spellings have the same meaning as in
transformers.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from decimal import Decimal as PlainDecimal
from pathlib import Path
from typing import Any

from bytewise.inference.artifact.families import MOST_PARTS, Family, family_of, verify
from bytewise.inference.exact.matmul import MAX_KEYS
from bytewise.inference.manifest import Architecture, Generation
from bytewise.protocol.encoding import verify_depth
from bytewise.protocol.errors.actors import ConfigurationError, UnsupportedModel
from bytewise.protocol.errors.records import TooLarge
from bytewise.protocol.records.request import MAX_STOP_TOKENS
from bytewise.protocol.units import Decimal

ACTIVATIONS = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
"""Maps the name of an activation in config.json to its name in the manifest."""

OLDER_MEMBERS = {
    "_name_or_path", "cache_implementation", "head_dim", "hidden_act", "model_type", "rope_scaling", "rope_theta", "torch_dtype",
    "partial_rotary_factor",
}  # fmt: skip
"""Members of config.json that are not fields of a configuration class. The class reads such a member all the same, or the
member does not affect the computation."""

Inert = Callable[[Any, dict[str, Any]], bool]
"""Function that returns whether a member of config.json has no effect. It gets the member's value and the whole config.json."""

INERT_MEMBERS: dict[str, Inert] = {
    "_attn_implementation_autoset": lambda value, raw: True,  # How some releases of transformers choose their attention code.
    "transformers.js_config": lambda value, raw: True,  # For a library in browsers.
}
"""Members that published checkpoints of any family have, although no configuration class knows them. Maps each to the function
that checks that the member has no effect."""

INERT_MEMBERS_OF: dict[str, dict[str, Inert]] = {
    "llama": {
        # SmolLM2, from its training framework.
        "is_llama_config": lambda value, raw: value is True,
        # Falcon3: gate and up under silu, by another name.
        "activation": lambda value, raw: value == "swiglu" and raw.get("hidden_act", "silu") == "silu",
    },
    "qwen3_moe": {
        # First layer with a window, for models that have windows.
        "max_window_layers": lambda value, raw: not raw.get("use_sliding_window"),
        # Name under which transformers saves num_experts.
        "num_local_experts": lambda value, raw: type(value) is int and raw.get("num_experts", value) == value,
        # Qwen3-Coder: the head norms that the family has, and the shared expert that it does not have.
        "use_qk_norm": lambda value, raw: value is True,
        "shared_expert_intermediate_size": lambda value, raw: value == 0,
    },
}
"""The same as `INERT_MEMBERS`, by family. An entry counts only for the checkpoints of its family."""

ROPE_MEMBERS = {
    "default": set[str](),
    "linear": {"factor"},
    "llama3": {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
    "yarn": {
        "factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
        "truncate",
    },
}  # fmt: skip
"""Parameters of each supported type of rotary embedding, besides the base. A type is not supported if its angles depend on the
running length."""

POSITIVE_ROPE_MEMBERS = {"rope_theta", "factor", "original_max_position_embeddings", "attention_factor"}
"""Rope parameters that must not be zero, because zero would give no angle, or the same angle for every position."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Checkpoint of a supported family. Its configuration was read and checked."""

    path: Path
    """Folder of the checkpoint."""
    architecture: Architecture
    """Shape of the decoder."""
    epsilon: float
    """Epsilon of the RMSNorm layers."""
    score_divisor: float
    """Attention scores are divided by the square root of this number. It is the head width, unless the checkpoint sets another
    number."""
    rope: dict[str, Any]
    """Parameters of the rotary embedding."""
    tied: bool
    """Whether the model uses its embedding as its output head."""
    begin_token: int | None
    """Token with which a text begins (bos); None if the checkpoint names none."""
    stop_tokens: tuple[int, ...]
    """Tokens that end an answer (eos), ascending."""


def read(path: Path, context: int | None = None) -> Checkpoint:
    """Reads and checks the configuration of a checkpoint folder. Raises `UnsupportedModel`, which names the feature that the
    profile cannot run.

    `context` is the most tokens of prompt and answer together. None takes the checkpoint's limit. Raises `ConfigurationError`
    if `context` is below 1 or above the checkpoint's limit.
    """
    raw = _json(path / "config.json")
    family = family_of(str(raw.get("model_type")))
    config = _configuration(family, raw)
    architecture = _architecture(family, config, _context(config, context))
    if not 2.0**-40 <= config.rms_norm_eps < 1:
        raise UnsupportedModel(f"rms_norm_eps {config.rms_norm_eps}: below 2^-40 results would depend on flush-to-zero")
    divisor = float(getattr(config, "query_pre_attn_scalar", architecture.head_width))
    if not 2.0**-20 <= divisor <= 2.0**20:
        raise UnsupportedModel(f"query_pre_attn_scalar {divisor}")
    members = {"bos_token_id": config.bos_token_id, "eos_token_id": config.eos_token_id}
    begins, stops = (token_ids("config.json", members, name, architecture.vocabulary) for name in members)
    return Checkpoint(
        path, architecture, config.rms_norm_eps, divisor, _rope(config), bool(config.tie_word_embeddings),
        next(iter(begins), None), tuple(sorted(set(stops))),
    )  # fmt: skip


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(verify_depth(path.read_bytes()).decode())
    except (OSError, TooLarge, ValueError) as error:
        raise UnsupportedModel(f"{path.name}: {error}") from None
    if not isinstance(value, dict):
        raise UnsupportedModel(f"{path.name}: not an object")
    return value


def _configuration(family: Family, raw: dict[str, Any]) -> Any:
    if raw.get("architectures") not in (None, [family.model_class]):
        raise UnsupportedModel(f"architecture {family.name} {str(raw['architectures'])[:60]}")
    if raw.get("quantization_config") is not None:
        raise UnsupportedModel("a checkpoint that is already quantised")
    scaling = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    if not isinstance(scaling, dict):
        raise UnsupportedModel("config.json: the rope parameters are not an object")
    _rope_kind(scaling)
    layers = raw.get("num_hidden_layers", 1)
    if isinstance(layers, int) and layers > MOST_PARTS:
        # Check now, because the library makes lists of that length.
        raise UnsupportedModel(f"config.json: more than {MOST_PARTS} layers")
    # Imported here, because running an artifact does not need it.
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    try:
        config = AutoConfig.for_model(**raw)
    except (StrictDataclassError, AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        # Errors of the library's validators. Each means that the file is not what the class expects.
        raise UnsupportedModel(f"config.json: {' '.join(str(error).split())[:200]}") from None
    _verify_members(family, raw, {field.name for field in fields(config)} | OLDER_MEMBERS)
    for name, value in (*family.required, ("is_encoder_decoder", False)):
        if getattr(config, name) != value:
            raise UnsupportedModel(f"config.json: {name} is {str(getattr(config, name))[:40]}, understood is {value}")
    return config


def _verify_members(family: Family, raw: dict[str, Any], known: set[str]) -> None:
    # A member that is null or false is off. Any other unknown member may change the computation.
    inert = INERT_MEMBERS | INERT_MEMBERS_OF.get(family.name, {})
    for name in sorted(name for name, value in raw.items() if name not in known and value is not None and value is not False):
        if name not in inert:
            raise UnsupportedModel(f"config.json: unknown member {name[:60]}")
        if not inert[name](raw[name], raw):
            raise UnsupportedModel(f"config.json: {name} is {str(raw[name])[:40]}, which may change the computation")


def _context(config: Any, wanted: int | None) -> int:
    longest: int = config.max_position_embeddings
    if wanted is None:
        if longest > MAX_KEYS:
            hint = "`bytewise model convert --context N` makes a model of a shorter one"
            raise UnsupportedModel(f"context of {longest} tokens: attention is exact up to {MAX_KEYS}; {hint}")
        return longest
    if not 1 <= wanted <= longest:
        raise ConfigurationError("--context", f"{wanted} tokens, the checkpoint has 1 to {longest}")
    return wanted


def _architecture(family: Family, config: Any, context: int) -> Architecture:
    activation = str(getattr(config, family.activation_member))
    if activation not in ACTIVATIONS:
        raise UnsupportedModel(f"activation {activation[:40]}")
    heads, experts = config.num_attention_heads, getattr(config, "num_local_experts", 0)
    biased = bool(getattr(config, "attention_bias", False))
    shape = Architecture(
        family=family.name, layers=config.num_hidden_layers, width=config.hidden_size,
        intermediate=getattr(config, "moe_intermediate_size", config.intermediate_size), heads=heads,
        key_value_heads=config.num_key_value_heads, head_width=getattr(config, "head_dim", None) or config.hidden_size // heads,
        vocabulary=config.vocab_size, max_context=context, attention_bias=family.query_bias or biased,
        output_bias=biased and not family.query_bias, mlp_bias=bool(getattr(config, "mlp_bias", False)),
        activation=ACTIVATIONS[activation], query_key_norm=family.query_key_norm, extra_norms=family.extra_norms,
        windows=_windows(family, config, context), attention_softcap=_cap(config, "attn_logit_softcapping"),
        final_softcap=_cap(config, "final_logit_softcapping"), experts=experts,
        experts_per_token=config.num_experts_per_tok if family.router else 0,
    )  # fmt: skip
    verify(shape)
    return shape


def _windows(family: Family, config: Any, context: int) -> tuple[int, ...]:
    """Returns the window of each layer in tokens, 0 for none. Returns an empty tuple if no layer has a window shorter than the
    context."""
    layers, window = config.num_hidden_layers, getattr(config, "sliding_window", None) or 0
    kinds = ["sliding_attention" if window else "full_attention"] * layers
    if not family.window_in_every_layer:
        kinds = getattr(config, "layer_types", None) or ["full_attention"] * layers
    for kind in kinds:
        if kind not in ("full_attention", "sliding_attention") or (kind == "sliding_attention" and not window):
            raise UnsupportedModel(f"layer_types: {str(kind)[:40]}, sliding_window {window}")
    if len(kinds) != layers or window < 0:
        raise UnsupportedModel(f"layer_types of {len(kinds)} layers, sliding_window {window}")
    windows = tuple(window if kind == "sliding_attention" and window < context else 0 for kind in kinds)
    return windows if any(windows) else ()


def _cap(config: Any, name: str) -> Decimal:
    value = getattr(config, name, None)
    if value is None:
        return Decimal("0")
    if not 2.0**-10 <= value <= 2.0**20:
        raise UnsupportedModel(f"{name} {value}")
    return Decimal(f"{PlainDecimal(repr(float(value))).normalize():f}")


def _rope_kind(parameters: dict[str, Any]) -> str:
    kind = str(parameters.get("rope_type", parameters.get("type", "default")))
    if kind not in ROPE_MEMBERS:
        raise UnsupportedModel(f"rope type {kind[:40]}: exact are {', '.join(ROPE_MEMBERS)}")
    return kind


def _rope(config: Any) -> dict[str, Any]:
    parameters = {name: value for name, value in config.rope_parameters.items() if name != "type" and value is not None}
    kind = _rope_kind(parameters)
    if parameters.pop("partial_rotary_factor", 1) != 1:
        raise UnsupportedModel("partial rotary embedding")
    unknown = sorted(parameters.keys() - ROPE_MEMBERS[kind] - {"rope_type", "rope_theta"})
    if unknown:
        raise UnsupportedModel(f"rope type {kind}: unknown member {unknown[0][:60]}")
    for name, value in parameters.items():
        if name != "rope_type" and not _rope_number(name, value):
            raise UnsupportedModel(f"config.json: rope parameters give no angles: {name} is {str(value)[:40]}")
    return parameters


def _rope_number(name: str, value: Any) -> bool:
    """Returns whether a rope parameter has a value that can make frequencies. `truncate` must be a bool. Every other parameter
    must be a number."""
    if name == "truncate":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        return False
    return value > 0 or name not in POSITIVE_ROPE_MEMBERS


# Reading of generation_config.json: the sampling parameters that a checkpoint recommends, as exact decimals.


GENERATION_FILE = "generation_config.json"

GENERATION_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 100), "top_p": (1e-6, 1), "top_k": (0, 2**31), "max_new_tokens": (1, 2**31),
}  # fmt: skip
"""Smallest and largest accepted value of each member of generation_config.json."""


def read_generation(folder: Path, vocabulary: int) -> tuple[Generation, tuple[int, ...]]:
    """Returns the recommended parameters and the stop tokens from the generation_config.json of a checkpoint folder.

    Without the file the parameters are greedy and there are no stop tokens. Without `do_sample` they are greedy at any
    temperature, because `transformers` reads the file so. Raises `UnsupportedModel`, which names a bad member.
    """
    try:
        values = json.loads(verify_depth((folder / GENERATION_FILE).read_bytes()).decode())
    except FileNotFoundError:
        values = {}
    except (OSError, TooLarge, ValueError) as error:
        raise UnsupportedModel(f"{GENERATION_FILE}: {str(error)[:200]}") from None
    if not isinstance(values, dict):
        raise UnsupportedModel(f"{GENERATION_FILE}: not an object")
    drawn = values.get("do_sample") is True
    temperature = _number(values, "temperature", 1) if drawn else 0
    longest = None if values.get("max_new_tokens") is None else int(_number(values, "max_new_tokens", 1))
    top_p, top_k = _number(values, "top_p", 1), _number(values, "top_k", 0)
    defaults = Generation(_decimal(temperature), _decimal(top_p), int(top_k), longest)
    return defaults, token_ids(GENERATION_FILE, values, "eos_token_id", vocabulary)


def all_stop_tokens(*named: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the stop tokens of several files together, ascending. Raises `UnsupportedModel` if they are more than a request
    can carry."""
    tokens = tuple(sorted({token for each in named for token in each}))
    if len(tokens) > MAX_STOP_TOKENS:
        raise UnsupportedModel(f"config.json and {GENERATION_FILE} name {len(tokens)} stop tokens, most are {MAX_STOP_TOKENS}")
    return tokens


def _number(values: dict[str, Any], name: str, default: int) -> int | float:
    value = default if values.get(name) is None else values[name]
    low, high = GENERATION_RANGES[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise UnsupportedModel(f"{GENERATION_FILE}: {name} is {str(value)[:40]}")
    return value


def _decimal(value: float) -> Decimal:
    # The shortest decimal that reads as this float is the text that the model's makers wrote.
    return Decimal(f"{PlainDecimal(repr(value)).normalize():f}")


def token_ids(file: str, values: dict[str, Any], name: str, vocabulary: int) -> tuple[int, ...]:
    """Returns the token ids of one member of a file. The member is one id, a list of ids, null or missing.

    Raises `UnsupportedModel` if a value is not a token of the vocabulary, or if there are more stop tokens than a request can
    carry.
    """
    value = values.get(name)
    tokens = value if isinstance(value, list) else [] if value is None else [value]
    if len(tokens) > MAX_STOP_TOKENS:
        raise UnsupportedModel(f"{file}: {name} names {len(tokens)} tokens, most are {MAX_STOP_TOKENS}")
    for token in tokens:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocabulary:
            raise UnsupportedModel(f"{file}: {name} is {str(token)[:40]}, the vocabulary has {vocabulary} tokens")
    return tuple(tokens)
