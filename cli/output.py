"""Output of commands: the options `--output` and `--limit`, text that is safe for a terminal, warnings, and progress bars."""

import enum
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.cells import chop_cells
from rich.console import Console
from rich.text import Text

from bytewise.protocol.assurance import warning
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.exit_codes import Exit

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")


class OutputFormat(enum.StrEnum):
    """Format of a command's result: `table` for people, `json` as one value, `jsonl` as one value on each line."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


OutputOption = Annotated[
    OutputFormat, typer.Option("--output", help="For people, or for programs: one JSON value, or one a line.")
]
LimitOption = Annotated[int, typer.Option("--limit", min=0, help="Most entries, the newest first; 0: all.")]
LIMIT = 50
"""Default of `--limit`: the most entries that a list prints."""

_PREFIX = re.compile("0x[0-9a-fA-F]{1,64}|[0-9]{1,78}")
"""An id or its first digits, as a user types it: 0x-hex of at most 32 bytes, or a decimal number."""

Fields = Mapping[str, object]
Row = dict[str, Any]
"""One entry of a list, as plain JSON data."""


def emit(output: OutputFormat, value: object, show: Callable[[], object]) -> None:
    """Prints a command's result in the format `output`. For `table` it calls `show`, for `json` it prints `value`, and for
    `jsonl` it prints each entry of `value` on one line."""
    if output is OutputFormat.TABLE:
        show()
    elif output is OutputFormat.JSON:
        print(json.dumps(value, indent=2))
    else:
        for each in value if isinstance(value, list) else [value]:
            print(json.dumps(each))


def print_entries(entries: Iterable[tuple[str, Fields]], what: str, console: Console | None = None) -> None:
    """Prints entries for people. Each entry is an id and its fields: the id has a line of its own, and the fields are below it.

    A table would cut ids, because a digest takes 66 of the 80 columns that a terminal may have. `what` names the entries in the
    message for an empty list.
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


CHECK_STYLES = {"PASS": "green", "FAIL": "red", "VALID": "bold green", "INVALID": "bold red"}
"""Style of the result of a check, by the result's word. A word that is not here is printed yellow."""


def print_checks(checks: Iterable[tuple[str, str, str]], console: Console) -> None:
    """Prints checks for people. Each check is its name, its result in one word or no result, and its detail.

    The result stands before the name, and further lines of a detail are indented below the name. An id is never divided: its
    line is longer than the terminal instead.
    """
    rows = list(checks)
    indent = max([9, *(len(result) + 2 for _, result, _ in rows)])
    for name, result, detail in rows:
        first, *others = _indented_lines(printable(f"{name}: {detail}"), max(console.width - indent, 40))
        line = Text(result.ljust(indent), style=CHECK_STYLES.get(result, "yellow"))
        console.print(line.append(first, style="default"), soft_wrap=True)
        for other in others:
            console.print(plain(" " * indent + other), soft_wrap=True)


_ID = re.compile(r"\W?0x[0-9a-f]{40,64}\W?", re.ASCII)
"""A word of a line that is an address or a digest, with at most one other character on each side."""


def _indented_lines(text: str, width: int) -> Iterator[str]:
    """Divides a text into lines. Only an id may be longer than the width. Other words are divided: a terminal would continue them
    without the indent, and a hostile text could look like another line of the output."""
    for line in wrap(text, width, break_long_words=False, break_on_hyphens=False):
        yield from [line] if _ID.fullmatch(line) else chop_cells(line, width)


def print_warnings(console: Console, rows: Iterable[Mapping[str, Any]]) -> None:
    """Prints one warning for each different assurance label in `rows` that means simulated evidence."""
    for label in sorted({each["assurance"] for each in rows}):
        print_warning(console, label)


def print_warning(console: Console, assurance: str) -> None:
    """Prints one warning if the assurance label means simulated evidence, and nothing if it means hardware."""
    told = warning(assurance)
    if told:
        console.print(Text(told, style="bold yellow"), soft_wrap=True)


def limited(entries: Sequence[T], limit: int) -> list[T]:
    """Returns the first `limit` entries, or all entries if `limit` is 0."""
    return list(entries if limit == 0 else entries[:limit])


