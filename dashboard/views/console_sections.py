"""Builds the sections of the economics console. A section has a sentence, a chart and a table, all from the same numbers."""

import math
from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

from bytewise.protocol.economics.incentives import Attack
from bytewise.protocol.economics.replay import check_replayable
from bytewise.protocol.economics.scenario import (
    FRAUD_RATES,
    GRID_RATES,
    SLASH_FACTORS,
    Assumptions,
    SharePoint,
    Weighing,
    weigh,
)
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.appraisal_policy import TEST_CHAIN_IDS
from dashboard.views.console import (
    Chart,
    ConsoleFigure,
    ConsolePage,
    ConsoleQuestion,
    ConsoleTable,
    Series,
    form_fields,
    parameter_values,
)
from dashboard.views.replay import NAMES
from dashboard.views.scene import WEI_PER_ETHER, Scene

BOLD_RATIO = 6.46
"""Ratio of the attacker's cost to the defender's cost in Arbitrum BoLD, for comparison."""
SHOWN_BELOW = 1e-20


def console_page(scene: Scene, asked: ConsoleQuestion | None) -> ConsolePage:
    """Returns the console page. The page has no sections if no parameters are in force. Raises `MalformedValue` for parameters
    with which nothing can be computed."""
    if asked is None:
        return ConsolePage(
            meta=scene.meta(),
            params_version=0,
            parameters={},
            changed=(),
            assumptions={},
            fields={},
            violations=(),
            headline="",
            replay="/console/replay",
            sections=(),
            items=(),
        )
    found = weigh(asked.params, asked.assumptions, scene.state.chain_id in TEST_CHAIN_IDS)
    weighed, in_force = dict(parameter_values(asked.params)), dict(parameter_values(asked.in_force))
    sections = tuple(_sections(found, asked.assumptions, asked.params.money.slash_amount))
    return ConsolePage(
        meta=scene.meta(),
        params_version=asked.version,
        parameters={name: str(value) for name, value in weighed.items()},
        changed=tuple(name for name, value in weighed.items() if value != in_force[name]),
        assumptions=_assumptions(asked),
        fields=form_fields(asked),
        violations=tuple(each.words for each in found.violations),
        headline=_headline(found),
        replay=_replay_path(asked),
        sections=sections,
        items=tuple(_figures(asked, sections)),
    )


def _replay_path(asked: ConsoleQuestion) -> str:
    """Returns the path of the replay of past disputes under the chosen values. Leaves the values out if they cannot be
    replayed."""
    chosen = {name: asked.chosen[name] for name in NAMES if asked.chosen.get(name)}
    try:
        check_replayable(asked.params)
    except MalformedValue:
        chosen = {}
    return f"/console/replay?{urlencode(chosen)}" if chosen else "/console/replay"


def _assumptions(asked: ConsoleQuestion) -> dict[str, str]:
    told = {each.name: f"{each.chosen or each.in_force} {each.unit}".strip() for each in form_fields(asked)["assumptions"]}
    return told | {"total_stake_wei": str(asked.assumptions.total_stake), "verifiers": str(len(asked.assumptions.stakes))}


def _figures(asked: ConsoleQuestion, sections: Sequence[ConsoleTable]) -> Iterator[ConsoleFigure]:
    for name, value in parameter_values(asked.params):
        yield ConsoleFigure(name=f"parameter {name}", value=str(value), unit="contract")
    for name, text in _assumptions(asked).items():
        yield ConsoleFigure(name=f"assumption {name}", value=text, unit="")
    for section in sections:
        for first, *rest in section.rows:
            for column, cell in zip(section.columns[1:], rest, strict=True):
                yield ConsoleFigure(name=f"{section.title}: {first}", value=cell, unit=column)


def _headline(found: Weighing) -> str:
    now = found.now.deterrence
    limit = ether(now.largest_gain)
    if now.margin > 0:
        return f"At these prices one fraud loses {ether(now.margin)} on average. A receipt may carry a gain of {limit}."
    return f"At these prices fraud pays: it wins {ether(-now.margin)} on average. Only a gain below {limit} does not pay."


def _sections(found: Weighing, a: Assumptions, slash: int) -> Iterator[ConsoleTable]:
    yield _deterrence(found)
    yield _gains(found, slash)
    yield _committees(found, a)
    yield _capture(found, a)
    yield _attacks(found.attacks)
    yield _watchtower(found)
    yield _times(found)
    yield _flows(found)


def _deterrence(found: Weighing) -> ConsoleTable:
    now = found.now
    rows = [
        (
            bps(each.rate_bps),
            f"{each.auditors:.2f}",
            chance(each.deterrence.audits),
            chance(each.deterrence.punished),
            ether(each.deterrence.margin),
            ether(each.deterrence.largest_gain),
        )
        for each in (now, *found.rates)
    ]
    rows[0] = (f"{rows[0][0]} (weighed)", *rows[0][1:])
    curve = tuple((each.rate_bps / 100, each.deterrence.margin / WEI_PER_ETHER) for each in found.rates)
    d = now.deterrence
    return ConsoleTable(
        id="deterrence",
        title="Does fraud pay?",
        sentence=f"A fraud is punished with a chance of {chance(d.punished)}. It pays if that chance is below"
        f" {chance(d.break_even)}."
        f" A slash costs its operator {ether(d.loss)} after its own rewards.",
        columns=("Audit rate", "Auditors", "Audits convince", "Punished", "Margin D", "Largest gain"),
        rows=tuple(rows),
        chart=Chart(
            kind="lines",
            x="audit rate per seat, %",
            y="margin D, ETH",
            series=(Series(name="margin D", points=curve),),
            marks=((now.rate_bps / 100, "weighed rate"),),
        ),
    )


