"""The whole system as one property: whoever lies where, what is upheld or final is what an honest re-execution gives.

`--plays N` plays N plays instead of 20.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from bytewise.protocol.errors.records import Defect
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.units import ZERO_DIGEST
from enclave.judge import JobOutcome
from tests.fixtures.chain.anvil import running_anvil
from tests.fixtures.system.field_lies import PROMISED, RECEIPT_LIES, REFUSED
from tests.fixtures.system.lying_operators import CHALLENGER, OPERATOR, VERIFIERS, Filed
from tests.fixtures.system.plays import (
    OUTPUT_FIELDS,
    REQUEST_FIELDS,
    AskedReceipt,
    Conduct,
    Course,
    Hidden,
    Play,
    Posted,
    Sealed,
    Swap,
    drawn,
    simpler,
)
from tests.fixtures.system.receipt_fates import Fate, PlayResult, result_of
from tests.fixtures.system.whole_system import SEATS, WholeSystem

ENOUGH = 20
"""Plays in which everything comes up."""
CONVICTIONS = (Verdict.OVERTURNED, Verdict.INVALID, Verdict.UNAVAILABLE)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeSystem]:
    """One chain for all plays of this file."""
    # Seeds of committees come from blocks: with one beginning, a play is the same each time.
    with running_anvil("--disable-block-gas-limit", "--timestamp", "1800000000") as anvil:
        yield WholeSystem(anvil, tmp_path_factory.mktemp("system"))


def violations(system: WholeSystem, story: PlayResult) -> list[str]:
    """What is not as it must be."""
    wrong = [f"{name}: {have} instead of {want}" for name, (have, want) in story.sums.items() if have != want]
    wrong += [f"{each.what}: lost {each.lost}" for each in story.penalties if each.lost < each.least]
    for fate in story.fates:
        differing = system.oracle.differences(fate.filed, fate.place, fate.served, fate.asked)
        wrong += [f"{sorted(differing)}, {fate.verdict.name}: {each}" for each in said_of(system, fate, differing)]
    return wrong


def said_of(system: WholeSystem, fate: Fate, differing: frozenset[str]) -> Iterator[str]:
    """Of one receipt."""
    questioned = fate.verdict is not Verdict.NONE
    if fate.is_final and differing and questioned:
        yield "final, and somebody honest questioned it"
    if fate.is_final != (fate.is_member and not fate.is_void and fate.verdict in (Verdict.NONE, Verdict.UPHELD)):
        yield f"final: {fate.is_final}"
    if fate.verdict is Verdict.UPHELD and differing:
        yield "upheld"
    if fate.verdict in CONVICTIONS and not differing:
        yield "convicted"
    if questioned:
        yield from wrong_votes(system, fate)
        yield from wrong_money(system, fate)


def wrong_votes(system: WholeSystem, fate: Fate) -> Iterator[str]:
    """Whom the contracts call right must have said what a re-execution finds."""
    found = system.oracle.found(fate.filed, fate.served)
    said = [result_of(vote) for vote in fate.right_votes]
    if not fate.is_mixed and any(each != found for each in said):
        yield f"right were {said}, and {found} is found"
    if fate.verdict in (*CONVICTIONS, Verdict.UPHELD) and found not in said:
        yield f"nobody was right who found {found}"
    if fate.replacement != (found.out_hash if fate.verdict is Verdict.OVERTURNED else ZERO_DIGEST):
        yield "replaced by another answer"


def wrong_money(system: WholeSystem, fate: Fate) -> Iterator[str]:
    """Each account by what it did."""
    money, gains = system.params.money, fate.gains
    convicted, operator = fate.verdict in CONVICTIONS, gains[OPERATOR.address]
    if fate.left:
        yield f"{fate.left} wei are left"
    if operator > -money.slash_amount if convicted else operator < 0:
        yield f"the operator has {operator}"
    least = {Verdict.UPHELD: -fate.paid[CHALLENGER], Verdict.DRAW: -money.fee_per_seat}.get(fate.verdict, 0)
    if gains[CHALLENGER] != least:
        yield f"the challenger has {gains[CHALLENGER]} and not {least}"
    for who in VERIFIERS:
        sat = [one for one in fate.rounds if who in one.seats]
        was_honest = [who in one.faithful for one in sat]
        if any(one.is_outnumbered for one in sat):
            continue
        if all(was_honest) and gains[who] < 0:
            yield f"who was honest has {gains[who]}"
        if not any(was_honest) and gains[who] > 0 and not (fate.verdict is Verdict.REFUNDED or fate.is_mixed):
            yield f"who was not has {gains[who]}"


def smallest(system: WholeSystem, play: Play) -> Play:
    """A play with less in it that something is wrong with too."""
    for less in simpler(play):
        if violations(system, system.play(less)):
            return smallest(system, less)
    return play


def test_upheld_and_final_answers_are_true_under_any_lie(system: WholeSystem, pytestconfig: pytest.Config) -> None:
    met: Counter[Verdict] = Counter()
    plays: int = pytestconfig.getoption("--plays")
    for seed in range(plays):
        play = drawn(seed)
        story = system.play(play)
        met.update(fate.verdict for fate in story.fates)
        if violations(system, story):
            least = smallest(system, play)
            raise AssertionError(f"play {seed}: {violations(system, system.play(least))} of {least}")
    assert plays < ENOUGH or met.keys() == set(Verdict), "each verdict comes up"


# --- the check can fail ---


def one(**told: Any) -> Play:
    """A batch of one receipt."""
    return (Posted((AskedReceipt(**told),)),)


FALSE_ANSWER: dict[str, Any] = {"output": frozenset({"token_ids"}), "follows": 2}
"""Another text under an `out_hash` of its own: a committee of friends can call it equal."""


def all_of(conduct: Conduct) -> Course:
    """Everybody does the same in every round."""
    return Course(((conduct,) * 5,) * 4)


def all_seats(seats: int) -> int:
    """No bound for what is false."""
    return seats


def test_undisputed_lie_becomes_final(system: WholeSystem) -> None:
    """The boundary: nothing but a question of somebody honest keeps a false receipt from being accepted."""
    unseen = Posted((AskedReceipt(**FALSE_ANSWER),), listed=False, demanded=False)
    story = system.play((*one(**FALSE_ANSWER, questioned=False), unseen, *one(**FALSE_ANSWER)))
    assert violations(system, story) == []
    assert [(fate.verdict, fate.is_final) for fate in story.fates] == [
        (Verdict.NONE, True), (Verdict.NONE, True), (Verdict.OVERTURNED, False),
    ]  # fmt: skip
    assert all(system.oracle.differences(fate.filed, fate.place, fate.served, fate.asked) for fate in story.fates)


def test_colluding_quorum_upholds_a_lie_and_the_check_reports_it(system: WholeSystem) -> None:
    play = one(**FALSE_ANSWER, course=all_of(Conduct.COLLUDES))
    story = system.play(play, all_seats)
    assert [(fate.verdict, fate.is_final) for fate in story.fates] == [(Verdict.UPHELD, True)]
    found = " ".join(violations(system, story))
    assert all(each in found for each in ("UPHELD: upheld", "final, and somebody honest questioned it", "nobody was right who"))
    # One seat fewer than a quorum does not.
    story = system.play(play)
    assert violations(system, story) == [] and story.fates[0].verdict is not Verdict.UPHELD


def test_colluding_quorum_convicts_the_truth_and_the_check_reports_it(system: WholeSystem) -> None:
    courses = (replace(all_of(Conduct.ACCUSES), accusation=which) for which in range(len(CONVICTIONS)))
    play = tuple(Posted((AskedReceipt(course=each),)) for each in courses)
    story = system.play(play, all_seats)
    assert tuple(fate.verdict for fate in story.fates) == CONVICTIONS
    assert sum(each.endswith("convicted") for each in violations(system, story)) == len(CONVICTIONS)
    story = system.play(play)
    assert violations(system, story) == [] and not {fate.verdict for fate in story.fates} & set(CONVICTIONS)


@pytest.fixture
def careless(system: WholeSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judges take the tokens that the receipt names for those that they computed."""

    def judged(filed: Filed, *which: Any) -> JobOutcome:
        found = WholeSystem.judged(system, filed, *which)
        executed = found.outcome is Outcome.EXECUTED
        return found._replace(tokens_hash=filed.signed.receipt.tokens_hash) if executed else found

    monkeypatch.setattr(system, "judged", judged)


