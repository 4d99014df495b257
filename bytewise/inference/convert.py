"""Checkpoint to artifact: reproducible, so that anyone who converts gets the same model id (design section 6).

Only IEEE operations and correctly rounded constants. The checkpoint is mapped and read once or twice, some rows at a time; the
artifact is written as it is made.
"""

from fractions import Fraction
from pathlib import Path

import torch

from bytewise.inference import checkpoint as checkpoints
from bytewise.inference import generation, layout, rope
from bytewise.inference.artifact import Progress, model_id_line
from bytewise.inference.bound import Bounds, LayerReach, Reach
from bytewise.inference.checkpoint import Checkpoint
from bytewise.inference.elementwise import sqrt32
from bytewise.inference.families import Linear, family_of, linears, norms
from bytewise.inference.manifest import (
    FORMAT,
    MANIFEST_FILE,
    MODEL_ID_FILE,
    TEMPLATE_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    ArtifactFile,
    Equalisation,
    Manifest,
    Piece,
    Precision,
)
from bytewise.inference.shards import TensorReader
from bytewise.inference.shifts import Shifts
from bytewise.inference.tensor_writer import TensorWriter
from bytewise.inference.weights import blocks, round_weight
from bytewise.inference.workplace import claimed
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.environment import PROFILE_EXACT_1
from bytewise.protocol.errors import UnsupportedModel
from bytewise.protocol.units import Digest

HEAD, EMBEDDING, LAST_NORM = "lm_head.weight", "model.embed_tokens.weight", "model.norm.weight"
"""Names in the checkpoint."""


def convert(
    checkpoint: Path, out: Path, progress: Progress | None = None, *, bits: int = 8, head_bits: int | None = None
) -> Digest:
    """Writes the artifact of a checkpoint folder to `out` (which must not exist) and returns its model id.

    `bits` of the weights are 8 or 16, `head_bits` those of the output head (by default the same). `UnsupportedModel` names what
    cannot be run exactly. A failure leaves nothing at `out`, nor does a process that is killed.
    """
    with claimed(out) as partial, torch.inference_mode():
        source = checkpoints.read(checkpoint)
        reader = TensorReader(checkpoint)
        small = {name: _file(checkpoint, name) for name in (TOKENIZER_FILE, TEMPLATE_FILE)}
        shape = source.architecture
        embedding = reader.tensor(EMBEDDING, (shape.vocabulary, shape.width))
        precision = Precision(bits, head_bits or bits, str(embedding.dtype).removeprefix("torch."))
        writer = TensorWriter(partial / WEIGHTS_FILE, layout.tensor_specs(shape, precision), progress)
        try:
            bound = _Conversion(source, reader, writer, precision).run()
            files = [ArtifactFile(WEIGHTS_FILE, writer.finish())]
        finally:
            writer.close()
        for name, data in small.items():
            files.append(ArtifactFile(name, (Piece(name, len(data), digests.sha256(data)),)))
            (partial / name).write_bytes(data)
        manifest = _manifest(source, files, small, precision, None, bound)
        (partial / MANIFEST_FILE).write_bytes(encode(manifest))
        (partial / MODEL_ID_FILE).write_bytes(model_id_line(manifest.model_id))
    return manifest.model_id


