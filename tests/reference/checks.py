"""What every step asks first."""

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.errors.actors import BondMismatch, NoProgress, TooEarly, WindowClosed, WrongPhase
from bytewise.protocol.units import Digest
from tests.reference.state import Court, Dispute


def running(court: Court) -> None:
    """`TooEarly` while the clock stands still."""
    if court.paused:
        raise TooEarly("a step", "the end of the pause", court.now)


def in_phase(court: Court, dispute: Digest, *wanted: Phase) -> Dispute:
    """The dispute, if it stands in one of these phases by now; else `WrongPhase`."""
    found = court.disputes.get(dispute)
    phase = Phase.NONE if found is None else court.phase(found)
    if found is None or phase not in wanted:
        raise WrongPhase(dispute.hex(), phase.name, " or ".join(each.name for each in wanted))
    return found


def not_after(what: str, end: int, now: int) -> None:
    """`WindowClosed` after the last second."""
    if now > end:
        raise WindowClosed(what, end, now)


def paid(what: str, have: int, want: int) -> None:
    """`BondMismatch` for another amount."""
    if have != want:
        raise BondMismatch(what, have, want)


def new(condition: bool, what: str, why: str) -> None:
    """`NoProgress` unless the step is new."""
    if not condition:
        raise NoProgress(what, why)
