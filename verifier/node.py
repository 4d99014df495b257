"""The tick of a duty process: read one snapshot, step every part, perform what was decided (design section 2)."""

from collections.abc import Sequence
from typing import Protocol

from bytewise.ports import ChainView
from bytewise.protocol.actions import Action
from bytewise.protocol.decide import MovePolicy, decide_moves
from bytewise.protocol.dispute import Phase, Snapshot
from bytewise.protocol.errors import Fault, Unavailable
from bytewise.protocol.units import Address
from bytewise.service import telemetry
from verifier.act import Performer
from verifier.auditor import Auditor
from verifier.records import Records
from verifier.worker import Finished, Worker


class Pump(Protocol):
    """The sender's own progress: signs, broadcasts, confirms what its outbox holds, without waiting."""

    def pump(self) -> int:
        """One step; how many transactions stay open."""
        ...


class Part(Protocol):
    """One thing that a node does."""

    def step(self, snapshot: Snapshot) -> Sequence[Action]:
        """What it wants done at this block."""
        ...


class Votes(Part, Protocol):
    """What `committee` adds to a node."""

    def finish(self, finished: Finished, snapshot: Snapshot) -> None:
        """Takes the result of a vote job."""
        ...


class Node:
    """One duty process."""

    def __init__(
        self, chain: ChainView, pump: Pump, me: Address, records: Records, performer: Performer, moves: MovePolicy,
        parts: Sequence[Part], worker: Worker | None = None, auditor: Auditor | None = None, votes: Votes | None = None,
    ) -> None:  # fmt: skip
        self._chain = chain
        self._pump = pump
        self._me = me
        self._records = records
        self._performer = performer
        self._moves = moves
        self._parts = parts
        self._worker = worker
        self._auditor = auditor
        self._votes = votes
        self._number = -1
        self._finished: list[Finished] = []
        self._first_open = 0
        self.ticks = 0

    def tick(self) -> None:
        """One pass. Cheap while nothing happens: one call asks for the head."""
        if self._worker is not None:
            self._finished += self._worker.collect()
        head = self._chain.head()
        if head == self._number and not self._finished:
            return
        self._send()
        snapshot = self._chain.snapshot(self._me, head, self._first_open)
        self._records.step(snapshot)
        while self._finished:
            self._finish(self._finished[0], snapshot)
            del self._finished[0]
        actions = [action for part in self._parts for action in part.step(snapshot)]
        actions += decide_moves(snapshot, self._me, self._moves)
        if actions:
            self._performer.perform_all(tuple(actions), snapshot)
            self._send()
        # Only now: a tick that failed half-way is repeated, not skipped.
        self._number = head
        self._first_open += _closed_prefix(snapshot)
        self.ticks += 1

    def _send(self) -> None:
        """Moves the outbox on. A lane that another process still holds, or a busy node, must not keep us from deciding."""
        try:
            self._pump.pump()
        except (Fault, Unavailable) as error:
            telemetry.count("bytewise_pump_failures_total", error=type(error).__name__)
            telemetry.log_error("pump.failed", error)

    def _finish(self, finished: Finished, snapshot: Snapshot) -> None:
        kind = finished.key[0]
        telemetry.log("job.finished", kind=kind, outcome=type(finished.outcome).__name__)
        if kind == "audit" and self._auditor is not None:
            self._auditor.finish(finished, snapshot)
        elif kind == "vote" and self._votes is not None:
            self._votes.finish(finished, snapshot)


def _closed_prefix(snapshot: Snapshot) -> int:
    """How many disputes at the front are over for good: they are not read again."""
    for count, dispute in enumerate(snapshot.disputes):
        if dispute.phase is not Phase.FINAL:
            return count
    return len(snapshot.disputes)