@pytest.mark.usefixtures("careless")
def test_judges_that_compare_no_tokens_uphold_a_lie_and_it_is_reported(system: WholeSystem) -> None:
    story = system.play(one(**FALSE_ANSWER))
    assert story.fates[0].verdict is Verdict.UPHELD
    assert any(each.endswith("UPHELD: upheld") for each in violations(system, story))


@pytest.mark.usefixtures("careless")
def test_finding_is_shown_with_no_other_finding_beside_it(system: WholeSystem) -> None:
    false = AskedReceipt(output=frozenset({"token_ids", "blind"}), follows=2, course=Course(((Conduct.ABSENT,),), appeal=True))
    play = (Posted((AskedReceipt(), false)), *one(hidden=Hidden.ENVELOPE))
    assert violations(system, system.play(play))
    assert smallest(system, play) in [one(output=frozenset({name}), follows=2) for name in ("blind", "token_ids")]


SIGNED = (
    *(("Receipt", name) for name in sorted(RECEIPT_LIES.keys() - PROMISED.keys())),
    *(("Request", name) for name in REQUEST_FIELDS), *(("Output", name) for name in OUTPUT_FIELDS),
)  # fmt: skip
ALSO = {
    "Receipt.envelope_hash": {"Payload"},
    "Receipt.chain_id": {"Payload.client_signature"},
    "Request.client": {"Payload.client_signature"},
}
"""What is not as it must be any more where one field is not."""


