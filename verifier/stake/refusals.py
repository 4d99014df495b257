"""Asks the chain whether it would refuse a transaction before it is decided, and remembers the answer for a while.

A refused transaction costs no gas, because the sender simulates it too. Without this check it would be decided again at each
tick and keep its bond reserved.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.units import Digest
from bytewise.service import telemetry

QUESTIONS_PER_STEP = 8
"""Each is a call of the chain; clients may hand over thousands of receipts."""
REMEMBERED_S = 600
"""Chain time for which a first refusal is believed: an environment that was closed may be opened again."""
MAX_REMEMBERED_S = 16 * REMEMBERED_S
"""The same after many in a row, each of which is believed for twice as long as the one before."""
MAX_SUBJECTS = 20_000
"""Answers remembered; the oldest go."""


class _Refusal(NamedTuple):
    """The chain's last word on a subject."""

    remembered_s: int
    """0 if it would have taken the act, or could not be asked."""
    until: int


_NONE = _Refusal(0, 0)


class Refusals:
    """Subjects of acts that the chain was asked about."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Digest, _Refusal] = OrderedDict()
        """In the order in which they were last asked about."""
        self._left = 0

    def begin(self) -> None:
        """A new step, which may ask again."""
        self._left = QUESTIONS_PER_STEP

    def in_turn(self, subjects: Iterable[Digest]) -> list[Digest]:
        """Those never asked about, in their order, then those asked about longest ago: none waits behind others for good."""
        wanted = dict.fromkeys(subjects)
        return [*(each for each in wanted if each not in self._answers), *(each for each in self._answers if each in wanted)]

    def is_refused(self, subject: Digest, ask: Callable[[], str | None], snapshot: Snapshot) -> bool:
        """Whether the chain would refuse the act, or cannot be asked now; `ask` says why it would, or None."""
        last = self._answers.get(subject, _NONE)
        if snapshot.timestamp < last.until or self._left == 0:
            return True
        self._left -= 1
        try:
            why = ask()
        except Unavailable as error:
            telemetry.log_error("action.check_failed", error, subject=subject)
            self._remember(subject, last)
            return True
        if why is None:
            self._remember(subject, _NONE)
            return False
        telemetry.log("action.refused", subject=subject, why=why)
        remembered_s = min(max(2 * last.remembered_s, REMEMBERED_S), MAX_REMEMBERED_S)
        self._remember(subject, _Refusal(remembered_s, snapshot.timestamp + remembered_s))
        return True

    def _remember(self, subject: Digest, answer: _Refusal) -> None:
        self._answers[subject] = answer
        self._answers.move_to_end(subject)
        if len(self._answers) > MAX_SUBJECTS:
            self._answers.popitem(last=False)
