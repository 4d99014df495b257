"""The exit codes of every entry point, and the advice for each error. Supervisors and scripts depend on these numbers.

`bytewise` and the processes that it starts end with a code of `Exit`. There are two exceptions: `bytewise demo` can also end with
1, and the gossip process has codes of its own, because it imports nothing of `bytewise`. Only `advice_of` assigns a code to an
error.
"""

import enum
from typing import NamedTuple

from bytewise.protocol.errors.actors import (
    ArtifactMismatch,
    BreakerHolds,
    CallerError,
    CannotExecute,
    CeremonyFailed,
    CeremonyRefused,
    ConfigurationError,
    KeyInUse,
    LeaseLost,
    LeaseStopped,
    LeaseTaken,
    NoProgress,
    NotExact,
    OlderBackup,
    ProtectionMissing,
    ResultsDiffer,
    RevealRefused,
    SecondVote,
    SharesUnproven,
    SignerAway,
    SignerRefused,
    SigningRefused,
    StaleBackup,
    StoreCorrupt,
    TooEarly,
    TransactionPending,
    UnsupportedModel,
    WrongPhase,
)
from bytewise.protocol.errors.branches import (
    BytewiseError,
    Unavailable,
)
from bytewise.protocol.errors.evidence import PolicyRefused


class Exit(enum.IntEnum):
    """Meaning of the exit code of a command or process."""

    OK = 0
    """The work is done, or a signal stopped the process. For `verify`, the receipt is verified."""
    MISMATCH = 2
    """A mismatch or a defect is proven."""
    INCONCLUSIVE = 3
    """The result is undecided. The reason is printed."""
    NOT_FOUND = 4
    """There is no object with this name."""
    UNAVAILABLE = 5
    """A service does not answer, or it is too early. The same command may succeed later. If the error says that something was
    sent, look before you repeat the command."""
    REFUSED = 6
    """The command refused, because it would do harm or change nothing."""
    NOT_READY = 7
    """A check of `doctor` fails, or the node of `status` is not healthy."""
    USAGE = 64
    """Wrong input: an option, a file or a setting must change first (EX_USAGE of sysexits)."""
    INTERNAL = 70
    """A defect of this program (EX_SOFTWARE of sysexits)."""
    HUNG = 75
    """Periodic work did not end in its time, or `bytewise run` had to kill a process (EX_TEMPFAIL of sysexits)."""
    INTERRUPTED = 130
    """Ctrl-C interrupted the command. Shells use the same number."""


class ExitAdvice(NamedTuple):
    """The exit code of an error, and advice for its user."""

    code: Exit
    advice: str
    """What to do next, in one or two sentences."""


_CEREMONY_FAILED = (
    "Nothing changed. See the reason: start who was silent, leave out who was named, begin again with another plan file."
)
_SHARES_UNPROVEN = (
    "Nothing was sent. The log is closed and takes no proof any more. Begin again with all shards up and another plan "
    "file. Or name exactly these shards by `--without`, and see that they get their shares: the ceremony's own command, "
    "run again, brings the end to who had joined; `bytewise key repair` gives any a share, but not in a hybrid epoch."
)
_STALE_BACKUP = (
    "Nothing was changed. Take the newest backup, epoch file or database that there is. Where only shares are stale, "
    "restore `--without-shares`, and have the others give the shard its share (`bytewise key repair`)."
)

