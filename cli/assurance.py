"""The assurance label of a key epoch, which every verb shows with its result."""

from rich.console import Console
from rich.text import Text

from bytewise.protocol.assurance import warning


def warn(console: Console, assurance: str) -> None:
    """Prints one line if a result depends on simulated evidence, and nothing if it depends on hardware."""
    told = warning(assurance)
    if told:
        console.print(Text(told, style="bold yellow"), soft_wrap=True)
