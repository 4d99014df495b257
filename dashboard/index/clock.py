"""The protocol clock: the time of the chain without the pauses of the guardian (`Guardian.clock`)."""

from collections.abc import Iterable, Mapping
from typing import Any


def clock_at(pause: Mapping[str, Any] | None, timestamp: int) -> int:
    """The protocol clock at a block's time, in seconds. `pause` is the setting `clock`: the last pause, if there was one."""
    if pause is None:
        return timestamp
    last = pause["content"]
    if timestamp < last["until"]:
        return int(last["from"] - last["stopped_before"])
    return int(timestamp - last["stopped_before"] - (last["until"] - last["from"]))


def wall_time(pauses: Iterable[Mapping[str, Any]], protocol_time: int) -> int:
    """When the clock passes this time, in seconds of wall time, if no further pause comes. `pauses`: versions of the setting
    `clock`, oldest first. A time that the clock showed when a pause began has passed before it."""
    passed = protocol_time
    # A pause that ended early is there twice: as it was announced, and as it was.
    for last in {each["content"]["from"]: each["content"] for each in pauses}.values():
        if last["from"] - last["stopped_before"] < protocol_time:
            passed = protocol_time + last["stopped_before"] + last["until"] - last["from"]
    return passed


def is_paused(pause: Mapping[str, Any] | None, timestamp: int) -> bool:
    """Whether the clock stands still."""
    return pause is not None and timestamp < pause["content"]["until"]
