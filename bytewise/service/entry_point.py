"""Start and end of every `python -m …` process: reads its arguments, reports an error, and returns the exit code.

A module `__main__` has a function `main(arguments)` and calls `run_entry`. `bytewise … run` starts the same modules.
"""

import argparse
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from bytewise.protocol.errors.branches import (
    BytewiseError,
)
from bytewise.service import telemetry
from bytewise.service.exit_codes import Exit, advice_of

_abandoned = threading.Event()


def abandon() -> None:
    """Records that a loop of this process still waits for a service although the process must end."""
    _abandoned.set()


def is_abandoned() -> bool:
    """Returns whether `abandon` was called: a loop of this process still waits for a service."""
    return _abandoned.is_set()


def leave(code: int) -> int:
    """Returns the exit code of a process that is about to end.

    If a loop was abandoned, this function ends the process at once and does not return, because nothing else ends a thread that
    waits for a service.
    """
    if _abandoned.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


class PlainParser(argparse.ArgumentParser):
    """Parses the arguments of a process. Wrong arguments end the process with `Exit.USAGE`."""

    def error(self, message: str) -> NoReturn:
        """Prints the usage and the message, and ends the process with `Exit.USAGE`."""
        self.print_usage(sys.stderr)
        self.exit(Exit.USAGE, f"{self.prog}: error: {message}\n")


class Parser(PlainParser):
    """Parses `python -m MODULE COMMAND --config FILE`. A module with only one command has no COMMAND."""

    def __init__(self, module: str, description: str | None, commands: Sequence[str] = ()) -> None:
        super().__init__(prog=f"python -m {module}", description=description)
        if commands:
            self.add_argument("command", choices=commands)
        self.add_argument("--config", type=Path, required=True, help="settings file, TOML")


def run_entry(component: str, work: Callable[[], int]) -> int:
    """Runs `work` and returns the exit code of the process.

    If `work` raises an error, writes one log line with advice and returns the exit code of the error (`service.exit_codes`).
    """
    telemetry.configure(component)
    return leave(_exit_code(work))


def _exit_code(work: Callable[[], int]) -> int:
    try:
        return work()
    except KeyboardInterrupt as error:
        telemetry.log("process.interrupted", do=advice_of(error).advice)
        return Exit.INTERRUPTED
    except BytewiseError as error:
        code, advice = advice_of(error)
        telemetry.log_error("process.failed", error, do=advice)
        return code
    except Exception:  # noqa: BLE001  (a defect: the traceback is for its developer)
        traceback.print_exc()
        return Exit.INTERNAL
