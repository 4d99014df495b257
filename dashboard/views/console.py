"""The economics console: its records, and the reading of parameters and assumptions from a query.

`bytewise.protocol.economics` computes the results, and `dashboard.views.console_sections` shows them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from bytewise.protocol.court.param_law import LARGEST
from bytewise.protocol.court.params import Committee, Durations, Money, ParamSet, RewardShares
from bytewise.protocol.economics.chances import Population
from bytewise.protocol.economics.incentives import Prices
from bytewise.protocol.economics.scenario import MAX_VERIFIERS, Assumptions
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.signing import camel
from bytewise.service.settings import field_texts
from bytewise.storage.index.tables import SettingFact, StakeFact, VerifierFact
from dashboard.views.records import IndexMeta, Record
from dashboard.views.scene import WEI_PER_ETHER, Scene, amount

# --- records ---


class ConsoleField(Record):
    """One input field, with the value that it replaces."""

    name: str
    """Name of the input in the query."""
    label: str
    unit: str
    in_force: str
    """Value of the parameter in force, or the default of an assumption."""
    chosen: str
    """Text that the reader entered. It is empty if the reader entered nothing; then the value in force applies."""
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
    """Content of the console: parameters, assumptions, and the results that follow from both."""

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


# --- the query ---

GROUPS = (("times", Durations), ("committee", Committee), ("money", Money), ("shares", RewardShares))
LEVELS = ("seats_1", "seats_2", "seats_3")
_NUMBER = re.compile(r"[0-9]{1,30}(\.[0-9]{1,18})?(e-?[0-9]{1,2})?")
_MAX_TEXT = 4_000


class Assumed(NamedTuple):
    """Description of one assumption. `default` is the text that applies if the reader enters nothing. `most` is the largest
    value. `factor` converts the value to the unit of the computation."""

    label: str
    unit: str
    default: str
    most: int
    factor: Fraction
    meaning: str


_ONE, _PERCENT, _GWEI, _ETHER = Fraction(1), Fraction(1, 100), Fraction(10**9), Fraction(WEI_PER_ETHER)
ASSUMED = {
    "gain": Assumed("Gain by one fraud", "ETH", "0.001", 10**9, _ETHER, "what an operator saves or earns by one false answer"),
    "receipts": Assumed("Receipts", "per month", "100000", 10**15, _ONE, "receipts that are anchored"),
    "client": Assumed("Clients who dispute", "%", "0", 100, _PERCENT, "chance that the client of a fraud disputes it"),
    "fraud": Assumed("Frauds", "% of receipts", "0.001", 100, _PERCENT, "share of receipts that are false"),
    "hostile": Assumed("Hostile stake", "%", "10", 100, _PERCENT, "stake of one party that lies"),
    "absent": Assumed("Absent stake", "% of the rest", "0", 100, _PERCENT, "other stake that never votes"),
    "seeds": Assumed("Seeds to choose from", "", "1", 2**20, _ONE, "seeds that the hostile choose among in each round"),
    "own_challenger": Assumed("Own challenger wins", "%", "100", 100, _PERCENT, "chance that an operator convicts itself first"),
    "risk": Assumed("Capture counts from", "% of disputes", "0.0001", 99, _PERCENT, "chance per dispute"),
    "gas": Assumed("Gas price", "gwei", "5", 10**9, _GWEI, "price of one unit of gas"),
    "work": Assumed("Re-execution", "gwei", "1000", 10**15, _GWEI, "cost of judging one receipt in an enclave"),
    "interest": Assumed("Yield", "% per year", "3", 10_000, _PERCENT, "what locked capital earns elsewhere"),
    "lost_disputes": Assumed("Disputes that are lost", "per month", "1", 10**9, _ONE, "disputes of true receipts"),
    "tower_seats": Assumed("Watchtower's audit seats", "", "1", 10_000, _ONE, "whole audit units of its stake"),
    "tower_share": Assumed("Watchtower's share", "% of frauds", "10", 100, _PERCENT, "frauds that it is the first to dispute"),
    "tower_fixed": Assumed("Watchtower's fixed cost", "ETH per month", "0.01", 10**9, _ETHER, "machine and operator"),
}  # fmt: skip
"""Assumptions and their bounds. None of them is a parameter of the network."""
WHOLE = ("seeds", "tower_seats")


@dataclass(frozen=True, slots=True)
class ConsoleQuestion:
    """A query of the console: the parameters in force, the same parameters with the reader's changes, and the assumptions."""

    version: int
    """Version of the parameters in force."""
    in_force: ParamSet
    params: ParamSet
    assumptions: Assumptions
    chosen: Mapping[str, str]
    """Texts of the query, by name."""
    live_stakes: int
    """Number of verifiers of the network that are in a pool and have stake. The console counts at most `MAX_VERIFIERS`."""


