"""A sender over several endpoints: what one of them says can delay an act, never stop a nonce lease or another act."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.errors.actors import LeaseStopped
from bytewise.storage.outbox import OutboxState
from chain.acts.actor import ContractSender
from chain.client.quorum import LONGEST_BACKOFF_S
from chain.reads.reader import SnapshotReader
from chain.sending.transactions import TransactionCall, fees_at, sign
from tests.fixtures.chain.devnet import FEE_WEI, batch, pump, sender, signer
from tests.fixtures.chain.lying_endpoints import REFUSAL, Change
from tests.fixtures.chain.quorum_fixture import ACCOUNT, LIES, QuorumFixture, standing
from tests.fixtures.metric_values import value_of


@pytest.fixture(scope="module")
def place() -> Iterator[QuorumFixture]:
    with standing() as made:
        yield made


@pytest.fixture
def square(place: QuorumFixture) -> QuorumFixture:
    return place.honest_again()


ABOUT_TRANSACTIONS = ("another hash of every block", "a count of transactions", "failures", "no receipts", "nothing at all")


@pytest.mark.parametrize("lie", ABOUT_TRANSACTIONS)
def test_sender_and_reader_work_with_one_bad_endpoint(square: QuorumFixture, tmp_path: Path, lie: str) -> None:
    network, chain, true = (
        square.network,
        SnapshotReader(square.chain, square.network),
        SnapshotReader(square.alone, square.network),
    )
    last = true.holdings(ACCOUNT, true.head()).last_seq
    square.endpoints[1].change = LIES[lie]
    operator: ContractSender = sender(square.anvil, network, signer(1), tmp_path, client=square.chain)
    operator.anchor(batch(network, signer(1), last + 1, 2, 0).header, FEE_WEI)
    pump(square.anvil, [operator])
    (row,) = operator.transactions.outbox.all()
    assert row.state is OutboxState.CONFIRMED and chain.holdings(ACCOUNT, chain.head()).last_seq == last + 2
    assert len(operator.transactions.outbox.attempts(row.id)) == 1
    assert chain.snapshot(ACCOUNT, chain.head()) == true.snapshot(ACCOUNT, true.head())


def behind(number: int) -> Change:
    """An endpoint that has no block after that one."""

    def change(method: str, params: list[Any], answer: Any) -> Any:
        result = answer.get("result")
        if method == "eth_getBlockByNumber" and result and int(result["number"], 16) > number:
            return {"result": None}
        if method == "eth_getTransactionReceipt" and result and int(result["blockNumber"], 16) > number:
            return {"result": None}
        return answer

    return change


def test_lying_and_lagging_endpoints_do_not_stop_the_account(square: QuorumFixture, tmp_path: Path) -> None:
    """One denies a receipt, the other does not know it yet: together they are no quorum for a stranger with our key."""
    true, named = SnapshotReader(square.alone, square.network), "bytewise_chain_provider_disagreements_total"
    last = true.holdings(ACCOUNT, true.head()).last_seq
    operator: ContractSender = sender(square.anvil, square.network, signer(1), tmp_path, client=square.client())
    operator.anchor(batch(square.network, signer(1), last + 1, 2, 0).header, FEE_WEI)
    operator.pump()
    square.endpoints[0].change = LIES["no receipts"]
    for _ in range(4):
        square.endpoints[1].change = behind(square.alone.head().number)
        square.anvil.mine()
        square.clock.seconds += LONGEST_BACKOFF_S
        operator.pump()
    (row,) = operator.transactions.outbox.all()
    assert row.state is OutboxState.BROADCAST and operator.transactions.outbox.lease.stop_reason() == ""
    assert true.holdings(ACCOUNT, true.head()).last_seq == last + 2, "it was mined all the while"
    square.endpoints[1].change, before = None, value_of(named, provider="0")
    square.clock.seconds += LONGEST_BACKOFF_S
    pump(square.anvil, [operator])
    assert operator.transactions.outbox.all()[0].state is OutboxState.CONFIRMED and value_of(named, provider="0") > before


def test_foreign_use_of_our_key_is_seen_beside_a_lying_endpoint(square: QuorumFixture, tmp_path: Path) -> None:
    operator: ContractSender = sender(square.anvil, square.network, signer(9), tmp_path, client=square.client())
    operator.deposit(1, b"mine")
    operator.pump()
    (attempt,) = operator.transactions.outbox.attempts(1)
    call = TransactionCall(signer(9), signer(8).address, b"", 1, 21_000)
    raw, _ = sign(square.alone, call, attempt.nonce, fees_at(square.alone.head().base_fee_wei, 90 * 10**9))
    square.alone.broadcast(raw)
    square.endpoints[0].change = LIES["failures"]
    for _ in range(2):
        square.anvil.mine()
        with contextlib.suppress(LeaseStopped):
            operator.pump()
    assert "used by somebody else" in operator.transactions.outbox.lease.stop_reason()


def test_disagreement_of_endpoints_delays_no_other_action(square: QuorumFixture, tmp_path: Path) -> None:
    """Three words about one act: it waits. The other is sent at once."""
    true = SnapshotReader(square.alone, square.network)
    last = true.holdings(ACCOUNT, true.head()).last_seq
    operator: ContractSender = sender(square.anvil, square.network, signer(1), tmp_path, client=square.chain)
    header = batch(square.network, signer(1), last + 1, 2, 0).header
    operator.anchor(header, FEE_WEI)
    operator.deposit(7, b"a little")
    selector = "0x" + operator.transactions.outbox.item(1).intent.calldata[:4].hex()

    def about_one(said: Any) -> Change:
        return lambda method, params, answer: (
            said if method == "eth_estimateGas" and params[0]["data"].startswith(selector) else answer
        )

    square.endpoints[0].change = about_one(REFUSAL)
    square.endpoints[1].change = about_one({"error": {"code": 3, "message": "execution reverted"}})
    failures = {"error": "NoAgreement", "function": "post"}
    before = value_of("bytewise_tx_step_failures_total", **failures)
    pump(square.anvil, [operator], rounds=3)
    assert [row.state for row in operator.transactions.outbox.all()] == [OutboxState.PLANNED, OutboxState.CONFIRMED]
    assert value_of("bytewise_tx_step_failures_total", **failures) > before
    square.endpoints[0].change = None
    pump(square.anvil, [operator])
    assert [row.state for row in operator.transactions.outbox.all()] == [OutboxState.CONFIRMED] * 2
