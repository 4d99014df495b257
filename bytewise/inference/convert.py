"""Checkpoint to artifact: reproducible, so that anyone who converts gets the same model id (design section 6).

Only IEEE operations and correctly rounded constants: scale = float32(max|w| / 127), q = round half even(w / scale).
"""

import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from bytewise.inference import checkpoint as checkpoints
from bytewise.inference import rope
from bytewise.inference.artifact import Progress
from bytewise.inference.checkpoint import Checkpoint, TensorReader
from bytewise.inference.elementwise import sqrt32
from bytewise.inference.families import Family, family_of, linears, norms
from bytewise.inference.manifest import (
    FORMAT,
    MANIFEST_FILE,
    TEMPLATE_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    Architecture,
    ArtifactFile,
    Manifest,
)
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.environment import PROFILE_EXACT_1
from bytewise.protocol.errors import ConfigurationError, UnsupportedModel
from bytewise.protocol.units import Digest

MAX_WEIGHT = 127
"""Weights are in ±127: -128 would shorten the longest exact sum."""


def convert(checkpoint: Path, out: Path, progress: Progress | None = None) -> Digest:
    """Writes the artifact of a checkpoint folder to `out` (which must not exist) and returns its model id.

    `UnsupportedModel` names what cannot be run exactly. A failure leaves nothing at `out`.
    """
    if out.exists():
        raise ConfigurationError(out.name, "already exists")
    source = checkpoints.read(checkpoint)
    content = {
        WEIGHTS_FILE: save(dict(_tensors(source, progress))),
        TOKENIZER_FILE: _file(checkpoint, "tokenizer.json"),
        TEMPLATE_FILE: _file(checkpoint, "chat_template.jinja"),
    }
    manifest = _manifest(source, content)
    partial = out.with_name(out.name + ".partial")
    # What an interrupted conversion left behind is worth nothing.
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for name, data in {**content, MANIFEST_FILE: encode(manifest)}.items():
        (partial / name).write_bytes(data)
    partial.rename(out)
    return manifest.model_id


def _manifest(source: Checkpoint, content: dict[str, bytes]) -> Manifest:
    files = tuple(ArtifactFile(file, len(data), digests.sha256(data)) for file, data in sorted(content.items()))
    tokenizer = digests.labelled(Label.TOKENIZER, content[TOKENIZER_FILE])
    template = digests.labelled(Label.TEMPLATE, content[TEMPLATE_FILE])
    return Manifest(
        FORMAT, PROFILE_EXACT_1, source.architecture, files, tokenizer, template, source.begin_token, source.stop_tokens
    )


def _file(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise UnsupportedModel(f"{name}: {error.strerror}") from None


def _tensors(source: Checkpoint, progress: Progress | None) -> Iterator[tuple[str, Tensor]]:
    shape, reader = source.architecture, TensorReader(source.path)
    family = family_of(shape.family)
    embedding = reader.read("model.embed_tokens.weight", (shape.vocabulary, shape.width))
    yield "embedding", embedding
    yield "norm", _norm(family, reader.read("model.norm.weight", (shape.width,)))
    head = embedding if source.tied else reader.read("lm_head.weight", (shape.vocabulary, shape.width))
    yield from _quantised("head", head)
    for layer in range(shape.layers):
        yield from _layer(shape, family, reader, layer)
        if progress is not None:
            progress("layers", layer + 1, shape.layers)
    if source.tied and reader.has("lm_head.weight"):
        # Some checkpoints repeat the embedding; another head would be another model.
        if not torch.equal(embedding, reader.read("lm_head.weight", (shape.vocabulary, shape.width))):
            raise UnsupportedModel("lm_head.weight differs from the embedding that it is tied to")
    reader.finish()
    # Positions 0 to max_context: the last one is where padding of a batch lives.
    for name, table in rope.factor_tables(source.rope, shape.head_width, shape.max_context + 1).items():
        yield f"rope.{name}", table
    yield "epsilon", torch.tensor([source.epsilon], dtype=torch.float32)
    yield "attention_scale", torch.ones(1) / sqrt32(torch.tensor([source.score_divisor]))
    if family.scaled_embedding:
        yield "embedding_scale", sqrt32(torch.tensor([float(shape.width)]))


def _layer(shape: Architecture, family: Family, reader: TensorReader, layer: int) -> Iterator[tuple[str, Tensor]]:
    for linear in linears(shape, layer):
        yield from _quantised(linear.name, reader.read(f"{linear.source}.weight", (linear.rows, linear.columns)))
        if linear.biased:
            yield f"{linear.name}.bias", reader.read(f"{linear.source}.bias", (linear.rows,))
    for norm in norms(shape, layer):
        yield norm.name, _norm(family, reader.read(norm.source, (norm.width,)))


def _norm(family: Family, weight: Tensor) -> Tensor:
    return weight + 1.0 if family.norm_offset else weight


def _quantised(name: str, weight: Tensor) -> Iterator[tuple[str, Tensor]]:
    integers, scale = quantise_weight(weight)
    yield name, integers
    yield f"{name}.scale", scale


def quantise_weight(weight: Tensor) -> tuple[Tensor, Tensor]:
    """int8 weights in ±127 and float32 scale per output channel; a zero row has scale 1."""
    largest = weight.abs().amax(-1, keepdim=True)
    scale = largest / torch.full((1, 1), float(MAX_WEIGHT))
    # Below the smallest normal quotient nothing is left of a row: it is zero.
    scale = torch.where(scale < float(Fraction(1, 2**60)), torch.ones_like(scale), scale)
    integers = (weight / scale).round_().clamp_(-MAX_WEIGHT, MAX_WEIGHT)
    return integers.to(torch.int8), scale.squeeze(-1)
