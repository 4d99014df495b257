"""A key that enclaves rebuild is born and dealt again in ceremonies as any other, by shards whose operators allow it."""

from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import CeremonyRefused, ShardLied
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.records.seal import unpad
from bytewise.protocol.suites import rebuilt_epoch
from enclave.release_client import ShardKeySource
from kms.ceremony.coordinator import epoch_document
from kms.shard.release import Shard
from tests.fixtures.kms.ceremony_runs import numbered, on_chain, participants_of, run
from tests.fixtures.kms.dkg_fixture import brought, ceremony_shards, coordinator_of, plan
from tests.fixtures.kms.key_source import Blame
from tests.fixtures.kms.memory_chain import Case, MemoryChain
from tests.fixtures.kms.release_network import World

EPOCH = rebuilt_epoch(1)


def serving(world: World, document: EpochDocument, index: int, case: Case) -> tuple[int, Shard]:
    """A shard with its share of one version, on a chain that means that version."""
    world.document, world.chain = document, MemoryChain(document, world.policy.digest)
    world.chain.open(case)
    return index, world.shard(index, release_shares=True)


def test_participant_joins_only_if_its_operator_allows_it(tmp_path: Path) -> None:
    shards, _ = ceremony_shards(tmp_path, 2)
    asked = brought(plan(shards, 2, 2, epoch=EPOCH))
    with pytest.raises(CeremonyRefused, match="a key that enclaves rebuild, and release_shares is not set"):
        shards[0].exchange(asked)
    shards[1].release_shares = True
    assert shards[1].exchange(asked).messages
    assert shards[0].exchange(brought(plan(shards, 2, 2))).messages, "another key is another matter"


def test_ceremony_key_is_rebuilt_before_and_after_resharing(tmp_path: Path) -> None:
    world = World(tmp_path / "world", epoch=EPOCH)
    shards, chain = participants_of(world, tmp_path, release_shares=True)
    made = run(coordinator_of(tmp_path, plan(shards, 2, 3, epoch=EPOCH), shards))
    first = epoch_document(made)
    renewal = plan(shards, 2, 3, dealers=numbered(shards), source=on_chain(chain, made), epoch=EPOCH)
    second = epoch_document(run(coordinator_of(tmp_path, renewal, shards)))
    assert second.record.public_key == first.record.public_key and second.commitments != first.commitments
    world.document, blame = second, Blame()
    case = world.case()
    stale = serving(world, first, 1, case)
    with world.listening(stale, serving(world, second, 2, case), serving(world, second, 3, case)):
        source = ShardKeySource(world.quoter, pause=lambda _seconds: None, on_failure=blame, rebuilds=True)
        assert unpad(source.open(world.job(case), world.secret)) == case.payload
    assert blame.failures == [(1, ShardLied)], "a share of before fits no commitments of after"
