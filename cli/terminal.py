"""What others said, as it may go to a terminal."""

from datetime import UTC, datetime

from rich.text import Text

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
