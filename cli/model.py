"""`bytewise model`: makes small models, converts checkpoints, shows artifacts and checks them."""

import enum
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bytewise.protocol.encoding import encode, to_json
from bytewise.protocol.errors.actors import ArtifactMismatch, ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.units import ZERO_DIGEST, Digest, digest, hex0x, unhex
from bytewise.service.exit_codes import Exit
from bytewise.service.files import create_file
from cli.output import LIMIT, Fields, LimitOption, OutputFormat, OutputOption, emit, limited, plain, print_entries, progress_of

if TYPE_CHECKING:
    # Only the verbs that need torch import it, because its import takes seconds.
    from bytewise.inference.manifest import Architecture, Equalisation, Manifest
    from bytewise.inference.pinned.checkpoint import PinnedManifest

# The verb `pin` makes artifacts of profile `pinned-1`. `fingerprint` and `environment` make environments of `pinned-1` and
# `exact-1`.


def pin(
    checkpoint: Annotated[Path, typer.Argument(help="Hugging Face checkpoint folder.")],
    out: Annotated[Path, typer.Argument(help="Folder to write the artifact to; must not exist.")],
) -> None:
    """Write a manifest for an unconverted checkpoint, for profile pinned-1.

    The command prints the model id.

    The weights stay as they are, so the model answers like the float model of the library transformers. Only a verifier with
    exactly the operator's environment can check these answers. `bytewise model convert` makes an artifact whose answers anybody
    can check.
    """
    from bytewise.inference.pinned.checkpoint import pin as pin_checkpoint

    with progress_of("copying") as tell:
        print(hex0x(pin_checkpoint(checkpoint, out, tell)))


def fingerprint(
    artifact: Annotated[Path, typer.Argument(help="Artifact made by `bytewise model pin`.")],
    out: Annotated[Path | None, typer.Option("--out", help="New file for the environment as canonical JSON.")] = None,
    device: Annotated[str, typer.Option("--device", help="cpu or cuda.")] = "cpu",
    threads: Annotated[int, typer.Option("--threads", min=1, max=1024, help="Threads of the engine: part of it.")] = 1,
    container: Annotated[str, typer.Option("--container", help="Digest of the container image, 0x-hex.")] = "",
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", min=1, max=2**20, help="Most tokens of an answer.")] = 1024,
) -> None:
    """Show this machine and process as an environment of pinned-1.

    Register the environment with this output.

    The output contains library variables such as CUBLAS_WORKSPACE_CONFIG or MKL_CBWR with their present values: start the
    operator and every verifier with the same values. The exit code is 5 if this machine cannot be distinguished from others.
    """
    from bytewise.inference.pinned.checkpoint import read_manifest
    from bytewise.inference.pinned.fingerprint import fingerprint as this_machine
    from bytewise.inference.profiles import DEVICES

    if device not in DEVICES:
        raise ConfigurationError("--device", f"is {device[:40]}: there are {', '.join(DEVICES)}")
    found = this_machine(
        read_manifest(artifact).architecture, device=device, threads=threads, container=_container(container),
        max_new_tokens=max_new_tokens,
    )  # fmt: skip
    if out is not None:
        create_file(out, encode(found))
    print(json.dumps({"environment": hex0x(found.digest), **to_json(found)}, indent=2))


def environment(
    artifact: Annotated[Path, typer.Argument(help="Artifact made by `bytewise model convert`.")],
    out: Annotated[Path, typer.Argument(help="New file for the environment as canonical JSON.")],
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", min=1, max=2**20, help="Most tokens of an answer.")] = 1024,
    max_context: Annotated[
        int | None, typer.Option("--context", min=1, max=2**20, help="Most tokens of prompt and answer; else the model's.")
    ] = None,
) -> None:
    """Write the environment in which an artifact is served, and print its digest.

    The environment's profile is exact-1, so any processor may serve the model. The file also names the libraries of this machine,
    so every operator and verifier of this environment needs the same file.

    Propose the environment with `bytewise chain call Registry propose DIGEST POOL VECTORS @FILE`
    (`docs/guide/prepare-a-model.md`).
    """
    from bytewise.inference.artifact.artifact import load
    from bytewise.inference.determinism import environment as environment_of
    from bytewise.inference.manifest import profile_of
    from bytewise.protocol.records.environment import PROFILE_PINNED_1

    if profile_of(artifact) == PROFILE_PINNED_1:
        raise ConfigurationError("ARTIFACT", "is of profile pinned-1: `bytewise model fingerprint --out` writes its environment")
    with progress_of("hashing") as tell:
        loaded = load(artifact, tell)
    found = environment_of(loaded, max_new_tokens=max_new_tokens, max_context=max_context)
    create_file(out, encode(found))
    print(hex0x(found.digest))


def _container(text: str) -> Digest:
    try:
        return digest(unhex(text.lower())) if text else ZERO_DIGEST
    except Fault:
        raise ConfigurationError("--container", "must be 0x and 64 hex digits") from None