def test_every_comparison_of_the_reexecution_is_needed(system: WholeSystem) -> None:
    """Each field false alone: who does not compare it finds a true receipt, convicted for nothing."""
    told = [replace(AskedReceipt(), **{record.lower(): frozenset({name})}) for record, name in SIGNED]  # type: ignore[arg-type]
    story = system.play(tuple(Posted((each,)) for each in told))
    assert violations(system, story) == []
    for (record, name), fate in zip(SIGNED, story.fates, strict=True):
        differing = {f"{record}.{name}"} | ALSO.get(f"{record}.{name}", set())
        assert system.oracle.differences(fate.filed, fate.place, fate.served, fate.asked) == differing
        assert fate.is_member == (record != "Receipt" or name not in REFUSED)
        assert "convicted" in said_of(system, fate, frozenset()) or not fate.is_member


# --- what is promised, and what is not ---


def test_times_that_no_execution_determines_are_upheld_and_named(system: WholeSystem) -> None:
    """An operator's times: who reads the list sees that they cannot be true, and no committee is asked about them."""
    story = system.play(tuple(Posted((AskedReceipt(receipt=frozenset({name})),)) for name in PROMISED))
    assert violations(system, story) == []
    assert [(fate.verdict, fate.is_final) for fate in story.fates] == [(Verdict.UPHELD, True)] * len(PROMISED)
    assert None not in [system.fault(fate.filed) for fate in story.fates]


def test_as_many_lazy_as_honest_seats_cost_the_honest_their_pay(system: WholeSystem) -> None:
    """In a round that decides nothing, one group of seats with one result is right: the largest, of equals the first."""
    told = AskedReceipt(course=Course(((Conduct.LAZY,) * 5,)))
    story = system.play((Posted((told,) * 6),))
    assert violations(system, story) == []
    lost = [
        fate.gains[who]
        for fate in story.fates
        for who in VERIFIERS
        if fate.rounds[0].is_outnumbered and all(who in each.faithful for each in fate.rounds if who in each.seats)
    ]
    assert min(lost) < 0


def test_invented_answer_is_paid_where_the_bytes_are_withheld(system: WholeSystem) -> None:
    """Missing bytes and a fault count together, so that withholding is never cheaper than lying: both are then right."""
    told = AskedReceipt(hidden=Hidden.ENVELOPE, course=all_of(Conduct.ACCUSES))
    story = system.play((Posted((told,) * 6),))
    assert violations(system, story) == []
    mixed = [fate for fate in story.fates if fate.is_mixed]
    assert mixed and all(fate.verdict is Verdict.UNAVAILABLE for fate in story.fates)
    assert any(fate.gains[who] > 0 for fate in mixed for who in fate.rounds[0].votes.keys() - fate.rounds[0].faithful)


# --- each row of the table of verdicts, from bytes to balances ---


CONVICTED_FOR: tuple[tuple[dict[str, Any], Verdict, int], ...] = (
    (FALSE_ANSWER, Verdict.OVERTURNED, 0),
    ({"receipt": frozenset({"out_hash"})}, Verdict.OVERTURNED, 0),
    ({"sealed": Sealed.COPIED}, Verdict.INVALID, 1),
    ({"sealed": Sealed.LOCKED}, Verdict.INVALID, 2),
    ({"malformed": 0}, Verdict.INVALID, 3),
    ({"receipt": frozenset({"req_hash"})}, Verdict.INVALID, 4),
    ({"receipt": frozenset({"tokens_hash"})}, Verdict.INVALID, 5),
    ({"request": frozenset({"seed"}), "swap": Swap.UNSIGNED}, Verdict.INVALID, 6),
    ({"receipt": frozenset({"client_mode"})}, Verdict.INVALID, 7),
    ({"beyond": True}, Verdict.INVALID, 8),
    ({"request": frozenset({"expiry"}), "swap": Swap.SIGNED}, Verdict.INVALID, 9),
    ({"hidden": Hidden.ENVELOPE}, Verdict.UNAVAILABLE, 0),
)
COURSES: dict[str | int, dict[str, Any]] = {
    "upheld": {},
    "upheld by certificate": {"course": Course(certified=True)},
    "overturned by certificate": FALSE_ANSWER | {"course": Course(certified=True)},
    "undecided": {"course": Course(((Conduct.SILENT,) * 5,))},
    "draw": {"course": Course(((Conduct.ABSENT,) * 5,) * 3)},
    "refund": FALSE_ANSWER | {"course": Course(refund=True)},
}


