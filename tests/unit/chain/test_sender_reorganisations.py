"""Reorganisations deeper than any confirmation: what vanished is sent again with the same content, and nothing counts twice."""

import random
from pathlib import Path

import pytest
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from hexbytes import HexBytes

from bytewise.protocol.decisions.snapshot import FINAL_AFTER
from bytewise.storage.outbox import OutboxItem, OutboxState
from chain.acts.actor import ContractSender
from chain.deployment.params import ETHER
from chain.sending.sender import SenderPolicy
from chain.sending.transactions import fees_at
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import deployed, pump, reader, sender, signer
from tests.fixtures.chain.mined_sender import MinedSender

DEPTHS = (*range(1, 9), 12, 16, 31, 32, 33, 48, 63, 64)
EAGER = SenderPolicy(confirmations=2, replan_after_s=0)


@pytest.fixture
def actor(anvil: Anvil, tmp_path: Path) -> MinedSender:
    """No reorganisation here reaches the deployment."""
    made = MinedSender(anvil, tmp_path, EAGER)
    anvil.rpc("anvil_mine", hex(64))
    return made


def settle(actor: MinedSender, rounds: int = 30) -> None:
    """Pumps, a block between each, until every row is believed."""
    for _ in range(rounds):
        if not actor.sender.pump() and all(
            item.state in (OutboxState.CONFIRMED, OutboxState.FINAL) for item in actor.outbox.all()
        ):
            return
        actor.anvil.mine()
    raise AssertionError([item.state for item in actor.outbox.all()])


def content(raw: bytes) -> tuple[str, bytes, int]:
    fields = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
    return "0x" + bytes(fields["to"]).hex(), bytes(fields["data"]), int(fields["value"])


def anchored(actor: MinedSender) -> int:
    return actor.chain.holdings(signer(1).address, actor.chain.head()).last_seq


def check(actor: MinedSender) -> None:
    """Each batch is on the chain once, each nonce carried one content, and that of its row."""
    # By views: after several deep reorganisations anvil leaves logs out.
    wanted = [int.from_bytes(item.intent.subject[:8], "big") for item in actor.outbox.all()]
    headers = [actor.chain.batch(number, actor.chain.head()) for number in range(len(wanted))]
    assert [found[0].first_seq for found in headers if found is not None] == wanted and anchored(actor) == wanted[-1] + 1
    for item in actor.outbox.all():
        for attempt in actor.outbox.attempts(item.id):
            assert content(attempt.raw) == (item.intent.contract, item.intent.calldata, item.intent.value_wei)
    nonces = [item.nonce for item in actor.outbox.all()]
    assert len(set(nonces)) == len(nonces)


def out_of_gas(sender_: ContractSender, item: OutboxItem) -> None:
    """Signs the act with too little gas, as an estimate would that a reorganisation made wrong."""
    transactions = sender_.transactions
    outbox, client = transactions.outbox, transactions.client
    outbox.lease.acquire()
    make = transactions._version_signer(item.intent, 30_000, fees_at(client.head().base_fee_wei))
    outbox.sign(item.id, client.nonce(outbox.lease.account), make)


def test_reorganisations_of_depth_1_to_64_are_survived(actor: MinedSender, anvil: Anvil) -> None:
    settle(actor)
    for number, depth in enumerate(DEPTHS, 1):
        actor.post(1 + 2 * number)
        actor.sender.pump()
        anvil.rpc("anvil_mine", hex(depth))
        actor.sender.pump()
        assert actor.row(-1).state is (OutboxState.MINED if depth == 1 else OutboxState.CONFIRMED)
        assert anchored(actor) == 2 + 2 * number
        anvil.reorganise(depth)
        assert anchored(actor) == 2 * number, "it left the chain"
        settle(actor)
    check(actor)


def test_restart_after_a_reorganisation_resends_what_vanished(actor: MinedSender, anvil: Anvil, tmp_path: Path) -> None:
    settle(actor)
    actor.post(3)
    settle(actor)
    actor.outbox.lease.release()
    anvil.reorganise(20)
    anvil.mine(30)
    assert anchored(actor) == 0
    actor.sender = sender(anvil, actor.network, signer(1), tmp_path, EAGER)
    settle(actor)
    check(actor)


