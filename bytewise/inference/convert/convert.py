"""Checkpoint to artifact: reproducible, so that anyone who converts gets the same model id (design section 6).

Only IEEE operations and correctly rounded constants. The checkpoint is mapped and read once or twice, some rows at a time; the
artifact is written as it is made.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from bytewise.inference.artifact import generation, layout
from bytewise.inference.artifact.artifact import Progress, model_id_line
from bytewise.inference.artifact.token_table import Lexicon
from bytewise.inference.convert import checkpoint as checkpoints
from bytewise.inference.convert.calibrate import hashed_tokens, text_tokens
from bytewise.inference.convert.checkpoint import Checkpoint
from bytewise.inference.convert.conversion import EMBEDDING, Conversion
from bytewise.inference.convert.shards import TensorReader
from bytewise.inference.convert.staging_dir import claimed
from bytewise.inference.convert.tensor_writer import TensorWriter
from bytewise.inference.determinism import fixed
from bytewise.inference.known_answers import operations
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
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors import UnsupportedModel
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.protocol.units import Digest


@dataclass(frozen=True, slots=True)
class Options:
    """What a conversion is asked for beside the checkpoint."""

    bits: int = 8
    """Of the weights: 8 or 16."""
    head_bits: int | None = None
    """Of the output head; None: the same."""
    equalise: bool = True
    """Whether channels are equalised where that makes the error smaller."""
    calibration: Path | None = None
    """Text on which that error is measured; None: tokens of a hash."""
    context: int | None = None
    """Most tokens of prompt and answer together; None: the checkpoint's own. Longer ones than 131,072 need it."""


def convert(
    checkpoint: Path, out: Path, progress: Progress | None = None, *, bits: int = 8, options: Options | None = None
) -> Digest:
    """Writes the artifact of a checkpoint folder to `out` (which must not exist) and returns its model id.

    `bits` is short for options that are otherwise the default. `UnsupportedModel` names what cannot be run exactly. A failure
    leaves nothing at `out`, and so does a process that is killed.
    """
    options = options or Options(bits)
    # One thread: what is done to a block of rows is too short to be worth waking others for.
    with claimed(out) as partial, fixed(1), contextlib.ExitStack() as closing:
        source = checkpoints.read(checkpoint, options.context)
        reader = closing.enter_context(contextlib.closing(TensorReader(checkpoint)))
        small = {name: _file(checkpoint, name) for name in (TOKENIZER_FILE, TEMPLATE_FILE)}
        # Stop strings and schemas look at the bytes of tokens: a tokenizer that does not tell them is refused by its name.
        Lexicon(small[TOKENIZER_FILE], source.architecture.vocabulary).verify()
        precision = _precision(source, reader, options)
        specs = layout.tensor_specs(source.architecture, precision)
        writer = closing.enter_context(contextlib.closing(TensorWriter(partial / WEIGHTS_FILE, specs, progress)))
        conversion = Conversion(source, reader, writer, precision, _tokens(source, options))
        bound = conversion.run()
        files = [ArtifactFile(WEIGHTS_FILE, writer.finish())]
        for name, data in small.items():
            files.append(ArtifactFile(name, (Piece(name, len(data), digests.sha256(data)),)))
            (partial / name).write_bytes(data)
        manifest = _manifest(source, files, small, precision, conversion.equalisation(), bound)
        (partial / MANIFEST_FILE).write_bytes(encode(manifest))
        (partial / MODEL_ID_FILE).write_bytes(model_id_line(manifest.model_id))
    return manifest.model_id


def _precision(source: Checkpoint, reader: TensorReader, options: Options) -> Precision:
    # The embedding keeps its type.
    size = (source.architecture.vocabulary, source.architecture.width)
    embedding = str(reader.tensor(f"{EMBEDDING}.weight", size).dtype).removeprefix("torch.")
    return Precision(options.bits, options.head_bits or options.bits, embedding)


def _tokens(source: Checkpoint, options: Options) -> tuple[int, ...]:
    """Ids of the calibration tokens; none leaves channels as they are. `NotExact` on a machine that computes otherwise."""
    if not options.equalise:
        return ()
    # What is measured runs through the model: a machine that is not exact must not choose for others.
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
    defaults, stops = generation.read(source.path, source.architecture.vocabulary)
    return Manifest(
        FORMAT, PROFILE_EXACT_1, source.architecture, tuple(sorted(files, key=lambda file: file.name)),
        digests.labelled(Label.TOKENIZER, small[TOKENIZER_FILE]), digests.labelled(Label.TEMPLATE, small[TEMPLATE_FILE]),
        source.begin_token, generation.all_stop_tokens(source.stop_tokens, stops), defaults, precision, equalisation, bound,
    )  # fmt: skip
