"""`bytewise model make` and `bytewise model convert`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from bytewise.protocol.units import hex0x

app = typer.Typer(no_args_is_help=True, help="Make small models, and convert checkpoints to hashed artifacts.")


@app.command()
def make(
    out: Annotated[Path, typer.Argument(help="Folder to write the checkpoint to; must not exist.")],
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Another seed is another model.")] = 1,
    layers: Annotated[int, typer.Option("--layers", min=1, max=64)] = 4,
    width: Annotated[int, typer.Option("--width", min=32, max=4096, help="Hidden size; heads are 8, key-value heads 2.")] = 256,
    context: Annotated[int, typer.Option("--context", min=64, max=131072, help="Most tokens of prompt and answer.")] = 2048,
) -> None:
    """Write a small Llama-family checkpoint from a seed: the same bytes on every machine.

    It knows nothing; its answers are printable nonsense that depends on every token before them.
    """
    from bytewise.inference.make import make_model

    make_model(out, seed, layers=layers, width=width, context=context)
    print(out)


@app.command()
def convert(
    checkpoint: Annotated[Path, typer.Argument(help="Hugging Face checkpoint folder of the Llama family.")],
    out: Annotated[Path, typer.Argument(help="Folder to write the artifact to; must not exist.")],
) -> None:
    """Convert a checkpoint to an artifact and print its model id. The same checkpoint gives the same id everywhere."""
    from bytewise.inference.convert import convert as convert_checkpoint

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("converting", total=None)

        def tell(name: str, done: int, total: int) -> None:
            bars.update(task, description=f"converting {name}", completed=done, total=total)

        print(hex0x(convert_checkpoint(checkpoint, out, tell)))
