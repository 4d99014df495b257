"""What `/readyz` of a shard says about its share, and the reminder to deal shares again."""

import io
import json
import threading
from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.suites import hybrid_epoch
from bytewise.service import telemetry
from bytewise.service.sections import DAY_S
from kms.shard import refresh
from kms.shard.service import share_check
from kms.shard.share_rotation import SharesInForce
from tests.fixtures.kms.governed_policy import settings
from tests.fixtures.kms.release_network import World
from tests.fixtures.metric_values import value_of
from tests.fixtures.storage.hand_clock import HandClock


def test_share_in_force_is_ready(world: World) -> None:
    found = share_check(world.shard(1).info())
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


@pytest.mark.parametrize(
    ("days", "dealt_at", "age_s", "is_met", "value"),
    [
        (30, 1_000, 30 * DAY_S - 1, True, "epoch 1, 29 days old"),
        (30, 1_000, 30 * DAY_S, False, "epoch 1, 30 days old"),
        (30, 1_000, -60, True, "epoch 1, 0 days old"),
        (30, None, 90 * DAY_S, True, "epoch 1 takes no new receipts"),
        (0, 1_000, 900 * DAY_S, True, "refresh_days is 0: not checked"),
    ],
)
def test_old_shares_are_due(world: World, days: int, dealt_at: int | None, age_s: int, is_met: bool, value: str) -> None:
    found = refresh.share_age_check(settings(world, refresh_days=days), lambda _: dealt_at, 1_000 + age_s)
    assert (found.ok, found.value) == (is_met, value) and "bytewise key reshare" in found.advice


def test_shares_that_cannot_be_dealt_again_are_rotated(tmp_path: Path) -> None:
    world = World(tmp_path, epoch=hybrid_epoch(1))
    found = refresh.share_age_check(settings(world), lambda _: 0, 999 * DAY_S)
    assert not found.ok and "bytewise key rotate" in found.advice and "reshare" not in found.advice
    (world.folder / "epoch.json").unlink()
    assert refresh.share_age_check(settings(world), lambda _: 0, 999 * DAY_S).value == "no key epoch"
    with pytest.raises(ConfigurationError, match="refresh_days"):
        settings(world, refresh_days=-1)


def test_reminder_repeats_until_shares_are_dealt_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain that does not answer ends nothing, and the shard keeps its share all the time."""
    monkeypatch.setattr(refresh, "LOOK_S", 0.02)
    world, looks, enough = World(tmp_path), list[int](), threading.Event()
    shard, now = world.shard(1), 200 * DAY_S
    before = shard.info()

    def dealt_at(epoch: int) -> int:
        looks.append(epoch)
        if len(looks) == 2:
            raise TryAgain("chain", "no answer")
        if len(looks) == 6:
            enough.set()
        return 0 if len(looks) < 4 else now

    log, given = io.StringIO(), settings(world)
    telemetry.configure("kms-serve", log)
    try:
        with refresh.refresh_reminder(given, dealt_at, HandClock(now)):
            assert enough.wait(30)
    finally:
        telemetry.configure("unnamed")
    logged = [json.loads(line) for line in log.getvalue().splitlines()]
    due = [each for each in logged if each["event"] == "share.refresh_due"]
    assert [each["found"] for each in due] == ["epoch 1, 200 days old"] * 2 and "reshare" in due[0]["do"]
    assert shard.info() == before and {thread.name for thread in threading.enumerate()} & {"refresh"} == set()
    assert value_of("bytewise_loop_runs_total", loop="refresh", result="failed") >= 1
