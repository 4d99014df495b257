"""What a shard decides a release by: one state of the chain, or nothing."""

import dataclasses
from collections.abc import Iterator

import pytest

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import RpcRefused
from bytewise.protocol.keys.epochs import EpochState
from chain.client.rpc import Block, ChainClient
from chain.reads.reader import SnapshotReader
from tests.fixtures.chain.anvil import Anvil, running_anvil
from tests.fixtures.chain.devnet import VERIFIERS, deployed, reader, word

WHO = VERIFIERS[0].address


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Anvil, Network]]:
    with running_anvil() as anvil:
        yield anvil, deployed(anvil)


def test_combined_view_equals_single_reads(place: tuple[Anvil, Network]) -> None:
    chain = reader(*place)
    found = chain.release_view(WHO, 1, word("no dispute"), word("receipt"))
    snapshot = chain.snapshot(WHO, found.block)
    assert found.block == place[0].client.head().number
    assert dataclasses.replace(found.snapshot, disputes=snapshot.disputes) == snapshot and found.snapshot.me == chain.holdings(
        WHO, found.block
    )
    assert (found.key, found.record, found.dispute) == (chain.epoch_on_chain(1, found.block), chain.epoch(1, found.block), None)
    unknown = chain.release_view(WHO, 2, None, word("receipt"))
    assert (unknown.key.state, unknown.record, unknown.dispute) == (EpochState.NONE, None, None)


class Reorganised(ChainClient):
    """A node whose newest block leaves the chain as soon as it was named."""

    def head(self, tag: str = "latest") -> Block:
        return super().head(tag)._replace(hash=word("left the chain"))


def test_block_that_left_the_chain_is_not_used_for_decisions(place: tuple[Anvil, Network]) -> None:
    anvil, network = place
    with pytest.raises(RpcRefused):
        SnapshotReader(Reorganised(anvil.url, network.chain_id), network).release_view(WHO, 1, None, word("receipt"))