def read_params(scene: Scene) -> tuple[int, ParamSet] | None:
    """Returns the version number and the parameters in force. Returns None if the index knows none."""
    found = scene.index.find(SettingFact, "params")
    if found is None:
        return None
    return found["version"], params_of(found["content"])


def params_of(content: Mapping[str, Any]) -> ParamSet:
    """Converts parameters from the form in which the index stores them. `content` is one version of all parameters."""
    parts = {
        name: cls(**{each: _stored(content[name][camel(each)]) for each in cls.__dataclass_fields__}) for name, cls in GROUPS
    }
    return ParamSet(**parts)  # type: ignore[arg-type]


def _stored(value: Any) -> Any:
    return tuple(int(each) for each in value) if isinstance(value, list | tuple) else int(value)


def question(scene: Scene, query: Mapping[str, str]) -> ConsoleQuestion | None:
    """Reads a query of the console. Returns the parameters in force, the same parameters with the changes of the query, and the
    assumptions of the query.

    Returns None if no parameters are in force. Raises `MalformedValue` for an unknown name, for text that is not a number within
    its bounds, and for a number that the contract's type cannot hold.
    """
    found = read_params(scene)
    if found is None:
        return None
    names = {each for _, cls in GROUPS for each in cls.__dataclass_fields__} - {"seats"}
    unknown = query.keys() - names - ASSUMED.keys() - {*LEVELS, "stakes"}
    if unknown:
        raise MalformedValue("console", f"{sorted(unknown)[0][:40]}: no such parameter or assumption")
    live = _live_stakes(scene)
    stakes = _stakes(query["stakes"]) if "stakes" in query else live
    return ConsoleQuestion(found[0], found[1], with_changes(found[1], query), _assumptions(query, stakes), query, len(live))


def _live_stakes(scene: Scene) -> tuple[int, ...]:
    members = {row["account"] for row in scene.index.all(VerifierFact) if row["pool"] is not None}
    stakes = (scene.stake_of(row) for row in scene.index.all(StakeFact) if row["account"] in members)
    return tuple(each for each in stakes if each)[:MAX_VERIFIERS]


def with_changes(p: ParamSet, query: Mapping[str, str]) -> ParamSet:
    """Returns the parameters with the values that a query names. Raises `MalformedValue` for text that is not a value of the
    contract's type."""
    for group, cls in GROUPS:
        part = getattr(p, group)
        changes = {name: _parameter(group, name, query[name]) for name in cls.__dataclass_fields__ if name in query}
        if group == "committee":
            seats = tuple(
                _parameter(group, name, query[name], "seats") if name in query else now
                for name, now in zip(LEVELS, part.seats, strict=True)
            )
            changes["seats"] = seats
        p = replace(p, **{group: replace(part, **changes)})
    return p


def _parameter(group: str, name: str, text: str, kind: str = "") -> Any:
    value = _number(name, text) * (_ETHER if group == "money" else 1)
    if value.denominator != 1 or value > LARGEST[kind or name]:
        least = "a whole number of wei" if group == "money" else "a whole number"
        raise MalformedValue("console", f"{name}: {least}, at most {LARGEST[kind or name]}")
    return int(value)


def _number(name: str, text: str) -> Fraction:
    if not _NUMBER.fullmatch(text):
        raise MalformedValue("console", f"{name}: a number like 12, 0.5 or 1e-6 that is not negative")
    return Fraction(text)


