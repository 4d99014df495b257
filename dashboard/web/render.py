"""Renders pages from Jinja2 templates. Jinja2 escapes everything that a template shows. The module has the few filters that pages
need, and draws charts as SVG."""

import base64
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bytewise.protocol.digests import sha256
from dashboard.views.console import Chart, Series
from dashboard.views.records import Amount, Party, Time
from dashboard.web.answers import Refused

FOLDER = Path(__file__).parent
SCRIPT = FOLDER / "static" / "live.js"
"""The only script of the pages."""
DECIMALS = 6
FIRST = ("id", "subject", "receiptId", "batchId", "operator", "account", "verdict", "round", "amount")
"""Arguments that pages show before all other arguments of an event."""
SECTIONS = (
    ("/", "Overview"), ("/disputes", "Disputes"), ("/batches", "Batches"), ("/demands", "Demands"), ("/audits", "Audits"),
    ("/operators", "Operators"), ("/verifiers", "Verifiers"), ("/models", "Models"), ("/keys", "Keys"), ("/params", "Rules"),
    ("/money", "Money"), ("/statistics", "Statistics"), ("/console", "Console"), ("/log", "Log"), ("/about", "About"),
)  # fmt: skip
"""Entries of the navigation: path and title."""


class Renderer:
    """Renderer of pages from templates."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        digest = base64.b64encode(sha256(SCRIPT.read_bytes())).decode()
        self._environment.globals |= {"script": f"/static/{SCRIPT.name}", "script_integrity": f"sha256-{digest}"}
        self._environment.filters |= {
            "short": short, "eth": eth, "exact": exact, "party": self.party, "when": when, "grouped": grouped, "seconds": seconds,
            "shown": shown_arguments, "percent": percent, "chart": draw,
        }  # fmt: skip

    def page(self, template: str, request: Request, **values: Any) -> str:
        """Returns a page as HTML. The navigation marks the section to which the path of the request belongs."""
        path = request.url.path
        section = "/" if path == "/" else "/" + path.strip("/").partition("/")[0]
        query = [(name, value) for name, value in request.query_params.multi_items() if name not in ("cursor", "after")]

        def link(**changes: Any) -> str:
            """Returns the path with the query parameters of the request, replaced by `changes`."""
            kept = {name: value for name, value in query if name not in changes}
            text = urlencode(kept | {name: str(value) for name, value in changes.items() if value is not None})
            return f"{path}?{text}" if text else path

        return self._environment.get_template(template).render(
            sections=SECTIONS, section=section, path=path, link=link, query=urlencode(query), **values
        )

    def error(self, request: Request, error: Refused, request_id: str) -> str:
        """Returns the page of an error as HTML."""
        return self.page(
            "error.html", request, error=error, request_id=request_id, meta=None, block=None, page=None, watched=None
        )

    def party(self, party: Party | None, kind: str = "") -> Markup:
        """Returns an account as markup, with its name if it has one. If `kind` is `operators` or `verifiers`, the markup links to
        the account's page."""
        if party is None:
            return Markup('<span class="none">nobody</span>')
        account = short(party.account)
        shown = Markup("<b>{}</b> ").format(party.name) + account if party.name else account
        return Markup('<a href="/{}/{}">{}</a>').format(kind, party.account, shown) if kind else Markup("{}").format(shown)


def short(text: str | None, start: int = 10, end: int = 4) -> Markup:
    """Returns a hash or account as markup with its middle left out. The tooltip has the whole text."""
    if not text:
        return Markup('<span class="none">none</span>')
    if len(text) <= start + end + 2:
        return Markup('<code class="hash">{}</code>').format(text)
    return Markup('<code class="hash" title="{}">{}…{}</code>').format(text, text[:start], text[-end:])


def grouped(text: str | None) -> Markup:
    """Returns a whole hash as markup in groups of eight digits, so that a line can break between groups."""
    if not text:
        return Markup('<span class="none">none</span>')
    groups = [text[:2], *(text[place : place + 8] for place in range(2, len(text), 8))]
    return Markup('<code class="hash whole">{}</code>').format(Markup("<wbr>").join(groups))


