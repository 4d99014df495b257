"""Asks a strategy about each event and keeps its answers: proposals that stand until the same subject's next event.

An answer that fails is asked for again at the next ticks. An event that failed `TRIES` times is skipped, so that it cannot
keep the strategy from all others. Duties of the node that need no strategy go on meanwhile.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from bytewise.protocol.decisions.strategies import (
    METHODS,
    AuditEvent,
    DisputeEvent,
    DisputeProposal,
    ReceiptEvent,
    Strategy,
    WatchEvent,
    ask,
    overridden,
)
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.units import Digest
from bytewise.service import metrics, telemetry
from bytewise.service.readiness import Check

TICK_BUDGET_S = 2.0
"""Seconds of wall time in one tick after which no further event is sent; the rest waits for the next block."""
TRIES = 3
"""How often an event is tried whose answer fails."""

EventKey = tuple[type[WatchEvent], Digest]
"""Kind of an event, and the receipt or dispute that it is about."""


class StrategyRunner(Protocol):
    """What runs a strategy."""

    @property
    def generation(self) -> int:
        """Number of the present start. A strategy that was started again gets every event again."""
        ...

    def methods(self) -> frozenset[str]:
        """Methods that the strategy overrides. `Unavailable` while it cannot be asked."""
        ...

    def ask(self, event: WatchEvent) -> tuple[DisputeProposal, ...]:
        """The proposals for an event. `Fault` or `Unavailable` if the answer fails."""
        ...

    def close(self) -> None:
        """Ends what runs the strategy."""
        ...


class LocalStrategy:
    """Runs a strategy of this program in this process."""

    generation = 1

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._methods = frozenset(overridden(strategy))

    def methods(self) -> frozenset[str]:
        """Methods that the strategy overrides."""
        return self._methods

    def ask(self, event: WatchEvent) -> tuple[DisputeProposal, ...]:
        """The proposals for an event."""
        return ask(self._strategy, event)

    def close(self) -> None:
        """Ends nothing: there is no process."""


class _StandingAnswer(NamedTuple):
    event: WatchEvent
    generation: int
    proposals: tuple[DisputeProposal, ...]


class _Failures(NamedTuple):
    event: WatchEvent
    tries: int


class Strategist:
    """Shows events to a strategy and keeps what it proposes."""

    def __init__(self, runner: StrategyRunner, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._runner = runner
        self._monotonic = monotonic
        self._answers: dict[EventKey, _StandingAnswer] = {}
        self._failed: dict[EventKey, _Failures] = {}
        self._wanted: frozenset[str] = frozenset(METHODS.values())
        self._problem = ""
        """Why the strategy could not be asked at the last tick. It is logged once."""

    @property
    def proposals(self) -> tuple[DisputeProposal, ...]:
        """All proposals that stand."""
        return tuple(proposal for answer in self._answers.values() for proposal in answer.proposals)

    def wants(self, kind: type[WatchEvent]) -> bool:
        """Whether the strategy gets events of a kind. All kinds until the strategy was started."""
        return METHODS[kind] in self._wanted

    def show(self, events: Iterable[WatchEvent]) -> None:
        """Asks about each event that is new or changed. `events` is the whole present state: answers to others are forgotten."""
        current = {key_of(each): each for each in events}
        for kept in (self._answers, self._failed):
            for key in kept.keys() - current.keys():
                kept.pop(key, None)
        # What the strategy said about an earlier state may be wrong now, also while nobody can ask it again.
        for key in [key for key, answer in self._answers.items() if answer.event != current[key]]:
            del self._answers[key]
        try:
            self._wanted = self._runner.methods()
        except (Fault, Unavailable) as error:
            if str(error) != self._problem:
                _report(error)
            self._problem = str(error)
            return
        self._problem = ""
        until = self._monotonic() + TICK_BUDGET_S
        due = self._due(current)
        for place, key in enumerate(due):
            if self._monotonic() >= until:
                telemetry.log("strategy.postponed", events=len(due) - place)
                return
            if not self._ask(key, current[key]):
                return

    def check(self) -> Check:
        """Whether the strategy answers: it can be asked, and no present event was skipped."""
        skipped = sum(each.tries >= TRIES for each in tuple(self._failed.values()))
        value = self._problem or (f"{skipped} events skipped after {TRIES} failures each" if skipped else "answers")
        return Check("strategy", value == "answers", value, "answers to every event", ADVICE)

    def close(self) -> None:
        """Ends what runs the strategy."""
        self._runner.close()

    def _due(self, current: dict[EventKey, WatchEvent]) -> Sequence[EventKey]:
        """Keys of events to ask about: those that failed before come last."""
        due = [key for key, event in current.items() if self.wants(type(event)) and self._is_due(key, event)]
        return sorted(due, key=self._failures)

    def _is_due(self, key: EventKey, event: WatchEvent) -> bool:
        answer, failed = self._answers.get(key), self._failed.get(key)
        if failed is not None and failed.event == event:
            return failed.tries < TRIES
        return answer is None or answer.event != event or answer.generation != self._runner.generation

    def _failures(self, key: EventKey) -> int:
        failed = self._failed.get(key)
        return 0 if failed is None else failed.tries

    def _ask(self, key: EventKey, event: WatchEvent) -> bool:
        """Asks about one event. Returns whether the strategy can be asked about the next one."""
        generation = self._runner.generation
        try:
            self._answers[key] = _StandingAnswer(event, generation, self._runner.ask(event))
        except (Fault, Unavailable) as error:
            before = self._failed.get(key)
            tries = 1 + (before.tries if before is not None and before.event == event else 0)
            self._failed[key] = _Failures(event, tries)
            self._answers.pop(key, None)
            _report(error, method=METHODS[type(event)], subject=key[1], tries=tries)
            if tries == TRIES:
                telemetry.log("strategy.event_skipped", method=METHODS[type(event)], subject=key[1])
            return isinstance(error, Fault)
        self._failed.pop(key, None)
        return True


ADVICE = 'Repair the strategy, or set policy.strategy = "defend", and start the node again. Its other duties go on.'


def key_of(event: WatchEvent) -> EventKey:
    """Kind and subject of an event."""
    match event:
        case ReceiptEvent() | AuditEvent():
            return type(event), event.receipt_id
        case DisputeEvent():
            return type(event), event.dispute


def _report(error: Fault | Unavailable, **fields: object) -> None:
    metrics.PART_FAILURES.labels(part="strategy", error=type(error).__name__).inc()
    telemetry.log_error("strategy.failed", error, advice=ADVICE, **fields)