class Row(NamedTuple):
    """What became of one receipt, what it was to operator, challenger and all seats together, and its first round."""

    fate: Fate
    gains: dict[str, int]
    round: Any


@pytest.fixture(scope="module")
def rows(system: WholeSystem) -> dict[str | int, Row]:
    """`COURSES` by name and `CONVICTED_FOR` by place, all in one play."""
    told = COURSES | {i: each for i, (each, _, _) in enumerate(CONVICTED_FOR)}
    story = system.play(tuple(Posted((AskedReceipt(**each),)) for each in told.values()))
    assert violations(system, story) == []
    found = {}
    for name, fate in zip(told, story.fates, strict=True):
        seats = sum(fate.gains[who] for who in VERIFIERS)
        gains = {"operator": fate.gains[OPERATOR.address], "challenger": fate.gains[CHALLENGER], "seats": seats}
        found[name] = Row(fate, gains, system.chain.one("Rounds", "roundOf", fate.dispute, 1))
    return found


def paid_to(system: WholeSystem, seats: int) -> int:
    """Seats that convict an operator alone: their share of the slash and their fees, rounded down to a seat."""
    money, shares = system.params.money, system.params.shares
    return (money.slash_amount * shares.beta_bps // 10_000 + seats * money.fee_per_seat) // seats * seats


def test_an_upheld_receipt_costs_its_challenger_the_bond(system: WholeSystem, rows: dict[str | int, Row]) -> None:
    fate, gains, _ = rows["upheld"]
    bond, fees = system.params.required_bond, SEATS[0] * system.params.money.fee_per_seat
    share = (bond - fees) * system.params.shares.operator_share_bps // 10_000
    assert (fate.verdict, fate.is_final) == (Verdict.UPHELD, True)
    assert gains == {"operator": share, "challenger": -bond, "seats": fees}


def test_a_conviction_costs_its_operator_a_slash(system: WholeSystem, rows: dict[str | int, Row]) -> None:
    """Each row of INVALID is there, by the code that goes into a vote."""
    due = {"operator": -system.params.money.slash_amount, "challenger": 0, "seats": paid_to(system, SEATS[0])}
    for place, (told, verdict, code) in enumerate(CONVICTED_FOR):
        fate, gains, _ = rows[place]
        assert (fate.verdict, fate.is_final, {vote.code for vote in fate.right_votes}) == (verdict, False, {code}), told
        assert gains == due, told
    invalid = {code for _, verdict, code in CONVICTED_FOR if verdict is Verdict.INVALID}
    assert invalid == {each.code for each in Defect.__subclasses__()}


@pytest.mark.parametrize("signed, voted", [("upheld by certificate", "upheld"), ("overturned by certificate", 0)])
def test_a_certificate_decides_as_votes_do(rows: dict[str | int, Row], signed: str, voted: str | int) -> None:
    assert rows[signed].fate.verdict is rows[voted].fate.verdict and rows[signed].gains == rows[voted].gains
    assert (rows[signed].round["committedMask"], rows[signed].round["certifiedMask"]) == (0, 2 ** SEATS[0] - 1)


def test_undecided_round_is_decided_by_the_next(system: WholeSystem, rows: dict[str | int, Row]) -> None:
    fate, gains, _ = rows["undecided"]
    bond, fees = system.params.required_bond, SEATS[1] * system.params.money.fee_per_seat
    lost = SEATS[0] * system.params.money.no_reveal_penalty
    assert (fate.verdict, fate.is_final, len(fate.rounds)) == (Verdict.UPHELD, True, 2)
    # The bond is less than the fees: the treasury has what is left of its advance back.
    assert gains == {"operator": 0, "challenger": -bond, "seats": fees - lost}


def test_a_draw_pays_nobody_and_costs_a_fee(system: WholeSystem, rows: dict[str | int, Row]) -> None:
    fate, gains, _ = rows["draw"]
    assert (fate.verdict, fate.is_final, len(fate.rounds)) == (Verdict.DRAW, False, 3)
    assert gains == {"operator": 0, "challenger": -system.params.money.fee_per_seat, "seats": 0}


def test_refund_pays_working_seats_and_returns_the_rest(system: WholeSystem, rows: dict[str | int, Row]) -> None:
    fate, gains, _ = rows["refund"]
    assert (fate.verdict, fate.is_final) == (Verdict.REFUNDED, False)
    assert gains == {"operator": 0, "challenger": 0, "seats": SEATS[0] * system.params.money.fee_per_seat}