def _stakes(text: str) -> tuple[int, ...]:
    parts = text.replace(",", " ").split()
    if len(text) > _MAX_TEXT:
        raise MalformedValue("console", f"stakes: at most {_MAX_TEXT} characters")
    amounts = [_number("stakes", each) for each in parts]
    if any(each > 10**9 for each in amounts):
        raise MalformedValue("console", "stakes: ether of each verifier, at most 1000000000")
    return tuple(int(each * _ETHER) for each in amounts)


def _assumptions(query: Mapping[str, str], stakes: tuple[int, ...]) -> Assumptions:
    values = {name: _assumed(name, query) for name in ASSUMED}
    people = Population(_grid(values["hostile"]), _grid(values["absent"]), int(values["seeds"]))
    prices = Prices(float(values["gas"]), float(values["work"]), float(values["interest"]))
    own = {name: float(values[name]) for name in (
        "gain", "receipts", "client", "fraud", "own_challenger", "risk", "lost_disputes", "tower_share", "tower_fixed",
    )}  # fmt: skip
    return Assumptions(people=people, stakes=stakes, prices=prices, tower_seats=int(values["tower_seats"]), **own)


def _grid(share: Fraction) -> Fraction:
    """Rounds a share to parts of 10,000, because finer parts only make the fractions long."""
    return Fraction(round(share * 10_000), 10_000)


def _assumed(name: str, query: Mapping[str, str]) -> Fraction:
    of = ASSUMED[name]
    value = _number(name, query.get(name, of.default))
    wrong = value > of.most or (name in WHOLE and value.denominator != 1) or (name in ("seeds", "risk") and not value)
    if wrong:
        raise MalformedValue("console", f"{name}: {'a whole number' if name in WHOLE else 'a number'} up to {of.most}{_unit(of)}")
    return value * of.factor


def _unit(of: Assumed) -> str:
    return f" {of.unit}" if of.unit else ""


# --- fields of the form ---


def form_fields(asked: ConsoleQuestion) -> dict[str, tuple[ConsoleField, ...]]:
    """Returns the input fields by group, each with the value in force."""
    groups = {group: tuple(_parameter_fields(asked, group, cls)) for group, cls in GROUPS}
    return {"assumptions": tuple(_assumption_fields(asked)), **groups}


def _assumption_fields(asked: ConsoleQuestion) -> Iterator[ConsoleField]:
    for name, of in ASSUMED.items():
        yield ConsoleField(
            name=name,
            label=of.label,
            unit=of.unit,
            in_force=of.default,
            chosen=asked.chosen.get(name, ""),
            meaning=f"{of.meaning[0].upper()}{of.meaning[1:]}.",
        )
    yield ConsoleField(
        name="stakes", label="Stakes of verifiers", unit="ETH each", in_force=f"those of {asked.live_stakes} verifiers",
        chosen=asked.chosen.get("stakes", ""), meaning="Other stakes, with a space between them.",
    )  # fmt: skip


def _parameter_fields(asked: ConsoleQuestion, group: str, cls: type) -> Iterator[ConsoleField]:
    texts = field_texts(cls)
    for name, now in parameter_values(asked.in_force, group):
        unit = "1/10,000" if name.endswith("_bps") else {"times": "s", "money": "ETH"}.get(group, "")
        shown = amount(now).eth if group == "money" else str(now)
        meaning = texts.get("seats" if name in LEVELS else name, "").replace("`", "")
        yield ConsoleField(
            name=name, label=name.replace("_", " "), unit=unit, in_force=shown, chosen=asked.chosen.get(name, ""), meaning=meaning
        )


def parameter_values(p: ParamSet, group: str = "") -> Iterator[tuple[str, int]]:
    """Yields the name and the value of each parameter. It yields one group, or all groups if `group` is empty. Values are in the
    contracts' units. The numbers of seats of the three committee levels are three parameters here."""
    for each in fields(p):
        part = getattr(p, each.name)
        if not is_dataclass(part) or group not in ("", each.name):
            continue
        for one in fields(part):
            value = getattr(part, one.name)
            yield from zip(LEVELS, value, strict=True) if one.name == "seats" else [(one.name, value)]
