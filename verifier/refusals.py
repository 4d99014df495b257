"""What the chain would refuse: it is asked before an act is decided, and its answer is remembered for a while.

A refused act costs no gas, for the sender tries it too; but it would be decided at each tick, and keep its bond in the budget.
"""

from collections.abc import Callable

from bytewise.protocol.docket import Docket
from bytewise.protocol.errors import Unavailable
from bytewise.protocol.units import Digest
from bytewise.service import telemetry

QUESTIONS_PER_STEP = 8
"""Each is a call of the chain; clients may hand over thousands of receipts."""
REMEMBERED_S = 600
"""Chain time for which a refusal is believed: an environment that was closed may be opened again."""


class Refusals:
    """Subjects of refused acts."""

    def __init__(self) -> None:
        self._until: dict[Digest, int] = {}
        self._left = 0

    def begin(self, docket: Docket) -> None:
        """A new step, which may ask again."""
        self._left = QUESTIONS_PER_STEP
        self._until = {subject: until for subject, until in self._until.items() if docket.timestamp < until}

    def is_refused(self, subject: Digest, ask: Callable[[], str | None], docket: Docket) -> bool:
        """Whether the chain would refuse the act, or cannot be asked now; `ask` says why it would, or None."""
        if subject in self._until or self._left == 0:
            return True
        self._left -= 1
        try:
            why = ask()
        except Unavailable as error:
            telemetry.log_error("act.not_tried", error, subject=subject)
            return True
        if why is not None:
            telemetry.log("act.refused", subject=subject, why=why)
            self._until[subject] = docket.timestamp + REMEMBERED_S
        return why is not None
