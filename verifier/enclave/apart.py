"""One forked process that does one thing and ends: what it held is gone with it, whatever language runtimes keep."""

import os
import select
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from bytewise.tee import confinement
from verifier.enclave.failure import EXIT_BUG, report


class Apart:
    """Such a process, seen from the one that started it. That one must have no threads whose locks the work would need."""

    def __init__(self, work: Callable[[], None]) -> None:
        """Starts `work` in it. An error of it is reported, and its exit code is then EXIT_BUG."""
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _run(work, parent)
        self.descriptor = os.pidfd_open(self.pid)
        """Readable once it has ended."""

    def has_ended(self, within_s: float = 0) -> bool:
        """Whether it has ended, or does within so many seconds."""
        return bool(select.select([self.descriptor], [], [], within_s)[0])

    def kill(self) -> None:
        """Ends it at once."""
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        """Its exit code, once it has ended; minus the signal that ended it."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(status)


def _run(work: Callable[[], None], parent: int) -> NoReturn:
    code = EXIT_BUG
    try:
        # Nobody keeps it when its keeper is gone.
        confinement.die_with_parent(parent, signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001  top of the process: whatever it is, nothing of it may be printed
        report(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
