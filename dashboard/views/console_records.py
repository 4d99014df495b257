"""Records of the economics console: fields, tables, charts."""

from dashboard.views.records import IndexMeta, Record


class ConsoleField(Record):
    """One input field, with the value that it replaces."""

    name: str
    """Name of the input in the query."""
    label: str
    unit: str
    in_force: str
    """Value of the parameter in force, or the default of an assumption."""
    chosen: str
    """Text that the reader entered; empty if the reader entered nothing, so that the value in force applies."""
    meaning: str


class Series(Record):
    """One curve of a chart, or one bar."""

    name: str
    points: tuple[tuple[float, float], ...]


class Chart(Record):
    """A chart, drawn from the same numbers as its table."""

    kind: str
    """Kind of chart: `lines` or `bars`."""
    x: str
    """Label of the horizontal axis."""
    y: str
    series: tuple[Series, ...]
    """The curves. In a bar chart each series is one bar, and each of its points is the start and end of one segment."""
    log_x: bool = False
    log_y: bool = False
    marks: tuple[tuple[float, str], ...] = ()
    """Values of the horizontal axis that are marked, with their labels."""


class ConsoleTable(Record):
    """One question with its answer: a sentence, a chart, and a table."""

    id: str
    title: str
    sentence: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    chart: Chart | None


class ConsoleFigure(Record):
    """One figure of the CSV export."""

    name: str
    value: str
    unit: str


class ConsolePage(Record):
    """Content of the console: parameters, assumptions, and what follows from both."""

    meta: IndexMeta
    params_version: int
    """Version of the parameters in force; 0 if the index has none."""
    parameters: dict[str, str]
    """Parameters with which the console computed, in the contracts' units."""
    changed: tuple[str, ...]
    """Names of parameters that differ from those in force."""
    assumptions: dict[str, str]
    """Assumptions with which the console computed, as text with units."""
    fields: dict[str, tuple[ConsoleField, ...]]
    """Input fields by group."""
    violations: tuple[str, ...]
    """Rules that the parameters break, in words."""
    headline: str
    replay: str
    """Path of the replay of past disputes under these parameters."""
    sections: tuple[ConsoleTable, ...]
    items: tuple[ConsoleFigure, ...]
    """The figures of all sections as a list, for CSV."""
