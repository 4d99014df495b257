"""The outbox and its nonce lease: one process, one row per intent, bytes before broadcast."""

from typing import Any

import pytest
from sqlalchemy import Engine

from bytewise.protocol.errors.actors import LeaseLost, LeaseTaken, StoreCorrupt
from bytewise.storage.engine import open_database
from bytewise.storage.nonce_lease import DEFAULT_TTL_S, NonceLease
from bytewise.storage.outbox import OPEN, TRANSITIONS, Outbox, OutboxState, SignedTransaction
from tests.fixtures.storage.children import Child, intent, race, signed
from tests.fixtures.storage.hand_clock import HandClock
from tests.fixtures.storage.stored_records import ACCOUNT, OTHER, name


@pytest.fixture
def outbox(engine: Engine, clock: HandClock) -> Outbox:
    lease = NonceLease(engine, clock, 1, ACCOUNT)
    lease.acquire()
    return Outbox(lease)


def test_the_same_intent_is_one_row(outbox: Outbox) -> None:
    first = outbox.plan(intent(1))
    assert outbox.plan(intent(1)._replace(calldata=b"other")) == first
    assert outbox.plan(intent(2)).id != first.id
    assert outbox.find(ACCOUNT, "commit", name(1), "vote") == first
    assert first.intent == intent(1) and first.state is OutboxState.PLANNED


def test_nonces_follow_each_other_and_the_chain(outbox: Outbox) -> None:
    items = [outbox.plan(intent(number)) for number in range(4)]
    taken = [outbox.sign(item.id, chain_nonce, signed).nonce for item, chain_nonce in zip(items, (5, 5, 5, 9), strict=True)]
    assert taken == [5, 6, 7, 9]
    assert outbox.lease.next_nonce(0) == 10
    assert [item.nonce for item in outbox.open_rows()] == [5, 6, 7, 9]


def test_a_signature_that_fails_takes_no_nonce(outbox: Outbox) -> None:
    item = outbox.plan(intent(1))

    def fails(nonce: int) -> SignedTransaction:
        raise OSError("the signer is down")

    with pytest.raises(OSError, match="down"):
        outbox.sign(item.id, 3, fails)
    assert outbox.item(item.id).state is OutboxState.PLANNED and outbox.lease.next_nonce(0) == 0


def test_transaction_passes_through_all_states(outbox: Outbox) -> None:
    item = outbox.plan(intent(1))
    attempt = outbox.sign(item.id, 0, signed)
    outbox.broadcast(item.id, attempt.tx_hash)
    mined = outbox.mark(item.id, OutboxState.MINED, block_number=7, block_hash=name(7))
    assert (mined.block_number, mined.block_hash) == (7, name(7))
    outbox.mark(item.id, OutboxState.BROADCAST, detail="reorganised away")
    assert outbox.item(item.id).block_hash is None
    outbox.mark(item.id, OutboxState.MINED, block_number=8, block_hash=name(8))
    outbox.mark(item.id, OutboxState.CONFIRMED)
    assert outbox.open_rows() == () and len(outbox.all()) == 1


def test_a_replacement_keeps_nonce_and_every_version(outbox: Outbox) -> None:
    item = outbox.plan(intent(1))
    first = outbox.sign(item.id, 4, signed)
    outbox.broadcast(item.id, first.tx_hash)
    second = outbox.replace(item.id, lambda nonce: signed(nonce, fee=1))
    assert (second.attempt, second.nonce) == (2, 4)
    assert outbox.item(item.id).state is OutboxState.SIGNED
    assert [a.raw for a in outbox.attempts(item.id)] == [first.raw, second.raw]
    assert outbox.replace(item.id, lambda nonce: signed(nonce, fee=1)) == second, "the same bytes are no new version"


def test_ended_row_can_be_planned_again_and_a_confirmed_one_cannot(outbox: Outbox) -> None:
    item = outbox.plan(intent(1))
    outbox.sign(item.id, 4, signed)
    outbox.mark(item.id, OutboxState.REPLACED, detail="a stranger used nonce 4")
    assert outbox.replan(item.id, intent(1)).nonce is None
    assert outbox.sign(item.id, 5, signed).attempt == 2
    outbox.mark(item.id, OutboxState.MINED, block_number=1, block_hash=name(1))
    outbox.mark(item.id, OutboxState.CONFIRMED)
    with pytest.raises(StoreCorrupt):
        outbox.replan(item.id, intent(1))


def at_state(outbox: Outbox, number: int, state: OutboxState) -> int:
    """A row in this state."""
    item = outbox.plan(intent(number)).id
    if state is not OutboxState.PLANNED:
        outbox.sign(item, 0, signed)
    for step in {
        OutboxState.PLANNED: [], OutboxState.SIGNED: [], OutboxState.CONFIRMED: [OutboxState.MINED, state],
        OutboxState.FINAL: [OutboxState.MINED, OutboxState.CONFIRMED, state],
    }.get(state, [state]):  # fmt: skip
        outbox.mark(item, step, **block_of(step))
    return item


def block_of(state: OutboxState) -> dict[str, Any]:
    return {"block_number": 1, "block_hash": name(1)} if state is OutboxState.MINED else {}


@pytest.mark.parametrize("start", OutboxState)
def test_only_listed_transitions_are_possible(outbox: Outbox, start: OutboxState) -> None:
    for number, end in enumerate(OutboxState):
        item = at_state(outbox, number, start)
        if end in TRANSITIONS[start]:
            assert outbox.mark(item, end, **block_of(end)).state is end
        else:
            with pytest.raises(StoreCorrupt):
                outbox.mark(item, end, **block_of(end))


