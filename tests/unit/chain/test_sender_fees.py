"""What a transaction pays, how often that rises, and until when it is sent."""

import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bytewise.storage.outbox import OutboxState
from chain.deployment.params import DEVNET
from chain.sending.sender import SenderPolicy
from chain.sending.transactions import (
    BLOCK_S,
    HURRY_S,
    TIP_WEI,
    TX_GAS_CAP,
    Fees,
    fees_at,
    fees_of,
    first_fees,
    is_empty,
    raised_fees,
    tip_at,
    tip_has_doubled,
)
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import FEE_WEI, batch, deployed, pump, sender, signer
from tests.fixtures.chain.mined_sender import MinedSender, base_fee, governance, send, sign_only

IMPATIENT = SenderPolicy(confirmations=1, bump_after_s=0)


def test_a_stuck_transaction_pays_more_within_bounds(anvil: Anvil, tmp_path: Path) -> None:
    desk = MinedSender(anvil, tmp_path, IMPATIENT._replace(max_attempts=3))
    for _ in range(6):
        desk.sender.pump()
    attempts = desk.outbox.attempts(desk.row().id)
    assert len(attempts) == 3 and len({each.nonce for each in attempts}) == 1
    fees = [fees_of(each.raw)[0] for each in attempts]
    for low, high in itertools.pairwise(fees):
        assert high.max_fee * 10 >= low.max_fee * 11 and high.tip * 10 >= low.tip * 11
    pump(anvil, [desk.sender])
    assert desk.row().state is OutboxState.CONFIRMED and desk.batches() == 1


def test_refused_bytes_after_a_crash_pay_more_and_free_their_nonce(anvil: Anvil, tmp_path: Path) -> None:
    desk = MinedSender(anvil, tmp_path, IMPATIENT._replace(max_attempts=1))
    sign_only(desk)
    assert desk.row().state is OutboxState.SIGNED
    now = 2 * fees_of(desk.outbox.attempts(desk.row().id)[0].raw)[0].max_fee
    base_fee(anvil, now)
    desk.sender.pump()
    first, second = desk.outbox.attempts(desk.row().id)
    assert fees_of(second.raw)[0].max_fee > now > fees_of(first.raw)[0].max_fee and first.nonce == second.nonce
    assert desk.row().state is OutboxState.BROADCAST
    pump(anvil, [desk.sender])
    assert desk.row().state is OutboxState.CONFIRMED and desk.batches() == 1


def test_signed_bytes_are_submitted_before_others_are_made(anvil: Anvil, tmp_path: Path) -> None:
    desk = MinedSender(anvil, tmp_path, IMPATIENT)
    sign_only(desk)
    desk.sender.pump()
    assert desk.row().state is OutboxState.BROADCAST and len(desk.outbox.attempts(desk.row().id)) == 1


def test_moot_action_frees_its_nonce_after_base_fee_outgrew_it(anvil: Anvil, tmp_path: Path) -> None:
    desk = MinedSender(anvil, tmp_path, IMPATIENT)
    desk.sender.pump()
    paying = fees_of(desk.outbox.attempts(desk.row().id)[0].raw)[0].max_fee
    anvil.drop(desk.outbox.attempts(desk.row().id)[0].tx_hash)
    send(anvil.client, governance(desk.network, "close"), tip_wei=10**9)
    anvil.mine()
    anvil.pass_time(DEVNET.times.max_anchor_delay + 1)
    base_fee(anvil, 2 * paying)
    desk.sender.pump()
    pump(anvil, [desk.sender])
    assert desk.row().state is OutboxState.REVERTED and anvil.client.nonce(signer(1).address) == 3


def test_a_gas_limit_stays_within_what_one_transaction_may_use(anvil: Anvil, tmp_path: Path) -> None:
    desk = MinedSender(anvil, tmp_path, IMPATIENT)
    transactions = desk.sender.transactions
    desk.sender.pump()
    signed = transactions._version_signer(desk.row().intent, 2 * TX_GAS_CAP, Fees(10**10, 10**9))(99)
    assert fees_of(signed.raw)[1] == TX_GAS_CAP


