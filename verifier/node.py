"""The tick of a duty process: load one snapshot, let every part decide, act on the decisions (design section 2).

Steps with a deadline come first: the node sends votes and moves before it fetches anything from a server that may be slow. It
executes the actions of a part before the next part decides. A part that fails does not stop the others.
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
from verifier.guards import Guards
from verifier.jobs.enclave_presence import EnclaveAway
from verifier.jobs.job_pool import FinishedJob, JobKey, JobPool
from verifier.watch.open_windows import SnapshotPages
from verifier.watch.records import Records


class TransactionPump(Protocol):
    """The sender's own progress: it signs, broadcasts and confirms the transactions of its outbox, without waiting."""

    def pump(self) -> int:
        """Takes one step, and returns how many transactions stay open."""
        ...


class Executor(Protocol):
    """Carries out or logs the actions that the parts decided."""

    def perform_all(self, actions: tuple[Action, ...], snapshot: Snapshot) -> None:
        """Handles each action, in order."""
        ...


class NodePart(Protocol):
    """One task of a node."""

    def step(self, snapshot: Snapshot) -> Sequence[Action]:
        """The actions that this part decides at this block."""
        ...


class VotePart(NodePart, Protocol):
    """The part that `committee` adds to a node: own votes."""

    def finish(self, finished: FinishedJob, snapshot: Snapshot) -> None:
        """Takes the result of a vote job."""
        ...


class Node:
    """One duty process."""

    def __init__(
        self, chain: BlockView, pump: TransactionPump, pages: SnapshotPages, records: Records, executor: Executor,
        moves: MovePolicy, parts: Sequence[NodePart], pool: JobPool | None = None, auditor: Auditor | None = None,
        votes: VotePart | None = None, observe: Callable[[Snapshot], None] = lambda _: None, guards: Guards | None = None,
    ) -> None:  # fmt: skip
        """The node calls `observe` with each snapshot, after the steps that have a deadline. `guards` say what may be begun."""
        self._chain = chain
        self._pump = pump
        self._records = records
        self._executor = executor
        self._moves = moves
        self._parts = parts
        self._pool = pool
        self._auditor = auditor
        self._votes = votes
        self._number = -1
        self._finished: list[FinishedJob] = []
        self._pages = pages
        self._observe = observe
        self._guards = guards
        self.ticks = 0

    def tick(self) -> None:
        """Runs one pass. While nothing happens, a pass costs one call, which asks for the head."""
        if self._pool is not None:
            self._finished += self._pool.collect()
        head = self._chain.head()
        if head == self._number and not self._finished:
            return
        self._send()
        snapshot = self._pages.read(head)
        if self._guards is not None:
            self._guards.observe(snapshot)
        followed = self._follow(snapshot)
        whole = self._finish("vote", self._votes, snapshot) if followed else False
        whole &= self._keep_deadlines(snapshot, followed)
        self._isolated("observation", lambda: self._observe(snapshot))
        if followed and self._judge(snapshot) and whole:
            # Store the block number last, so that a tick that failed half-way is repeated and not skipped.
            self._number = head
            self.ticks += 1

    def _judge(self, snapshot: Snapshot) -> bool:
        """Fetches records, then runs every part except the votes. Returns whether all of them succeeded."""
        whole = self._isolated("records", lambda: self._records.step(snapshot))
        whole &= self._finish("audit", self._auditor, snapshot)
        for part in self._parts:
            if part is not self._votes:
                whole &= self._isolated(type(part).__name__, functools.partial(self._step, part, snapshot))
        return whole

    def _step(self, part: NodePart, snapshot: Snapshot) -> None:
        """Executes the actions of a part at once, because the next part may have to wait for DA."""
        self._act(part.step(snapshot), snapshot)

    def _act(self, actions: Sequence[Action], snapshot: Snapshot) -> None:
        # Do not run a job again while its result waits here because a part could not take it yet.
        judged = {each.key for each in self._finished}
        due = tuple(action for action in actions if _job_of(action) not in judged and self._may_begin(action))
        if due:
            self._executor.perform_all(due, snapshot)
            self._send()

    def _may_begin(self, action: Action) -> bool:
        return self._guards is None or self._guards.allows(action)

    def _isolated(self, part: str, step: Callable[[], None]) -> bool:
        """Runs the step of one part, and returns whether it succeeded. A failure is logged and does not stop the other parts,
        because they may not need the data that this part lacks."""
        try:
            step()
        except (Fault, Unavailable) as error:
            metrics.PART_FAILURES.labels(part=part, error=type(error).__name__).inc()
            telemetry.log_error("part.failed", error, part=part)
            return False
        return True

    def _follow(self, snapshot: Snapshot) -> bool:
        """Reads the batches up to this block, and returns whether that succeeded. If it failed, the tick starts no new job, but
        commits and reveals go on."""
        try:
            self._records.follow(snapshot)
        except (Fault, Unavailable) as error:
            metrics.PART_FAILURES.labels(part="follow", error=type(error).__name__).inc()
            telemetry.log_error("follow.failed", error)
            return False
        return True

    def _keep_deadlines(self, snapshot: Snapshot, followed: bool) -> bool:
        """Sends votes and moves before anything waits for DA, and returns whether the votes could be decided. Actions that need
        no bytes are sent before new vote jobs start."""
        actions: list[Action] = []
        votes = self._votes
        whole = votes is None or self._isolated("votes", lambda: actions.extend(votes.step(snapshot)))
        actions += decide_moves(snapshot, self._moves)
        actions += decide_expiries(snapshot, snapshot.batches, self._moves)
        starts = [action for action in actions if isinstance(action, RunVoteJob)]
        self._act([action for action in actions if not isinstance(action, RunVoteJob)], snapshot)
        if followed:
            self._act(starts, snapshot)
        return whole

    def _send(self) -> None:
        """Sends what the outbox holds. An error is only logged: the node must decide even while another process has the nonce
        lease, or while the chain node is busy."""
        try:
            self._pump.pump()
        except (Fault, Unavailable) as error:
            metrics.PART_FAILURES.labels(part="sender", error=type(error).__name__).inc()
            telemetry.log_error("pump.failed", error)

    def _finish(self, kind: str, part: VotePart | Auditor | None, snapshot: Snapshot) -> bool:
        """Gives the finished jobs of one kind to their part, and returns whether the part took all of them. A result that the
        part cannot take yet is given again at the next tick."""
        whole = True
        for finished in [each for each in self._finished if each.key[0] == kind]:
            if not isinstance(finished.outcome, EnclaveAway):
                telemetry.log("job.finished", kind=kind, outcome=type(finished.outcome).__name__)
            if part is None or self._isolated(f"{kind} result", functools.partial(part.finish, finished, snapshot)):
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
