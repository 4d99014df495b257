"""One transaction per intent, whatever dies, drops or reorganises (design section 2, research/ecosystem.md 3.1)."""

import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.decisions.snapshot import FINAL_AFTER
from bytewise.protocol.errors.actors import LeaseStopped, LeaseTaken
from bytewise.service.settings import child_environment
from bytewise.storage.outbox import OutboxState
from chain.acts.actor import ContractSender
from chain.client.address_book import write_network
from chain.client.rpc import ChainClient
from chain.deployment.params import DEVNET, ETHER
from chain.sending.sender import SenderPolicy
from chain.sending.transactions import TransactionCall
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import FEE_WEI, MEASUREMENT, POOL, batch, deployed, mine, pump, reader, sender, signer, word
from tests.fixtures.chain.later_blocks import LaterBlocks
from tests.fixtures.chain.mined_sender import MinedSender, governance, send
from tests.source import ROOT


@pytest.fixture
def actor(anvil: Anvil, tmp_path: Path) -> MinedSender:
    return MinedSender(anvil, tmp_path)


def test_an_intent_becomes_one_transaction_however_often_it_is_asked(actor: MinedSender, anvil: Anvil) -> None:
    actor.post(1)
    assert [item.state for item in actor.outbox.all()] == [OutboxState.PLANNED]
    assert actor.sender.pump() == 1
    assert actor.row().state is OutboxState.BROADCAST
    actor.post(1)
    anvil.mine()
    assert actor.sender.pump() == 0
    actor.post(1)
    assert actor.sender.pump() == 0
    assert actor.row().state is OutboxState.CONFIRMED and actor.batches() == 1


def test_a_batch_is_withdrawn_unsigned_or_when_its_nonce_is_used_for_good(actor: MinedSender, anvil: Anvil) -> None:
    network = deployed(anvil)
    first, second, third = (batch(network, signer(1), seq, 2, 0).header for seq in (1, 3, 5))
    assert actor.sender.withdraw_batch(third), "nobody ever planned it"
    actor.post(3)
    actor.sender.pump()
    assert [item.state for item in actor.outbox.all()] == [OutboxState.BROADCAST, OutboxState.PLANNED]
    assert not actor.sender.withdraw_batch(first) and actor.sender.withdraw_batch(second)
    pump(anvil, [actor.sender])
    mine(anvil, FINAL_AFTER)
    assert [item.state for item in actor.outbox.all()] == [OutboxState.CONFIRMED, OutboxState.SUPERSEDED] and actor.batches() == 1
    assert not actor.sender.withdraw_batch(first), "it is anchored"
    other = replace(second, locator="eigenda:standard:0x02")
    actor.sender.anchor(other, FEE_WEI)
    pump(anvil, [actor.sender])
    assert actor.batches() == 2 and actor.sender.withdraw_batch(second) and not actor.sender.withdraw_batch(other)


