"""A forked process that does one task and ends. Its memory ends with it, including copies that a language runtime keeps.

When a process of the enclave fails, its report contains the error's class, rule and place. It contains the error's text only for
classes of errors that never name anything of a job, because other values can be plaintext.
"""

import os
import select
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from bytewise.protocol.errors.actors import ArtifactMismatch, CannotExecute, ConfigurationError
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.service import telemetry
from bytewise.service.exit_codes import Exit
from bytewise.tee import confinement
from enclave.import_blocker import ImportBlocked

OPENING_LIMIT_S = 600.0
"""Most seconds that a forked process may take to open its engine."""


def report_failure(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Writes one log line about an error. The enclave also installs this function as `sys.excepthook`, because a traceback would
    show values, and values here can be plaintext."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    rule = error.rule if isinstance(error, BytewiseError) else ""
    # These errors name settings, files of the artifact, modules and this machine, never a job.
    detail = str(error) if isinstance(error, ConfigurationError | ArtifactMismatch | CannotExecute | ImportBlocked) else ""
    telemetry.log("process.failed", error=kind.__name__, where=where, rule=rule, detail=detail)


@dataclass(frozen=True, slots=True)
class ProcessReady:
    """Message that the process sends to its parent when it waits for its task."""

    unfenced: tuple[str, ...]
    """Names of the fences, the limits of `bytewise.tee.confinement`, that are missing around the process."""


class ForkedProcess:
    """Handle of a forked process in its parent. When the process is forked, the parent must have no thread that holds a lock
    which the task needs."""

    def __init__(self, work: Callable[[], None]) -> None:
        """Starts `work` in the new process. If `work` raises an error, the process logs it and ends with exit code
        `Exit.INTERNAL`."""
        parent = os.getpid()
        # A pipe ends with the last process that can write to it. A pidfd would show the same, but some sandboxes forbid it.
        self.descriptor, living = os.pipe()
        """Read end of a pipe. It becomes readable once the process and all processes that it started have ended."""
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.descriptor)
            _run(work, parent)
        os.close(living)

    def has_ended(self, within_s: float = 0) -> bool:
        """Returns whether the process has ended. Waits up to `within_s` seconds for its end."""
        return bool(select.select([self.descriptor], [], [], within_s)[0])

    def kill(self) -> None:
        """Kills the process, unless it has ended."""
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        """Waits for the end of the process and returns its exit code. If a signal ended it, returns the negative number of the
        signal."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(status)


def _run(work: Callable[[], None], parent: int) -> NoReturn:
    code: int = Exit.INTERNAL
    try:
        # The process must not outlive its parent.
        confinement.die_with_parent(parent, signal.SIGKILL)
        # The supervisor handles these signals and ends its processes. This process ignores signals to the whole group.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001  (top of the process: a traceback could show plaintext)
        report_failure(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
