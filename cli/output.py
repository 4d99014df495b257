"""Output of commands: text that is safe for a terminal, and the option `--output`."""

import enum
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.exit_codes import Exit

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")


class OutputFormat(enum.StrEnum):
    """Format of a command's result."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


OutputOption = Annotated[
    OutputFormat, typer.Option("--output", help="For people, or for programs: one JSON value, or one a line.")
]
LimitOption = Annotated[int, typer.Option("--limit", min=0, help="Most entries, the newest first; 0: all.")]
LIMIT = 50
"""Default of `--limit`: entries of a list."""

_PREFIX = re.compile("0x[0-9a-fA-F]{1,64}|[0-9]{1,78}")

Fields = Mapping[str, object]
Row = dict[str, Any]
"""An entry of a list, plain JSON data."""


def emit(output: OutputFormat, value: object, show: Callable[[], object]) -> None:
    """Prints a value as JSON, or each entry of a list as a line of JSON, or calls `show`."""
    if output is OutputFormat.TABLE:
        show()
    elif output is OutputFormat.JSON:
        print(json.dumps(value, indent=2))
    else:
        for each in value if isinstance(value, list) else [value]:
            print(json.dumps(each))


def print_entries(entries: Iterable[tuple[str, Fields]], what: str, console: Console | None = None) -> None:
    """Prints entries for people: each id in full on a line of its own, its fields below, wrapped between fields.

    A table would cut ids: a digest takes 66 of the 80 columns that a terminal may have.
    """
    console, count = console or Console(), 0
    for identifier, fields in entries:
        count += 1
        console.print(plain(identifier, "bold"), soft_wrap=True)
        for line in _wrapped([f"{name} {value}".rstrip() for name, value in fields.items()], console.width - 2):
            console.print(plain(f"  {line}"), soft_wrap=True)
    if not count:
        console.print(f"no {what}")


def _wrapped(fields: Sequence[str], width: int) -> Iterator[str]:
    line = ""
    for field in fields:
        if line and len(line) + 2 + len(field) > width:
            yield f"{line},"
            line = field
        else:
            line = f"{line}, {field}" if line else field
    if line:
        yield line


def limited(entries: Sequence[T], limit: int) -> list[T]:
    """The first `limit` entries; all for 0."""
    return list(entries if limit == 0 else entries[:limit])


def by_prefix(argument: str, text: str, known: Iterable[str]) -> str | None:
    """The id in `known` that a user typed, in full or as its beginning; None if no id fits.

    `ConfigurationError` for a text that is no id, and for the beginning of several ids.
    """
    if not _PREFIX.fullmatch(text):
        raise ConfigurationError(argument, f"{text[:80]} is no id: give it in full, or its first digits")
    found = sorted({each for each in known if each.lower().startswith(text.lower())})
    exact = [each for each in found if each.lower() == text.lower()]
    if len(found) > 1 and not exact:
        raise ConfigurationError(argument, f"{text} begins {len(found)} ids: {', '.join(found[:5])}; give more digits")
    return next(iter(exact or found), None)


def one_by_prefix(argument: str, text: str, known: Iterable[str]) -> str:
    """As `by_prefix`; `typer.Exit` with `Exit.NOT_FOUND` if there is none."""
    found = by_prefix(argument, text, known)
    if found is None:
        Console(stderr=True).print(
            plain(f"{argument}: this network has no {text}; `list` shows what it has", "red"), soft_wrap=True
        )
        raise typer.Exit(Exit.NOT_FOUND)
    return found


def rows_with(option: str, text: str | None, rows: Sequence[Row], name: str) -> list[Row]:
    """The rows whose member `name` is the id that a user gave with an option; all without the option."""
    if text is None:
        return list(rows)
    chosen = by_prefix(option, text, {each[name] for each in rows})
    return [each for each in rows if each[name] == chosen]


def rows_of(argument: str, text: str, rows: Sequence[Row], name: str) -> list[Row]:
    """The rows whose member `name` is the id that a user typed; `typer.Exit` with `Exit.NOT_FOUND` if there is none."""
    chosen = one_by_prefix(argument, text, {each[name] for each in rows})
    return [each for each in rows if each[name] == chosen]


@contextmanager
def progress_bars() -> "Iterator[Progress]":
    """Progress bars for people. They go to standard error, so that standard output has only the result."""
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        yield bars


def bar_of(bars: "Progress", doing: str) -> Callable[[str, int, int], None]:
    """One bar. The caller gives the name of the work, the amount done and the total."""
    task = bars.add_task(doing, total=None)

    def tell(name: str, done: int, total: int) -> None:
        bars.update(task, description=f"{doing} {name}", completed=done, total=total)

    return tell


@contextmanager
def progress_of(doing: str) -> Iterator[Callable[[str, int, int], None]]:
    """A single bar (`bar_of`)."""
    with progress_bars() as bars:
        yield bar_of(bars, doing)


_LAST_YEAR = 253_402_300_799
"""Last second of the year 9999. A shard may sign any number, and later times are no dates."""


def printable(text: str) -> str:
    """The text without control characters. The text may come from an untrusted peer, and a terminal would obey some of them."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def escaped(text: str) -> str:
    """The text with its line ends, every other control character as its escape: `\\x1b`."""
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)


def plain(text: str, style: str = "") -> Text:
    """The printable text for a table cell or a console line, without interpretation as markup."""
    return Text(printable(text), style=style)


def moment(seconds: int, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """A Unix second as a date, or as a number if it is after the year 9999."""
    return datetime.fromtimestamp(seconds, UTC).strftime(form) if 0 <= seconds <= _LAST_YEAR else f"{seconds} s"


ETHER = 10**18


def ether(wei: str | int) -> str:
    """Wei as ether, exactly, without trailing zeros."""
    whole, rest = divmod(abs(int(wei)), ETHER)
    decimals = f".{rest:018d}".rstrip("0").rstrip(".")
    return f"{'-' if int(wei) < 0 else ''}{whole}{decimals} ETH"


def brief(wei: str | int) -> str:
    """Wei as ether with at most four decimals. A longer figure is cut and marked; the exact figure is in the JSON."""
    exact = ether(wei).removesuffix(" ETH")
    head, _, decimals = exact.partition(".")
    return exact if len(decimals) <= 4 else f"{head}.{decimals[:4]}…"
