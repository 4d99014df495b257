"""The protocol clock: the time of the chain without the pauses of the guardian (`Guardian.clock`)."""

from collections.abc import Mapping
from typing import Any


def clock_at(pause: Mapping[str, Any] | None, timestamp: int) -> int:
    """The protocol clock at a block's time, in seconds. `pause` is the setting `clock`: the last pause, if there was one."""
    if pause is None:
        return timestamp
    last = pause["content"]
    if timestamp < last["until"]:
        return int(last["from"] - last["stopped_before"])
    return int(timestamp - last["stopped_before"] - (last["until"] - last["from"]))


def is_paused(pause: Mapping[str, Any] | None, timestamp: int) -> bool:
    """Whether the clock stands still."""
    return pause is not None and timestamp < pause["content"]["until"]
