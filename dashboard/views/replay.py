"""Replays past disputes of the index under other parameters, with `bytewise.protocol.economics.replay`; and the records of the
results."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.court.param_law import violations
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.court.settlement import PAID, SeatOutcome
from bytewise.protocol.court.tally import key_of
from bytewise.protocol.economics.past_disputes import (
    FLOWS,
    DisputeMoney,
    PastDispute,
    PastRound,
    Range,
    SeatCharge,
    VoteGroup,
)
from bytewise.protocol.economics.replay import REPLAYED, ReplayKind, check_replayable, replay
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.appraisal_policy import TEST_CHAIN_IDS
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.units import ZERO_DIGEST, Digest, hex0x
from bytewise.storage.index.reader import Row
from bytewise.storage.index.tables import DisputeFact, RoundFact, SeatFact, SettingFact, StakeFact, VoteFact
from dashboard.views.console import (
    LEVELS,
    ConsoleField,
    ConsoleQuestion,
    form_fields,
    parameter_values,
    params_of,
    question,
    with_changes,
)
from dashboard.views.records import Amount, IndexMeta, Record
from dashboard.views.scene import Scene, amount

# --- records ---


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
    """Version of the parameters under which the dispute was decided. The replay applies the reader's changes to that version."""
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


# --- the page ---

MAX_DISPUTES = 200
"""Most disputes of one page, which shows the newest ended disputes."""
LABELS = {
    "bond": "Bond of the challenger", "appeal_bond": "Bond of the appeal", "advanced": "Advanced by the treasury",
    "slashed": "Slashed from the operator", "to_challenger": "To the challenger: bond and share",
    "to_appellant": "To the appellant", "to_operator": "To the operator", "to_verifiers": "To seats that were right",
    "repaid": "Back to the treasury", "burned": "Burned", "penalties": "Penalties of seats",
}  # fmt: skip
NAMES = tuple(name for group in REPLAYED.values() for each in group for name in (LEVELS if each == "seats" else (each,)))
"""Names of the parameters that a query may change for a replay."""


@dataclass(frozen=True, slots=True)
class _ReplayCase:
    """A dispute of the index, in the form that a replay takes, with the changed parameters."""

    row: Row
    past: PastDispute
    params: ParamSet
    """Parameters of the dispute's version with the changes of the query."""


def replay_page(scene: Scene, query: Mapping[str, str]) -> ReplayPage:
    """Returns the replay page. Raises `MalformedValue` if the query has a name that is not a parameter of a replay, or values
    with which nothing can be computed."""
    strange = query.keys() - set(NAMES)
    if strange:
        raise MalformedValue("replay", f"{sorted(strange)[0][:40]}: no parameter that a replay takes")
    # An empty field of the form means the value in force.
    asked = question(scene, {name: text for name, text in query.items() if text})
    if asked is None:
        return _empty_page(scene)
    check_replayable(asked.params)
    cases = list(_cases(scene, {name: text for name, text in query.items() if text}))
    disputes = tuple(_show(case) for case in cases)
    totals = tuple(_totals(disputes))
    kinds = Counter(each.kind for each in disputes)
    ended = scene.index.count(DisputeFact, ended=True)
    return ReplayPage(
        meta=scene.meta(), params_version=asked.version, changed=_changes(asked), fields=_fields(asked),
        violations=tuple(each.words for each in violations(asked.params, scene.state.chain_id in TEST_CHAIN_IDS)),
        headline=_headline(disputes), ended=ended, kinds={each.value: kinds[each.value] for each in ReplayKind},
        disputes=disputes, totals=totals, items=tuple(_figures(asked, disputes, totals)),
    )  # fmt: skip


def _empty_page(scene: Scene) -> ReplayPage:
    return ReplayPage(
        meta=scene.meta(), params_version=0, changed={}, fields={}, violations=(), headline="", ended=0, kinds={}, disputes=(),
        totals=(), items=(),
    )  # fmt: skip


def _changes(asked: ConsoleQuestion) -> dict[str, str]:
    now = dict(parameter_values(asked.in_force))
    return {name: str(value) for name, value in parameter_values(asked.params) if value != now[name]}


def _fields(asked: ConsoleQuestion) -> dict[str, tuple[ConsoleField, ...]]:
    return {
        group: tuple(each for each in found if each.name in NAMES)
        for group, found in form_fields(asked).items()
        if group in REPLAYED
    }


# --- facts ---


