"""What `/readyz` of a shard says about its share."""

from pathlib import Path

from bytewise.protocol.errors.actors import TryAgain
from kms.shard.service import share_check
from kms.shard.share_rotation import SharesInForce
from tests.fixtures.kms.release_network import World
from tests.fixtures.metric_values import value_of


def test_share_in_force_is_ready(tmp_path: Path) -> None:
    found = share_check(World(tmp_path).shard(1).info())
    assert found.ok and found.value == "epoch 1, in force" and value_of("bytewise_kms_share_in_force") == 1


def test_share_without_a_readable_chain_is_not_ready(tmp_path: Path) -> None:
    world = World(tmp_path)
    shard = world.shard(1)

    def unreachable(epoch: int) -> SharesInForce:
        raise TryAgain("chain", "no answer")

    world.chain.shares = unreachable  # type: ignore[method-assign]
    found = share_check(shard.info())
    assert not found.ok and "the chain was not read" in found.value and value_of("bytewise_kms_share_in_force") == 0


def test_shard_without_an_epoch_is_not_ready() -> None:
    found = share_check(None)
    assert not found.ok and found.value == "no key epoch" and "after the ceremony" in found.advice
