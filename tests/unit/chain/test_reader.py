"""What an actor reads of the chain: one block for one decision, and only what the address book and the chain agree on."""

import dataclasses
from pathlib import Path

import pytest

from bytewise.ports import ChainView, Sender
from bytewise.protocol.dispute import Phase
from bytewise.protocol.errors import (
    ChainReverted,
    ConfigurationError,
    TryAgain,
    UnknownEnvironment,
    UnknownKeyEpoch,
)
from bytewise.protocol.keys import EpochState
from bytewise.protocol.units import U256, Blob
from chain.artifacts import Reason, interface
from chain.client import ChainClient, at_number
from chain.deploy import deploy, read_network, write_network
from chain.history import ChainHistory
from chain.params import DEVNET, ETHER, param_set
from chain.reader import ChainReader
from chain.transactions import Call, send_all
from kms.chain_view import KeyChain
from tests.anvil import CHAIN_ID, Anvil, running_anvil
from tests.devnet import ENVIRONMENT, MODEL, POLICY, batch, deployed, pump, reader, sender, signer, word


def test_a_stranger_reads_the_network_from_address_book_and_rpc_alone(anvil: Anvil, tmp_path: Path) -> None:
    write_network(tmp_path / "network.json", deployed(anvil))
    network = read_network(tmp_path / "network.json")
    chain = ChainReader(ChainClient(anvil.url, network.chain_id), network)
    block = chain.head()
    snapshot = chain.snapshot(signer(3).address, block)
    assert snapshot.block_hash == chain.block_hash(block)
    assert snapshot.verifiers == tuple((signer(3 + i).address, 32 * ETHER) for i in range(5)) == chain.verifiers(block)
    assert chain.weights(block, block) == snapshot.verifiers
    assert not any(stake for _, stake in chain.weights(network.deploy_block, block)), "nobody had joined yet"
    assert snapshot.params == chain.params(block) and snapshot.params.seats == (15, 31)
    assert snapshot.params.required_bond_wei == 46 * DEVNET["feePerSeat"] + DEVNET["privacyPrice"]
    assert (snapshot.active_epoch, snapshot.policy, snapshot.dispute_count) == (1, POLICY.digest, 0)
    assert chain.epoch(1, block) == network.epochs[0].record
    assert (chain.epoch_state(1, block), chain.epoch_state(2, block)) == (EpochState.ACTIVE, EpochState.NONE)
    money = chain.money(block)
    assert money.sums and money.vault_balance == 7 * 32 * ETHER
    history = ChainHistory(chain)
    assert history.environment(ENVIRONMENT.digest, block) == ENVIRONMENT
    assert history.model_manifest(MODEL, block) == b"{}"
    assert history.policy_document(POLICY.digest, block) == POLICY.document
    assert set(history.operators(block)) == {signer(1).address, signer(2).address}
    with pytest.raises(UnknownEnvironment):
        history.environment(word("none"), block)