def past_disputes(scene: Scene) -> Iterator[tuple[Row, PastDispute]]:
    """Yields the newest ended disputes. Each comes as a pair: its row in the index, and the `PastDispute` that a replay needs.
    Skips a dispute if the index does not know the parameters under which it ran."""
    rows = scene.index.page(DisputeFact, "opened_block", descending=True, limit=MAX_DISPUTES, ended=True).rows
    ids = tuple(row["id"] for row in rows)
    tables = {table: _by_dispute(scene.index.all(table, dispute=ids)) if ids else {} for table in (RoundFact, SeatFact, VoteFact)}
    lost = {
        row["account"]: row["slashed"] for row in scene.index.all(StakeFact, account=tuple({row["operator"] for row in rows}))
    }
    for row in rows:
        setting = scene.index.find(SettingFact, f"params {row['params_version']}")
        if setting is not None:
            rounds, seats, votes = (tables[table].get(row["id"], []) for table in (RoundFact, SeatFact, VoteFact))
            others = lost.get(row["operator"], 0) > row["slashed"]
            yield row, _past(row, params_of(setting["content"]), rounds, seats, votes, others)


def _by_dispute(rows: Sequence[Row]) -> dict[bytes, list[Row]]:
    found: dict[bytes, list[Row]] = {}
    for row in rows:
        found.setdefault(row["dispute"], []).append(row)
    return found


def _past(
    row: Row, params: ParamSet, rounds: Sequence[Row], seats: Sequence[Row], votes: Sequence[Row], others: bool
) -> PastDispute:
    outcomes: dict[str, list[SeatOutcome]] = {}
    for seat in seats:
        outcomes.setdefault(seat["voter"], []).append(SeatOutcome(seat["outcome"]))
    taken = Counter[str]()
    for vote in votes:
        taken[vote["voter"]] += vote["penalty"]
    paid = sum(each in PAID for own in outcomes.values() for each in own)
    return PastDispute(
        params=params, verdict=Verdict(row["verdict"]),
        rounds=tuple(_round(each, [vote for vote in votes if vote["round"] == each["round"]]) for each in rounds),
        appealed=Verdict(row["appealed_verdict"]), knew=row["knew"],
        paid_seats=row["to_verifiers"] // row["per_seat"] if row["per_seat"] else 0 if row["verdict"] == Verdict.DRAW else paid,
        locked=row["operator_locked"], others_took=others,
        charges=tuple(SeatCharge(taken[voter], tuple(own)) for voter, own in outcomes.items()),
        money=DisputeMoney(**{name: row[name] for name in FLOWS}),
    )  # fmt: skip


def _round(row: Row, votes: Sequence[Row]) -> PastRound:
    groups = Counter[tuple[object, ...]]()
    for vote in votes:
        if vote["said"]:
            content = (vote["said"], vote["code"], vote["tokens_hash"], vote["trace_root"], vote["round_digest"])
            groups[content] += vote["seat_mask"].bit_count()
    found = tuple(_group(content, seats) for content, seats in groups.items())
    verdict = Verdict(row["lead_verdict"]) if row["lead"] else Verdict.NONE
    return PastRound(
        level=row["level"], seats=row["seats"], settled=row["settled"], verdict=Verdict(row["verdict"]), equal=row["equal"],
        lead=row["lead"], lead_key=_lead_key(row, verdict, found), lead_verdict=verdict, unavailable=row["unavailable"],
        no_key=row["no_key"], cannot_execute=row["cannot_execute"], not_revealed=row["not_revealed"], absent=row["absent"],
        certified=row["certified"], groups=found,
    )  # fmt: skip


def _group(content: tuple[object, ...], seats: int) -> VoteGroup:
    said, code, tokens, trace, _ = content
    outcome = Outcome(int(str(said)))
    ran = outcome is Outcome.EXECUTED and isinstance(tokens, bytes) and isinstance(trace, bytes)
    out = digests.out_hash(Digest(tokens), Digest(trace)) if ran else ZERO_DIGEST  # type: ignore[arg-type]
    return VoteGroup(outcome, key_of(outcome, int(str(code)), out), seats)


def _lead_key(row: Row, verdict: Verdict, groups: Sequence[VoteGroup]) -> Digest:
    if verdict is Verdict.OVERTURNED and row["lead_out_hash"]:
        return key_of(Outcome.EXECUTED, 0, Digest(row["lead_out_hash"]))
    leading = (each.key for each in groups if each.outcome is Outcome.INVALID and each.seats == row["lead"])
    return next(leading, ZERO_DIGEST) if verdict is Verdict.INVALID else ZERO_DIGEST


# --- results ---


def _cases(scene: Scene, query: Mapping[str, str]) -> Iterator[_ReplayCase]:
    for row, past in past_disputes(scene):
        yield _ReplayCase(row, past, with_changes(past.params, query))


