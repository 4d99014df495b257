"""Converts a checkpoint to an artifact, reproducibly: every conversion gives the same model id (design section 6).

The conversion uses only IEEE operations and correctly rounded constants. It reads the checkpoint once or twice, some rows at a
time, and writes the artifact meanwhile. It runs calibration tokens through the exact model, to measure the inputs of the linear
layers.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor, nn, uint8

from bytewise.inference.artifact.artifact import DTYPES, Progress, TensorSpec, header, model_id_line, tensor_specs
from bytewise.inference.artifact.families import Linear, Norm, family_of, linears, norms
from bytewise.inference.artifact.token_table import TokenTable
from bytewise.inference.convert import checkpoint as checkpoints
from bytewise.inference.convert.bound import Bounds, LayerMagnitudes, Magnitude
from bytewise.inference.convert.checkpoint import Checkpoint
from bytewise.inference.convert.equalise import Equaliser, Shifts
from bytewise.inference.convert.shards import TensorReader
from bytewise.inference.convert.staging_dir import staging_dir
from bytewise.inference.determinism import fixed
from bytewise.inference.exact import rope
from bytewise.inference.exact.cache import ExactCache
from bytewise.inference.exact.elementwise import rms_norm, sqrt32
from bytewise.inference.exact.matmul import Float64Backend
from bytewise.inference.exact.modules import ExactLinear, ExactRotary, Tensors
from bytewise.inference.exact.quantise import BLOCK, Rounded, round_weight
from bytewise.inference.known_answers import operations
from bytewise.inference.manifest import (
    FORMAT,
    HEADER_PIECE,
    MANIFEST_FILE,
    MODEL_ID_FILE,
    TEMPLATE_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    Architecture,
    ArtifactFile,
    Equalisation,
    FilePiece,
    Manifest,
    Precision,
)
from bytewise.inference.torch_path import decoder_layer
from bytewise.protocol import digests
from bytewise.protocol.digests import Label, RunningSha256
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError, UnsupportedModel
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.protocol.units import Digest

# Writes the weights file tensor by tensor in any order: the header first; each tensor is hashed as its rows arrive.


class TensorWriter:
    """Writer of the weights file. The rows of one tensor must arrive in order. The tensors may arrive in any order, also at the
    same time."""

    def __init__(self, path: Path, specs: list[TensorSpec], progress: Progress | None) -> None:
        """Creates the file at its full size, so that a full disk is noticed at the start. Raises `OSError` if the file cannot
        be created or the disk is full."""
        self._specs = {spec.name: spec for spec in specs}
        self._header = header(specs)
        self._start, self._offset = {}, len(self._header)
        for spec in specs:
            self._start[spec.name] = self._offset
            self._offset += spec.size
        self._written = dict.fromkeys(self._specs, 0)
        self._state = {name: RunningSha256() for name in self._specs}
        self._done, self._progress = len(self._header), progress
        self._file = path.open("xb", buffering=0)
        os.posix_fallocate(self._file.fileno(), 0, self._offset)
        _write_all(self._file.fileno(), memoryview(self._header), 0)

    def write(self, name: str, rows: Tensor) -> None:
        """Appends rows, or a whole tensor. Raises `ValueError` if type or size differ from the tensor's specification. Such a
        difference is a bug of the caller."""
        spec = self._specs[name]
        data = rows.contiguous().flatten().view(uint8).numpy().data
        if rows.dtype != DTYPES[spec.dtype][0] or self._written[name] + len(data) > spec.size:
            raise ValueError(f"{name}: {rows.dtype} {tuple(rows.shape)} after {self._written[name]} of {spec.size} bytes")
        _write_all(self._file.fileno(), data, self._start[name] + self._written[name])
        self._state[name].update(data)
        self._written[name] += len(data)
        self._done += len(data)
        if self._progress is not None:
            self._progress(WEIGHTS_FILE, self._done, self._offset)

    def finish(self) -> tuple[FilePiece, ...]:
        """Writes the file safely to disk, closes it and returns its pieces. Raises `ValueError` if a tensor is incomplete."""
        missing = [name for name, spec in self._specs.items() if self._written[name] != spec.size]
        if missing:
            raise ValueError(f"tensors were not written: {missing[:3]}")
        os.fsync(self._file.fileno())
        self._file.close()
        head = FilePiece(HEADER_PIECE, len(self._header), digests.sha256(self._header))
        tensors = [FilePiece(name, spec.size, self._state[name].digest()) for name, spec in self._specs.items()]
        return head, *tensors

    def close(self) -> None:
        """Closes the file, even if a tensor is incomplete."""
        self._file.close()


def _write_all(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


# Inputs of a model's linear layers: calibration tokens through the exact model, one layer in memory at a time.

DEFAULT_TOKENS = 128
"""Number of calibration tokens that come from a hash."""

MOST_TOKENS = 256
"""Most calibration tokens that come from a text."""


def hashed_tokens(shape: Architecture) -> tuple[int, ...]:
    """Returns calibration tokens that are computed from a hash. Anyone can compute them. They have no meaning."""
    count = min(DEFAULT_TOKENS, shape.max_context)
    return tuple(int.from_bytes(digests.labelled(Label.CALIBRATION, i), "big") % shape.vocabulary for i in range(count))


def text_tokens(shape: Architecture, checkpoint: Path, text: Path) -> tuple[int, ...]:
    """Returns the first tokens of a text file, for calibration. Raises `ConfigurationError` if the file cannot be read, is
    empty or has tokens that the model does not have."""
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
    """Residual stream of the calibration tokens. The stream passes through the model, layer by layer."""

    def __init__(self, shape: Architecture, hidden: Tensor, constants: Tensors) -> None:
        """Begins with the embedded tokens `hidden`, float32 [T, D]. `constants` are the artifact's tables, epsilon and
        attention scale."""
        self._shape, self._hidden, self._constants = shape, hidden[None], constants
        positions = torch.arange(hidden.shape[0])[None]
        tables = {name.removeprefix("rope."): table for name, table in constants.items() if name.startswith("rope.")}
        self._rotation = ExactRotary(tables)(self._hidden, positions)
        self._backend = BlockBackend()

    def layer(self, index: int, tensors: Tensors) -> Tensors:
        """Moves the stream through one decoder layer. Returns the inputs [T, K] of the layer's linear layers by name, but not
        the inputs of experts."""
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
        """Returns the RMS norm of the present residual stream with `weight` as its scale, [T, D]. The stream itself does not
        change."""
        width = torch.full((1,), float(weight.shape[0]), dtype=torch.float64)
        return rms_norm(self._hidden[0], weight, self._constants["epsilon"], width)


def _keep(seen: Tensors, name: str) -> Any:
    def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen[name] = inputs[0].reshape(-1, inputs[0].shape[-1])

    return hook


class BlockBackend(Float64Backend):
    """Backend of float64 products for layers that are used only once. It converts only some rows of the weights to float64 at a
    time, because memory is scarce."""

    name = "float64-blocks"

    def pack(self, weight: Tensor) -> Tensor:
        """Returns the int8 weights unchanged."""
        return weight

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """Returns exact products. Some rows of the weight are widened and multiplied at a time."""
        step = max(1, BLOCK // packed.shape[1])
        left = values.to(torch.float64)
        parts = [left @ packed[i : i + step].to(torch.float64).t() for i in range(0, packed.shape[0], step)]
        return torch.cat(parts, dim=1)


# The tensors of one artifact, in the order of computation, some rows at a time.

HEAD, EMBEDDING, LAST_NORM = "lm_head", "model.embed_tokens", Norm("norm", "model.norm.weight", 0)
"""Names of the output head, the embedding and the last norm in the checkpoint. The names of head and embedding lack their
suffix `.weight`."""


class Conversion:
    """Conversion of one checkpoint, which writes all tensors. Its methods raise `UnsupportedModel` if a tensor or operation
    cannot be exact. The error names it."""

    def __init__(
        self, source: Checkpoint, reader: TensorReader, writer: TensorWriter, precision: Precision, tokens: tuple[int, ...]
    ) -> None:
        """Prepares the conversion. If there are calibration `tokens`, the conversion uses them to equalise channels."""
        self._source, self._reader, self._writer, self._precision = source, reader, writer, precision
        self._shape, self._family = source.architecture, family_of(source.architecture.family)
        self._tokens = tokens
        self._equaliser = Equaliser(self._shape, reader, precision.weight_bits, tokens) if tokens else None

    def run(self) -> int:
        """Writes all tensors and returns the proven bound of activations, an exponent field (`Manifest.bound`)."""
        constants, shape = self._constants(), self._shape
        bounds = Bounds(shape, self._embedding(constants), _largest(*_tables(constants)), float(constants["attention_scale"]))
        calibration = Calibration(shape, self._calibration_rows(constants), constants) if self._tokens else None
        for index in range(shape.layers):
            bounds.layer(index, self._layer(index, calibration))
        norm, head = self._norm(LAST_NORM), self._head()
        shifts = Shifts()
        if calibration and self._equaliser:
            shifts = self._equaliser.head(calibration.normed(norm), head, self._precision.head_bits)
        bound = bounds.head(self._write_linear(head, self._precision.head_bits, shifts), self._write_norm("norm", norm, shifts))
        if self._source.tied and self._reader.has(f"{HEAD}.weight"):
            self._verify_repeated_head()
        self._reader.finish()
        return bound

    def equalisation(self) -> Equalisation | None:
        """Returns the record of the equalisation. Returns None if the conversion did not equalise channels."""
        return self._equaliser.record() if self._equaliser else None

    def _constants(self) -> Tensors:
        """Writes and returns the tensors that do not depend on the weights."""
        shape, source = self._shape, self._source
        # Positions 0 to max_context: one more than a context holds.
        try:
            tables = rope.factor_tables(source.rope, shape.head_width, shape.max_context + 1)
            if not all(bool(torch.isfinite(table).all()) for table in tables.values()):
                raise ValueError("not finite")
        except (ValueError, TypeError, ArithmeticError) as error:
            raise UnsupportedModel(f"config.json: rope parameters give no angles: {str(error)[:100]}") from None
        constants = {f"rope.{name}": table for name, table in tables.items()}
        constants["epsilon"] = torch.tensor([source.epsilon], dtype=torch.float32)
        constants["attention_scale"] = torch.ones(1) / sqrt32(torch.tensor([source.score_divisor]))
        if self._family.scaled_embedding:
            constants["embedding_scale"] = sqrt32(torch.tensor([float(shape.width)]))
        for name, tensor in constants.items():
            self._writer.write(name, tensor)
        return constants

    def _embedding(self, constants: Tensors) -> Fraction:
        largest, tensor = 0.0, self._reader.tensor(f"{EMBEDDING}.weight", (self._shape.vocabulary, self._shape.width))
        for block in tensor.blocks():
            self._writer.write("embedding", block.to(tensor.dtype))
            largest = max(largest, _largest(block))
        return Fraction(largest) * Fraction(float(constants.get("embedding_scale", torch.ones(1))))

    def _calibration_rows(self, constants: Tensors) -> Tensor:
        tensor = self._reader.tensor(f"{EMBEDDING}.weight", (self._shape.vocabulary, self._shape.width))
        rows = tensor.pick(self._tokens)
        return rows * constants["embedding_scale"] if "embedding_scale" in constants else rows

    def _head(self) -> Linear:
        return Linear("head", EMBEDDING if self._source.tied else HEAD, self._shape.vocabulary, self._shape.width, False)

    def _layer(self, index: int, calibration: Calibration | None) -> LayerMagnitudes:
        reach, prefix, bits, shifts = LayerMagnitudes(), f"layers.{index}.", self._precision.weight_bits, Shifts()
        if calibration and self._equaliser:
            shifts = self._equaliser.layer(index, calibration.layer(index, self._plain(index)))
        for linear in linears(self._shape, index):
            reach.linears[linear.name.removeprefix(prefix)] = self._write_linear(linear, bits, shifts)
        for norm in norms(self._shape, index):
            reach.gains[norm.name.removeprefix(prefix)] = self._write_norm(norm.name, self._norm(norm), shifts)
        return reach

    def _plain(self, index: int) -> Tensors:
        """Returns the tensors of a layer without equalisation."""
        tensors = {norm.name: self._norm(norm) for norm in norms(self._shape, index)}
        for linear in linears(self._shape, index):
            parts = [(*part.limbs(self._precision.weight_bits), part.scale) for part in self._rounded(linear, Shifts())]
            *limbs, scale = (torch.cat(column) for column in zip(*parts, strict=True))
            tensors |= dict(zip((linear.name, f"{linear.name}.low"), limbs, strict=False))
            tensors[f"{linear.name}.scale"] = scale
            if linear.biased:
                tensors[f"{linear.name}.bias"] = self._bias(linear)
        return tensors

    def _rounded(self, linear: Linear, shifts: Shifts, bits: int | None = None) -> Iterator[Rounded]:
        start = 0
        for block in self._reader.tensor(f"{linear.source}.weight", (linear.rows, linear.columns)).blocks():
            yield round_weight(shifts.weight(linear.name, start, block), bits or self._precision.weight_bits)
            start += len(block)

    def _write_linear(self, linear: Linear, bits: int, shifts: Shifts) -> Magnitude:
        reach = Magnitude()
        for rounded in self._rounded(linear, shifts, bits):
            for suffix, limb in zip(("", ".low"), rounded.limbs(bits), strict=False):
                self._writer.write(linear.name + suffix, limb)
            self._writer.write(f"{linear.name}.scale", rounded.scale)
            reach.add(rounded)
        if linear.biased:
            bias = shifts.vector(linear.name, self._bias(linear))
            self._writer.write(f"{linear.name}.bias", bias)
            reach.add_bias(bias)
        return reach

    def _bias(self, linear: Linear) -> Tensor:
        return self._reader.read(f"{linear.source}.bias", (linear.rows,))

    def _norm(self, norm: Norm) -> Tensor:
        weight = self._reader.read(norm.source, (norm.width or self._shape.width,))
        return weight + 1.0 if self._family.norm_offset else weight

    def _write_norm(self, name: str, weight: Tensor, shifts: Shifts) -> float:
        weight = shifts.vector(name, weight)
        self._writer.write(name, weight)
        return _largest(weight)

    def _verify_repeated_head(self) -> None:
        # Some checkpoints repeat the embedding as head. Another head would be another model.
        size = (self._shape.vocabulary, self._shape.width)
        both = (self._reader.tensor(f"{name}.weight", size).blocks() for name in (HEAD, EMBEDDING))
        if not all(torch.equal(head, embedding) for head, embedding in zip(*both, strict=True)):
            raise UnsupportedModel("lm_head.weight differs from the embedding that it is tied to")


def _tables(constants: Tensors) -> list[Tensor]:
    return [tensor for name, tensor in constants.items() if name.startswith("rope.")]


def _largest(*tensors: Tensor) -> float:
    return max(float(tensor.abs().amax()) for tensor in tensors)


@dataclass(frozen=True, slots=True)
class ConversionOptions:
    """Options of a conversion."""

    bits: int = 8
    """Bits of the weights: 8 or 16."""
    head_bits: int | None = None
    """Bits of the output head. None takes the value of `bits`."""
    equalise: bool = True
    """Whether the conversion equalises channels. It does so only for those channels where this makes the error of the outputs
    smaller."""
    calibration: Path | None = None
    """Text file with calibration tokens, which measure the error of equalised channels. None takes calibration tokens from a
    hash."""
    context: int | None = None
    """Most tokens of prompt and answer together. None takes the checkpoint's own limit. If that limit is above 131,072, a value
    is required."""


def convert(
    checkpoint: Path, out: Path, progress: Progress | None = None, *, bits: int = 8, options: ConversionOptions | None = None
) -> Digest:
    """Writes the artifact of a checkpoint folder to `out`, which must not exist, and returns its model id.

    Without `options`, `bits` is the precision of the weights, and every option has its default. With `options`, `bits` is
    ignored. Raises `UnsupportedModel`, which names the feature that cannot be run exactly. Raises `ConfigurationError` if an
    option or `out` is unusable, and `NotExact` on a machine with other arithmetic. A failed or killed conversion leaves nothing
    at `out`.
    """
    options = options or ConversionOptions(bits)
    # One thread: the work on a block of rows is too short to wake other threads.
    with staging_dir(out) as partial, fixed(1), contextlib.ExitStack() as closing:
        source = checkpoints.read(checkpoint, options.context)
        reader = closing.enter_context(contextlib.closing(TensorReader(checkpoint)))
        small = {name: _file(checkpoint, name) for name in (TOKENIZER_FILE, TEMPLATE_FILE)}
        # Stop strings and schemas use the bytes of tokens, so refuse by name a tokenizer that does not define them.
        TokenTable(small[TOKENIZER_FILE], source.architecture.vocabulary).verify()
        precision = _precision(source, reader, options)
        specs = tensor_specs(source.architecture, precision)
        writer = closing.enter_context(contextlib.closing(TensorWriter(partial / WEIGHTS_FILE, specs, progress)))
        conversion = Conversion(source, reader, writer, precision, _tokens(source, options))
        bound = conversion.run()
        files = [ArtifactFile(WEIGHTS_FILE, writer.finish())]
        for name, data in small.items():
            files.append(ArtifactFile(name, (FilePiece(name, len(data), digests.sha256(data)),)))
            (partial / name).write_bytes(data)
        manifest = _manifest(source, files, small, precision, conversion.equalisation(), bound)
        (partial / MANIFEST_FILE).write_bytes(encode(manifest))
        (partial / MODEL_ID_FILE).write_bytes(model_id_line(manifest.model_id))
    return manifest.model_id


def _precision(source: Checkpoint, reader: TensorReader, options: ConversionOptions) -> Precision:
    # The embedding keeps its type.
    size = (source.architecture.vocabulary, source.architecture.width)
    embedding = str(reader.tensor(f"{EMBEDDING}.weight", size).dtype).removeprefix("torch.")
    return Precision(options.bits, options.head_bits or options.bits, embedding)


def _tokens(source: Checkpoint, options: ConversionOptions) -> tuple[int, ...]:
    """Returns the calibration tokens. An empty tuple leaves channels unchanged. Raises `NotExact` on a machine with other
    arithmetic."""
    if not options.equalise:
        return ()
    # The measurement runs the model, so a machine that is not exact must not make this choice, which becomes part of the
    # artifact.
    operations.verify_elementwise()
    if options.calibration is None:
        return hashed_tokens(source.architecture)
    return text_tokens(source.architecture, source.path, options.calibration)


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
    defaults, stops = checkpoints.read_generation(source.path, source.architecture.vocabulary)
    return Manifest(
        FORMAT, PROFILE_EXACT_1, source.architecture, tuple(sorted(files, key=lambda file: file.name)),
        digests.labelled(Label.TOKENIZER, small[TOKENIZER_FILE]), digests.labelled(Label.TEMPLATE, small[TEMPLATE_FILE]),
        source.begin_token, checkpoints.all_stop_tokens(source.stop_tokens, stops), defaults, precision, equalisation, bound,
    )  # fmt: skip