def _file(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise UnsupportedModel(f"{name}: {error.strerror}") from None


def _manifest(
    source: Checkpoint,
    files: list[ArtifactFile],
    small: dict[str, bytes],
    precision: Precision,
    equalisation: Equalisation | None,
    bound: int,
) -> Manifest:
    defaults, stops = generation.read(source.path)
    return Manifest(
        FORMAT, PROFILE_EXACT_1, source.architecture, tuple(sorted(files, key=lambda file: file.name)),
        digests.labelled(Label.TOKENIZER, small[TOKENIZER_FILE]), digests.labelled(Label.TEMPLATE, small[TEMPLATE_FILE]),
        source.begin_token, tuple(sorted({*source.stop_tokens, *stops})), defaults, precision, equalisation, bound,
    )  # fmt: skip


class _Conversion:
    """The tensors of one artifact, in the order of computation."""

    def __init__(self, source: Checkpoint, reader: TensorReader, writer: TensorWriter, precision: Precision) -> None:
        self._source, self._reader, self._writer, self._precision = source, reader, writer, precision
        self._shape, self._family = source.architecture, family_of(source.architecture.family)

    def run(self) -> int:
        """Writes all tensors; the proven bound of activations. `UnsupportedModel` names a tensor or an operation."""
        bounds = Bounds(self._shape, self._embedding(), self._rotation(), self._constants())
        for layer in range(self._shape.layers):
            bounds.layer(layer, self._layer(layer, Shifts()))
        gain = self._norm("norm", LAST_NORM, self._shape.width, Shifts())
        head = Linear("head", (EMBEDDING if self._source.tied else HEAD).removesuffix(".weight"), *self._size(), False)
        bound = bounds.head(self._linear(head, self._precision.head_bits, Shifts()), gain)
        if self._source.tied and self._reader.has(HEAD):
            self._verify_repeated_head()
        self._reader.finish()
        return bound

    def _size(self) -> tuple[int, int]:
        return self._shape.vocabulary, self._shape.width

    def _embedding(self) -> Fraction:
        largest, tensor = 0.0, self._reader.tensor(EMBEDDING, self._size())
        for block in blocks(EMBEDDING, tensor):
            self._writer.write("embedding", block.to(tensor.dtype))
            largest = max(largest, float(block.abs().amax()))
        if not self._family.scaled_embedding:
            return Fraction(largest)
        scale = sqrt32(torch.tensor([float(self._shape.width)]))
        self._writer.write("embedding_scale", scale)
        return Fraction(largest) * Fraction(float(scale))

    def _rotation(self) -> float:
        # Positions 0 to max_context: the last one is where padding of a batch lives.
        tables = rope.factor_tables(self._source.rope, self._shape.head_width, self._shape.max_context + 1)
        for name, table in tables.items():
            self._writer.write(f"rope.{name}", table)
        return max(1.0, *(float(table.abs().amax()) for table in tables.values()))

    def _constants(self) -> float:
        scale = torch.ones(1) / sqrt32(torch.tensor([self._source.score_divisor]))
        self._writer.write("epsilon", torch.tensor([self._source.epsilon], dtype=torch.float32))
        self._writer.write("attention_scale", scale)
        return float(scale)

    def _layer(self, layer: int, shifts: Shifts) -> LayerReach:
        reach, prefix = LayerReach(), f"layers.{layer}."
        for linear in linears(self._shape, layer):
            reach.linears[linear.name.removeprefix(prefix)] = self._linear(linear, self._precision.weight_bits, shifts)
        for norm in norms(self._shape, layer):
            reach.gains[norm.name.removeprefix(prefix)] = self._norm(norm.name, norm.source, norm.width, shifts)
        return reach

    def _linear(self, linear: Linear, bits: int, shifts: Shifts) -> Reach:
        reach, start, source = Reach(), 0, f"{linear.source}.weight"
        for block in blocks(source, self._reader.tensor(source, (linear.rows, linear.columns))):
            rounded = round_weight(shifts.weight(linear.name, start, block), bits)
            for suffix, limb in zip(("", ".low"), rounded.limbs(bits), strict=False):
                self._writer.write(linear.name + suffix, limb)
            self._writer.write(f"{linear.name}.scale", rounded.scale)
            reach.add(rounded)
            start += len(block)
        if linear.biased:
            bias = shifts.vector(linear.name, self._reader.read(f"{linear.source}.bias", (linear.rows,)))
            self._writer.write(f"{linear.name}.bias", bias)
            reach.add_bias(bias)
        return reach

    def _norm(self, name: str, source: str, width: int, shifts: Shifts) -> float:
        weight = self._reader.read(source, (width,))
        weight = shifts.vector(name, weight + 1.0 if self._family.norm_offset else weight)
        self._writer.write(name, weight)
        return float(weight.abs().amax())

    def _verify_repeated_head(self) -> None:
        # Some checkpoints repeat the embedding; another head would be another model.
        both = (blocks(name, self._reader.tensor(name, self._size())) for name in (HEAD, EMBEDDING))
        if not all(torch.equal(head, embedding) for head, embedding in zip(*both, strict=True)):
            raise UnsupportedModel("lm_head.weight differs from the embedding that it is tied to")