# Text of `bytewise model show`.


def described(manifest: "Manifest | PinnedManifest") -> dict[str, str]:
    """Describes a manifest for people. Returns one line of text for each property, by the property's name."""
    from bytewise.inference.manifest import Manifest

    answers = manifest.generation
    lines = {
        "model id": hex0x(manifest.model_id),
        "profile": manifest.profile,
        "architecture": _shape(manifest.architecture),
        "context": f"{manifest.architecture.max_context} tokens",
    }
    if isinstance(manifest, Manifest):
        precision = manifest.precision
        lines["weights"] = f"{precision.weight_bits} bits, head {precision.head_bits} bits, embedding {precision.embedding}"
        lines["activations"] = f"proven below 2^{manifest.bound - 126}"
        lines["equalised"] = _equalised(manifest.equalisation)
    lines["answers"] = (
        f"temperature {answers.temperature}, top_p {answers.top_p}, top_k {answers.top_k}, "
        f"{'at most ' + str(answers.max_new_tokens) if answers.max_new_tokens else 'any number of'} tokens, "
        f"stop tokens {', '.join(map(str, manifest.stop_tokens)) or 'none'}"
    )
    lines["tokenizer"], lines["chat template"] = hex0x(manifest.tokenizer_digest), hex0x(manifest.template_digest)
    for file in manifest.files:
        lines[file.name] = f"{file.size:,} bytes in {len(file.pieces)} hashed pieces"
    return lines


def _shape(shape: "Architecture") -> str:
    experts = f", {shape.experts_per_token} of {shape.experts} experts" if shape.experts else ""
    heads = f"{shape.heads} heads of {shape.head_width} on {shape.key_value_heads}"
    return f"{shape.family}, {shape.layers} layers of {shape.width}, {heads}{experts}, vocabulary {shape.vocabulary}"


def _equalised(done: "Equalisation | None") -> str:
    if done is None:
        return "no: told to leave channels alone"
    strengths = [pair.quarters for pair in done.pairs]
    counts = ", ".join(f"{strengths.count(n)} at {n}/4" for n in sorted(set(strengths) - {0}))
    skipped = f"; {len(done.skipped)} pairs skipped" if done.skipped else ""
    moved = f"{len(strengths) - strengths.count(0)} of {len(strengths)} pairs{f' ({counts})' if counts else ''}"
    return f"{moved} on {done.tokens} tokens{skipped}"


class Bits(enum.StrEnum):
    """Number of bits of a weight that `convert` can write."""

    EIGHT = "8"
    SIXTEEN = "16"


class Equalise(enum.StrEnum):
    """The user's choice whether `convert` scales outlier channels: `auto` scales a channel if that makes the error smaller, `off`
    scales none."""

    AUTO = "auto"
    OFF = "off"


_WIDTH = "Hidden size, a multiple of 16; heads are 8, key-value heads 2."


def make(
    out: Annotated[Path, typer.Argument(help="Folder to write the checkpoint to; must not exist.")],
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Another seed is another model.")] = 1,
    layers: Annotated[int, typer.Option("--layers", min=1, max=64)] = 4,
    width: Annotated[int, typer.Option("--width", min=32, max=4096, help=_WIDTH)] = 256,
    context: Annotated[int, typer.Option("--context", min=64, max=131072, help="Most tokens of prompt and answer.")] = 2048,
) -> None:
    """Write a small Llama-family checkpoint from a seed: the same bytes on every machine.

    The model is untrained. Its answers are printable nonsense that depends on all tokens before.
    """
    from bytewise.inference.convert.make import make_model

    if width % 16:
        raise ConfigurationError("--width", f"{width} is no multiple of 16")
    make_model(out, seed, layers=layers, width=width, context=context)
    print(out)


def convert(
    checkpoint: Annotated[Path, typer.Argument(help="Hugging Face checkpoint folder of a supported family.")],
    out: Annotated[Path, typer.Argument(help="Folder to write the artifact to; must not exist.")],
    bits: Annotated[
        Bits, typer.Option("--bits", help="Of the weights: 16 doubles size and work for a closer model.")
    ] = Bits.EIGHT,
    head_bits: Annotated[Bits | None, typer.Option("--head-bits", help="Of the output head alone; else as --bits.")] = None,
    equalise: Annotated[
        Equalise, typer.Option("--equalise", help="Scale outlier channels by powers of two where the error shrinks: free later.")
    ] = Equalise.AUTO,
    calibration: Annotated[
        Path | None, typer.Option("--calibration", help="Text on which that error is measured; else tokens of a hash.")
    ] = None,
    context: Annotated[
        int | None,
        typer.Option("--context", min=1, max=131072, help="Most tokens of prompt and answer; else the checkpoint's own."),
    ] = None,
) -> None:
    """Convert a checkpoint to an artifact and print its model id.

    The same checkpoint and options give the same id everywhere.

    The conversion needs little memory, because it reads the checkpoint some rows at a time. An interrupted conversion leaves no
    artifact: start it again.
    """
    from bytewise.inference.convert.convert import ConversionOptions
    from bytewise.inference.convert.convert import convert as convert_checkpoint

    if equalise is Equalise.OFF and calibration is not None:
        raise ConfigurationError("--calibration", "nothing is measured with --equalise off")
    wide_head = None if head_bits is None else int(head_bits)
    options = ConversionOptions(int(bits), wide_head, equalise is Equalise.AUTO, calibration, context)
    with progress_of("converting") as tell:
        model_id = convert_checkpoint(checkpoint, out, tell, options=options)
    print(hex0x(model_id))


