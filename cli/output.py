"""How a command tells its result: text that is safe for a terminal, and the option `--output`."""

import enum
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text


class Output(enum.StrEnum):
    """How a command tells its result."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", help="For people or for programs.")]

_LAST_YEAR = 253_402_300_799
"""Last second that a calendar of four-digit years can name: a shard may sign any number."""


def printable(text: str) -> str:
    """The text without control characters: anybody may propose or answer anything, and a terminal obeys some."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def escaped(text: str) -> str:
    """The text with its line ends, every other control character as its escape: `\\x1b`."""
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)


def plain(text: str, style: str = "") -> Text:
    """The same for a cell of a table or a line of a console, which takes none of it for markup."""
    return Text(printable(text), style=style)


def moment(seconds: int, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """A Unix second as a date, or as a number where no calendar has it."""
    return datetime.fromtimestamp(seconds, UTC).strftime(form) if 0 <= seconds <= _LAST_YEAR else f"{seconds} s"


ETHER = 10**18


def ether(wei: str | int) -> str:
    """Wei as ether, exactly, without trailing zeros."""
    whole, rest = divmod(abs(int(wei)), ETHER)
    decimals = f".{rest:018d}".rstrip("0").rstrip(".")
    return f"{'-' if int(wei) < 0 else ''}{whole}{decimals} ETH"


def brief(wei: str | int) -> str:
    """Wei as ether with at most four decimals, cut and marked where there are more; the exact figure is in the JSON."""
    exact = ether(wei).removesuffix(" ETH")
    head, _, decimals = exact.partition(".")
    return exact if len(decimals) <= 4 else f"{head}.{decimals[:4]}…"