_TABLE: tuple[tuple[tuple[type[BytewiseError], ...], Exit, str], ...] = (
    (
        (ProtectionMissing, SecondVote), Exit.REFUSED,
        "Restore the protection table of this key (`bytewise member import-votes`); never start with none.",
    ),
    ((LeaseStopped,), Exit.REFUSED, "Somebody else sent with this key: find out who, then `bytewise member resume`."),
    (
        (LeaseTaken, LeaseLost, KeyInUse), Exit.REFUSED,
        "Stop the process of this account first; the lease of a killed process ends within seconds.",
    ),
    ((StaleBackup,), Exit.REFUSED, _STALE_BACKUP),
    (
        (SigningRefused,), Exit.REFUSED,
        "Nothing was signed. Is it the network's address book? A ceiling is raised in [signer]; no other rule has a setting.",
    ),
    (
        (SignerRefused,), Exit.REFUSED,
        "Nothing was sent. See [signer]: is it the right signer and account, and does the signer let this client sign?",
    ),
    ((SignerAway,), Exit.UNAVAILABLE, "Nothing was sent. Is the signer up, and are url and certificates of [signer] right?"),
    (
        (OlderBackup,), Exit.REFUSED,
        "Restore the newer one: it may have votes that this one lacks. If it is damaged, give `--older`.",
    ),
    (
        (StoreCorrupt,), Exit.MISMATCH,
        "The database was altered or damaged. Stop the processes that use it, and restore its newest copy. If it is undamaged, "
        "please report this.",
    ),
    (
        (ResultsDiffer,), Exit.REFUSED,
        "Nothing was signed after it. The log has both results (`job.contradicted`): find the wrong machine and drop it.",
    ),
    ((NoProgress, WrongPhase), Exit.REFUSED, "Nothing was changed: what is asked for is over, or was done already."),
    ((CeremonyRefused,), Exit.USAGE, "The plan of the ceremony cannot be right: check threshold, quorum, entries and source."),
    (
        (PolicyRefused,), Exit.USAGE,
        "Name as policy_file a policy with a higher serial that enough governors signed (`bytewise key approve`).",
    ),
    ((ConfigurationError,), Exit.USAGE, "Check the named file or setting; `--help` shows what the verb needs."),
    (
        (ArtifactMismatch,), Exit.USAGE,
        "The artifact was altered or is incomplete: fetch it again, or convert the checkpoint again.",
    ),
    (
        (UnsupportedModel,), Exit.USAGE,
        "What is named cannot be computed exactly, or is missing or damaged; other models may convert.",
    ),
    (
        (RevealRefused,), Exit.MISMATCH,
        "Count none of its receipts as tests: what was convicted among them is ordinary fraud.",
    ),
    (
        (NotExact,), Exit.INCONCLUSIVE,
        "The arithmetic of this machine is not that of the profile, so the result is undecided. Try another machine or device.",
    ),
    ((CannotExecute,), Exit.UNAVAILABLE, "This machine cannot run it: see the reason (memory, device, environment)."),
    ((CeremonyFailed,), Exit.INCONCLUSIVE, _CEREMONY_FAILED),
    ((SharesUnproven,), Exit.INCONCLUSIVE, _SHARES_UNPROVEN),
    ((BreakerHolds,), Exit.UNAVAILABLE, "Nothing was sent. The curator releases held convictions (Breaker.resetBreaker)."),
    ((TooEarly,), Exit.UNAVAILABLE, "Nothing was sent. The same command succeeds from then on."),
    (
        (TransactionPending,), Exit.UNAVAILABLE,
        "Look at the transactions of the account before you repeat the command, because it sends once more.",
    ),
    (
        (Unavailable, CallerError), Exit.UNAVAILABLE,
        "Is the service up, and is its address right (--rpc, --da)? The same command may succeed later.",
    ),
)  # fmt: skip
"""Advice by class of error. The first row with the class of an error, or with a base class of it, applies."""

_NO_ARTIFACT = ExitAdvice(Exit.USAGE, "Name the folder that `bytewise model convert` wrote.")
_DEFECT = ExitAdvice(Exit.INTERNAL, "Please report this with the command that you ran.")


def advice_of(error: BaseException) -> ExitAdvice:
    """Returns the exit code and the advice for an error. The code is `Exit.INTERNAL` if no row of the table matches the
    error."""
    if isinstance(error, KeyboardInterrupt):
        return ExitAdvice(Exit.INTERRUPTED, "The same command goes on where it was.")
    if isinstance(error, CannotExecute) and _lacks_model(error):
        return _NO_ARTIFACT
    return next((ExitAdvice(code, advice) for classes, code, advice in _TABLE if isinstance(error, classes)), _DEFECT)


def _lacks_model(error: CannotExecute) -> bool:
    # Imported here: records need eth_abi, whose import takes as long as all of a help page.
    from bytewise.protocol.records.statements import CannotReason

    return CannotReason.MODEL_MISSING in error.values


def exit_of(error: BaseException) -> Exit:
    """Returns the exit code for an error."""
    return advice_of(error).code
