"""When an operator may accept requests."""

from dataclasses import replace

import pytest

from bytewise.protocol.errors.actors import TryAgain
from serving.readiness import ReadinessWatch
from tests.fixtures.serving.open_readiness import (
    OPEN,
)


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
        ({"epoch": None}, "key epoch"), ({"environment_active": False}, "environment"), ({"model_active": False}, "model"),
        ({"registered": False}, "registered"), ({"judged": False}, "verifiers"), ({"room": 0}, "stake"),
        ({"paused": True}, "paused"), ({"suspended": True}, "suspended"),
    ],
)  # fmt: skip
def test_every_lost_condition_ends_readiness_and_is_named(change: dict[str, object], reason: str) -> None:
    watch = ReadinessWatch(10.0, Time())
    watch.update(replace(OPEN, **change), None)  # type: ignore[arg-type]
    with pytest.raises(TryAgain, match=reason):
        watch.open()


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
