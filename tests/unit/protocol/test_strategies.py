"""Proposals of strategies under a policy: each refusal has its reason, and no sequence exceeds the budget."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.decisions.actions import OpenDispute
from bytewise.protocol.decisions.snapshot import ExtendedWindow, Snapshot
from bytewise.protocol.decisions.strategies import (
    BUILT_IN,
    MAX_PROPOSALS,
    AuditEvent,
    DisputeEvent,
    DisputeProposal,
    ReceiptEvent,
    ReceiptTerms,
    Refusal,
    Spending,
    WatchPolicy,
    ask,
    built_in,
    decide_proposals,
    overridden,
)
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import U256, Digest
from tests.fixtures.bad_strategies import Doubling, Endless, EveryAudit, Nonsense, Strange
from tests.fixtures.builders import signer
from tests.fixtures.record_strategies import record
from tests.fixtures.snapshot_builders import NOW, anchored, case, holdings, snapshot, word

BOND = 100
POLICY = WatchPolicy(budget_wei=10 * BOND)
TERMS = {word("fraud"): ReceiptTerms(0, BOND), word("other"): ReceiptTerms(0, BOND)}
NOTHING = Spending(0, {})


def seen(window_end: int = NOW + 500, **changes: Any) -> Snapshot:
    return replace(snapshot(batches=(anchored(0, window_end=window_end),), me=holdings(balance_wei=10**6)), **changes)


def audit(mismatches: int, matches: int = 0) -> AuditEvent:
    return AuditEvent(word("fraud"), 0, signer("operator").address, mismatches, matches, NOW + 500, U256(BOND))


@pytest.mark.parametrize(
    ("name", "found"), [("observe", [0, 0, 1, 1, 0]), ("defend", [0, 0, 1, 1, 0]), ("hunt", [0, 1, 1, 1, 0])]
)
def test_built_in_strategy_disputes_what_enough_auditors_contradict(name: str, found: list[int]) -> None:
    strategy = built_in(name, mismatches=2)
    assert [len(ask(strategy, audit(*counts))) for counts in ((0, 0), (1, 0), (2, 1), (2, 0), (2, 2))] == found
    assert name in BUILT_IN and overridden(strategy) == ("on_audit",)


@pytest.mark.parametrize("kind", [ReceiptEvent, AuditEvent, DisputeEvent, DisputeProposal])
def test_events_and_proposals_keep_their_bytes(kind: Any) -> None:
    @given(record(kind))
    def keeps(value: Any) -> None:
        assert decode(kind, encode(value)) == value

    keeps()


@pytest.mark.parametrize("strategy", [Nonsense(), Strange(), Endless()])
def test_answer_that_is_no_short_list_of_proposals_is_refused(strategy: Any) -> None:
    with pytest.raises(MalformedValue) as refused:
        ask(strategy, audit(2))
    assert ("on_audit" in str(refused.value) and str(MAX_PROPOSALS) in str(refused.value)) or "DisputeProposal" in str(
        refused.value
    )


@pytest.mark.parametrize("values", [(b"short",), ("0x" + "00" * 32,), (word("fraud"), "x" * 201), (word("fraud"), 7)])
def test_proposal_of_wrong_types_cannot_be_made(values: tuple[Any, ...]) -> None:
    with pytest.raises(MalformedValue):
        DisputeProposal(*values)


@pytest.mark.parametrize(
    ("names", "changes", "refusal"),
    [
        (["unknown"], {}, Refusal.UNKNOWN),
        (["fraud", "fraud"], {}, Refusal.DOUBLE),
        (["fraud"], {"batches": (anchored(0, window_end=NOW + 1),)}, Refusal.LATE),
        (["fraud"], {"batches": ()}, Refusal.LATE),
        (["fraud"], {"me": holdings(balance_wei=BOND - 1)}, Refusal.BALANCE),
        (["fraud"], {"disputes": (case(receipt_id=word("fraud")),)}, Refusal.DISPUTED),
    ],
)
def test_refused_proposal_has_its_reason(names: list[str], changes: dict[str, Any], refusal: Refusal) -> None:
    proposals = [DisputeProposal(word(name)) for name in names]
    decision = decide_proposals(seen(**changes), proposals, TERMS, frozenset(), NOTHING, POLICY)
    assert [each.refusal for each in decision.refused] == [refusal]
    assert len(decision.actions) == len(names) - 1


def test_receipt_that_a_demand_holds_open_is_disputed_after_its_batch() -> None:
    closed, longer = (anchored(0, window_end=NOW - 1),), {word("fraud"): ExtendedWindow(0, NOW + 100)}
    asked = [DisputeProposal(word("fraud"))]
    late = decide_proposals(seen(batches=closed), asked, TERMS, frozenset(), NOTHING, POLICY)
    found = decide_proposals(seen(batches=closed, extended=longer), asked, TERMS, frozenset(), NOTHING, POLICY)
    assert late.refused[0].refusal is Refusal.LATE and [each.receipt_id for each in found.actions] == [word("fraud")]


def test_disputed_receipt_outside_the_snapshot_is_refused() -> None:
    found = decide_proposals(seen(), [DisputeProposal(word("fraud"))], TERMS, {word("fraud")}, NOTHING, POLICY)
    assert found.actions == () and found.refused[0].refusal is Refusal.DISPUTED


def test_proposal_beyond_the_budget_is_refused_and_an_ordered_one_is_not() -> None:
    both = [DisputeProposal(word("other")), DisputeProposal(word("fraud"))]
    policy = WatchPolicy(budget_wei=BOND)
    first = decide_proposals(seen(), both, TERMS, frozenset(), NOTHING, policy)
    assert first.actions == (OpenDispute(word("other"), BOND),) and first.refused[0].refusal is Refusal.BUDGET
    again = decide_proposals(seen(), both[::-1], TERMS, frozenset(), Spending(0, {word("other"): BOND}), policy)
    assert again == first, "the same dispute, without a second charge"
    opened = decide_proposals(seen(), both[1:], TERMS, frozenset(), Spending(BOND, {}), policy)
    assert opened.actions == () and opened.refused[0].refusal is Refusal.BUDGET
    none = decide_proposals(seen(), both, TERMS, frozenset(), NOTHING, WatchPolicy(budget_wei=0))
    assert none.actions == () and len(none.refused) == 2


def test_pause_refuses_nothing_and_opens_nothing() -> None:
    assert decide_proposals(seen(paused=True), [DisputeProposal(word("fraud"))], TERMS, frozenset(), NOTHING, POLICY) == ((), ())


STEPS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 9), max_size=12), st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)), st.booleans()
    ),
    max_size=12,
)  # fmt: skip


@given(steps=STEPS, budget=st.integers(0, 700), bonds=st.lists(st.integers(1, 200), min_size=10, max_size=10))
def test_no_sequence_of_proposals_spends_more_than_the_budget(
    steps: list[tuple[list[int], set[int], set[int], bool]], budget: int, bonds: list[int]
) -> None:
    """Each step: proposals, ordered disputes that are mined, receipts that others dispute, and whether own disputes are won."""
    names = [word("receipt", i) for i in range(10)]
    terms = {name: ReceiptTerms(0, bonds[i]) for i, name in enumerate(names)}
    ordered: dict[Digest, int] = {}
    opened: dict[Digest, int] = {}
    disputed: set[Digest] = set()
    policy = WatchPolicy(budget_wei=budget)
    for proposed, mined, taken, won in steps:
        spending = Spending(sum(opened.values()), ordered)
        found = decide_proposals(seen(), [DisputeProposal(names[i]) for i in proposed], terms, disputed, spending, policy)
        assert len({each.receipt_id for each in found.actions}) == len(found.actions), "one dispute for each receipt"
        assert not {each.receipt_id for each in found.actions} & disputed
        ordered |= {each.receipt_id: each.bond_wei for each in found.actions}
        assert sum(ordered.values()) + sum(opened.values()) <= budget
        for i in mined:
            if names[i] in ordered:
                opened[names[i]] = ordered.pop(names[i])
                disputed.add(names[i])
        for i in taken:
            ordered.pop(names[i], None)
            disputed.add(names[i])
        if won:
            opened.clear()


def test_doubling_strategy_has_one_dispute() -> None:
    proposals = ask(Doubling(), audit(2))
    found = decide_proposals(seen(), proposals, TERMS, frozenset(), NOTHING, POLICY)
    assert len(proposals) == 2 and len(found.actions) == 1 and found.refused[0].refusal is Refusal.DOUBLE
    assert ask(EveryAudit(), audit(1)) != ()
