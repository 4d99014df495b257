"""One transaction per intent, whatever dies, drops or reorganises (design section 2, research/ecosystem.md 3.1)."""

import itertools
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bytewise.protocol.errors import LaneOwned, LaneStopped
from bytewise.protocol.network import Network
from bytewise.service.settings import child_environment
from bytewise.storage.outbox import Item, Outbox, State
from chain.artifacts import interface
from chain.client import ChainClient
from chain.deploy import write_network
from chain.intents import ContractSender
from chain.reader import ChainReader
from chain.sender import SenderPolicy
from chain.transactions import TX_GAS_CAP, Call, Fees, account_nonce, bumped, fees_at, fees_of, sign
from tests.anvil import Anvil, running_anvil
from tests.devnet import MODEL, batch, deployed, pump, reader, sender, signer

HERE = Path(__file__).parent
IMPATIENT = SenderPolicy(confirmations=1, bump_after_s=0)


class Desk:
    """An operator's sender on a chain that is mined by hand, with one batch planned."""

    def __init__(self, anvil: Anvil, folder: Path, policy: SenderPolicy | None = None) -> None:
        self.anvil, self.folder = anvil, folder
        self.network: Network = deployed(anvil)
        self.chain: ChainReader = reader(anvil, self.network)
        anvil.automine(False)
        self.sender: ContractSender = sender(anvil, self.network, signer(1), folder, policy)
        self.post(1)

    @property
    def outbox(self) -> Outbox:
        return self.sender.transactions.outbox

    def post(self, first_seq: int, count: int = 2) -> None:
        self.sender.anchor(batch(self.network, signer(1), first_seq, count, 0).header)

    def row(self, place: int = 0) -> Item:
        return self.outbox.all()[place]

    def batches(self) -> int:
        return len(self.chain.batches(0, self.chain.head()))


def test_an_intent_becomes_one_transaction_however_often_it_is_asked(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path)
    desk.post(1)
    assert [item.state for item in desk.outbox.all()] == [State.PLANNED]
    assert desk.sender.pump() == 1
    assert desk.row().state is State.BROADCAST
    desk.post(1)
    anvil.mine()
    assert desk.sender.pump() == 0
    desk.post(1)
    assert desk.sender.pump() == 0
    assert desk.row().state is State.CONFIRMED and desk.batches() == 1


def test_a_batch_waits_for_the_one_before(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path)
    desk.post(3)
    desk.sender.pump()
    assert [item.state for item in desk.outbox.all()] == [State.BROADCAST, State.PLANNED]
    pump(anvil, [desk.sender])
    assert [item.state for item in desk.outbox.all()] == [State.CONFIRMED] * 2 and desk.batches() == 2


