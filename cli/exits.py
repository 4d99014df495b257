"""Exit codes of every verb, and what an error advises (`ecosystem.md` 4.1: scripts depend on these numbers)."""

import enum

from bytewise.protocol.errors.actors import (
    ArtifactMismatch,
    CannotExecute,
    CeremonyFailed,
    CeremonyRefused,
    ConfigurationError,
    LaneLost,
    LaneOwned,
    LaneStopped,
    NoProgress,
    ProtectionMissing,
    SecondVote,
    SharesUnproven,
    StaleBackup,
    TooEarly,
    UnsupportedModel,
    WrongPhase,
)
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.records.statements import CannotReason


class Exit(enum.IntEnum):
    """What a verb's end means."""

    OK = 0
    """Done; of `verify`: verified."""
    INTERNAL = 1
    """We failed in a way nobody foresaw."""
    MISMATCH = 2
    """A mismatch or a defect is proven."""
    INCONCLUSIVE = 3
    """Cannot tell; the reason is printed."""
    NOT_FOUND = 4
    """No such receipt in any anchored batch."""
    UNAVAILABLE = 5
    """A service does not answer."""
    REFUSED = 6
    """Refused: it would harm, or change nothing."""
    USAGE = 64
    """Asked wrongly: an option, a file, a setting."""


_FAILED = "Nothing changed. See the reason: start who was silent, leave out who was named, begin again with another plan file."

_NO_ARTIFACT = (Exit.USAGE, "Name the folder that `bytewise model convert` wrote.")
_NO_ENGINE = (Exit.UNAVAILABLE, "Is there memory for the model?")


def exit_for(error: BytewiseError) -> tuple[Exit, str]:
    """The exit code of an error that ends a verb, and what to do next."""
    if isinstance(error, ProtectionMissing | SecondVote):
        return Exit.REFUSED, "Restore the protection table of this key (`bytewise protect import`); never start with none."
    if isinstance(error, LaneStopped):
        return Exit.REFUSED, "Somebody else sent with this key: find out who, then `bytewise protect resume`."
    if isinstance(error, LaneOwned | LaneLost):
        return Exit.REFUSED, "Stop the process of this account first; one that was killed gives its lane back within seconds."
    if isinstance(error, StaleBackup):
        return (
            Exit.REFUSED,
            "Nothing was changed. Take the newest backup, epoch file or database that there is. Where only shares are stale, "
            "restore `--without-shares`, and have the others give the shard its share (`bytewise kms repair`).",
        )
    if isinstance(error, NoProgress | WrongPhase):
        return Exit.REFUSED, "Nothing was changed: what is asked for is over, or was done already."
    if isinstance(error, CeremonyRefused):
        return Exit.USAGE, "The plan of the ceremony cannot be right: check threshold, quorum, entries and source."
    if isinstance(error, ConfigurationError):
        return Exit.USAGE, "Check the named file or setting; `--help` shows what the verb needs."
    if isinstance(error, ArtifactMismatch):
        return Exit.USAGE, "The artifact was altered or is incomplete: fetch it again, or convert the checkpoint again."
    if isinstance(error, UnsupportedModel):
        return Exit.USAGE, "What is named cannot be computed exactly, or is missing or damaged; other models may convert."
    if isinstance(error, CannotExecute):
        return _NO_ARTIFACT if CannotReason.MODEL_MISSING in error.values else _NO_ENGINE
    if isinstance(error, CeremonyFailed):
        return Exit.INCONCLUSIVE, _FAILED
    if isinstance(error, SharesUnproven):
        return (
            Exit.INCONCLUSIVE,
            "Nothing was sent. The log is closed and takes no proof any more. Begin again with all shards up and another plan "
            "file. Or name exactly these shards by `--without`, and see that they get their shares: the ceremony's own command, "
            "run again, brings the end to who had joined; `bytewise kms repair` gives any a share, but not in a hybrid epoch.",
        )
    if isinstance(error, TooEarly):
        return Exit.UNAVAILABLE, "Nothing was sent. The same command succeeds from then on."
    if isinstance(error, Unavailable):
        return Exit.UNAVAILABLE, "Is the service up, and is its address right (--rpc, --da)? The same command may succeed later."
    return Exit.INTERNAL, "Please report this with the command that you ran."
