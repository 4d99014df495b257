"""`bytewise model`: make a small model from a seed, convert a checkpoint into an artifact."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

app = typer.Typer(no_args_is_help=True, help="Make and convert models.")


@app.command()
def make(
    path: Annotated[Path, typer.Argument(help="Folder of the new Hugging Face checkpoint; must not exist.")],
    seed: Annotated[int, typer.Option(help="Same seed, same bytes on every machine.")],
    layers: Annotated[int, typer.Option(help="Decoder layers.")] = 4,
    width: Annotated[int, typer.Option(help="Residual width.")] = 256,
) -> None:
    """Write a small random Llama checkpoint with a byte-level vocabulary."""
    from bytewise.inference.make import make_model

    make_model(path, seed, layers=layers, width=width)


@app.command()
def convert(
    checkpoint: Annotated[Path, typer.Argument(help="Hugging Face checkpoint of the Llama family.")],
    out: Annotated[Path, typer.Argument(help="Folder of the new artifact; must not exist.")],
) -> None:
    """Convert a checkpoint into the hashed artifact and print its model id."""
    from bytewise.inference.convert import convert as convert_checkpoint

    with Progress(console=Console(stderr=True), transient=True) as progress:
        tasks: dict[str, int] = {}

        def show(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = int(progress.add_task(name, total=total))
            progress.update(tasks[name], completed=done, total=total)  # type: ignore[arg-type]

        model_id = convert_checkpoint(checkpoint, out, show)
    typer.echo("0x" + model_id.hex())
