"""Counts the work of a call, which no other process can disturb: functions called, or instructions of the interpreter."""

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


def instructions(work: Callable[[], object]) -> int:
    """Instructions of the interpreter that `work` takes; what C functions do inside is one each."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