def by_prefix(argument: str, text: str, known: Iterable[str]) -> str | None:
    """Returns the id in `known` that a user typed in full or by its first digits, or None if no id fits.

    `argument` is the name of the argument, for messages. Raises `ConfigurationError` if the text is no id, or if several ids
    begin with it.
    """
    if not _PREFIX.fullmatch(text):
        raise ConfigurationError(argument, f"{text[:80]} is no id: give it in full, or its first digits")
    found = sorted({each for each in known if each.lower().startswith(text.lower())})
    exact = [each for each in found if each.lower() == text.lower()]
    if len(found) > 1 and not exact:
        raise ConfigurationError(argument, f"{text} begins {len(found)} ids: {', '.join(found[:5])}; give more digits")
    return next(iter(exact or found), None)


def one_by_prefix(argument: str, text: str, known: Iterable[str]) -> str:
    """Returns the same id as `by_prefix`. If no id fits, prints a message and raises `typer.Exit` with `Exit.NOT_FOUND`."""
    found = by_prefix(argument, text, known)
    if found is None:
        Console(stderr=True).print(
            plain(f"{argument}: this network has no {text}; `list` shows what it has", "red"), soft_wrap=True
        )
        raise typer.Exit(Exit.NOT_FOUND)
    return found


def rows_with(option: str, text: str | None, rows: Sequence[Row], name: str) -> list[Row]:
    """Returns the rows whose field `name` is the id that a user gave with an option. If the user left the option out, `text` is
    None and all rows are returned."""
    if text is None:
        return list(rows)
    chosen = by_prefix(option, text, {each[name] for each in rows})
    return [each for each in rows if each[name] == chosen]


def rows_of(argument: str, text: str, rows: Sequence[Row], name: str) -> list[Row]:
    """Returns the rows whose field `name` is the id that a user typed. Raises `typer.Exit` with `Exit.NOT_FOUND` if there is no
    such row."""
    chosen = one_by_prefix(argument, text, {each[name] for each in rows})
    return [each for each in rows if each[name] == chosen]


@contextmanager
def progress_bars() -> "Iterator[Progress]":
    """Context manager that shows progress bars while its block runs. The bars go to standard error, so that standard output has
    only the result."""
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        yield bars


def bar_of(bars: "Progress", doing: str) -> Callable[[str, int, int], None]:
    """Adds one progress bar, and returns the function that updates it. The function takes the name of the current work, the
    amount done and the total."""
    task = bars.add_task(doing, total=None)

    def tell(name: str, done: int, total: int) -> None:
        bars.update(task, description=f"{doing} {name}", completed=done, total=total)

    return tell


@contextmanager
def progress_of(doing: str) -> Iterator[Callable[[str, int, int], None]]:
    """Context manager that shows one progress bar while its block runs, and yields the function that updates it (`bar_of`)."""
    with progress_bars() as bars:
        yield bar_of(bars, doing)


_LAST_YEAR = 253_402_300_799
"""Last second of the year 9999, as Unix time. A shard may sign any number as a time, and Python has no date after this second."""


def printable(text: str) -> str:
    """Replaces every control character in a text. The text may come from an untrusted peer, and a terminal would obey some
    control characters."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def escaped(text: str) -> str:
    """Returns a text in which each control character is written as its escape, for example `\\x1b`. Line ends stay as they
    are."""
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)


def plain(text: str, style: str = "") -> Text:
    """Returns a text for a table cell or a console line, without control characters. Rich does not interpret it as markup."""
    return Text(printable(text), style=style)


def moment(seconds: int, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """Formats a Unix time in seconds as a date, or as a number if it is negative or after the year 9999."""
    return datetime.fromtimestamp(seconds, UTC).strftime(form) if 0 <= seconds <= _LAST_YEAR else f"{seconds} s"


ETHER = 10**18
"""Wei of one ether."""


def ether(wei: str | int) -> str:
    """Formats an amount of wei as ether, exactly and without trailing zeros."""
    whole, rest = divmod(abs(int(wei)), ETHER)
    decimals = f".{rest:018d}".rstrip("0").rstrip(".")
    return f"{'-' if int(wei) < 0 else ''}{whole}{decimals} ETH"


def brief(wei: str | int) -> str:
    """Formats an amount of wei as ether with at most four decimals. A longer number is cut and ends in `…`. The exact number is
    in the JSON output."""
    exact = ether(wei).removesuffix(" ETH")
    head, _, decimals = exact.partition(".")
    return exact if len(decimals) <= 4 else f"{head}.{decimals[:4]}…"
