"""How sure we are that bytes are missing: before money goes on it they are asked for again, between two proofs that DA works."""

from collections.abc import Callable, Collection
from typing import Protocol

from bytewise.protocol.decisions.snapshot import Docket
from bytewise.protocol.errors import Fault, NotServed, Unavailable
from bytewise.protocol.units import Digest
from bytewise.service import telemetry

QUESTIONS_PER_STEP = 2
"""Each asks DA three times: a tick must end."""
PAUSE_S = 15
"""Protocol time for which nothing is asked after DA did not serve us."""
HOLDS_S = 30
"""Chain time for which an answer is believed; a node that was cut off from the chain meanwhile asks again."""
HAND_IN_S = 60
"""Wall time in which an act that rests on such an answer has to be with a node, or it is decided again."""


class Control(Protocol):
    """Whether DA serves us at all."""

    def works(self) -> bool:
        """Now."""
        ...


class Certainty:
    """What is missing for certain, for as long as somebody needs to know."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._gone: dict[Digest, int] = {}
        """Since when, by the chain's wall time."""
        self._left = 0
        self._not_before = 0

    def begin(self, subjects: Collection[Digest]) -> None:
        """A new step, which may ask about these."""
        self._gone = {subject: since for subject, since in self._gone.items() if subject in subjects}
        self._left = QUESTIONS_PER_STEP

    def is_gone(self, subject: Digest, ask: Callable[[], object], docket: Docket) -> bool:
        """Whether nobody has the bytes, though DA has others. `ask` raises `NotServed` if DA has just given none that fit."""
        if subject in self._gone and docket.timestamp - self._gone[subject] <= HOLDS_S:
            return True
        if self._left == 0 or docket.clock < self._not_before:
            return False
        self._left -= 1
        if not self._works(docket) or not self._fails(ask, subject) or not self._works(docket):
            return False
        self._gone[subject] = docket.timestamp
        return True

    def _works(self, docket: Docket) -> bool:
        works = self._control.works()
        if not works:
            self._not_before = docket.clock + PAUSE_S
        return works

    def _fails(self, ask: Callable[[], object], subject: Digest) -> bool:
        try:
            ask()
        except NotServed as error:
            telemetry.log_error("bytes.gone", error, subject=subject)
            return True
        except (Fault, Unavailable) as error:
            telemetry.log_error("bytes.unknown", error, subject=subject)
        return False
