"""Exit codes of every process, and of `bytewise` (`cli.exits`): supervisors and scripts depend on these numbers."""

import argparse
import sys
from typing import NoReturn

from bytewise.protocol.errors.actors import (
    ConfigurationError,
    LaneLost,
    LaneOwned,
    LaneStopped,
    NoProgress,
    ProtectionMissing,
    SecondVote,
    StaleBackup,
    WrongPhase,
)
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.records.statements import CannotReason
from bytewise.service.schedule import EXIT_BUG

EXIT_UNAVAILABLE = 5
"""A service does not answer: the same command may succeed later."""
EXIT_REFUSED = 6
"""Refused, for it would harm or change nothing."""
EXIT_USAGE = 64
"""Asked wrongly: a setting, a file or an option must change first (EX_USAGE of sysexits)."""

REFUSALS = (ProtectionMissing, SecondVote, LaneStopped, LaneOwned, LaneLost, StaleBackup, NoProgress, WrongPhase)
"""Errors of a process that must not go on, or of a step that would change nothing."""


def exit_of(error: BytewiseError) -> int:
    """The code of a process that an error ends; `EXIT_BUG` where we are wrong."""
    if isinstance(error, REFUSALS):
        return EXIT_REFUSED
    if isinstance(error, ConfigurationError) or CannotReason.MODEL_MISSING in error.values:
        return EXIT_USAGE
    return EXIT_UNAVAILABLE if isinstance(error, Unavailable) else EXIT_BUG


class Parser(argparse.ArgumentParser):
    """Arguments of a process; wrong ones end it with `EXIT_USAGE`."""

    def error(self, message: str) -> NoReturn:
        """Prints usage and message, and ends the process."""
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: error: {message}\n")