def test_a_row_is_mined_in_a_block_and_only_signed_bytes_are_broadcast(outbox: Outbox) -> None:
    item = outbox.plan(intent(1))
    outbox.sign(item.id, 0, signed)
    with pytest.raises(StoreCorrupt):
        outbox.mark(item.id, OutboxState.MINED)
    with pytest.raises(StoreCorrupt):
        outbox.broadcast(item.id, name(404))
    assert outbox.item(item.id).state is OutboxState.SIGNED, "the transaction was rolled back"


def test_state_without_transitions_is_final() -> None:
    assert {state for state in OutboxState if not TRANSITIONS[state]} == {OutboxState.FINAL}
    assert {
        state for state in OutboxState if TRANSITIONS[state] - {OutboxState.PLANNED, OutboxState.BROADCAST, OutboxState.FINAL}
    } == set(OPEN)


def test_rows_ended_with_a_nonce_may_leave_the_chain_and_final_may_not(outbox: Outbox) -> None:
    items = [outbox.plan(intent(number)) for number in range(3)]
    for place, item in enumerate(items[:2]):
        outbox.sign(item.id, 0, signed)
        outbox.mark(item.id, OutboxState.MINED, block_number=place, block_hash=name(place))
        outbox.mark(item.id, OutboxState.CONFIRMED)
    outbox.mark(items[2].id, OutboxState.EXPIRED)
    outbox.mark(items[1].id, OutboxState.FINAL)
    assert [item.id for item in outbox.leavable_rows()] == [items[0].id]


def test_bytes_of_an_earlier_nonce_are_loose_until_the_chain_used_it(outbox: Outbox) -> None:
    item = outbox.plan(intent(1))
    outbox.sign(item.id, 4, signed)
    second = outbox.replace(item.id, lambda nonce: signed(nonce, fee=1))
    assert outbox.loose(4) == (), "its own nonce is the row's affair"
    outbox.mark(item.id, OutboxState.REVERTED)
    outbox.replan(item.id, intent(1))
    assert outbox.loose(4) == (second,) and outbox.loose(5) == (), "the best paid version"
    outbox.sign(item.id, 5, lambda nonce: signed(nonce, fee=2))
    assert outbox.loose(4) == (second,)


def test_a_second_process_waits_until_the_lease_ends(engine: Engine, outbox: Outbox, clock: HandClock) -> None:
    second = NonceLease(engine, clock, 1, ACCOUNT)
    with pytest.raises(LeaseTaken):
        second.acquire()
    assert NonceLease(engine, clock, 1, OTHER).acquire() > 0, "another account is another nonce lease"
    clock.seconds += DEFAULT_TTL_S
    outbox.lease.acquire()
    with pytest.raises(LeaseTaken):
        second.acquire()
    outbox.lease.release()
    assert second.acquire() > 0


def test_process_that_wakes_after_its_lease_cannot_write(engine: Engine, outbox: Outbox, clock: HandClock) -> None:
    item = outbox.plan(intent(1))
    clock.seconds += DEFAULT_TTL_S
    second = NonceLease(engine, clock, 1, ACCOUNT)
    second.acquire()
    with pytest.raises(LeaseLost):
        outbox.sign(item.id, 0, signed)
    with pytest.raises(LeaseLost):
        outbox.mark(item.id, OutboxState.EXPIRED)
    outbox.lease.release()
    assert Outbox(second).sign(item.id, 0, signed).nonce == 0, "and its release did not free the other's lease"


def test_one_of_four_processes_gets_the_account(url: str) -> None:
    assert sum(race(*(Child("lease", url, 0) for _ in range(4)))) == 1


def test_no_nonce_is_reused_or_lost_while_an_account_changes_owner(url: str, clock: HandClock) -> None:
    left, right = race(Child("nonces", url, 1), Child("nonces", url, 2))
    assert sorted(left + right) == list(range(40))
    rows = Outbox(NonceLease(open_database(url), clock, 1, ACCOUNT)).all()
    assert sorted(item.nonce or 0 for item in rows) == list(range(40)), "and each row has its own"


def test_stopped_account_gives_its_reason_until_resumed(outbox: Outbox) -> None:
    outbox.lease.stop("a stranger used our nonce")
    assert outbox.lease.stop_reason() == "a stranger used our nonce"
    outbox.lease.resume()
    assert outbox.lease.stop_reason() == ""


@pytest.mark.parametrize(("broadcast", "state"), [(0, OutboxState.SIGNED), (1, OutboxState.BROADCAST)])
def test_signed_bytes_survive_sigkill(url: str, broadcast: int, state: OutboxState) -> None:
    child = Child("sign", url, broadcast)
    child.wait_ready()
    child.go()
    assert child.line() == "signed"
    child.kill()
    clock = HandClock(2**33)  # past the dead process's lease
    outbox = Outbox(NonceLease(open_database(url), clock, 1, ACCOUNT))
    outbox.lease.acquire()
    (item,) = outbox.open_rows()
    assert (item.state, item.nonce) == (state, 5)
    (attempt,) = outbox.attempts(item.id)
    assert SignedTransaction(attempt.raw, attempt.tx_hash) == signed(5)
    assert outbox.lease.next_nonce(5) == 6