def _gains(found: Weighing, slash: int) -> ConsoleTable:
    names = [ether(slash * float(factor)) for factor in SLASH_FACTORS]
    rows = tuple((bps(rate), *map(ether, row)) for rate, row in zip(GRID_RATES, found.gains, strict=True))
    series = tuple(
        Series(
            name=f"slash {name}",
            points=_drawable(
                [(rate / 100, row[place] / WEI_PER_ETHER) for rate, row in zip(GRID_RATES, found.gains, strict=True)]
            ),
        )
        for place, name in enumerate(names)
    )
    return ConsoleTable(
        id="gains",
        title="What may one receipt be worth?",
        sentence=f"With the weighed rate and slash a receipt may carry a gain of"
        f" {ether(found.now.deterrence.largest_gain)} before fraud"
        " pays.",
        columns=("Audit rate", *(f"Slash {name}" for name in names)),
        rows=rows,
        chart=Chart(kind="lines", x="audit rate per seat, %", y="largest gain, ETH", series=series, log_y=True),
    )


def _drawable(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Returns the points that a logarithmic axis can show."""
    return tuple((x, y) for x, y in points if SHOWN_BELOW < y < math.inf)


def _committees(found: Weighing, a: Assumptions) -> ConsoleTable:
    names = ("wrong verdict", "no verdict", "honest slashed by the paper's rule")
    points = (found.here, *found.shares)
    rows = [(chance(float(each.hostile)), *map(chance, _ends(each)), f"{each.network.rounds:.2f}") for each in points]
    rows[0] = (f"{rows[0][0]} (assumed)", *rows[0][1:])
    series = tuple(
        Series(name=name, points=_drawable([(float(each.hostile) * 100, _ends(each)[place]) for each in found.shares]))
        for place, name in enumerate(names)
    )
    return ConsoleTable(
        id="committees",
        title="How do disputes end?",
        sentence=f"With {chance(float(a.people.hostile))} of the stake hostile, a dispute ends in a wrong verdict"
        f" with a chance of"
        f" {chance(found.here.network.fraud_passes)}, and without a verdict with {chance(found.here.network.void)}."
        " A true and a false claim risk the same.",
        columns=("Hostile stake", "Wrong verdict", "No verdict", "Honest slashed by the paper's rule", "Rounds"),
        rows=tuple(rows),
        chart=Chart(kind="lines", x="hostile stake, %", y="chance per dispute", series=series, log_y=True),
    )


def _ends(each: SharePoint) -> tuple[float, float, float]:
    return each.network.fraud_passes, each.network.void, each.paper.honest_slashed


def _capture(found: Weighing, a: Assumptions) -> ConsoleTable:
    titles = {"control": "choose the verdict", "stall": "prevent the right verdict"}
    rows = [(titles[each.aim], chance(float(each.share)), ether(each.owned), ether(each.added)) for each in found.captures]
    at_risk = found.captures[0].at_risk
    rows.append(("value at risk in one window", "none", ether(at_risk), ether(at_risk)))
    bars = [(titles[each.aim], each.owned / WEI_PER_ETHER) for each in found.captures]
    bars.append(("value at risk in one window", at_risk / WEI_PER_ETHER))
    control = found.captures[0]
    cheap = "less" if control.owned < at_risk else "more"
    return ConsoleTable(
        id="capture",
        title="What does a captured committee cost?",
        sentence=f"To choose one verdict in {1 / a.risk:,.0f} takes {chance(float(control.share))} of the stake,"
        f" {ether(control.owned)}:"
        f" {cheap} than the gains of all receipts in one window.",
        columns=("Aim", "Share of the stake", "Owned of today's stake", "Added by a newcomer"),
        rows=tuple(rows),
        chart=_bars(bars, "ETH"),
    )


def _bars(values: Sequence[tuple[str, float]], unit: str, marks: tuple[tuple[float, str], ...] = ()) -> Chart:
    finite = [(name, value) for name, value in values if 0 < value < math.inf]
    return Chart(
        kind="bars",
        x=unit,
        y="",
        series=tuple(Series(name=name, points=((0.0, value),)) for name, value in finite),
        log_x=True,
        marks=marks,
    )


def _attacks(attacks: Sequence[Attack]) -> ConsoleTable:
    rows = tuple((each.name, ether(each.attacker), ether(each.others), ratio(each.ratio)) for each in attacks)
    worst = min(attacks, key=lambda each: each.ratio)
    return ConsoleTable(
        id="attacks",
        title="Who pays for an attack?",
        sentence=f"The cheapest attack for its damage is {worst.name}: its attacker loses {ratio(worst.ratio)} times"
        f" what others lose."
        f" Below 1 an attack costs its victims more; BoLD has {BOLD_RATIO}.",
        columns=("Attack", "Attacker loses", "Others lose, unpaid", "Ratio R"),
        rows=rows,
        chart=_bars([(each.name, each.ratio) for each in attacks], "ratio R", ((1.0, "1"), (BOLD_RATIO, "BoLD"))),
    )


def _watchtower(found: Weighing) -> ConsoleTable:
    rows = tuple((ether(each.bounty), *map(ether, each.profits)) for each in found.towers)
    word = "earns" if found.idle_profit >= 0 else "loses"
    series = tuple(
        Series(
            name=f"bounty {ether(each.bounty)}",
            points=tuple(
                (rate * 100, profit / WEI_PER_ETHER) for rate, profit in zip(FRAUD_RATES, each.profits, strict=True) if rate
            ),
        )
        for each in found.towers
    )
    return ConsoleTable(
        id="watchtower",
        title="Does watching pay?",
        sentence=f"Without any fraud a watchtower {word} {ether(abs(found.idle_profit))} a month. If watching pays"
        f" nothing where nobody"
        " cheats, nobody watches, and then cheating pays.",
        columns=("Bounty", *(f"Frauds {rate:.4%}" for rate in FRAUD_RATES)),
        rows=rows,
        chart=Chart(kind="lines", x="frauds, % of receipts", y="profit per month, ETH", series=series, log_x=True),
    )


def _times(found: Weighing) -> ConsoleTable:
    budget = found.times
    rows = [(each.name.replace("_", " "), str(each.count), seconds(each.seconds)) for each in budget.segments]
    rows.append(("longest dispute", "", seconds(budget.longest)))
    rows += [(f"{each.name.replace('_', ' ')} (limit)", "", seconds(each.seconds)) for each in budget.limits]
    ends, at = list[tuple[float, float]](), 0
    for each in budget.segments:
        ends.append((at / 3600, (at + each.seconds) / 3600))
        at += each.seconds
    series = [Series(name="longest dispute", points=tuple(ends))]
    series += [Series(name=each.name.replace("_", " "), points=((0.0, each.seconds / 3600),)) for each in budget.limits]
    shortest = min(budget.limits, key=lambda each: each.seconds)
    return ConsoleTable(
        id="times",
        title="Does everything outlast a dispute?",
        sentence=f"The longest dispute takes {seconds(budget.longest)}; the shortest limit,"
        f" {shortest.name.replace('_', ' ')}, leaves"
        f" {seconds(shortest.seconds)}. Stake, data and keys must outlast the dispute.",
        columns=("Part", "Times", "Length"),
        rows=tuple(rows),
        chart=Chart(kind="bars", x="hours", y="", series=tuple(series)),
    )


def _flows(found: Weighing) -> ConsoleTable:
    f = found.flows
    named = (
        ("slashed from operators", f.slashed),
        ("to challengers", f.challengers),
        ("to committee members", f.seats),
        ("to operators, of lost bonds", f.operators),
        ("bounties of audits", f.bounties),
        ("burned", f.burned),
    )
    return ConsoleTable(
        id="flows",
        title="Where does a month's money go?",
        sentence=f"In a month {ether(f.slashed)} are slashed and {ether(f.burned)} burned, if each dispute ends in"
        f" its first round.",
        columns=("Flow", "Per month"),
        rows=tuple((name, ether(wei)) for name, wei in named),
        chart=_bars([(name, wei / WEI_PER_ETHER) for name, wei in named], "ETH per month"),
    )


# --- numbers for people ---


def ether(wei: float) -> str:
    """Returns an amount as ether with four digits, because exact wei have no meaning in an estimate."""
    if math.isinf(wei):
        return "no limit"
    value = wei / WEI_PER_ETHER
    text = f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    return f"{text} ETH"


def chance(value: float) -> str:
    """Returns a probability as text in percent. A probability between 0 and 0.0001 is not in percent but a plain number, for
    example `5e-05`. A probability above 0.9999 and below 1 is `almost 100 %`."""
    if value in (0.0, 1.0) or 1e-4 <= value <= 1 - 1e-4:
        return f"{value * 100:.4g} %"
    return f"{value:.2g}" if value < 0.5 else "almost 100 %"


def ratio(value: float) -> str:
    """Returns a ratio as text with three digits."""
    return "no limit" if math.isinf(value) else f"{value:.3g}"


def bps(value: int) -> str:
    """Converts a share in 1/10,000 to text in percent."""
    return f"{value / 100:g} %"


def seconds(count: int) -> str:
    """Returns a duration as text in days, hours, minutes and seconds."""
    days, rest = divmod(count, 86_400)
    hours, rest = divmod(rest, 3_600)
    parts = [f"{value} {unit}" for value, unit in ((days, "d"), (hours, "h"), (rest // 60, "min"), (rest % 60, "s")) if value]
    return " ".join(parts) or "0 s"
