"""Records of the replay page: disputes as they ended, and under other parameters."""

from dashboard.views.console_records import ConsoleField
from dashboard.views.records import Amount, IndexMeta, Record


class ReplayLine(Record):
    """One amount of one dispute, as it was and under the other parameters."""

    flow: str
    """Name of the amount."""
    label: str
    """Description of the amount."""
    was: Amount
    """Amount that the chain moved."""
    low: Amount
    """Smallest amount under the other parameters."""
    high: Amount
    """Largest amount under the other parameters. It equals `low` if the amount is known to the wei."""
    change: str
    """Difference between both amounts, in words."""


class ReplayedDispute(Record):
    """Result of the replay of one dispute."""

    id: str
    params_version: int
    """Version of the parameters under which the dispute was decided. The changes are made to that version."""
    kind: str
    """Kind of the result: `recomputed`, `bounded` or `not answerable`."""
    verdict: str
    """Verdict with which the dispute ended."""
    verdicts: tuple[str, ...]
    """Verdicts with which the dispute may end under the other parameters; empty if nobody can say."""
    is_changed: bool
    """Whether the verdict or an amount differs or may differ."""
    words: str
    """Effect on the verdict, in a sentence."""
    notes: tuple[str, ...]
    """Assumptions and limits of the result."""
    lines: tuple[ReplayLine, ...]
    """All amounts of the dispute; empty if nobody can say how it would have ended."""


class ReplayFigure(Record):
    """One row of the CSV export."""

    dispute: str
    """Id of the dispute; `all` for sums; empty for a parameter."""
    name: str
    kind: str
    was: str
    low: str
    high: str
    note: str


class ReplayPage(Record):
    """Content of the replay page."""

    meta: IndexMeta
    params_version: int
    """Version of the parameters in force; 0 if the index has none."""
    changed: dict[str, str]
    """Parameters whose values differ from those in force, in the contracts' units."""
    fields: dict[str, tuple[ConsoleField, ...]]
    """Input fields by group."""
    violations: tuple[str, ...]
    """Rules that the parameters break, in words."""
    headline: str
    ended: int
    """Number of ended disputes in the index."""
    kinds: dict[str, int]
    """Number of shown disputes by kind of result."""
    disputes: tuple[ReplayedDispute, ...]
    """Results for the newest ended disputes."""
    totals: tuple[ReplayLine, ...]
    """Sums over the shown disputes that have an answer."""
    items: tuple[ReplayFigure, ...]
    """The same results as a list, for CSV."""
