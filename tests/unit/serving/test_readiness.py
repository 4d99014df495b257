"""When an operator may accept requests."""

from dataclasses import replace

import pytest

from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.suites import rebuilt_epoch
from bytewise.service.readiness import ChainHead, ReadinessRegistry
from serving.readiness import ReadinessWatch, epoch_refusal
from serving.settings import AcceptSettings
from tests.fixtures.chain.devnet import epoch_document
from tests.fixtures.serving.open_readiness import OPEN
from tests.fixtures.storage.hand_clock import HandClock


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.value = 0.0

    def __call__(self) -> float:
        return self.value


def test_fresh_good_reading_makes_the_service_ready() -> None:
    watch = ReadinessWatch(10.0, Time())
    watch.update(OPEN, None)
    assert watch.open() == (OPEN, OPEN.epoch)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"epoch": None}, "key epoch"), ({"epoch_refusal": "set accept.simulated"}, "accept.simulated"),
        ({"environment_active": False}, "environment"), ({"model_active": False}, "model"),
        ({"registered": False}, "registered"), ({"judged": False}, "verifiers"), ({"room": 0}, "stake"),
        ({"paused": True}, "paused"), ({"suspended": True}, "suspended"),
        ({"balance_wei": OPEN.required_wei - 1}, "ether"),
    ],
)  # fmt: skip
def test_every_lost_condition_ends_readiness_and_is_named(change: dict[str, object], reason: str) -> None:
    watch = ReadinessWatch(10.0, Time())
    watch.update(replace(OPEN, **change), None)  # type: ignore[arg-type]
    with pytest.raises(TryAgain, match=reason):
        watch.open()


def test_rebuilt_epoch_without_opt_in_is_refused_with_its_setting() -> None:
    epoch = epoch_document(rebuilt_epoch(2)).record
    assert "set accept.rebuilt" in (epoch_refusal(epoch, AcceptSettings(simulated=True)) or "")
    assert epoch_refusal(epoch, AcceptSettings(simulated=True, rebuilt=True)) is None


def test_lagging_publication_ends_readiness() -> None:
    watch = ReadinessWatch(10.0, Time())
    watch.update(OPEN, "receipt 7 still waits to be anchored")
    with pytest.raises(TryAgain, match="receipt 7"):
        watch.open()


def test_old_reading_ends_readiness() -> None:
    time = Time()
    watch = ReadinessWatch(10.0, time)
    with pytest.raises(TryAgain):
        watch.open()
    watch.update(OPEN, None)
    time.value = 10.5
    with pytest.raises(TryAgain, match="fresh"):
        watch.open()


def test_receipt_without_free_stake_is_not_signed() -> None:
    readiness = replace(OPEN, last_seq=40, room=3)
    assert readiness.verify_room(43) == 43
    with pytest.raises(TryAgain, match="no free stake"):
        readiness.verify_room(44)


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, set()), ({"registered": False}, {"registration", "serving"}), ({"suspended": True}, {"suspension", "serving"}),
        ({"room": 0}, {"stake", "serving"}), ({"paused": True}, {"serving"}),
        ({"balance_wei": OPEN.required_wei - 1}, {"balance", "serving"}),
    ],
)  # fmt: skip
def test_reading_is_shown_as_checks(change: dict[str, object], failing: set[str]) -> None:
    registry = ReadinessRegistry()
    head = ChainHead(HandClock(OPEN.timestamp + 5))
    assert [check.name for check in registry.checks() if not check.ok] == ["started"]
    ReadinessWatch(10.0, Time(), registry, head).update(replace(OPEN, **change), None)  # type: ignore[arg-type]
    assert {check.name for check in registry.checks() if not check.ok} == failing
    assert head.check().ok and head.check().value == "5 s"


def test_lagging_publication_is_shown_as_a_check() -> None:
    registry = ReadinessRegistry()
    ReadinessWatch(10.0, Time(), registry).update(OPEN, "receipt 7 still waits to be anchored")
    (failing,) = (check for check in registry.checks() if not check.ok)
    assert (failing.name, failing.value) == ("serving", "receipt 7 still waits to be anchored")
