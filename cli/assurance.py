"""The label of a key epoch, as every verb that shows a result tells it (fence 6)."""

from rich.console import Console
from rich.text import Text

from bytewise.protocol.assurance import warning


def warn(console: Console, assurance: str) -> None:
    """One line under a result that rests on simulated evidence; nothing under one of hardware."""
    told = warning(assurance)
    if told:
        console.print(Text(told, style="bold yellow"), soft_wrap=True)
