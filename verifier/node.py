"""The tick of a duty process: load one snapshot, let every part decide, act on the decisions (design section 2).

What has a deadline comes first: votes and moves are sent before anything is fetched from a server that may be slow. The actions
of a part are executed before the next part decides. A part that fails does not stop the others.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Protocol

from bytewise.ports import BlockView
from bytewise.protocol.decisions.actions import Action, RunAudit, RunVoteJob
from bytewise.protocol.decisions.disputes import MovePolicy, decide_expiries, decide_moves
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.service import metrics, telemetry
from verifier.audits.auditor import Auditor
from verifier.jobs.enclave_presence import EnclaveAway
from verifier.jobs.worker import FinishedJob, JobKey, Worker
from verifier.watch.open_windows import SnapshotPages
from verifier.watch.records import Records


class TransactionPump(Protocol):
    """The sender's own progress: signs, broadcasts, confirms what its outbox holds, without waiting."""

    def pump(self) -> int:
        """One step; how many transactions stay open."""
        ...


class Executor(Protocol):
    """Who carries out what was decided, or logs it."""

    def perform_all(self, actions: tuple[Action, ...], snapshot: Snapshot) -> None:
        """Each action, in order."""
        ...


class NodePart(Protocol):
    """One thing that a node does."""

    def step(self, snapshot: Snapshot) -> Sequence[Action]:
        """What it wants done at this block."""
        ...


class VotePart(NodePart, Protocol):
    """What `committee` adds to a node."""

    def finish(self, finished: FinishedJob, snapshot: Snapshot) -> None:
        """Takes the result of a vote job."""
        ...


class Node:
    """One duty process."""

    def __init__(
        self, chain: BlockView, pump: TransactionPump, pages: SnapshotPages, records: Records, executor: Executor,
        moves: MovePolicy, parts: Sequence[NodePart], worker: Worker | None = None, auditor: Auditor | None = None,
        votes: VotePart | None = None, observe: Callable[[Snapshot], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """`observe` is called with each snapshot after what has a deadline."""
        self._chain = chain
        self._pump = pump
        self._records = records
        self._executor = executor
        self._moves = moves
        self._parts = parts
        self._worker = worker
        self._auditor = auditor
        self._votes = votes
        self._number = -1
        self._finished: list[FinishedJob] = []
        self._pages = pages
        self._observe = observe
        self.ticks = 0

    def tick(self) -> None:
        """One pass. Cheap while nothing happens: one call asks for the head."""
        if self._worker is not None:
            self._finished += self._worker.collect()
        head = self._chain.head()
        if head == self._number and not self._finished:
            return
        self._send()
        snapshot = self._pages.read(head)
        followed = self._follow(snapshot)
        whole = self._finish("vote", self._votes, snapshot) if followed else False
        whole &= self._keep_deadlines(snapshot, followed)
        self._apart("observation", lambda: self._observe(snapshot))
        if followed and self._judge(snapshot) and whole:
            # Only now: a tick that failed half-way is repeated, not skipped.
            self._number = head
            self.ticks += 1

    def _judge(self, snapshot: Snapshot) -> bool:
        """Fetches, and has every part but the votes act; whether all of them could."""
        whole = self._apart("records", lambda: self._records.step(snapshot))
        whole &= self._finish("audit", self._auditor, snapshot)
        for part in self._parts:
            if part is not self._votes:
                whole &= self._apart(type(part).__name__, functools.partial(self._step, part, snapshot))
        return whole

    def _step(self, part: NodePart, snapshot: Snapshot) -> None:
        """What a part wants done is done at once: the next one may have to wait for DA."""
        self._act(part.step(snapshot), snapshot)

    def _act(self, actions: Sequence[Action], snapshot: Snapshot) -> None:
        # A job whose result is here, and could not be taken yet, does not run again.
        judged = {each.key for each in self._finished}
        due = tuple(action for action in actions if _job_of(action) not in judged)
        if due:
            self._executor.perform_all(due, snapshot)
            self._send()

    def _apart(self, part: str, step: Callable[[], None]) -> bool:
        """Whether a part could do its step: what it lacks of the chain or of DA, another may not need."""
        try:
            step()
        except (Fault, Unavailable) as error:
            metrics.PART_FAILURES.labels(part=part, error=type(error).__name__).inc()
            telemetry.log_error("part.failed", error, part=part)
            return False
        return True

    def _follow(self, snapshot: Snapshot) -> bool:
        """Whether the batches up to this block are known. Without them nothing new is judged, but commits and reveals go on."""
        try:
            self._records.follow(snapshot)
        except (Fault, Unavailable) as error:
            metrics.PART_FAILURES.labels(part="follow", error=type(error).__name__).inc()
            telemetry.log_error("follow.failed", error)
            return False
        return True

    def _keep_deadlines(self, snapshot: Snapshot, followed: bool) -> bool:
        """Votes and moves, before anything may wait for DA; among them what needs no bytes goes out first. Whether the votes
        could be decided."""
        actions: list[Action] = []
        votes = self._votes
        whole = votes is None or self._apart("votes", lambda: actions.extend(votes.step(snapshot)))
        actions += decide_moves(snapshot, self._moves)
        actions += decide_expiries(snapshot, snapshot.batches, self._moves)
        starts = [action for action in actions if isinstance(action, RunVoteJob)]
        self._act([action for action in actions if not isinstance(action, RunVoteJob)], snapshot)
        if followed:
            self._act(starts, snapshot)
        return whole

    def _send(self) -> None:
        """Moves the outbox on. A nonce lease that another process still holds, or a busy node, must not keep us from deciding."""
        try:
            self._pump.pump()
        except (Fault, Unavailable) as error:
            metrics.PART_FAILURES.labels(part="sender", error=type(error).__name__).inc()
            telemetry.log_error("pump.failed", error)

    def _finish(self, kind: str, part: VotePart | Auditor | None, snapshot: Snapshot) -> bool:
        """Hands a part the results of its jobs, each until the part has taken it; whether it has taken all."""
        whole = True
        for finished in [each for each in self._finished if each.key[0] == kind]:
            if not isinstance(finished.outcome, EnclaveAway):
                telemetry.log("job.finished", kind=kind, outcome=type(finished.outcome).__name__)
            if part is None or self._apart(f"{kind} result", functools.partial(part.finish, finished, snapshot)):
                self._finished.remove(finished)
            else:
                whole = False
        return whole


def _job_of(action: Action) -> JobKey | None:
    match action:
        case RunVoteJob():
            return "vote", action.dispute, action.round
        case RunAudit():
            return "audit", action.receipt_id, 0
    return None
