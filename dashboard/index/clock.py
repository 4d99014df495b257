"""The protocol clock: the time of the chain without the pauses of the guardian (`Guardian.clock`)."""

from collections.abc import Iterable, Mapping
from typing import Any


def clock_at(pause: Mapping[str, Any] | None, timestamp: int) -> int:
    """Returns the protocol clock at a block's `timestamp`, in seconds. `pause` is the newest version of the setting `clock`,
    which describes the last pause. It is None if the network was never paused."""
    if pause is None:
        return timestamp
    last = pause["content"]
    if timestamp < last["until"]:
        return int(last["from"] - last["stopped_before"])
    return int(timestamp - last["stopped_before"] - (last["until"] - last["from"]))


def wall_time(pauses: Iterable[Mapping[str, Any]], protocol_time: int) -> int:
    """Returns the wall time, in Unix seconds, at which the clock passes `protocol_time` if no further pause comes. `pauses` are
    all versions of the setting `clock`, oldest first. A pause does not delay a time that the clock had reached when the pause
    began."""
    passed = protocol_time
    # A pause that ended early has two versions with one beginning. The later version has the real end.
    for last in {each["content"]["from"]: each["content"] for each in pauses}.values():
        if last["from"] - last["stopped_before"] < protocol_time:
            passed = protocol_time + last["stopped_before"] + last["until"] - last["from"]
    return passed


def is_paused(pause: Mapping[str, Any] | None, timestamp: int) -> bool:
    """Returns whether the protocol clock stands still at a block's `timestamp`. `pause` is as in `clock_at`."""
    return pause is not None and timestamp < pause["content"]["until"]