def test_reader_and_sender_are_what_actors_ask_for(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    # The type checker is the test: these assignments fail it if a port and its adapter part ways.
    view: ChainView = reader(anvil, network)
    keys: KeyChain = reader(anvil, network)
    acts: Sender = sender(anvil, network, signer(1), tmp_path)
    assert (view.head(), keys.epoch_state(1, view.head())) == (anvil.client.head().number, EpochState.ACTIVE)
    acts.withdraw(0)


def test_a_read_names_its_block_and_gets_that_block(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    chain = reader(anvil, network)
    before = chain.head()
    operator = sender(anvil, network, signer(1), tmp_path)
    posted = batch(network, signer(1), 1, 3, chain.block(before).timestamp)
    operator.anchor(posted.header)
    pump(anvil, [operator])
    after = chain.head()
    assert (chain.last_seq(signer(1).address, before), chain.last_seq(signer(1).address, after)) == (0, 3)
    assert chain.batch(0, before) is None
    (header,) = chain.batches(before + 1, after)
    assert chain.batch(0, after) == header
    assert (header.root, header.list_hash, header.count) == (posted.header.root, posted.header.list_hash, 3)
    assert header.anchored_at == chain.block(header.block).timestamp
    assert chain.batches(0, before) == ()


def test_final_means_what_the_contract_says(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    chain = reader(anvil, network)
    operator = sender(anvil, network, signer(1), tmp_path)
    posted = batch(network, signer(1), 1, 5, chain.block(chain.head()).timestamp)
    operator.anchor(posted.header)
    pump(anvil, [operator])
    first, proof = posted.entries[0], posted.proofs[0]
    with pytest.raises(ChainReverted, match="WindowOpen"):
        chain.verify_final(first, 0, proof, chain.head())
    anvil.pass_time(DEVNET["window"] + 1)
    assert chain.verify_final(first, 0, proof, chain.head()) == first
    with pytest.raises(ChainReverted, match="BadProof"):
        chain.verify_final(first, 0, posted.proofs[1], chain.head())
    forged = dataclasses.replace(first, signature=signer(2).sign(word("other")))
    with pytest.raises(ChainReverted, match="BadSignature"):
        chain.verify_final(forged, 0, proof, chain.head())
    with pytest.raises(ChainReverted, match="UnknownBatch"):
        chain.verify_final(first, 7, proof, chain.head())


def test_epoch_of_book_and_chain_must_agree(anvil: Anvil) -> None:
    network = deployed(anvil)
    block = anvil.client.head().number
    document = network.epochs[0]
    for change in ({"public_key": Blob(b"\x04" + b"\1" * 64)}, {"threshold": 3}, {"assurance": "hardware"}, {"shards": ()}):
        wrong = dataclasses.replace(document, record=dataclasses.replace(document.record, **change))
        book = dataclasses.replace(network, epochs=(wrong,))
        with pytest.raises(ConfigurationError, match=r"network\.json"):
            reader(anvil, book).epoch(1, block)
    with pytest.raises(UnknownKeyEpoch):
        reader(anvil, network).epoch(9, block)


def test_an_epoch_that_our_book_lacks_is_waited_for(anvil: Anvil) -> None:
    network = deployed(anvil)
    older = dataclasses.replace(network, epochs=())
    with pytest.raises(TryAgain, match=r"network\.json"):
        reader(anvil, older).epoch(1, anvil.client.head().number)


def test_the_finalized_head_lags_and_every_read_at_it_works() -> None:
    with running_anvil("--slots-in-an-epoch", "1") as anvil:
        network = deployed(anvil)
        anvil.mine(4)
        final, latest = ChainReader(anvil.client, network, "finalized"), ChainReader(anvil.client, network)
        assert network.deploy_block < final.head() < latest.head()
        safe = ChainReader(anvil.client, network, "safe").head()
        assert final.head() <= safe <= latest.head()
        snapshot = final.snapshot(signer(3).address, final.head())
        assert (snapshot.number, snapshot.block_hash) == (final.head(), anvil.client.block(final.head()).hash)
        assert final.epoch_state(1, final.head()) is EpochState.ACTIVE and final.epoch(1, final.head()).epoch == 1
        before = final.head()
        anvil.mine(3)
        assert final.head() == before + 3


def test_an_unknown_finality_is_refused_at_the_start(anvil: Anvil) -> None:
    with pytest.raises(ConfigurationError, match="finalised"):
        ChainReader(anvil.client, deployed(anvil), "finalised")


def test_custom_errors_are_decoded_with_their_arguments(anvil: Anvil) -> None:
    network = deployed(anvil)
    with pytest.raises(ChainReverted) as caught:
        anvil.client.call("Disputes", network.addresses.disputes, "draw", word("none"), block="latest")
    reason = caught.value.values[2]
    assert isinstance(reason, Reason)
    assert (reason.name, reason.arguments["have"], reason.arguments["want"]) == ("WrongPhase", Phase.NONE, Phase.SEED)
    assert word("none").hex() in str(caught.value)


def test_a_broken_static_law_stops_the_deployment_with_its_name(anvil: Anvil) -> None:
    with pytest.raises(ChainReverted, match="StaticLawBroken"):
        deploy(anvil.client, signer(0), {**DEVNET, "unbondDelay": 10})
    with pytest.raises(ChainReverted, match="ParamOutOfBounds"):
        deploy(anvil.client, signer(0), {**DEVNET, "alphaBps": 9000})
    with pytest.raises(ConfigurationError, match="windows"):
        param_set(DEVNET, windows=1)


def test_a_node_on_another_chain_is_a_configuration_error(anvil: Anvil) -> None:
    with pytest.raises(ConfigurationError, match="chain 31337, not 1"):
        ChainClient(anvil.url, 1).head()
    network = deployed(anvil)
    with pytest.raises(ConfigurationError):
        ChainReader(anvil.client, dataclasses.replace(network, chain_id=U256(5)))


def test_no_node_and_no_block_are_unavailable() -> None:
    with pytest.raises(TryAgain):
        ChainClient("http://127.0.0.1:1", CHAIN_ID, timeout_s=2.0).head()


def test_a_block_that_is_not_there_is_unavailable(anvil: Anvil) -> None:
    with pytest.raises(TryAgain):
        anvil.client.block(10**6)


def test_bytes_that_do_not_fit_the_abi_are_no_answer(anvil: Anvil) -> None:
    # An account without code answers every call with nothing.
    with pytest.raises(TryAgain):
        anvil.client.call("Lens", signer(9).address, "money", block=at_number(0))


def test_locator_bytes_that_are_no_text_stop_no_reader(anvil: Anvil, tmp_path: Path) -> None:
    network = deployed(anvil)
    posted = batch(network, signer(1), 1, 1, 0)
    h = posted.header
    fields = (h.first_seq, h.count, h.root, h.list_hash, h.environment, h.model_id, h.key_epoch, b"\xff\xfe")
    data = interface("ReceiptAnchor").call("post", fields)
    send_all(anvil.client, [Call(signer(1), network.addresses.receipt_anchor, data, 0, 10**6)], 20)
    (header,) = reader(anvil, network).batches(0, anvil.client.head().number)
    assert header.list_hash == h.list_hash and header.locator == "��"
