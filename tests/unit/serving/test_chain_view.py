"""What an operator believes of its own standing, read from a real chain."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest

from bytewise.protocol.decisions.demands import DemandKind, DemandState
from bytewise.protocol.decisions.snapshot import FINAL_AFTER, OPEN_END
from bytewise.protocol.encoding import decode
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.records.receipt import ReceiptList, anchor_subject, receipt_id, verify_list
from bytewise.protocol.units import Digest, hex0x
from bytewise.storage.outbox import OutboxState
from chain.client.artifacts import interface
from chain.deployment.params import DEVNET
from chain.reads.reader import SnapshotReader
from chain.sending.transactions import TransactionCall
from serving.anchoring_order import ServiceTerms
from serving.chain_view import BatchPages, ChainReadiness
from serving.openai import read_chat_request
from serving.readiness import NO_EPOCH, OPERATOR_GAS
from serving.request_builder import make_request
from serving.settings import AcceptSettings
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import (
    ENVIRONMENT,
    FEE_WEI,
    GUARDIAN,
    MODEL,
    STAKE_WEI,
    batch,
    deployed,
    epoch_document,
    mine,
    pump,
    reader,
    sender,
    signer,
)
from tests.fixtures.chain.mined_sender import governance, send
from tests.fixtures.metric_values import value_of
from tests.fixtures.serving.batch_scene import OPERATOR, WITHIN_S, BatchScene
from tests.fixtures.serving.least_request import LEAST
from tests.fixtures.serving.offer import OFFER, StubTokenizer
from tests.fixtures.snapshot_builders import holdings


def _standing(anvil: Anvil, **changes: object) -> ChainReadiness:
    network = dataclasses.replace(deployed(anvil), **changes)  # type: ignore[arg-type]
    return ChainReadiness(
        SnapshotReader(anvil.client, network), signer(1).address, ENVIRONMENT.digest, MODEL, MAX_FEE_WEI, ACCEPT
    )


MAX_FEE_WEI = 500 * 10**9
ACCEPT = AcceptSettings(simulated=True)


_RECORD = epoch_document().record
_EARLIER = (dataclasses.replace(_RECORD, threshold=1), dataclasses.replace(_RECORD, shards=_RECORD.shards[::-1]))


@pytest.mark.parametrize("records", [(), *((each,) for each in _EARLIER)], ids=["missing", "threshold", "shards"])
def test_operator_whose_book_lacks_the_open_epoch_refuses_and_stays_alive(anvil: Anvil, records: tuple[EpochRecord, ...]) -> None:
    """It goes on to anchor what it signed, also after a reshare, of which the book of its start knows nothing."""
    epochs = tuple(dataclasses.replace(epoch_document(), record=each) for each in records)
    readiness = _standing(anvil, epochs=epochs).read()
    assert readiness.closed_because == NO_EPOCH and (readiness.registered, readiness.last_seq) == (True, 0)


def test_operator_with_a_complete_address_book_may_serve(anvil: Anvil) -> None:
    readiness = _standing(anvil).read()
    assert readiness.closed_because is None and readiness.epoch is not None and readiness.epoch.epoch == 1
    assert value_of("bytewise_params_version") == 1
    beside = STAKE_WEI - DEVNET.money.min_operator_stake - DEVNET.money.slash_amount
    assert (readiness.room, readiness.most) == (beside // DEVNET.money.receipt_collateral, DEVNET.shares.max_batch)


def test_operator_without_opt_in_names_the_setting_and_may_not_serve(anvil: Anvil) -> None:
    view = ChainReadiness(
        reader(anvil, deployed(anvil)), signer(1).address, ENVIRONMENT.digest, MODEL, MAX_FEE_WEI, AcceptSettings()
    )
    assert view.read().closed_because == "key epoch 1 is simulated: set accept.simulated to seal to it"


def test_operator_without_ether_for_its_worst_case_may_not_serve(anvil: Anvil) -> None:
    readiness = _standing(anvil)
    required = readiness.read().required_wei
    assert required > OPERATOR_GAS * MAX_FEE_WEI and value_of("bytewise_account_required_wei") == required
    for balance_wei, reason in ((required, None), (required - 1, "the account has too little ether")):
        anvil.rpc("anvil_setBalance", signer(1).address, hex(balance_wei))
        anvil.mine()
        assert readiness.read().closed_because == reason


def test_free_stake_below_the_minimum_stops_batches_or_requests(anvil: Anvil) -> None:
    """`ReceiptAnchor._bind` looks at what is free, not at what is staked, and disputes take one slash from it at any time.

    Receipts beyond that could be kept from being anchored, and then be demanded.
    """
    money = DEVNET.money
    most, one = STAKE_WEI - money.min_operator_stake, money.receipt_collateral
    spare = most - money.slash_amount
    readiness = _standing(anvil)
    with pytest.MonkeyPatch.context() as patch:
        for collateral, room in ((spare - one, 1), (spare - one + 1, 0), (spare + 1, 0), (most + 1, 0)):
            for locked in (0, money.slash_amount - 1, money.slash_amount):
                free = max(0, STAKE_WEI - collateral - locked)
                me = holdings(operator_until=OPEN_END, stake_wei=STAKE_WEI, free_wei=free, collateral_wei=collateral)
                real = SnapshotReader.snapshot
                patch.setattr(SnapshotReader, "snapshot", lambda *a, real=real, me=me: dataclasses.replace(real(*a), me=me))
                found = readiness.read()
                assert found.room == room and (found.most == 0) == (collateral + locked > most)
                patch.setattr(SnapshotReader, "snapshot", real)


def test_operator_that_anchored_late_sees_the_demand_and_answers_it(anvil: Anvil, tmp_path: Path) -> None:
    network, me = deployed(anvil), signer(1)
    chain, operator, client = (
        reader(anvil, network),
        sender(anvil, network, me, tmp_path),
        sender(anvil, network, signer(9), tmp_path),
    )
    late = batch(network, me, 1, 2, anvil.client.head().timestamp - 700)
    client.demand_anchor(late.entries[1], DEVNET.money.demand_bond)
    pump(anvil, [client])
    operator.anchor(late.header, FEE_WEI)
    pump(anvil, [operator])
    own, name = BatchPages(chain, me.address), receipt_id(network.anchor_domain, late.entries[1].receipt)
    (seen,) = own.anchored(0, own.head())
    assert seen.anchored_at > late.entries[1].receipt.anchor_by
    others = (receipt_id(network.anchor_domain, late.entries[0].receipt), name)
    ((found, deadline),) = own.demanded_anchors(others, own.head()).items()
    assert found == name and own.demanded_envelopes(others, own.head()) == {}
    operator.answer_anchor(late.entries[1], 0, late.proofs[1], deadline)
    pump(anvil, [operator])
    (demand,) = chain.demands((anchor_subject(network.demands_domain, name),), chain.head())
    assert (demand.kind, demand.state) == (DemandKind.ANCHOR, DemandState.ANSWERED)


def test_request_outlives_the_longest_pause_and_none_is_accepted_in_it(anvil: Anvil, tmp_path: Path) -> None:
    """It was asked, answered and signed a moment before the guardian stopped the clock, for as long as it may."""
    network, me, longest = deployed(anvil), signer(1), DEVNET.times.max_pause
    readiness = ChainReadiness(reader(anvil, network), me.address, ENVIRONMENT.digest, MODEL, MAX_FEE_WEI, ACCEPT)
    before = readiness.read()
    assert not before.paused and before.pause_s == longest
    request, _ = make_request(
        read_chat_request(LEAST), OFFER, StubTokenizer(), me, bytes, before.timestamp, before.pause_s,
    )  # fmt: skip
    operator = sender(anvil, network, me, tmp_path)
    header = batch(network, me, 1, 2, before.timestamp).header
    pause = interface("Guardian").call("pause", longest)
    send(anvil.client, TransactionCall(GUARDIAN, network.addresses.guardian, pause, 0, 200_000), tip_wei=10**9)
    anvil.mine()
    assert readiness.read().closed_because == "the network is paused"
    for seconds in (1, longest - 60):
        operator.anchor(header, FEE_WEI, deadline=request.expiry - 150)
        operator.pump()
        assert [row.state for row in operator.transactions.outbox.all()] == [OutboxState.PLANNED], "it waits"
        anvil.pass_time(seconds)
    anvil.pass_time(60)
    operator.anchor(header, FEE_WEI, deadline=request.expiry - 150)
    pump(anvil, [operator])
    after = readiness.read()
    (anchored,) = reader(anvil, network).batches(0, after.number)
    assert after.closed_because is None and after.last_seq == 2
    assert request.expiry - OFFER.request_ttl_s < anchored.anchored_at <= request.expiry


def test_suspended_operator_anchors_signed_receipts_and_signs_no_more(anvil: Anvil) -> None:
    """The court's breaker suspends it; that draws lead there is `DisputeEnd.t.sol`'s."""
    readiness, network, longest = _standing(anvil), deployed(anvil), DEVNET.times.max_anchor_delay
    breaker, registry = network.addresses.breaker, network.addresses.registry
    anvil.rpc("anvil_setBalance", breaker, hex(10**18))
    anvil.rpc("anvil_impersonateAccount", breaker)
    data = hex0x(interface("Registry").call("suspend", signer(1).address))
    anvil.rpc("eth_sendTransaction", {"from": breaker, "to": registry, "data": data})
    anvil.mine()
    found = readiness.read()
    assert found.registered and found.closed_because is not None and "suspended" in found.closed_because
    assert readiness.anchorable_for(ServiceTerms(ENVIRONMENT.digest, MODEL, 1), found) == longest


def test_closed_service_is_postable_for_the_longest_delay(anvil: Anvil) -> None:
    """The model, then the key epoch: each for as long as an operator may take at most."""
    readiness, network, longest = _standing(anvil), deployed(anvil), DEVNET.times.max_anchor_delay
    ours = ServiceTerms(ENVIRONMENT.digest, MODEL, 1)
    assert readiness.anchorable_for(ours, readiness.read()) is None
    send(anvil.client, governance(network, "close"), tip_wei=10**9)
    anvil.mine()
    closed = readiness.read()
    assert closed.closed_because == "this model is not active" and readiness.anchorable_for(ours, closed) == longest
    anvil.pass_time(longest + 1)
    assert (readiness.anchorable_for(ours, readiness.read()) or 0) < 0
    assert readiness.anchorable_for(ours, closed) == longest, "at its own block"
    send(anvil.client, governance(network, "activate"), tip_wei=10**9)
    anvil.mine()
    assert readiness.anchorable_for(ours, readiness.read()) is None
    never = ServiceTerms(ENVIRONMENT.digest, Digest(b"m" * 32), 1)
    assert readiness.anchorable_for(never, readiness.read()) is None, "what was never open is not over"


def test_number_two_of_three_is_late_and_the_third_is_anchored(anvil: Anvil, tmp_path: Path) -> None:
    """Its batch is on its way when its request expires: it is replaced when its nonce is used up for good, not before."""
    network = deployed(anvil, max_anchor_delay=WITHIN_S)
    mine(anvil, FINAL_AFTER)
    scene = BatchScene(tmp_path, timestamp=anvil.client.head().timestamp)
    chain, operator = reader(anvil, network), sender(anvil, network, OPERATOR, tmp_path)
    view = ChainReadiness(chain, OPERATOR.address, ENVIRONMENT.digest, MODEL, MAX_FEE_WEI, ACCEPT)
    scene.domain = network.anchor_domain
    scene.issue(1)
    scene.issue(1, ttl_s=100)
    scene.issue(1)
    batcher = dataclasses.replace(scene.batcher(), chain=view, sender=operator)
    anvil.automine(False)
    batcher.tick()
    operator.pump()
    built = scene.receipt_store.open_batch()
    anvil.rpc("anvil_dropAllTransactions")
    anvil.pass_time(60)
    batcher.tick()
    assert built is not None and scene.receipt_store.open_batch() == built and not operator.withdraw_batch(built)
    pump(anvil, [operator])
    assert [row.state for row in operator.transactions.outbox.all()] == [OutboxState.EXPIRED] and view.read().last_seq == 0
    assert not operator.withdraw_batch(built), "the block in which its nonce was used up may leave the chain"
    mine(anvil, FINAL_AFTER)
    batcher.tick()
    pump(anvil, [operator])
    batcher.tick()
    (header,) = chain.batches(0, chain.head())
    members = verify_list(network.anchor_domain, header, decode(ReceiptList, scene.get(header.locator)))
    assert [type(each.signed.record).__name__ for each in members] == ["Receipt", "EmptyLeaf", "Receipt"]
    assert view.read().last_seq == 3 and scene.receipt_store.open_batch() is None


def test_batch_that_a_lagging_node_does_not_show_is_not_sent_twice(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    scene = BatchScene(tmp_path, timestamp=anvil.client.head().timestamp)
    operator, chain = sender(anvil, network, OPERATOR, tmp_path), reader(anvil, network)
    view = ChainReadiness(chain, OPERATOR.address, ENVIRONMENT.digest, MODEL, MAX_FEE_WEI, ACCEPT)
    scene.domain = network.anchor_domain
    scene.issue(2)
    batcher, before = dataclasses.replace(scene.batcher(), chain=view, sender=operator), view.read()
    batcher.tick()
    pump(anvil, [operator])
    batcher.tick()
    assert view.read().last_seq == 2 and scene.receipt_store.open_batch() is None
    nonce = anvil.client.nonce(OPERATOR.address)
    lagging = SimpleNamespace(read=lambda: before, anchorable_for=view.anchorable_for)
    for _ in range(3):
        dataclasses.replace(batcher, chain=lagging).tick()
        pump(anvil, [operator])
    assert scene.receipt_store.open_batch() is not None
    batcher.tick()
    assert scene.receipt_store.open_batch() is None and anvil.client.nonce(OPERATOR.address) == nonce
    assert [row.state for row in operator.transactions.outbox.all()] == [OutboxState.CONFIRMED]
