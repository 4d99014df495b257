"""Warnings for results that depend on simulated evidence, by the assurance label of a key epoch."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from bytewise.protocol.assurance import warning


def warn_of(console: Console, rows: Iterable[Mapping[str, Any]]) -> None:
    """Prints one warning for each different assurance label in `rows` that means simulated evidence."""
    for label in sorted({each["assurance"] for each in rows}):
        warn(console, label)


def warn(console: Console, assurance: str) -> None:
    """Prints one warning if the assurance label means simulated evidence, and nothing if it means hardware."""
    told = warning(assurance)
    if told:
        console.print(Text(told, style="bold yellow"), soft_wrap=True)
