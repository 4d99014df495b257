"""Asks a watchtower's strategy about each event and keeps the proposals that the strategy returns.

A strategy is an object that proposes which receipts to dispute (`bytewise.protocol.decisions.strategies`). A proposal counts
until the next event about the same receipt or dispute. If the strategy gives no valid answer, it is asked again at the next
ticks. An event that failed `TRIES` times is skipped, so that the strategy gets all other events. Meanwhile the node goes on with
all duties that need no strategy.
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
"""Seconds of wall time in one tick after which the strategy gets no further event. The remaining events wait for the next
block."""
TRIES = 3
"""Number of failures after which an event is skipped."""

EventKey = tuple[type[WatchEvent], Digest]
"""Kind of an event, and the receipt or dispute that it is about."""


class StrategyRunner(Protocol):
    """The interface to an object that runs a strategy, in this process or in another process."""

    @property
    def generation(self) -> int:
        """Number of the strategy's present start. The number changes at each new start, and the strategy then gets every event
        again."""
        ...

    def methods(self) -> frozenset[str]:
        """Returns the names of the methods that the strategy overrides. Raises `Unavailable` while the strategy cannot be
        asked."""
        ...

    def ask(self, event: WatchEvent) -> tuple[DisputeProposal, ...]:
        """Shows the strategy an event, and returns its proposals. Raises `Fault` or `Unavailable` if the answer fails."""
        ...

    def close(self) -> None:
        """Ends the process or object that runs the strategy."""
        ...


class LocalStrategy:
    """A built-in strategy, which runs in this process."""

    generation = 1

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._methods = frozenset(overridden(strategy))

    def methods(self) -> frozenset[str]:
        """Returns the names of the methods that the strategy overrides."""
        return self._methods

    def ask(self, event: WatchEvent) -> tuple[DisputeProposal, ...]:
        """Shows the strategy an event, and returns its proposals."""
        return ask(self._strategy, event)

    def close(self) -> None:
        """Does nothing, because the strategy has no process of its own."""


class _StandingAnswer(NamedTuple):
    event: WatchEvent
    generation: int
    proposals: tuple[DisputeProposal, ...]


class _Failures(NamedTuple):
    event: WatchEvent
    tries: int


class Strategist:
    """The link between the node and its strategy: it shows events to the strategy and keeps the strategy's proposals."""

    def __init__(self, runner: StrategyRunner, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._runner = runner
        self._monotonic = monotonic
        self._answers: dict[EventKey, _StandingAnswer] = {}
        self._failed: dict[EventKey, _Failures] = {}
        self._wanted: frozenset[str] = frozenset(METHODS.values())
        self._problem = ""
        """Reason why the strategy could not be asked at the last tick, or an empty text. Each reason is logged once."""

    @property
    def proposals(self) -> tuple[DisputeProposal, ...]:
        """All present proposals of the strategy."""
        return tuple(proposal for answer in self._answers.values() for proposal in answer.proposals)

    def wants(self, kind: type[WatchEvent]) -> bool:
        """Returns whether the strategy gets events of a kind. Returns True for all kinds until the strategy was started."""
        return METHODS[kind] in self._wanted

    def show(self, events: Iterable[WatchEvent]) -> None:
        """Asks the strategy about each event that is new or changed. `events` is the whole present state: proposals for events
        that are not in it are dropped."""
        current = {key_of(each): each for each in events}
        for kept in (self._answers, self._failed):
            for key in kept.keys() - current.keys():
                kept.pop(key, None)
        # An answer of the strategy about an earlier state may be wrong now, even while nobody can ask the strategy again.
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
        """Returns a check that passes if the strategy can be asked and no present event was skipped."""
        skipped = sum(each.tries >= TRIES for each in tuple(self._failed.values()))
        value = self._problem or (f"{skipped} events skipped after {TRIES} failures each" if skipped else "answers")
        return Check("strategy", value == "answers", value, "answers to every event", ADVICE)

    def close(self) -> None:
        """Ends the process or object that runs the strategy."""
        self._runner.close()

    def _due(self, current: dict[EventKey, WatchEvent]) -> Sequence[EventKey]:
        """Returns the keys of the events to ask about. Events that failed before come last."""
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
        """Asks the strategy about one event. Returns whether it can be asked about the next event."""
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
    """Returns the kind and the subject of an event."""
    match event:
        case ReceiptEvent() | AuditEvent():
            return type(event), event.receipt_id
        case DisputeEvent():
            return type(event), event.dispute


def _report(error: Fault | Unavailable, **fields: object) -> None:
    metrics.PART_FAILURES.labels(part="strategy", error=type(error).__name__).inc()
    telemetry.log_error("strategy.failed", error, advice=ADVICE, **fields)
