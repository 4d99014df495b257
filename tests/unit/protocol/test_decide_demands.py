"""Demands: within a budget that the chain remembers, in time, never twice; ended by who asked, or by anybody in turns."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.protocol.decisions.actions import DemandAnchor, DemandEnvelope, DemandList, Expire
from bytewise.protocol.decisions.demands import (
    Demand,
    DemandKind,
    DemandPolicy,
    DemandRecord,
    DemandState,
    MissingItem,
    decide_demands,
    decide_ends,
    spent,
)
from bytewise.protocol.decisions.disputes import MovePolicy
from bytewise.protocol.decisions.snapshot import Snapshot
from tests.fixtures.builders import signer
from tests.fixtures.snapshot_builders import NOW, OTHER, holdings, snapshot, word

ME = signer("tower").address
POLICY = DemandPolicy(budget_wei=100, budget_s=50, margin_s=10, tries=3)
MOVES = MovePolicy(turns=1, overdue=15)


def rich(balance_wei: int = 10**6, **changes: object) -> Snapshot:
    return snapshot(me=holdings(balance_wei=balance_wei), **changes)


def demand(**changes: object) -> DemandRecord:
    """An open demand of ours, with time left."""
    plain = DemandRecord(DemandKind.LIST, DemandState.OPEN, ME, OTHER, 0, 0, NOW - 5, NOW + 55, 1, 40)
    return replace(plain, **changes)  # type: ignore[arg-type]


def missing(number: int, bond_wei: int = 40, until: int = NOW + 60) -> MissingItem:
    return MissingItem(word("missing", number), DemandList(number, bond_wei), until)


RECORDS = st.builds(
    demand, state=st.sampled_from(DemandState), by=st.sampled_from((ME, OTHER)), bond=st.integers(1, 60),
    opened_at=st.integers(NOW - 80, NOW),
)  # fmt: skip
WANTED = st.builds(missing, st.integers(0, 9), st.integers(1, 60), st.integers(NOW - 5, NOW + 40))


@settings(max_examples=200)
@given(st.lists(WANTED, max_size=6), st.dictionaries(st.integers(0, 9), RECORDS, max_size=4), st.integers(0, 150))
def test_demand_stays_within_budget_and_is_never_late_or_repeated(
    wanted: list[MissingItem], demanded: dict[int, DemandRecord], balance: int
) -> None:
    known = {word("missing", number): each for number, each in demanded.items()}
    seen = rich(balance)
    chosen, beyond = decide_demands(seen, wanted, known, ME, POLICY)
    total = sum(each.demand.bond_wei for each in chosen)
    assert total <= balance and (not chosen or total + spent(seen, known, ME, POLICY) <= POLICY.budget_wei)
    left = min(balance, POLICY.budget_wei - spent(seen, known, ME, POLICY)) - total
    due = [each for each in wanted if each.subject not in known and NOW + POLICY.margin_s <= each.until]
    assert sorted((*chosen, *beyond), key=due.index) == sorted(due, key=due.index)
    assert all(each.demand.bond_wei > left for each in beyond)


def test_affordable_demands_are_made_in_order() -> None:
    first, second, third = missing(1), missing(2), missing(3, bond_wei=15)
    assert decide_demands(rich(), (first, second, third), {}, ME, POLICY) == ((first, second, third), ())
    assert decide_demands(rich(), (first, second, third), {word("x"): demand()}, ME, POLICY) == ((first, third), (second,))
    assert decide_demands(rich(paused=True), (first,), {}, ME, POLICY) == ((), ())
    kinds: tuple[Demand, ...] = (DemandEnvelope(word("r"), 1), DemandAnchor(word("a"), 1))
    others = tuple(MissingItem(word("other", i), each, NOW + 60) for i, each in enumerate(kinds))
    assert decide_demands(rich(), others, {}, ME, POLICY) == (others, ())


def test_bonds_count_while_locked_and_for_a_while_when_lost() -> None:
    def counted(**changes: object) -> int:
        return spent(rich(), {word("x"): demand(**changes)}, ME, POLICY)

    assert (counted(), counted(state=DemandState.ANSWERED)) == (40, 40)
    assert (counted(state=DemandState.EXPIRED), counted(by=OTHER), counted(opened_at=NOW - 50)) == (0, 0, 0)
    expired = {word("x"): demand(state=DemandState.EXPIRED), word("y"): demand(state=DemandState.EXPIRED)}
    assert spent(rich(), expired, ME, POLICY, {word("x")}) == 40, "its dispute may still be lost"


def test_demander_ends_its_demand_and_others_end_it_in_their_turn() -> None:
    mine, theirs, listed = word("mine"), word("theirs"), word("list")
    late = {"deadline": NOW - 1}
    known = {
        mine: demand(**late), theirs: demand(kind=DemandKind.ENVELOPE, by=OTHER, **late), listed: demand(by=OTHER, **late),
        word("in time"): demand(deadline=NOW), word("answered"): demand(state=DemandState.ANSWERED, **late),
    }  # fmt: skip
    assert decide_ends(rich(), known, ME, MOVES) == (Expire(mine), Expire(theirs)), "lists of others: `decide_expiries`"
    nobody = snapshot(me=holdings(pool=bytes(32)))
    assert decide_ends(nobody, known, ME, MOVES) == (Expire(mine),), "who is no verifier has no turn"
    assert Expire(theirs) in decide_ends(replace(nobody, clock=NOW + 15), known, ME, MOVES), "and helps when it is late"
    assert decide_ends(rich(paused=True), known, ME, MOVES) == ()
