"""What a transaction pays, how often that rises, and until when it is sent."""

import itertools
from pathlib import Path

from bytewise.storage.outbox import State
from chain.sender import SenderPolicy
from chain.transactions import TX_GAS_CAP, Fees, account_nonce, bumped, fees_at, fees_of
from tests.anvil import Anvil, running_anvil
from tests.devnet import batch, deployed, pump, sender, signer
from tests.unit.chain.desk import Desk, base_fee, governance, send, sign_only

IMPATIENT = SenderPolicy(confirmations=1, bump_after_s=0)


def test_a_stuck_transaction_pays_more_within_bounds(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path, IMPATIENT._replace(max_attempts=3))
    for _ in range(6):
        desk.sender.pump()
    attempts = desk.outbox.attempts(desk.row().id)
    assert len(attempts) == 3 and len({each.nonce for each in attempts}) == 1
    fees = [fees_of(each.raw)[0] for each in attempts]
    for low, high in itertools.pairwise(fees):
        assert high.max_fee * 10 >= low.max_fee * 11 and high.tip * 10 >= low.tip * 11
    pump(anvil, [desk.sender])
    assert desk.row().state is State.CONFIRMED and desk.batches() == 1


def test_bytes_that_a_node_refuses_after_a_crash_pay_more_and_free_their_nonce(tmp_path: Path) -> None:
    with running_anvil() as anvil:
        desk = Desk(anvil, tmp_path, IMPATIENT._replace(max_attempts=1))
        base = anvil.client.head().base_fee_wei
        sign_only(desk)
        assert desk.row().state is State.SIGNED
        base_fee(anvil, 60 * base)
        desk.sender.pump()
        first, second = desk.outbox.attempts(desk.row().id)
        assert fees_of(second.raw)[0].max_fee > 60 * base > fees_of(first.raw)[0].max_fee and first.nonce == second.nonce
        assert desk.row().state is State.BROADCAST
        pump(anvil, [desk.sender])
        assert desk.row().state is State.CONFIRMED and desk.batches() == 1


def test_signed_bytes_are_handed_in_before_others_are_made(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path, IMPATIENT)
    sign_only(desk)
    desk.sender.pump()
    assert desk.row().state is State.BROADCAST and len(desk.outbox.attempts(desk.row().id)) == 1


def test_an_act_that_is_moot_still_frees_its_nonce_when_the_base_fee_outgrew_it(tmp_path: Path) -> None:
    with running_anvil() as anvil:
        desk = Desk(anvil, tmp_path, IMPATIENT)
        desk.sender.pump()
        base = anvil.client.head().base_fee_wei
        anvil.drop(desk.outbox.attempts(desk.row().id)[0].tx_hash)
        send(anvil.client, governance(desk.network, "setModel"), tip_wei=10**9)
        anvil.mine()
        base_fee(anvil, 60 * base)
        desk.sender.pump()
        pump(anvil, [desk.sender])
        assert desk.row().state is State.REVERTED and account_nonce(anvil.client, signer(1).address) == 3


def test_a_gas_limit_stays_within_what_one_transaction_may_use(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path, IMPATIENT)
    transactions = desk.sender.transactions
    desk.sender.pump()
    signed = transactions._maker(desk.row().intent, 2 * TX_GAS_CAP, Fees(10**10, 10**9))(99)
    assert fees_of(signed.raw)[1] == TX_GAS_CAP


def test_a_planned_batch_is_not_signed_after_its_deadline(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    operator = sender(anvil, network, signer(1), tmp_path)
    operator.anchor(batch(network, signer(1), 1, 2, 0).header, deadline=anvil.client.head().timestamp + 60)
    anvil.pass_time(100)
    assert operator.pump() == 0
    (row,) = operator.transactions.outbox.all()
    assert (row.state, row.nonce) == (State.EXPIRED, None)


def test_signed_bytes_are_not_sent_after_their_deadline(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path, IMPATIENT)
    outbox = desk.outbox
    outbox.lane.acquire()
    outbox.mark(desk.row().id, State.EXPIRED)
    outbox.replan(desk.row().id, desk.row().intent._replace(deadline=anvil.client.head().timestamp + 60))
    desk.sender.pump()
    (attempt,) = outbox.attempts(desk.row().id)
    anvil.drop(attempt.tx_hash)
    anvil.pass_time(100)
    for _ in range(3):
        desk.sender.pump()
    assert anvil.rpc("eth_getTransactionByHash", "0x" + attempt.tx_hash.hex()) is None
    assert len(outbox.attempts(desk.row().id)) == 1 and desk.batches() == 0


def test_the_fee_ceiling_holds(anvil: Anvil, tmp_path: Path) -> None:
    ceiling = fees_at(anvil.client.head().base_fee_wei).max_fee
    desk = Desk(anvil, tmp_path, IMPATIENT._replace(max_fee_wei=ceiling))
    for _ in range(4):
        desk.sender.pump()
    assert all(fees_of(each.raw)[0].max_fee <= ceiling for each in desk.outbox.attempts(desk.row().id))


def test_a_raise_is_a_tenth_at_least() -> None:
    assert bumped(Fees(100, 10), 0).max_fee >= 110
    assert bumped(Fees(1, 1), 7) == fees_at(7)