def test_confirmations_are_counted(anvil: Anvil, tmp_path: Path) -> None:
    actor = MinedSender(anvil, tmp_path, SenderPolicy(confirmations=3))
    actor.sender.pump()
    states = []
    for _ in range(3):
        anvil.mine()
        actor.sender.pump()
        states.append(actor.row().state)
    assert states == [OutboxState.MINED, OutboxState.MINED, OutboxState.CONFIRMED]


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_kill_around_the_broadcast_leaves_exactly_one_transaction(anvil: Anvil, tmp_path: Path, point: str) -> None:
    network = deployed(anvil)
    anvil.automine(False)
    write_network(tmp_path / "network.json", network)
    words = (anvil.url, str(tmp_path / "network.json"), str(tmp_path), point)
    program = [sys.executable, "-m", "tests.fixtures.chain.crashing_sender", *words]
    died = subprocess.run(program, cwd=ROOT, env=child_environment(), timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL
    again = sender(anvil, network, signer(1), tmp_path)
    (row,) = again.transactions.outbox.all()
    (attempt,) = again.transactions.outbox.attempts(row.id)
    assert (row.state, row.nonce) == (OutboxState.SIGNED, attempt.nonce)
    known = anvil.rpc("eth_getTransactionByHash", "0x" + attempt.tx_hash.hex())
    assert (known is not None) == (point == "after")
    again.anchor(batch(network, signer(1), 1, 2, anvil.client.head().timestamp).header, FEE_WEI)
    _wait_for_lease(again)
    pump(anvil, [again])
    assert [item.state for item in again.transactions.outbox.all()] == [OutboxState.CONFIRMED]
    assert [each.tx_hash for each in again.transactions.outbox.attempts(row.id)] == [attempt.tx_hash], "the same bytes"
    assert len(reader(anvil, network).batches(0, anvil.client.head().number)) == 1
    assert anvil.client.nonce(signer(1).address) == attempt.nonce + 1


def test_two_processes_never_write_for_one_account(actor: MinedSender, anvil: Anvil, tmp_path: Path) -> None:
    actor.sender.pump()
    other = sender(anvil, actor.network, signer(1), tmp_path, owner="another process")
    with pytest.raises(LeaseTaken):
        other.pump()


def test_dropped_bytes_are_submitted_again(actor: MinedSender, anvil: Anvil) -> None:
    actor.sender.pump()
    (attempt,) = actor.outbox.attempts(actor.row().id)
    anvil.drop(attempt.tx_hash)
    anvil.mine()
    assert actor.batches() == 0
    pump(anvil, [actor.sender])
    assert actor.batches() == 1 and len(actor.outbox.attempts(actor.row().id)) == 1


def test_foreign_use_of_our_key_stops_the_account(actor: MinedSender, anvil: Anvil) -> None:
    actor.sender.pump()
    (attempt,) = actor.outbox.attempts(actor.row().id)
    _replace_by_another_sender(anvil.client, attempt.nonce)
    anvil.mine()
    actor.sender.pump()
    anvil.mine()
    with pytest.raises(LeaseStopped, match="used by somebody else"):
        actor.sender.pump()
    assert actor.row().state is OutboxState.REPLACED
    actor.post(1, count=3)
    actor.post(3)
    with pytest.raises(LeaseStopped):
        actor.sender.pump()
    actor.outbox.lease.resume()
    actor.sender.pump()


def test_nonce_that_the_lost_database_used_stops_nobody(actor: MinedSender, anvil: Anvil, tmp_path: Path) -> None:
    """After a restore the outbox does not know what the account sent after the backup."""
    actor.sender.pump()
    (attempt,) = actor.outbox.attempts(actor.row().id)
    _replace_by_another_sender(anvil.client, attempt.nonce)
    anvil.mine()
    actor.outbox.lease.release()
    restored = MinedSender(anvil, tmp_path, SenderPolicy(own_nonces=attempt.nonce + 1))
    for _ in range(2):
        restored.sender.pump()
        anvil.mine()
    assert restored.row().state is OutboxState.EXPIRED and "before the database was restored" in restored.row().detail
    assert not restored.outbox.lease.stop_reason()


def test_transaction_that_reverts_in_its_block_ends_with_its_reason(actor: MinedSender, anvil: Anvil) -> None:
    send(anvil.client, governance(actor.network, "close"), tip_wei=10**9)
    anvil.mine()
    actor.sender.pump()
    assert actor.row().state is OutboxState.BROADCAST, "what closed drains"
    anvil.pass_time(DEVNET.times.max_anchor_delay + 1)
    actor.sender.pump()
    assert actor.row().state is OutboxState.REVERTED and "ModelNotActive" in actor.row().detail
    assert actor.batches() == 0


def test_action_that_would_revert_is_unsigned_and_may_be_planned_again(anvil: Anvil, tmp_path: Path) -> None:
    actor = MinedSender(anvil, tmp_path, SenderPolicy(confirmations=1, replan_after_s=0))
    send(anvil.client, governance(actor.network, "close"), tip_wei=10**9)
    anvil.mine()
    anvil.pass_time(DEVNET.times.max_anchor_delay + 1)
    before = anvil.client.nonce(signer(1).address)
    actor.sender.pump()
    assert (actor.row().state, actor.row().nonce) == (OutboxState.REVERTED, None)
    assert anvil.client.nonce(signer(1).address) == before
    send(anvil.client, governance(actor.network, "activate"), tip_wei=10**9)
    anvil.mine()
    actor.post(1)
    pump(anvil, [actor.sender])
    assert actor.row().state is OutboxState.CONFIRMED and actor.batches() == 1


def test_action_that_waits_too_long_is_dropped_unsigned(anvil: Anvil, tmp_path: Path) -> None:
    actor = MinedSender(anvil, tmp_path, SenderPolicy(confirmations=1, give_up_after_s=-1))
    actor.sender.pump()
    assert (actor.row().state, actor.row().nonce) == (OutboxState.EXPIRED, None)


def test_dropped_action_is_planned_again_however_old_it_is(anvil: Anvil, tmp_path: Path) -> None:
    """Collateral that a dispute held for days is released after it, and a batch is anchored after a long pause."""
    actor = MinedSender(anvil, tmp_path, SenderPolicy(confirmations=1, give_up_after_s=3600, replan_after_s=20))
    actor.post(3)
    lease = actor.outbox.lease
    for hours in (2, 4):
        lease.clock = LaterBlocks(hours * 3600)
        actor.sender.pump()
        assert actor.row(1).state is OutboxState.EXPIRED, "it waited for the batch before"
        lease.clock = LaterBlocks(hours * 3600 + 60)
        actor.post(3)
        actor.sender.pump()
        assert actor.row(1).state is OutboxState.PLANNED
    actor.post(1)
    pump(anvil, [actor.sender])
    assert [item.state for item in actor.outbox.all()] == [OutboxState.CONFIRMED] * 2 and actor.batches() == 2


def test_unfunded_action_waits_without_delaying_others(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    poor = sender(anvil, network, signer(9), tmp_path)
    poor.deposit(10**30, b"too much")
    poor.deposit(10**18, b"some")
    assert poor.pump() == 2
    assert poor.pump() == 1
    states = [item.state for item in poor.transactions.outbox.all()]
    assert states == [OutboxState.PLANNED, OutboxState.CONFIRMED]


def test_action_of_another_removed_by_a_reorganisation_is_done_by_us(anvil: Anvil, tmp_path: Path) -> None:
    actor = MinedSender(anvil, tmp_path, SenderPolicy(confirmations=1, replan_after_s=0))
    header = batch(actor.network, signer(1), 1, 2, 0).header
    elsewhere = tmp_path / "other machine"
    elsewhere.mkdir()
    other = sender(anvil, actor.network, signer(1), elsewhere)
    other.anchor(header, FEE_WEI)
    other.pump()
    anvil.mine()
    actor.sender.pump()
    assert actor.row().state is OutboxState.SUPERSEDED
    anvil.reorganise(1)
    actor.post(1)
    pump(anvil, [actor.sender])
    assert actor.row().state is OutboxState.CONFIRMED and actor.batches() == 1


def test_deposits_stakes_and_exits_go_through_the_outbox(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    verifier = sender(anvil, network, signer(9), tmp_path)
    verifier.announce_platform(word("machine of nine"))
    pump(anvil, [verifier])
    verifier.join_pool(POOL, word("machine of nine"), MEASUREMENT)
    verifier.deposit(9 * ETHER, b"first")
    pump(anvil, [verifier])
    verifier.request_unbond(ETHER, b"some")
    pump(anvil, [verifier])
    chain = reader(anvil, network)
    mine = chain.holdings(signer(9).address, chain.head())
    assert (mine.stake_wei, mine.unbonding_wei, mine.pool) == (8 * ETHER, ETHER, POOL) and chain.money(chain.head()).sums


def _replace_by_another_sender(client: ChainClient, nonce: int) -> None:
    send(client, TransactionCall(signer(1), signer(9).address, b"", 1, 21_000), tip_wei=90 * 10**9, nonce=nonce)


def _wait_for_lease(again: ContractSender) -> None:
    """Pumps until the killed process's lease of one second is over; five seconds at most."""
    pause = threading.Event()
    for _ in range(50):
        try:
            again.pump()
            return
        except LeaseTaken:
            pause.wait(0.1)
    again.pump()
