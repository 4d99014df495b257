"""Records of the economics console: fields, tables, charts."""

from dashboard.views.records import IndexMeta, Record


class ConsoleField(Record):
    """One input, beside the value that it replaces."""

    name: str
    """Name in the query."""
    label: str
    unit: str
    in_force: str
    """Value in force, or the assumption that is made where the reader makes none."""
    chosen: str
    """Text that the reader chose; empty: the value in force."""
    meaning: str


class Series(Record):
    """One curve."""

    name: str
    points: tuple[tuple[float, float], ...]


class Chart(Record):
    """A chart, drawn from the same numbers as its table."""

    kind: str
    """`lines` or `bars`."""
    x: str
    """What the horizontal axis measures."""
    y: str
    series: tuple[Series, ...]
    """Curves; of bars one series for each bar with one point for each segment: start and end."""
    log_x: bool = False
    log_y: bool = False
    marks: tuple[tuple[float, str], ...] = ()
    """Values of the horizontal axis that are marked."""


class ConsoleTable(Record):
    """One question with its answer: a sentence, a chart, and a table."""

    id: str
    title: str
    sentence: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    chart: Chart | None


class ConsoleFigure(Record):
    """One figure of the export."""

    name: str
    value: str
    unit: str


class ConsolePage(Record):
    """What the console shows: parameters, assumptions, and what follows from both."""

    meta: IndexMeta
    params_version: int
    """Version in force; 0: the index has none."""
    parameters: dict[str, str]
    """Parameters that were weighed, in the contracts' units."""
    changed: tuple[str, ...]
    """Names of parameters that differ from those in force."""
    assumptions: dict[str, str]
    """Assumptions, as they were read."""
    fields: dict[str, tuple[ConsoleField, ...]]
    """Inputs by group."""
    violations: tuple[str, ...]
    """Rules that the parameters break, in words."""
    headline: str
    replay: str
    """Path of the replay of past disputes under these parameters."""
    sections: tuple[ConsoleTable, ...]
    items: tuple[ConsoleFigure, ...]
    """The figures of all sections as a list, for CSV."""
