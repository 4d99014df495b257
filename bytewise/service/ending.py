"""How a process ends when one of its loops still waits for a service.

Every process imports this module, so it imports next to nothing.
"""

import os
import sys
import threading

_abandoned = threading.Event()


def abandon() -> None:
    """Records that a loop of this process still runs although the process shall end: it waits for a service."""
    _abandoned.set()


def is_abandoned() -> bool:
    """Whether that was recorded."""
    return _abandoned.is_set()


def leave(code: int) -> int:
    """The exit code of a process that is about to end. If a loop was abandoned, the process ends here and now, because nothing
    else can end a thread that waits for a service."""
    if _abandoned.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