def _show(case: _ReplayCase) -> ReplayedDispute:
    past = case.past
    try:
        found = replay(past, case.params)
    except MalformedValue as error:
        # A value that computes with the parameters in force may not with those of an older version.
        return _shown(case, ReplayKind.NOT_ANSWERABLE, (), (f"{error}.",), ())
    lines = tuple(_line(name, getattr(past.money, name), found.money[name]) for name in FLOWS) if found.money else ()
    return _shown(case, found.kind, found.verdicts, found.notes, lines)


def _shown(
    case: _ReplayCase, kind: ReplayKind, verdicts: Sequence[Verdict], notes: tuple[str, ...], lines: tuple[ReplayLine, ...]
) -> ReplayedDispute:
    was, names = case.past.verdict, tuple(each.name.lower() for each in verdicts)
    if not verdicts:
        words = "Nobody can say how it would have ended."
    elif len(names) > 1:
        words = f"It might have ended {', '.join(names[:-1])} or {names[-1]}."
    else:
        words = f"It ends {names[0]} as before." if verdicts[0] is was else f"It ends {names[0]}, not {was.name.lower()}."
    return ReplayedDispute(
        id=hex0x(case.row["id"]), params_version=case.row["params_version"], kind=kind.value, verdict=was.name.lower(),
        verdicts=names, is_changed=names != (was.name.lower(),) or any(_differs(each) for each in lines), words=words,
        notes=notes, lines=lines,
    )  # fmt: skip


def _differs(line: ReplayLine) -> bool:
    return not line.was.wei == line.low.wei == line.high.wei


def _line(name: str, was: int, now: Range) -> ReplayLine:
    low, high = now.low - was, now.high - was
    if low == high:
        change = "the same" if not low else f"{amount(abs(low)).eth} ETH {'more' if low > 0 else 'less'}"
    else:
        change = f"from {_signed(low)} to {_signed(high)} ETH"
    return ReplayLine(
        flow=name, label=LABELS[name], was=amount(was), low=amount(now.low), high=amount(now.high), change=change
    )  # fmt: skip


def _signed(wei: int) -> str:
    return f"{'-' if wei < 0 else '+' if wei else ''}{amount(abs(wei)).eth}"


def _totals(disputes: Sequence[ReplayedDispute]) -> Iterator[ReplayLine]:
    for place, name in enumerate(FLOWS):
        lines = [each.lines[place] for each in disputes if each.lines]
        was, low, high = (sum(int(getattr(line, side).wei) for line in lines) for side in ("was", "low", "high"))
        yield _line(name, was, Range(low, high))


def _headline(disputes: Sequence[ReplayedDispute]) -> str:
    if not disputes:
        return "No dispute has ended yet, so there is nothing to replay."
    others = sum(each.verdicts != (each.verdict,) and len(each.verdicts) == 1 for each in disputes)
    open_ = sum(len(each.verdicts) != 1 for each in disputes)
    moved = sum(each.is_changed for each in disputes)
    count = f"{len(disputes)} ended dispute{'s' if len(disputes) > 1 else ''}"
    return (
        f"Of {count}, {others or 'none'} would have ended in another verdict, {open_ or 'none'} cannot be told for sure,"
        f" and {moved or 'none'} differ{'s' if moved == 1 else ''} in verdict or money."
    )


def _figures(asked: ConsoleQuestion, disputes: Sequence[ReplayedDispute], totals: Sequence[ReplayLine]) -> Iterator[ReplayFigure]:
    now = dict(parameter_values(asked.in_force))
    for name, value in parameter_values(asked.params):
        if name in NAMES:
            yield _figure("", f"parameter {name}", "", str(now[name]), str(value), str(value))
    for each in disputes:
        yield _figure(
            each.id, "verdict", each.kind, each.verdict, " ".join(each.verdicts), "", " ".join((each.words, *each.notes))
        )
        for line in each.lines:
            yield _money_figure(each.id, line)
    for line in totals:
        yield _money_figure("all", line)


def _money_figure(dispute: str, line: ReplayLine) -> ReplayFigure:
    kind = ReplayKind.RECOMPUTED if line.low.wei == line.high.wei else ReplayKind.BOUNDED
    return _figure(dispute, f"{line.flow} wei", kind.value, line.was.wei, line.low.wei, line.high.wei)


def _figure(dispute: str, name: str, kind: str, was: str, low: str, high: str, note: str = "") -> ReplayFigure:
    return ReplayFigure(dispute=dispute, name=name, kind=kind, was=was, low=low, high=high, note=note)