def exact(amount: Amount) -> Markup:
    """Returns an amount in ether as markup, with all its digits."""
    whole, dot, part = amount.eth.partition(".")
    return Markup('<span class="amount">{}{}{} <abbr title="ether">ETH</abbr></span>').format(f"{int(whole):,}", dot, part)


def eth(amount: Amount) -> Markup:
    """Returns an amount in ether as markup, with at most six decimals. An ellipsis stands for further decimals, and the tooltip
    has the amount in wei."""
    whole, dot, part = amount.eth.partition(".")
    shown = part if len(part) <= DECIMALS else f"{part[:DECIMALS]}…"
    return Markup('<span class="amount" title="{} wei">{}{}{} <abbr title="ether">ETH</abbr></span>').format(
        amount.wei, f"{int(whole):,}", dot, shown
    )


def when(time: Time | None) -> Markup:
    """Returns a time in UTC as markup that people and programs can read."""
    if time is None:
        return Markup('<span class="none">none</span>')
    text = time.utc.replace("T", " ").replace("Z", "")
    return Markup('<time datetime="{}">{} <abbr title="Coordinated Universal Time">UTC</abbr></time>').format(time.utc, text)


def seconds(count: int) -> str:
    """Returns a duration as text in days, hours, minutes or seconds, rounded down. The unit is the largest of which the duration
    has at least two."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if count >= 2 * size:
            return f"{count // size} {unit}s"
    return f"{count} seconds" if count != 1 else "1 second"


def percent(bps: int | None) -> str:
    """Converts a share in 1/10,000 to text in percent, and cuts it after a tenth of a percent. Returns `none` for None."""
    return "none" if bps is None else f"{bps // 100}.{bps % 100 // 10} %"


def shown_arguments(arguments: dict[str, Any], most: int = 4) -> Sequence[tuple[str, str]]:
    """Returns at most `most` arguments of an event as (name, text). A text of more than 18 characters loses its middle."""
    pairs = []
    order = sorted(arguments, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    for name in order[:most]:
        value = arguments[name]
        text = value if isinstance(value, str) else repr(value) if not isinstance(value, dict | list) else "…"
        pairs.append((name, text if len(text) <= 18 else f"{text[:10]}…{text[-4:]}"))
    return pairs


# --- charts: lines and bars, with axes and direct labels; colours come from the style sheet ---

WIDTH, LEFT, RIGHT, TOP = 640, 70, 16, 12
HEIGHT, FOOT = 260, 44
BAR, BAR_TOP = 34, 18
DECADES = 14
"""Most decades that a logarithmic axis shows. Smaller values are drawn at its lower end."""


class Axis(NamedTuple):
    """One axis: the function from a value to its pixel, and the ticks as (value, text)."""

    place: Callable[[float], float]
    ticks: tuple[tuple[float, str], ...]


def draw(chart: Chart | None, title: str) -> Markup:
    """Returns the chart as SVG. Returns empty markup if there is nothing to draw."""
    if chart is None or not any(each.points for each in chart.series):
        return Markup("")
    body, height = _bars(chart) if chart.kind == "bars" else _lines(chart)
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, height, f"{title} The table below has the numbers.", Markup("").join(body)
    )


def _axis(values: Sequence[float], log: bool, start: float, end: float) -> Axis:
    """Returns an axis from pixel `start` to pixel `end` that covers the values."""
    if log:
        high = max(values)
        low = max(min(values), high * 10.0**-DECADES)
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        last = max(last, first + 1)
        step = max(1, math.ceil((last - first) / 6))
        ticks = tuple((10.0**power, _power(power)) for power in range(first, last + 1, step))
        return Axis(
            lambda value: start + (end - start) * (math.log10(max(value, 10.0**first)) - first) / (last - first), ticks
        )  # fmt: skip
    low, high = min(0.0, *values), max(0.0, *values)
    if low == high:
        high = low + 1
    unit = _step((high - low) / 5)
    first, last = math.floor(low / unit), math.ceil(high / unit)
    ticks = tuple((count * unit, f"{count * unit:.6g}") for count in range(first, last + 1))
    return Axis(lambda value: start + (end - start) * (value / unit - first) / (last - first), ticks)


def _step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * 0.999999)


def _power(power: int) -> str:
    return f"{10.0**power:g}" if -4 <= power <= 5 else f"1e{power}"


def _text(x: float, y: float, text: str, anchor: str = "middle", kind: str = "") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>').format(x, y, anchor, kind, text)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>').format(x1, y1, x2, y2, kind)


def _lines(chart: Chart) -> tuple[list[Markup], int]:
    points = [point for each in chart.series for point in each.points]
    legend = TOP + 18 * len(chart.series) if len(chart.series) > 1 else TOP
    bottom = legend + HEIGHT - FOOT
    x = _axis([each for each, _ in points], chart.log_x, LEFT, WIDTH - RIGHT)
    y = _axis([each for _, each in points], chart.log_y, bottom, legend + 12)
    out = [_line(LEFT, y.place(value), WIDTH - RIGHT, y.place(value), "grid") for value, _ in y.ticks]
    out += [_text(LEFT - 8, y.place(value) + 4, text, "end") for value, text in y.ticks]
    out += [_text(x.place(value), bottom + 18, text) for value, text in x.ticks]
    out += [_text((LEFT + WIDTH) / 2, bottom + 38, chart.x), _text(4, legend + 2, chart.y, "start")]
    for value, text in chart.marks:
        out += [_line(x.place(value), legend + 8, x.place(value), bottom, "mark"), *_mark_text(x.place(value), legend + 18, text)]
    for number, each in enumerate(chart.series):
        out += _curve(each, number, x, y)
        if len(chart.series) > 1:
            out += [_line(WIDTH - 40, TOP + 18 * number, WIDTH - RIGHT, TOP + 18 * number, f"curve c{number % 5}"),
                    _text(WIDTH - 48, TOP + 18 * number + 4, each.name, "end")]  # fmt: skip
    return out, bottom + FOOT


def _mark_text(x: float, y: float, text: str) -> list[Markup]:
    return [_text(x - 6, y, text, "end") if x > WIDTH / 2 else _text(x + 6, y, text, "start")]


def _curve(series: Series, number: int, x: Axis, y: Axis) -> list[Markup]:
    if not series.points:
        return []
    places = " ".join(f"{x.place(a):.1f},{y.place(b):.1f}" for a, b in series.points)
    return [Markup('<polyline points="{}" class="curve c{}"/>').format(places, number % 5)]


def _bars(chart: Chart) -> tuple[list[Markup], int]:
    values = [end for each in chart.series for _, end in each.points] + [value for value, _ in chart.marks]
    bottom = BAR_TOP + 1.5 * BAR * len(chart.series)
    start = 24.0
    x = _axis(values, chart.log_x, start, WIDTH - RIGHT - 24)
    out = [_line(x.place(value), BAR_TOP, x.place(value), bottom, "grid") for value, _ in x.ticks]
    out += [_text(x.place(value), bottom + 18, text) for value, text in x.ticks]
    out.append(_text(WIDTH / 2, bottom + 38, chart.x))
    for number, each in enumerate(chart.series):
        top = BAR_TOP + number * 1.5 * BAR
        out.append(_text(start, top + 13, each.name, "start"))
        for place, (begin, end) in enumerate(each.points):
            left = start if chart.log_x else x.place(begin)
            width = max(1.0, x.place(end) - left)
            out.append(
                Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="18" class="block s{}"/>').format(
                    left, top + 20, width, place % 2
                )
            )  # fmt: skip
    for value, text in chart.marks:
        out += [_line(x.place(value), BAR_TOP - 4, x.place(value), bottom, "mark"), _text(x.place(value), 10, text)]
    return out, round(bottom) + FOOT
