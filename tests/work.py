"""Counts the work of a call: how many calls of Python and C functions it makes, which no other process can disturb."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls(work: Callable[[], object], name: str = "") -> int:
    """Calls that `work` makes of functions of this name, or of any."""
    count = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        called = {"call": frame.f_code.co_name, "c_call": getattr(argument, "__name__", "")}.get(event)
        count += called is not None and name in ("", called)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
