"""What an actor reads of the chain: one block for one decision, and only what the address book and the chain agree on.

One network for all tests, since its deployment is most of the work: each test posts for an operator of its own, or only reads.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bytewise.protocol.address_book import Network
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError, TryAgain
from bytewise.protocol.errors.records import MalformedValue, UnknownKeyEpoch
from bytewise.protocol.keys.epochs import EpochState
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import U256, Blob
from bytewise.storage.outbox import OutboxState
from chain.client.address_book import read_network, write_network
from chain.client.artifacts import Reason, interface
from chain.client.rpc import ChainClient
from chain.deployment.calls import call_of
from chain.deployment.deploy import deploy, set_policy, survey
from chain.deployment.params import DEVNET, with_changes
from chain.deployment.plan import DEVNET_SHAPE, GovernanceSettings
from chain.reads.reader import SnapshotReader
from chain.sending.transactions import TransactionCall, send_all
from kms.shard.chain_view import KeyChain
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil, running_anvil
from tests.fixtures.chain.devnet import (
    CHALLENGER,
    FEE_WEI,
    OPERATORS,
    POLICY,
    POOL,
    STAKE_WEI,
    VERIFIERS,
    Batch,
    batch,
    deployed,
    pump,
    reader,
    sender,
    signer,
    word,
)
from verifier.executor import MoveSender
from verifier.stake import DeferredPaymentReader


class Place(NamedTuple):
    """A chain with a network."""

    anvil: Anvil
    network: Network


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with running_anvil("--slots-in-an-epoch", "1") as anvil:
        yield Place(anvil, deployed(anvil))


def posted(place: Place, operator: int, folder: Path, count: int, skips: bool = False) -> Batch:
    """The next batch of an operator, anchored; one that `skips` has an empty leaf in the place of its first receipt."""
    chain, key = reader(place.anvil, place.network), OPERATORS[operator]
    last = chain.holdings(key.address, chain.head()).last_seq
    skipped = (last + 1,) if skips else ()
    made = batch(place.network, key, last + 1, count, chain.block(chain.head()).timestamp, skipped)
    poster = sender(place.anvil, place.network, key, folder)
    poster.anchor(made.header, FEE_WEI)
    pump(place.anvil, [poster])
    return made


def test_time_of_a_made_network_never_runs_backwards(place: Place) -> None:
    # A block before its parent is on no real chain: what the contracts count from then on would overflow.
    chain = reader(place.anvil, place.network)
    times = [chain.block(number).timestamp for number in range(chain.head() + 1)]
    assert times == sorted(times)


def test_network_is_read_from_address_book_and_rpc_alone(place: Place, tmp_path: Path) -> None:
    write_network(tmp_path / "network.json", place.network)
    network = read_network(tmp_path / "network.json")
    chain = SnapshotReader(ChainClient(place.anvil.url, network.chain_id), network)
    block = chain.head()
    snapshot = chain.snapshot(VERIFIERS[0].address, block)
    assert (snapshot.block_hash, snapshot.me.stake_wei, snapshot.me.pool) == (chain.block_hash(block), STAKE_WEI, POOL)
    assert chain.stake_at(VERIFIERS[0].address, network.deploy_block, block) == 0, "nobody had joined yet"
    assert chain.params(snapshot.params_version, block) == DEVNET and snapshot.required_bond_wei == DEVNET.required_bond
    assert (snapshot.active_epoch, snapshot.policy, chain.opened(0, block)) == (1, POLICY.digest, ())
    assert chain.epoch(1, block) == network.epochs[0].record
    assert (chain.epoch_state(1, block), chain.epoch_state(2, block)) == (EpochState.ACTIVE, EpochState.NONE)
    assert chain.money(block).sums and chain.money(block).vault_balance == 7 * STAKE_WEI


def test_reader_and_sender_satisfy_the_ports_of_actors(place: Place, tmp_path: Path) -> None:
    # The type checker is the test: these assignments fail it if a port and its adapter part ways.
    view: DeferredPaymentReader = reader(place.anvil, place.network)
    keys: KeyChain = reader(place.anvil, place.network)
    acts: MoveSender = sender(place.anvil, place.network, signer(1), tmp_path)
    assert (view.head(), keys.epoch_on_chain(1, view.head()).state) == (place.anvil.client.head().number, EpochState.ACTIVE)
    acts.withdraw(0)


def test_a_read_names_its_block_and_gets_that_block(place: Place, tmp_path: Path) -> None:
    chain, who = reader(place.anvil, place.network), OPERATORS[0].address
    before = chain.head()
    count, last = chain.snapshot(who, before).batch_count, chain.holdings(who, before).last_seq
    made = posted(place, 0, tmp_path, 3)
    after = chain.head()
    assert (chain.holdings(who, before).last_seq, chain.holdings(who, after).last_seq) == (last, last + 3)
    assert chain.batch(count, before) is None and chain.anchored(count, before) == () and chain.batches(0, before)[count:] == ()
    (header,) = chain.batches(before + 1, after)
    (window,) = chain.anchored(count, after)
    assert chain.batch(count, after) == (dataclasses.replace(header, locator=""), window)
    assert (header.root, header.list_hash, header.count) == (made.header.root, made.header.list_hash, 3)
    assert header.anchored_at == chain.block(header.block).timestamp
    assert (window.first_seq, window.window_end) == (last + 1, header.anchored_at + DEVNET.times.window)


def test_receipt_is_final_as_the_contract_says_and_is_not_disputed_then(place: Place, tmp_path: Path) -> None:
    chain = reader(place.anvil, place.network)
    made = posted(place, 1, tmp_path, 5)
    number = chain.snapshot(signer(1).address, chain.head()).batch_count - 1
    first, proof = made.entries[0], made.proofs[0]
    with pytest.raises(ChainReverted, match="WindowOpen"):
        chain.verify_final(first, number, proof, chain.head())
    place.anvil.pass_time(DEVNET.times.window + 1)
    assert chain.verify_final(first, number, proof, chain.head()) == first
    with pytest.raises(ChainReverted, match="BadProof"):
        chain.verify_final(first, number, made.proofs[1], chain.head())
    forged = dataclasses.replace(first, signature=signer(2).sign(word("other")))
    with pytest.raises(ChainReverted, match="BadSignature"):
        chain.verify_final(forged, number, proof, chain.head())
    with pytest.raises(ChainReverted, match="UnknownBatch"):
        chain.verify_final(first, number + 7, proof, chain.head())
    late = sender(place.anvil, place.network, CHALLENGER, tmp_path)
    late.open_dispute(first.receipt, first.signature, number, proof, word("alternative"), DEVNET.required_bond)
    pump(place.anvil, [late])
    (row,) = late.transactions.outbox.all()
    assert (row.state, row.nonce) == (OutboxState.EXPIRED, None) and "WindowClosed" in row.detail


def test_two_receipts_with_one_number_are_punished_without_a_committee(place: Place, tmp_path: Path) -> None:
    chain = reader(place.anvil, place.network)
    first, who = posted(place, 1, tmp_path, 1).entries[0], OPERATORS[1]
    second = dataclasses.replace(first.receipt, out_hash=word("another"))
    signature, before = who.sign(typed_digest(place.network.anchor_domain, second)), chain.holdings(who.address, chain.head())
    reporter = sender(place.anvil, place.network, signer(9), tmp_path)
    report = (signer(9).address, first.receipt, first.signature, second, signature)
    assert chain.report_refused(*report, chain.head()) is None
    reporter.report_equivocation(first.receipt, first.signature, second, signature)
    pump(place.anvil, [reporter])
    head = chain.head()
    assert "AlreadyPunished" in str(chain.report_refused(*report, head))
    assert chain.reported(0, head) == ((who.address, first.receipt.seq),)
    reporter.report_equivocation(first.receipt, first.signature, second, signature, 1)
    rows = reporter.transactions.outbox.all()
    assert [row.state for row in rows] == [OutboxState.CONFIRMED, OutboxState.PLANNED], "another time is another act"
    reporter.pump()
    assert reporter.transactions.outbox.all()[1].state is OutboxState.SUPERSEDED, "and is tried before it is signed"
    assert "NoEquivocation" in str(chain.report_refused(*report[:3], first.receipt, first.signature, head))
    assert chain.holdings(who.address, head).stake_wei == before.stake_wei - DEVNET.money.slash_amount and chain.money(head).sums


def test_a_receipt_whose_number_was_skipped_costs_its_penalty_once(place: Place, tmp_path: Path) -> None:
    chain, me = reader(place.anvil, place.network), signer(9)
    made, who = posted(place, 1, tmp_path, 2, skips=True), OPERATORS[1].address
    head = chain.head()
    number, before = chain.snapshot(me.address, head).batch_count - 1, chain.holdings(who, head)
    (lost, kept), (proof, other) = made.entries, made.proofs
    report = (lost.receipt, lost.signature, number, proof)
    assert chain.skip_refused(me.address, *report, head) is None
    for honest in ((kept.receipt, kept.signature, number, other), (*report[:3], other)):
        assert "does not lead to root" in str(chain.skip_refused(me.address, *honest, head)), "an empty leaf is to be shown"
    reporter = sender(place.anvil, place.network, me, tmp_path)
    reporter.report_skipped(*report)
    pump(place.anvil, [reporter])
    head = chain.head()
    assert chain.skipped(0, head) == ((who, lost.receipt.seq),)
    assert "AlreadyPunished" in str(chain.skip_refused(me.address, *report, head))
    assert (who, lost.receipt.seq) not in chain.reported(0, head)
    reporter.report_skipped(*report, 1)
    reporter.pump()
    rows = reporter.transactions.outbox.all()
    assert [row.state for row in rows] == [OutboxState.CONFIRMED, OutboxState.SUPERSEDED], (
        "another time is another act, and is tried first"
    )
    assert chain.holdings(who, head).stake_wei == before.stake_wei - DEVNET.money.unanchored_penalty and chain.money(head).sums


def test_simulation_reports_why_the_chain_would_refuse_at_that_block(place: Place, tmp_path: Path) -> None:
    chain, key, who = reader(place.anvil, place.network), OPERATORS[0], CHALLENGER.address
    last, now = chain.holdings(key.address, chain.head()).last_seq, chain.block(chain.head()).timestamp
    late, young = (batch(place.network, key, last + 1, 1, at).entries[0] for at in (now - 700, now))
    bond = DEVNET.money.demand_bond
    assert chain.anchor_demand_refused(who, late, bond, chain.head()) is None
    assert "this step is not before" in str(chain.anchor_demand_refused(who, young, bond, chain.head()))
    assert "bond" in str(chain.anchor_demand_refused(who, late, bond + 1, chain.head()))
    before = chain.head()
    posted(place, 0, tmp_path, 1)
    assert "NumberAnchored" in str(chain.anchor_demand_refused(who, late, bond, chain.head()))
    assert chain.anchor_demand_refused(who, late, bond, before) is None


def test_native_vault_has_no_late_payments(place: Place) -> None:
    chain = reader(place.anvil, place.network)
    head = chain.head()
    assert chain.deferred_payments(int(place.network.deploy_block), head) == ()
    assert "NothingToCollect" in str(chain.sharing_refused(signer(8).address, word("pot"), head))
    assert chain.collect_refused(signer(8).address, 7, head) is not None, "it has no such function"
    assert chain.record_life(head) is None and chain.stake_records(signer(3).address, 0, head) == ()


def test_eigenlayer_stake_actions_go_to_the_contract_at_the_vaults_address(place: Place, tmp_path: Path) -> None:
    acts, vault = sender(place.anvil, place.network, signer(13), tmp_path), place.network.addresses.stake_vault
    who, ref = signer(3).address, word("ref")
    acts.sync_stake(who, 9)
    acts.retry_slash(who, ref, 10)
    acts.collect_slash(7)
    acts.sweep_stake()
    planned = [item.intent for item in acts.transactions.outbox.all()]
    wanted = [("sync", (who,)), ("retry", (who, ref)), ("collect", (7,)), ("sweep", ())]
    code = interface("EigenLayerStake")
    assert [(each.contract, each.calldata) for each in planned] == [(vault, code.call(name, *values)) for name, values in wanted]
    acts.retry_slash(who, ref, 10)
    acts.retry_slash(who, ref, 4)
    assert len(acts.transactions.outbox.all()) == 5, "each refusal is retried by an act of its own"


def test_epoch_of_book_and_chain_must_agree(place: Place) -> None:
    block = place.anvil.client.head().number
    document = place.network.epochs[0]
    for change in ({"public_key": Blob(b"\x04" + b"\1" * 64)}, {"threshold": 3, "assurance": "hardware"}):
        wrong = dataclasses.replace(document, record=dataclasses.replace(document.record, **change))
        book = dataclasses.replace(place.network, epochs=(wrong,))
        with pytest.raises(ConfigurationError, match=r"network\.json"):
            reader(place.anvil, book).epoch(1, block)
    with pytest.raises(UnknownKeyEpoch):
        reader(place.anvil, place.network).epoch(9, block)


def test_epoch_missing_from_our_address_book_is_waited_for(place: Place) -> None:
    (document,) = place.network.epochs
    resharded = ({"threshold": 3}, {"shards": document.record.shards[::-1]})
    records = [dataclasses.replace(document.record, **change) for change in resharded]
    for epochs in ((), *((dataclasses.replace(document, record=each),) for each in records)):
        older = dataclasses.replace(place.network, epochs=epochs)
        with pytest.raises(TryAgain, match=r"network\.json"):
            reader(place.anvil, older).epoch(1, place.anvil.client.head().number)


def test_the_finalized_head_lags_and_every_read_at_it_works(place: Place) -> None:
    place.anvil.mine(4)
    client, network = place.anvil.client, place.network
    final, latest = SnapshotReader(client, network, "finalized"), SnapshotReader(client, network)
    assert network.deploy_block < final.head() < latest.head()
    assert final.head() <= SnapshotReader(client, network, "safe").head() <= latest.head()
    snapshot = final.snapshot(signer(3).address, final.head())
    assert (snapshot.number, snapshot.block_hash) == (final.head(), client.block(final.head()).hash)
    assert final.epoch_state(1, final.head()) is EpochState.ACTIVE and final.epoch(1, final.head()).epoch == 1
    before, named = final.head(), word("newer policy")
    send_all(client, [call_of(signer(0), network, set_policy(named, 2, b"{}"))], 30)
    assert latest.final_policy() == snapshot.policy and latest.snapshot(signer(3).address, latest.head()).policy == named
    place.anvil.mine(3)
    assert final.head() == before + 4
    place.anvil.mine(latest.head() - final.head())
    assert latest.final_policy() == named


def test_an_unknown_finality_is_refused_at_the_start(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="finalised"):
        SnapshotReader(place.anvil.client, place.network, "finalised")


def test_custom_errors_are_decoded_with_their_arguments(place: Place) -> None:
    where = place.network.addresses.disputes
    with pytest.raises(ChainReverted) as caught:
        place.anvil.client.call("Disputes", where, "draw", word("none"), 1, b"", block="latest")
    reason = caught.value.values[2]
    assert isinstance(reason, Reason)
    assert (reason.name, reason.arguments["have"], reason.arguments["want"]) == ("WrongPhase", Phase.NONE, Phase.SEED)
    assert word("none").hex() in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"times": {"unbond_delay": 10}}, "unbondDelay of 10 s is below the longest dispute"),
        ({"shares": {"alpha_bps": 9_000}}, r"alphaBps\+betaBps is outside its bounds"),
    ],
)
def test_violated_deployment_check_stops_the_deployment_with_its_name(
    place: Place, changes: dict[str, object], error: str
) -> None:
    client, who = place.anvil.client, signer(15)
    site = survey(
        client, who.address, with_changes(DEVNET, changes), DEVNET_SHAPE, [POOL], GovernanceSettings(*(who.address,) * 3)
    )
    with pytest.raises(MalformedValue, match=error):
        deploy(client, who, site)


def test_a_node_on_another_chain_is_a_configuration_error(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="chain 31337, not 1"):
        ChainClient(place.anvil.url, 1).head()
    with pytest.raises(ConfigurationError):
        SnapshotReader(place.anvil.client, dataclasses.replace(place.network, chain_id=U256(5)))


def test_no_node_and_no_block_are_unavailable(place: Place) -> None:
    with pytest.raises(TryAgain):
        ChainClient("http://127.0.0.1:1", CHAIN_ID, timeout_s=2.0).head()
    with pytest.raises(TryAgain):
        place.anvil.client.block(10**6)


def test_bytes_that_do_not_fit_the_abi_are_refused(place: Place) -> None:
    # An account without code answers every call with nothing.
    with pytest.raises(TryAgain):
        place.anvil.client.call("Lens", signer(9).address, "money", block="latest")


def test_locator_bytes_that_are_no_text_do_not_stop_the_reader(place: Place) -> None:
    chain, who = reader(place.anvil, place.network), OPERATORS[0]
    before = chain.head()
    h = batch(place.network, who, chain.holdings(who.address, before).last_seq + 1, 1, 0).header
    fields = (h.first_seq, h.count, h.root, h.list_hash, h.environment, h.model_id, h.key_epoch, b"\xff\xfe")
    data = interface("ReceiptAnchor").call("post", fields)
    send_all(place.anvil.client, [TransactionCall(who, place.network.addresses.receipt_anchor, data, FEE_WEI, 10**6)], 20)
    (header,) = chain.batches(before + 1, chain.head())
    assert header.list_hash == h.list_hash and header.locator == "\N{REPLACEMENT CHARACTER}" * 2