def test_confirmations_are_counted(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path, SenderPolicy(confirmations=3))
    desk.sender.pump()
    states = []
    for _ in range(3):
        anvil.mine()
        desk.sender.pump()
        states.append(desk.row().state)
    assert states == [State.MINED, State.MINED, State.CONFIRMED]


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_kill_around_the_broadcast_leaves_exactly_one_transaction(anvil: Anvil, tmp_path: Path, point: str) -> None:
    network = deployed(anvil)
    anvil.automine(False)
    write_network(tmp_path / "network.json", network)
    program = [sys.executable, str(HERE / "crashing_sender.py"), anvil.url, str(tmp_path / "network.json"), str(tmp_path), point]
    root = {"PYTHONPATH": str(HERE.parents[2])}
    died = subprocess.run(program, env=child_environment(root), timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL
    again = sender(anvil, network, signer(1), tmp_path)
    (row,) = again.transactions.outbox.all()
    (attempt,) = again.transactions.outbox.attempts(row.id)
    assert (row.state, row.nonce) == (State.SIGNED, attempt.nonce)
    known = anvil.rpc("eth_getTransactionByHash", "0x" + attempt.tx_hash.hex())
    assert (known is not None) == (point == "after")
    again.anchor(batch(network, signer(1), 1, 2, anvil.client.head().timestamp).header)
    _wait_for_lease(again)
    pump(anvil, [again])
    assert [item.state for item in again.transactions.outbox.all()] == [State.CONFIRMED]
    assert [each.tx_hash for each in again.transactions.outbox.attempts(row.id)] == [attempt.tx_hash], "the same bytes"
    assert len(reader(anvil, network).batches(0, anvil.client.head().number)) == 1
    assert account_nonce(anvil.client, signer(1).address) == attempt.nonce + 1


def test_two_processes_never_write_for_one_account(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path)
    desk.sender.pump()
    other = sender(anvil, desk.network, signer(1), tmp_path, owner="another process")
    with pytest.raises(LaneOwned):
        other.pump()


def test_dropped_bytes_are_handed_in_again(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path)
    desk.sender.pump()
    (attempt,) = desk.outbox.attempts(desk.row().id)
    anvil.drop(attempt.tx_hash)
    anvil.mine()
    assert desk.batches() == 0
    pump(anvil, [desk.sender])
    assert desk.batches() == 1 and len(desk.outbox.attempts(desk.row().id)) == 1


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
        _sign_only(desk)
        assert desk.row().state is State.SIGNED
        _base_fee(anvil, 60 * base)
        desk.sender.pump()
        first, second = desk.outbox.attempts(desk.row().id)
        assert fees_of(second.raw)[0].max_fee > 60 * base > fees_of(first.raw)[0].max_fee and first.nonce == second.nonce
        assert desk.row().state is State.BROADCAST
        pump(anvil, [desk.sender])
        assert desk.row().state is State.CONFIRMED and desk.batches() == 1


def test_signed_bytes_are_handed_in_before_others_are_made(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path, IMPATIENT)
    _sign_only(desk)
    desk.sender.pump()
    assert desk.row().state is State.BROADCAST and len(desk.outbox.attempts(desk.row().id)) == 1


def test_an_act_that_is_moot_still_frees_its_nonce_when_the_base_fee_outgrew_it(tmp_path: Path) -> None:
    with running_anvil() as anvil:
        desk = Desk(anvil, tmp_path, IMPATIENT)
        desk.sender.pump()
        base = anvil.client.head().base_fee_wei
        anvil.drop(desk.outbox.attempts(desk.row().id)[0].tx_hash)
        _send(anvil.client, _governance(desk.network, "setModel"), tip_wei=10**9)
        anvil.mine()
        _base_fee(anvil, 60 * base)
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


@pytest.mark.parametrize("depth", [1, 4, 8])
def test_a_reorganisation_takes_a_transaction_back_and_it_is_sent_again(anvil: Anvil, tmp_path: Path, depth: int) -> None:
    desk = Desk(anvil, tmp_path, SenderPolicy(confirmations=10))
    desk.sender.pump()
    anvil.mine(depth)
    desk.sender.pump()
    assert desk.row().state is State.MINED
    anvil.reorganise(depth)
    assert desk.batches() == 0
    for _ in range(14):
        desk.sender.pump()
        anvil.mine()
    assert desk.row().state is State.CONFIRMED and desk.batches() == 1


def test_a_stranger_with_our_key_stops_the_lane(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path)
    desk.sender.pump()
    (attempt,) = desk.outbox.attempts(desk.row().id)
    _replace_by_stranger(anvil.client, attempt.nonce)
    anvil.mine()
    desk.sender.pump()
    anvil.mine()
    with pytest.raises(LaneStopped, match="used by somebody else"):
        desk.sender.pump()
    assert desk.row().state is State.REPLACED
    desk.post(1, count=3)
    desk.post(3)
    with pytest.raises(LaneStopped):
        desk.sender.pump()
    desk.outbox.lane.resume()
    desk.sender.pump()


def test_what_reverts_in_its_block_ends_reverted_with_its_reason(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path)
    desk.sender.pump()
    # In the same block, but first: governance closes the model.
    close = _governance(desk.network, "setModel")
    _send(anvil.client, close, tip_wei=50 * 10**9)
    anvil.mine()
    desk.sender.pump()
    assert desk.row().state is State.REVERTED and "ModelNotActive" in desk.row().detail
    assert desk.batches() == 0


def test_what_would_revert_is_never_signed(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path)
    _send(anvil.client, _governance(desk.network, "setModel"), tip_wei=10**9)
    anvil.mine()
    before = account_nonce(anvil.client, signer(1).address)
    desk.sender.pump()
    assert (desk.row().state, desk.row().nonce) == (State.REVERTED, None)
    assert account_nonce(anvil.client, signer(1).address) == before


def test_an_unsuccessful_act_may_be_asked_again_later(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path, SenderPolicy(confirmations=1, replan_after_s=0))
    _send(anvil.client, _governance(desk.network, "setModel"), tip_wei=10**9)
    anvil.mine()
    desk.sender.pump()
    assert desk.row().state is State.REVERTED
    _send(anvil.client, _governance(desk.network, "setModel", status=1), tip_wei=10**9)
    anvil.mine()
    desk.post(1)
    pump(anvil, [desk.sender])
    assert desk.row().state is State.CONFIRMED and desk.batches() == 1


def test_an_act_that_waits_for_too_long_is_dropped_unsigned(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path, SenderPolicy(confirmations=1, give_up_after_s=-1))
    desk.sender.pump()
    assert (desk.row().state, desk.row().nonce) == (State.EXPIRED, None)


def test_an_act_without_money_waits_and_those_behind_it_do_not(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    poor = sender(anvil, network, signer(9), tmp_path)
    poor.deposit(10**30, b"too much")
    poor.deposit(10**18, b"some")
    assert poor.pump() == 2
    assert poor.pump() == 1
    states = [item.state for item in poor.transactions.outbox.all()]
    assert states == [State.PLANNED, State.CONFIRMED]


def test_what_a_reorganisation_of_another_takes_back_is_done_by_us(anvil: Anvil, tmp_path: Path) -> None:
    desk = Desk(anvil, tmp_path, SenderPolicy(confirmations=1, replan_after_s=0))
    header = batch(desk.network, signer(1), 1, 2, 0).header
    elsewhere = tmp_path / "other machine"
    elsewhere.mkdir()
    other = sender(anvil, desk.network, signer(1), elsewhere)
    other.anchor(header)
    other.pump()
    anvil.mine()
    desk.sender.pump()
    assert desk.row().state is State.SUPERSEDED
    anvil.reorganise(1)
    desk.post(1)
    pump(anvil, [desk.sender])
    assert desk.row().state is State.CONFIRMED and desk.batches() == 1


def test_deposits_stakes_and_exits_go_through_the_outbox(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    verifier = sender(anvil, network, signer(9), tmp_path)
    verifier.register_verifier()
    verifier.deposit(5 * 10**18, b"first")
    pump(anvil, [verifier])
    verifier.request_unbond(10**18, b"some")
    pump(anvil, [verifier])
    chain = reader(anvil, network)
    assert (signer(9).address, 4 * 10**18) in chain.verifiers(chain.head()) and chain.money(chain.head()).sums


def _sign_only(desk: Desk) -> None:
    """What a crash between the signature and the first broadcast leaves behind."""
    transactions, head = desk.sender.transactions, desk.anvil.client.head()
    desk.outbox.lane.acquire()
    make = transactions._maker(desk.row().intent, 400_000, fees_at(head.base_fee_wei))
    desk.outbox.sign(desk.row().id, account_nonce(desk.anvil.client, signer(1).address), make)


def _base_fee(anvil: Anvil, wei: int) -> None:
    anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(wei))
    anvil.mine()


def _governance(network: Network, function: str, status: int = 2) -> Call:
    data = interface("Registry").call(function, MODEL, status, b"")
    return Call(signer(0), network.addresses.registry, data, 0, 300_000)


def _send(client: ChainClient, call: Call, tip_wei: int, nonce: int | None = None) -> None:
    count = account_nonce(client, call.signer.address) if nonce is None else nonce
    raw, _ = sign(client, call, count, fees_at(client.head().base_fee_wei, tip_wei))
    client.rpc("eth_sendRawTransaction", "0x" + raw.hex())


def _replace_by_stranger(client: ChainClient, nonce: int) -> None:
    _send(client, Call(signer(1), signer(9).address, b"", 1, 21_000), tip_wei=90 * 10**9, nonce=nonce)


def _wait_for_lease(again: ContractSender) -> None:
    """Pumps until the killed process's lease of one second is over; five seconds at most."""
    pause = threading.Event()
    for _ in range(50):
        try:
            again.pump()
            return
        except LaneOwned:
            pause.wait(0.1)
    again.pump()
