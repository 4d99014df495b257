"""Known models: whole models with golden head rows. They are made in memory from counter-mode hashes.

The C engine, and torch with operations of the C engine, run them before they are used. Every path runs them in `vectors`.

Each model has a feature that the other models lack: biases, windows, widths that fill no vector, head norms, two-limb weights,
soft caps, experts, and scores with a wider range than exp. The digests are golden. `tests/unit/inference/test_known_models.py`
computes the same rows in Python fractions.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bytewise.inference.artifact.artifact import DTYPES, Artifact, TensorSpec, tensor_specs
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.engine_paths import Path as ModelPath
from bytewise.inference.known_answers.operations import MODEL_DIGESTS, integers
from bytewise.inference.manifest import FORMAT, MAX_BOUND, Architecture, Generation, Manifest, Precision
from bytewise.inference.sampling.sampler import greedy
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import NotExact
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.protocol.units import ZERO_DIGEST, Decimal, Digest

TOKENS = 70
"""Number of positions. It is larger than the panels and blocks of any kernel. The path decodes the last positions one by one."""

DECODED = 6
CHUNK = 24

_SILU: dict[str, Any] = {
    "layers": 2, "width": 24, "intermediate": 40, "heads": 4, "key_value_heads": 2, "head_width": 6, "vocabulary": 64,
    "max_context": 256, "attention_bias": False, "output_bias": False, "mlp_bias": False, "activation": "silu",
    "query_key_norm": False, "extra_norms": False, "windows": (), "attention_softcap": Decimal("0"),
    "final_softcap": Decimal("0"), "experts": 0, "experts_per_token": 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Parameters of one known model."""

    architecture: Architecture
    """Shape of the model."""
    bits: int = 8
    """Bits of the weights and of the head."""
    embedding: str = "float32"
    """Type of the embedding."""
    strength: float = 1.0
    """Factor by which the scales of the weights are multiplied."""


KNOWN_MODELS = {
    "bias and window": KnownModel(Architecture("qwen2", **(_SILU | {"attention_bias": True, "windows": (0, 5)}))),
    "norms of heads, two limbs": KnownModel(
        Architecture("qwen3", **(_SILU | {"query_key_norm": True, "head_width": 8, "key_value_heads": 1})), 16, "bfloat16"
    ),
    "wide scores": KnownModel(Architecture("llama", **(_SILU | {"output_bias": True, "mlp_bias": True})), 8, "float16", 32.0),
    "softcaps": KnownModel(
        Architecture("gemma2", **(_SILU | {
            "activation": "gelu_tanh", "extra_norms": True, "windows": (5, 0), "attention_softcap": Decimal("3"),
            "final_softcap": Decimal("2.5"),
        }))
    ),
    "experts": KnownModel(Architecture("mixtral", **(_SILU | {"experts": 4, "experts_per_token": 2, "layers": 1}))),
}  # fmt: skip
"""Known models. The name of each is its special feature."""

AnyPath = ModelPath[Any]


def verify(open_path: Callable[[Artifact], AnyPath], can_run: Callable[[Architecture], bool]) -> int:
    """Runs the known models that a path can run, and compares their golden rows. Returns the number of models that it ran.
    Raises `NotExact`, which names the first model that differs."""
    names = [name for name, known in KNOWN_MODELS.items() if can_run(known.architecture)]
    for name in names:
        path = open_path(built_model(name))
        try:
            found = digest_on(path)
        finally:
            path.close()
        if found != MODEL_DIGESTS[name]:
            raise NotExact(f"known model with {name} on {path.name}: {found.hex()}")
    return len(names)


def digest_on(path: AnyPath) -> Digest:
    """Runs a known model on a path, and returns a hash of all head rows and logits. The path reads most tokens in chunks, and
    decodes the last tokens one by one."""
    tokens = tokens_of()
    cache, prefilled = path.cache(1, TOKENS), TOKENS - DECODED
    rows = path.teacher_force(cache, [tokens[:prefilled]], [0], CHUNK)[0]
    rows += [path.feed(cache, tokens[i], i) for i in range(prefilled, TOKENS)]
    _verify_choices(path, cache, rows)
    return digests.labelled(Label.VECTORS, *(part for row in rows for part in parts_of(row)))


def _verify_choices(path: AnyPath, cache: Any, rows: Sequence[HeadRow]) -> None:
    # The token that a greedy answer takes from a row without its logits.
    for row in rows:
        if row.best != (None if row.logits is None else greedy(row.logits[None])[0]):
            raise NotExact(f"{path.name} chose {row.best} where another logit is the largest")
    cache.crop(TOKENS - 1)
    again = path.feed(cache, tokens_of()[-1], TOKENS - 1, False)
    if parts_of(again) != parts_of(rows[-1]) or again.best != rows[-1].best:
        raise NotExact(f"{path.name}: logits that are computed when they are asked for differ from those that are kept")


def parts_of(row: HeadRow) -> tuple[bytes, int, bytes]:
    """Returns the parts of a head row that are hashed."""
    return row.row, row.exponent, b"" if row.logits is None else row.logits.contiguous().numpy().tobytes()


def tokens_of() -> list[int]:
    """Returns the tokens that every known model reads."""
    return [abs(n) for n in integers("known tokens", TOKENS, _SILU["vocabulary"] - 1)]


@functools.cache
def built_model(name: str) -> Artifact:
    """Returns one of `KNOWN_MODELS` as an artifact without files. It returns the same object each time, because nothing writes
    to its tensors."""
    known = KNOWN_MODELS[name]
    precision = Precision(known.bits, known.bits, known.embedding)
    manifest = Manifest(
        FORMAT, PROFILE_EXACT_1, known.architecture, (), ZERO_DIGEST, ZERO_DIGEST, None, (),
        Generation(Decimal("0"), Decimal("1"), 0, None), precision, None, MAX_BOUND,
    )  # fmt: skip
    specs = tensor_specs(known.architecture, precision)
    tensors = {spec.name: _tensor(spec, known.strength) for spec in specs}
    return Artifact(Path(name), manifest, manifest.model_id, {}, tensors)


def _tensor(spec: TensorSpec, strength: float) -> Tensor:
    dtype = DTYPES[spec.dtype][0]
    count = torch.Size(spec.shape).numel()
    if spec.name in ("epsilon", "attention_scale", "embedding_scale"):
        return torch.full(spec.shape, 2.0**-17 if spec.name == "epsilon" else 0.25, dtype=dtype)
    if dtype == torch.int8:
        return torch.tensor(integers(spec.name, count, 127), dtype=dtype).view(spec.shape)
    # Multiples of 2^-12 up to 1; positive ones for scales, values around 1 for norms. Narrower types round them, which does no
    # harm.
    numbers = torch.tensor(integers(spec.name, count, 4096), dtype=torch.float64).view(spec.shape) * 2.0**-12
    if spec.name.endswith(".scale"):
        numbers = (numbers.abs() + 0.5) * (2.0**-9 * strength)
    elif "norm" in spec.name:
        numbers = numbers * 0.25 + 1.0
    return numbers.to(dtype)
