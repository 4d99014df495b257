"""`bytewise model pin` and `bytewise model fingerprint`: artifacts and environments of profile `pinned-1`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from bytewise.protocol.encoding import encode, to_json
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.units import ZERO_DIGEST, Digest, digest, hex0x, unhex


def pin(
    checkpoint: Annotated[Path, typer.Argument(help="Hugging Face checkpoint folder.")],
    out: Annotated[Path, typer.Argument(help="Folder to write the artifact to; must not exist.")],
) -> None:
    """Put a checkpoint under a manifest as it is, for profile pinned-1, and print its model id.

    Nothing is converted: answers are those of transformers' float model, and can be checked only in an environment that is
    equal to the operator's in every respect. `bytewise model convert` makes an artifact that anybody can check.
    """
    from bytewise.inference.pinned.checkpoint import pin as pin_checkpoint

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("copying", total=None)

        def tell(name: str, done: int, total: int) -> None:
            bars.update(task, description=f"copying {name}", completed=done, total=total)

        print(hex0x(pin_checkpoint(checkpoint, out, tell)))


def fingerprint(
    artifact: Annotated[Path, typer.Argument(help="Artifact made by `bytewise model pin`.")],
    out: Annotated[Path | None, typer.Option("--out", help="New file for the environment as canonical JSON.")] = None,
    device: Annotated[str, typer.Option("--device", help="cpu or cuda.")] = "cpu",
    threads: Annotated[int, typer.Option("--threads", min=1, max=1024, help="Threads of the engine: part of it.")] = 1,
    container: Annotated[str, typer.Option("--container", help="Digest of the container image, 0x-hex.")] = "",
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", min=1, max=2**20, help="Most tokens of an answer.")] = 1024,
) -> None:
    """Tell what this machine and process are, as the environment to register for pinned-1.

    Library variables such as CUBLAS_WORKSPACE_CONFIG or MKL_CBWR are recorded as they are set now: start the operator and every
    verifier with the same ones. Exit code 5 if the machine cannot be told apart from others.
    """
    from bytewise.inference.pinned.checkpoint import read_manifest
    from bytewise.inference.pinned.fingerprint import fingerprint as this_machine

    found = this_machine(
        read_manifest(artifact).architecture, device=device, threads=threads, container=_container(container),
        max_new_tokens=max_new_tokens,
    )  # fmt: skip
    if out is not None:
        try:
            with out.open("xb") as stream:
                stream.write(encode(found))
        except OSError as error:
            raise ConfigurationError(out.name, str(error.strerror)) from None
    print(json.dumps({"environment": hex0x(found.digest), **to_json(found)}, indent=2))


def _container(text: str) -> Digest:
    try:
        return digest(unhex(text.lower())) if text else ZERO_DIGEST
    except Fault:
        raise ConfigurationError("--container", "must be 0x and 64 hex digits") from None