def test_a_planned_batch_is_not_signed_after_its_deadline(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    operator = sender(anvil, network, signer(1), tmp_path)
    operator.anchor(batch(network, signer(1), 1, 2, 0).header, FEE_WEI, deadline=anvil.client.head().timestamp + 60)
    anvil.pass_time(100)
    assert operator.pump() == 0
    (row,) = operator.transactions.outbox.all()
    assert (row.state, row.nonce) == (OutboxState.EXPIRED, None)


def test_expired_signed_bytes_are_not_sent_and_their_nonce_is_voided(anvil: Anvil, tmp_path: Path) -> None:
    desk = MinedSender(anvil, tmp_path, IMPATIENT._replace(replan_after_s=0))
    outbox = desk.outbox
    outbox.lease.acquire()
    outbox.mark(desk.row().id, OutboxState.EXPIRED)
    outbox.replan(desk.row().id, desk.row().intent._replace(deadline=anvil.client.head().timestamp + 60))
    desk.sender.pump()
    (attempt,) = outbox.attempts(desk.row().id)
    anvil.drop(attempt.tx_hash)
    anvil.pass_time(100)
    desk.sender.pump()
    assert not anvil.client.knows(attempt.tx_hash)
    first, second = outbox.attempts(desk.row().id)
    assert is_empty(second.raw) and not is_empty(first.raw) and first.nonce == second.nonce
    pump(anvil, [desk.sender])
    assert desk.row().state is OutboxState.EXPIRED and desk.batches() == 0
    assert anvil.client.nonce(signer(1).address) == second.nonce + 1, "what comes later does not wait for it"
    anvil.reorganise(2)
    anvil.pass_time(300)
    pump(anvil, [desk.sender])
    assert desk.row().state is OutboxState.EXPIRED and anvil.client.nonce(signer(1).address) == second.nonce + 1
    desk.post(1)
    pump(anvil, [desk.sender])
    assert desk.row().state is OutboxState.CONFIRMED and desk.batches() == 1


def test_action_near_its_deadline_pays_more(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    anvil.automine(False)
    operator = sender(anvil, network, signer(1), tmp_path, SenderPolicy(confirmations=1, bump_after_s=10**6, max_attempts=1))
    outbox, end = operator.transactions.outbox, anvil.client.head().timestamp + 2 * HURRY_S
    operator.anchor(batch(network, signer(1), 1, 2, 0).header, FEE_WEI, deadline=end)
    tips = []
    for left in (2 * HURRY_S, HURRY_S + 60, 450, 250, 240, 110, 48, 5):
        for attempt in outbox.attempts(1):
            anvil.drop(attempt.tx_hash)
        anvil.pass_time(max(end - left - anvil.client.head().timestamp - 1, 0))
        operator.pump()
        tips.append(fees_of(outbox.attempts(1)[-1].raw)[0].tip)
    gwei = [tip / TIP_WEI for tip in tips]
    assert gwei[:3] == [1, 1, 1] and gwei[3] == gwei[4] and gwei[-1] == HURRY_S / BLOCK_S
    assert gwei == sorted(gwei) and len(set(gwei)) == len(outbox.attempts(1)) == 5
    pump(anvil, [operator])
    assert outbox.all()[0].state is OutboxState.CONFIRMED


def test_deadline_moved_by_the_chain_updates_the_row(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    operator = sender(anvil, network, signer(1), tmp_path)
    header, now = batch(network, signer(1), 1, 2, 0).header, anvil.client.head().timestamp
    for deadline in (now - 5, now + 60):
        operator.anchor(header, FEE_WEI, deadline=deadline)
        assert operator.transactions.outbox.all()[0].intent.deadline == deadline
    pump(anvil, [operator])
    assert operator.transactions.outbox.all()[0].state is OutboxState.CONFIRMED


def test_the_fee_ceiling_holds(anvil: Anvil, tmp_path: Path) -> None:
    ceiling = fees_at(anvil.client.head().base_fee_wei).max_fee
    desk = MinedSender(anvil, tmp_path, IMPATIENT._replace(max_fee_wei=ceiling))
    for _ in range(4):
        desk.sender.pump()
    assert all(fees_of(each.raw)[0].max_fee <= ceiling for each in desk.outbox.attempts(desk.row().id))


WEI = st.integers(1, 10**13)
LEFT = st.none() | st.integers(-100, 10_000)


@given(early=st.integers(-100, 10_000), late=st.integers(-100, 10_000))
def test_a_tip_never_falls_as_a_deadline_comes_near(early: int, late: int) -> None:
    early, late = max(early, late), min(early, late)
    assert TIP_WEI <= tip_at(early) <= tip_at(late) <= TIP_WEI * HURRY_S // BLOCK_S
    assert tip_at(early) == tip_at(None) or early < HURRY_S


@given(base=WEI, left=LEFT, ceiling=WEI)
def test_a_first_offer_is_within_the_ceiling_and_for_the_time_left(base: int, left: int | None, ceiling: int) -> None:
    fees = first_fees(base, left, ceiling)
    assert fees.tip <= fees.max_fee <= ceiling
    assert fees.tip == tip_at(left) or fees.max_fee == ceiling


@given(max_fee=WEI, tip=WEI, base=WEI, left=LEFT, ceiling=WEI)
def test_a_raise_is_a_tenth_at_least_and_within_the_ceiling(
    max_fee: int, tip: int, base: int, left: int | None, ceiling: int
) -> None:
    old = Fees(max(max_fee, tip), min(max_fee, tip))
    new = raised_fees(old, base, left, ceiling)
    if new is None:
        assert ceiling * 10 < old.max_fee * 11 + 20, "there was no room for a tenth"
        return
    assert new.max_fee * 10 >= old.max_fee * 11 and new.tip * 10 >= old.tip * 11
    assert new.tip <= new.max_fee <= ceiling
    assert new.max_fee == ceiling or (new.max_fee >= fees_at(base, tip_at(left)).max_fee and new.tip >= tip_at(left))


@given(left=st.integers(0, 5_000), step=st.integers(1, 60), ceiling=st.integers(10 * TIP_WEI, 500 * TIP_WEI))
def test_stuck_action_is_raised_a_few_times_and_pays_for_the_last_block(left: int, step: int, ceiling: int) -> None:
    base, versions = 10**9, [first_fees(10**9, left, ceiling)]
    for now in range(left - step, -1, -step):
        if tip_has_doubled(versions[-1], now):
            better = raised_fees(versions[-1], base, now, ceiling)
            versions += [] if better is None else [better]
    assert len(versions) <= 7, "each is twice the one before, but the last, which the ceiling cuts"
    assert versions[-1].tip * 2 > min(tip_at(step), ceiling) or versions[-1].max_fee * 11 > 10 * ceiling
