"""Records of the replay page: disputes as they ended, and under other parameters."""

from dashboard.views.console_records import ConsoleField
from dashboard.views.records import Amount, IndexMeta, Record


class ReplayLine(Record):
    """One amount of one dispute."""

    flow: str
    """Name of the amount."""
    label: str
    """The same in words."""
    was: Amount
    """As the chain moved it."""
    low: Amount
    """Least amount under the other parameters."""
    high: Amount
    """Largest amount; the least one if it is known to the wei."""
    change: str
    """The difference in words."""


class ReplayedDispute(Record):
    """One dispute."""

    id: str
    params_version: int
    """Version under which it was decided. The changes are made to that version."""
    kind: str
    """`recomputed`, `bounded` or `not answerable`."""
    verdict: str
    """As it ended."""
    verdicts: tuple[str, ...]
    """How it may end under the other parameters; empty: nobody can say."""
    is_changed: bool
    """Whether the verdict or an amount differs or may differ."""
    words: str
    """What happens to the verdict, in a sentence."""
    notes: tuple[str, ...]
    """What the result rests on."""
    lines: tuple[ReplayLine, ...]
    """All amounts; empty if nobody can say."""


class ReplayFigure(Record):
    """One row of the export."""

    dispute: str
    """Id; `all` for sums; empty for a parameter."""
    name: str
    kind: str
    was: str
    low: str
    high: str
    note: str


class ReplayPage(Record):
    """What the replay page shows."""

    meta: IndexMeta
    params_version: int
    """Version in force; 0: the index has none."""
    changed: dict[str, str]
    """Values that differ from those in force, in the contracts' units."""
    fields: dict[str, tuple[ConsoleField, ...]]
    """Inputs by group."""
    violations: tuple[str, ...]
    """Rules that the parameters break, in words."""
    headline: str
    ended: int
    """Ended disputes of the index."""
    kinds: dict[str, int]
    """Disputes by kind of result."""
    disputes: tuple[ReplayedDispute, ...]
    """The newest ended disputes."""
    totals: tuple[ReplayLine, ...]
    """Sums over those of them that have an answer."""
    items: tuple[ReplayFigure, ...]
    """The same as a list, for CSV."""
