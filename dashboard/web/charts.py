"""Draws charts as SVG on the server: lines and bars, with axes and direct labels. Colours come from the style sheet."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from dashboard.views.console_records import Chart, Series

WIDTH, LEFT, RIGHT, TOP = 640, 70, 16, 12
HEIGHT, FOOT = 260, 44
BAR, BAR_TOP = 34, 18
DECADES = 14
"""Most decades that a logarithmic axis shows. Smaller values are cut off."""


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
