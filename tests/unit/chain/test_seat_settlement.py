"""Money in events: who held which seats and what each was paid and charged (`SeatsSettled`), and who paid which fees."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.court.settlement import SeatOutcome
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import ZERO_ADDRESS, Address
from chain.client.artifacts import Log
from chain.reads.earnings import TakenFrom, earnings
from chain.reads.history import CourtHistory, _seat_ends
from tests.fixtures.chain.devnet import word

PEOPLE = [ZERO_ADDRESS, *(Address(f"0x{n:040x}") for n in range(1, 5))]
PER_SEAT = 7
CHARGED = (SeatOutcome.ABSENT, SeatOutcome.NOT_REVEALED, SeatOutcome.WRONG)


def settled(first: int, holders: list[Address], standings: list[SeatOutcome], charges: dict[Address, int]) -> Log:
    """The event."""
    values: dict[str, Any] = {
        "id": word("dispute"), "round": 1, "from": first, "perSeat": PER_SEAT, "holders": holders, "standings": bytes(standings),
        "charges": [{"voter": who, "amount": amount} for who, amount in charges.items()],
    }  # fmt: skip
    return Log(ZERO_ADDRESS, "SeatsSettled", values, 9, word("block"), 0, word("transaction"))


@given(st.integers(0, 200), st.lists(st.sampled_from(PEOPLE), max_size=20), st.data())
def test_every_seat_and_every_wei_is_assigned_to_its_holder(first: int, holders: list[Address], data: st.DataObject) -> None:
    standing_of = {who: data.draw(st.sampled_from(list(SeatOutcome)[1:])) for who in PEOPLE[1:]} | {
        ZERO_ADDRESS: SeatOutcome.NONE
    }
    charges = {who: 10 + n for n, who in enumerate(dict.fromkeys(holders)) if standing_of[who] in CHARGED}
    ends = _seat_ends(settled(first, holders, [standing_of[who] for who in holders], charges))
    seats = {seat: each.voter for each in ends for seat in range(256) if each.seat_mask >> seat & 1}
    assert seats == {first + i: who for i, who in enumerate(holders) if who != ZERO_ADDRESS}
    assert {each.voter: each.penalty for each in ends if each.penalty} == charges
    for each in ends:
        assert each.standing is standing_of[each.voter] and (each.dispute, each.round, each.block) == (word("dispute"), 1, 9)
        paid = each.standing in (SeatOutcome.RIGHT, SeatOutcome.WORKED)
        assert each.pay == holders.count(each.voter) * PER_SEAT * paid


def test_charge_of_an_account_without_that_seat_is_refused() -> None:
    right = settled(0, [PEOPLE[1]], [SeatOutcome.RIGHT], {PEOPLE[1]: 5})
    stranger = settled(0, [PEOPLE[1]], [SeatOutcome.WRONG], {PEOPLE[1]: 5, PEOPLE[2]: 5})
    for log in (right, stranger):
        with pytest.raises(MalformedValue, match="holds no seat that is charged"):
            _seat_ends(log)


def test_standings_of_other_seats_are_refused() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        _seat_ends(settled(0, [PEOPLE[1]], [SeatOutcome.RIGHT] * 2, {}))


def test_fee_of_a_batch_is_paid_by_its_operator() -> None:
    market, (one, other) = PEOPLE[4], PEOPLE[1:3]
    names = dict.fromkeys(("receipt_anchor", "ledger"), ZERO_ADDRESS) | {"fee_market": market}
    taken = [(market, 5, TakenFrom.FEE), (one, 9, TakenFrom.FEE), (market, 70, TakenFrom.FEE), (market, 600, TakenFrom.FEE)]
    payments = [{"ref": word("pot"), "from": payer, "amount": amount, "source": source} for payer, amount, source in taken]
    values: dict[str, Any] = {"BatchAnchored": [{"operator": who} for who in (one, other, one)], "Taken": payments}

    def logs(_contract: str, _at: Address, events: tuple[str, ...], *_blocks: int) -> list[Log]:
        found = [(event, each) for event in events for each in values.get(event, [])]
        return [Log(ZERO_ADDRESS, event, each, 9, word("block"), n, word("t")) for n, (event, each) in enumerate(found)]

    reader: Any = SimpleNamespace(network=SimpleNamespace(addresses=SimpleNamespace(**names)), client=SimpleNamespace(logs=logs))
    paid = {who: earnings(CourtHistory(reader), who, 0, 9).paid for who in PEOPLE[1:]}
    assert paid == {one: {"fee": 614}, other: {"fee": 70}, PEOPLE[3]: {}, market: {}}
