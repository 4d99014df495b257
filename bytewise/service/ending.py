"""Ends a process although one of its loops still waits for a service.

Every process imports this module, so the module imports next to nothing.
"""

import os
import sys
import threading

_abandoned = threading.Event()


def abandon() -> None:
    """Records that a loop of this process still waits for a service although the process must end."""
    _abandoned.set()


def is_abandoned() -> bool:
    """Returns whether `abandon` was called: a loop of this process still waits for a service."""
    return _abandoned.is_set()


def leave(code: int) -> int:
    """Returns the exit code of a process that is about to end.

    If a loop was abandoned, this function does not return but ends the process at once: a thread that waits for a service cannot
    be ended in another way.
    """
    if _abandoned.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