def show(artifact: Annotated[Path, typer.Argument(help="Artifact folder.")], output: OutputOption = OutputFormat.TABLE) -> None:
    """Show the manifest of an artifact: shape, precision, channels, bound, sizes.

    The weights are not read. An artifact of profile pinned-1 has no precision, channels and bound.
    """
    manifest = _manifest(artifact)
    if output is not OutputFormat.TABLE:
        emit(output, {"model_id": hex0x(manifest.model_id), **to_json(manifest)}, lambda: None)
        return
    console = Console()
    for name, value in described(manifest).items():
        console.print(plain(f"{name}: {value}"), soft_wrap=True)


def list_models(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of artifacts, or an artifact.")] = Path("."),
    limit: LimitOption = LIMIT,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List the artifacts of a folder: model id, profile, family, context, size.

    The weights are not read (`bytewise model check` hashes them).

    Exit codes: 0 listed, 2 a manifest is damaged (it is named, the others are listed), 64 wrong input.

    Example: bytewise model list artifacts --output jsonl
    """
    from bytewise.inference.manifest import MANIFEST_FILE

    if not folder.is_dir():
        raise ConfigurationError("FOLDER", f"{folder} is no folder: name one that has artifacts (`bytewise model convert`)")
    rows, damaged = list[dict[str, Any]](), list[str]()
    for each in (folder, *sorted(folder.iterdir())):
        if (each / MANIFEST_FILE).is_file():
            try:
                rows.append(_artifact(each))
            except ArtifactMismatch as error:
                damaged.append(str(error))
    rows = limited(rows, limit)
    emit(output, rows, lambda: print_entries(map(_artifact_entry, rows), f"artifacts in {folder}", Console()))
    for line in damaged:
        Console(stderr=True).print(plain(line, "red"), soft_wrap=True)
    raise typer.Exit(Exit.MISMATCH if damaged else Exit.OK)


def _manifest(folder: Path) -> "Manifest | PinnedManifest":
    from bytewise.inference.artifact.artifact import read_manifest
    from bytewise.inference.manifest import profile_of
    from bytewise.inference.pinned.checkpoint import read_manifest as read_pinned
    from bytewise.protocol.records.environment import PROFILE_PINNED_1

    return read_pinned(folder) if profile_of(folder) == PROFILE_PINNED_1 else read_manifest(folder)


def _artifact(folder: Path) -> dict[str, Any]:
    manifest = _manifest(folder)
    return {
        "model_id": hex0x(manifest.model_id),
        "folder": str(folder),
        "profile": manifest.profile,
        "family": manifest.architecture.family,
        "context": manifest.architecture.max_context,
        "bytes": sum(each.size for each in manifest.files),
    }


def _artifact_entry(row: Mapping[str, Any]) -> tuple[str, Fields]:
    sized = {"context": f"{row['context']} tokens", "size": f"{row['bytes']:,} bytes"}
    return row["model_id"], {"folder": row["folder"], "profile": row["profile"], "family": row["family"], **sized}


def check(artifact: Annotated[Path, typer.Argument(help="Artifact folder.")]) -> None:
    """Hash every byte of an artifact, prove its bound again, and print its model id.

    The bound says that no activation of the model exceeds 2^60. Run this before you register a model, because loading the model
    does not prove the bound again. An artifact of profile pinned-1 has no bound.

    Exit codes: 0 all bytes match the model id and prove the bound, 2 something differs (its name is printed), 3 this machine's
    arithmetic is not that of the profile, 64 there is no artifact.
    """
    from bytewise.inference.artifact.artifact import Artifact
    from bytewise.inference.convert.bound import verify_bound
    from bytewise.inference.profiles import load_artifact

    try:
        with progress_of("hashing") as tell:
            loaded = load_artifact(artifact, tell)
            if isinstance(loaded, Artifact):
                verify_bound(loaded)
    except ArtifactMismatch as error:
        Console(stderr=True).print(plain(str(error), "red"))
        raise typer.Exit(Exit.MISMATCH) from None
    print(hex0x(loaded.model_id))
