"""Asks the chain whether it would refuse a transaction, before the node decides the action. Remembers the answer for a while.

A refused transaction costs no gas, because the sender simulates it first. But without this check the node would decide the action
again at each tick, and the bond of the action would stay reserved.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.units import Digest
from bytewise.service import telemetry

QUESTIONS_PER_STEP = 8
"""Most questions to the chain in one step. The number is limited because clients may hand over thousands of receipts."""
REMEMBERED_S = 600
"""Seconds of chain time for which a first refusal counts. After that the node asks the chain again, because the reason may be
gone. For example, a closed environment may be open again."""
MAX_REMEMBERED_S = 16 * REMEMBERED_S
"""Longest time for which a refusal counts. The time doubles with each further refusal in a row."""
MAX_SUBJECTS = 20_000
"""Most answers that are remembered. The oldest are dropped first."""


class _Refusal(NamedTuple):
    """The last answer of the chain about a subject."""

    remembered_s: int
    """Seconds for which the refusal counts; 0 if the chain would accept the action or could not be asked."""
    until: int


_NONE = _Refusal(0, 0)


class Refusals:
    """The chain's last answers, by the subject of the action. Each answer says whether the chain would refuse the action."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Digest, _Refusal] = OrderedDict()
        """Answers by subject, in the order in which the chain was last asked."""
        self._left = 0

    def begin(self) -> None:
        """Allows `QUESTIONS_PER_STEP` questions to the chain from now on. A part calls this at the start of each of its steps."""
        self._left = QUESTIONS_PER_STEP

    def in_turn(self, subjects: Iterable[Digest]) -> list[Digest]:
        """Returns the subjects in the order of questions. Subjects that were never asked about come first, then those that waited
        longest. So every subject gets its turn."""
        wanted = dict.fromkeys(subjects)
        return [*(each for each in wanted if each not in self._answers), *(each for each in self._answers if each in wanted)]

    def is_refused(self, subject: Digest, ask: Callable[[], str | None], snapshot: Snapshot) -> bool:
        """Returns whether the action must wait, because the chain would refuse it or cannot be asked now. `ask` asks the chain,
        and returns the reason of a refusal or None."""
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
