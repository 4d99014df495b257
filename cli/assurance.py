"""The assurance label of a key epoch, which every verb shows with its result."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from bytewise.protocol.assurance import warning


def warn_of(console: Console, rows: Iterable[Mapping[str, Any]]) -> None:
    """Prints one line for each label of these rows that means simulated evidence."""
    for label in sorted({each["assurance"] for each in rows}):
        warn(console, label)


def warn(console: Console, assurance: str) -> None:
    """Prints one line if a result depends on simulated evidence, and nothing if it depends on hardware."""
    told = warning(assurance)
    if told:
        console.print(Text(told, style="bold yellow"), soft_wrap=True)