def test_confirmed_action_that_reverts_in_its_second_block_is_replanned(actor: MinedSender, anvil: Anvil) -> None:
    out_of_gas(actor.sender, actor.row())
    pump(anvil, [actor.sender])
    assert actor.row().state is OutboxState.REVERTED
    anvil.reorganise(3)
    actor.sender.pump()
    assert actor.row().state is OutboxState.BROADCAST, "its nonce is free again, and whatever comes later waits for it"
    pump(anvil, [actor.sender])
    assert actor.row().state is OutboxState.REVERTED
    actor.post(1)
    settle(actor)
    check(actor)


def test_bytes_of_a_second_attempt_do_not_block_it_after_reorganisation(actor: MinedSender, anvil: Anvil) -> None:
    out_of_gas(actor.sender, actor.row())
    pump(anvil, [actor.sender])
    actor.post(1)
    settle(actor)
    first, second = actor.outbox.attempts(actor.row().id)
    assert (second.nonce, actor.row().nonce) == (first.nonce + 1, second.nonce), "the first one's receipt is not the second's"
    anvil.reorganise(8)
    assert anvil.client.nonce(signer(1).address) == first.nonce
    settle(actor)
    assert anvil.client.nonce(signer(1).address) == second.nonce + 1
    check(actor)


def test_reverted_deposit_is_resent_only_when_its_old_bytes_are_void(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    # What is final must be above the contracts: of states below them this chain knows nothing.
    anvil.rpc("anvil_mine", hex(FINAL_AFTER))
    anvil.automine(False)
    verifier = sender(anvil, network, signer(9), tmp_path, EAGER)
    verifier.deposit(ETHER, b"first")
    outbox = verifier.transactions.outbox
    out_of_gas(verifier, outbox.all()[0])
    pump(anvil, [verifier])
    for _ in range(3):
        verifier.deposit(ETHER, b"first")
        assert outbox.all()[0].state is OutboxState.REVERTED
        anvil.mine()
    anvil.rpc("anvil_mine", hex(FINAL_AFTER))
    verifier.deposit(ETHER, b"first")
    pump(anvil, [verifier])
    verifier.deposit(ETHER, b"first")
    pump(anvil, [verifier])
    chain = reader(anvil, network)
    assert outbox.all()[0].state is OutboxState.CONFIRMED and chain.holdings(signer(9).address, chain.head()).stake_wei == ETHER


def test_deep_transaction_is_final_and_no_longer_followed(actor: MinedSender, anvil: Anvil) -> None:
    settle(actor)
    anvil.rpc("anvil_mine", hex(FINAL_AFTER - 3))
    actor.sender.pump()
    assert actor.row().state is OutboxState.CONFIRMED
    anvil.mine(2)
    actor.sender.pump()
    assert actor.row().state is OutboxState.FINAL and actor.outbox.leavable_rows() == ()


@pytest.mark.parametrize("seed", range(4))
def test_no_order_of_losses_restarts_and_reorganisations_doubles_an_action(
    actor: MinedSender, anvil: Anvil, tmp_path: Path, seed: int
) -> None:
    drawn, next_seq = random.Random(seed), 3
    for _ in range(40):
        match drawn.choice(("post", "mine", "pump", "pump", "reorganise", "drop", "restart")):
            case "post":
                actor.post(next_seq)
                next_seq += 2
            case "mine":
                anvil.rpc("anvil_mine", hex(drawn.randint(1, 5)))
            case "pump":
                actor.sender.pump()
            case "reorganise":
                anvil.reorganise(drawn.randint(1, 64))
            case "drop":
                for item in actor.outbox.open_rows():
                    for attempt in actor.outbox.attempts(item.id):
                        anvil.drop(attempt.tx_hash)
            case "restart":
                actor.outbox.lease.release()
                actor.sender = sender(anvil, actor.network, signer(1), tmp_path, EAGER)
    settle(actor, 60)
    check(actor)
