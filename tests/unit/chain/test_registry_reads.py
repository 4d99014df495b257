"""What the network says of itself under the contracts: who takes part, what may be run, who governs."""

import pytest

from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.records import UnknownEnvironment, UnknownKeyEpoch
from bytewise.protocol.keys.epochs import EpochState
from bytewise.protocol.units import ZERO_DIGEST
from chain.client.address_book import verify_code
from chain.deployment.params import DEVNET
from chain.reads.reader import RegistryDocuments, SnapshotReader
from chain.reads.records import Status
from chain.reads.roles import holders, irregularities
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import (
    ENVIRONMENT,
    GUARDIAN,
    MEASUREMENT,
    MODEL,
    OPERATORS,
    POLICY,
    POOL,
    STAKE_WEI,
    VECTORS,
    VERIFIERS,
    deployed,
    signer,
    word,
)


def test_network_lists_its_actors_and_registered_models(anvil: Anvil) -> None:
    network = deployed(anvil)
    reader = SnapshotReader(anvil.client, verify_code(anvil.client, network))
    head = reader.head()
    members = reader.verifiers(POOL, head)
    assert [each.account for each in members] == [each.address for each in VERIFIERS]
    assert all(each.stake == STAKE_WEI and each.units == STAKE_WEI // 10**15 for each in members)
    assert [each.verifier.platform_id for each in members] == [word("machine", i) for i in range(len(VERIFIERS))]
    assert {each.verifier.measurement for each in members} == {MEASUREMENT}
    pool = reader.pool(POOL, head)
    assert pool is not None and (pool.weighing, pool.seatable, pool.units) == (5, True, 5 * STAKE_WEI // 10**15)
    assert pool.epoch_start <= head <= pool.epoch_end and reader.pool(word("none"), head) is None
    environment, model = reader.item(ENVIRONMENT.digest, head), reader.item(MODEL, head)
    assert (environment.status, environment.pool, environment.vectors) == (Status.ACTIVE, POOL, VECTORS)
    assert (model.status, model.pool) == (Status.ACTIVE, ZERO_DIGEST)
    assert reader.params(reader.params_version(head), head) == DEVNET
    assert reader.stake_at(VERIFIERS[0].address, head - 1, head) == STAKE_WEI
    mine = reader.snapshot(OPERATORS[0].address, head).me
    assert mine.is_operator and (mine.stake_wei, mine.free_wei, mine.pool) == (STAKE_WEI, STAKE_WEI, ZERO_DIGEST)
    assert reader.balance(OPERATORS[0].address, head) == mine.balance_wei


def test_documents_are_believed_only_if_they_hash_to_their_digest(anvil: Anvil) -> None:
    network = deployed(anvil)
    reader = SnapshotReader(anvil.client, network)
    head, documents = reader.head(), RegistryDocuments(reader)
    assert documents.environment(ENVIRONMENT.digest, head) == ENVIRONMENT
    assert documents.model_manifests(MODEL, head) == (b"{}",)
    assert documents.policy_document(POLICY.digest, head) == POLICY.document
    assert set(documents.operators(head)) == {each.address for each in OPERATORS}
    for missing in (documents.environment, documents.policy_document):
        with pytest.raises(UnknownEnvironment):
            missing(MODEL, head)
    assert reader.epoch(1, head) == network.epoch(1) and reader.epoch_state(1, head) is EpochState.ACTIVE
    assert reader.epoch_state(2, head) is EpochState.NONE
    with pytest.raises(UnknownKeyEpoch):
        reader.epoch(2, head)
    with pytest.raises(TryAgain):
        network.epoch(2)


def test_roles_are_those_of_the_charter(anvil: Anvil) -> None:
    network = deployed(anvil)
    reader = SnapshotReader(anvil.client, network)
    held = holders(reader, reader.head())
    assert held["GUARDIAN"] == (GUARDIAN.address,) and held["CURATOR"] == (signer(0).address,)
    assert irregularities(network, held) == ()
    taken = {**held, "ADMIN": (*held["ADMIN"], signer(0).address), "PARAMS": ()}
    first, second = irregularities(network, taken)
    assert "ADMIN is held by" in first and signer(0).address in first and "PARAMS is held by nobody" in second
