"""The tick of a duty process: load one snapshot, let every part decide, act on the decisions (design section 2).

Steps with a deadline come first: the node sends votes and moves before it fetches anything from a server that may be slow. It
executes the actions of one part before the next part decides. A part that fails does not stop the other parts.

`Guards` keep the node from beginning anything while its disk is full or its newest block is old. A block is old if the chain node
is behind, or if this machine's clock is ahead. Steps that keep an earlier promise go on: commitments and reveals of stored votes,
and moves of disputes. Actions that make a new promise or risk money wait. A clock behind the chain stops nothing here, because
every deadline is read from the chain. The log says when each guard begins and ends (`ReadinessRegistry.record`).
"""

import functools
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from bytewise.ports import BlockView, Clock
from bytewise.protocol.decisions.actions import (
    Action,
    DemandAnchor,
    DemandEnvelope,
    DemandList,
    OpenDispute,
    RunAudit,
    RunVoteJob,
)
from bytewise.protocol.decisions.disputes import MovePolicy, decide_expiries, decide_moves
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.service import metrics, telemetry
from bytewise.service.readiness import MAX_AGE_S, Check, ReadinessRegistry
from verifier.audits.auditor import Auditor
from verifier.jobs.job import EnclaveAway, FinishedJob, JobKey, JobPool
from verifier.watch.open_windows import SnapshotPages
from verifier.watch.records import Records

RESERVE_BYTES = 64 * 2**20
"""Free space in bytes below which the node begins nothing new. Actions that have begun need this space for journal, votes and
transactions."""

_RISKS = (OpenDispute, DemandList, DemandEnvelope, DemandAnchor)
"""Actions that risk a bond and that this node decides on its own initiative."""
_BEGINNINGS = (*_RISKS, RunVoteJob, RunAudit)
"""Actions that begin something whose result has to be stored."""


class Guards:
    """The guards of one node, which decide for each action whether the node may begin it now."""

    def __init__(self, readiness: ReadinessRegistry, clock: Clock, folder: Path | None, job_margin_s: int) -> None:
        """`folder` is on the file system of the database, or None if the database is a server. If the newest block is old, no
        vote job begins later than `job_margin_s` seconds before the end of its commit phase by this machine's clock."""
        self._readiness = readiness
        self._clock = clock
        self._folder = folder
        self._job_margin_s = job_margin_s
        self._has_room = True
        self._age_s = 0
        self._now = 0

    def observe(self, snapshot: Snapshot) -> None:
        """Measures the free disk space and the age of the block, and records both as checks. The node calls it before it decides
        anything at this block."""
        self._age_s = self._clock.now() - snapshot.timestamp
        self._now = snapshot.clock + max(self._age_s, 0)
        checks = [Check(
            "guard_head", self._age_s <= MAX_AGE_S, f"newest block {self._age_s} s old", f"at most {MAX_AGE_S} s",
            "Repair the chain node, or this machine's clock (NTP): until then no dispute and no demand is opened, and no vote is "
            "begun that may be late.",
        )]  # fmt: skip
        if self._folder is not None:
            free = shutil.disk_usage(self._folder).free
            self._has_room = free >= RESERVE_BYTES
            checks.append(Check(
                "guard_disk", self._has_room, f"{free >> 20} MiB free", f"at least {RESERVE_BYTES >> 20} MiB",
                "Free space: until then no vote, audit, dispute or demand is begun. Stored votes are still sent.",
            ))  # fmt: skip
        self._readiness.record(checks)

    def allows(self, action: Action) -> bool:
        """Returns whether the node may begin an action at the block that was observed last."""
        if isinstance(action, _BEGINNINGS) and not self._has_room:
            return False
        if isinstance(action, _RISKS):
            return self._age_s <= MAX_AGE_S
        if isinstance(action, RunVoteJob) and self._age_s > MAX_AGE_S:
            # By the block there is time for this job, but the block is old: its commit phase may be over.
            return self._now + self._job_margin_s < action.commit_end
        return True


class TransactionPump(Protocol):
    """The sender of transactions. It signs, broadcasts and confirms the transactions of its outbox in steps that never wait."""

    def pump(self) -> int:
        """Signs, broadcasts and confirms every transaction for which that is possible now. Returns how many transactions of the
        outbox stay open."""
        ...


class Executor(Protocol):
    """An object that carries out or only logs the actions that the parts decided."""

    def perform_all(self, actions: tuple[Action, ...], snapshot: Snapshot) -> None:
        """Carries out or logs each action, in order."""
        ...


class NodePart(Protocol):
    """A part of a node, which has one task and decides actions for it."""

    def step(self, snapshot: Snapshot) -> Sequence[Action]:
        """Does this part's work at one block. Returns the actions that the part decides."""
        ...


class VotePart(NodePart, Protocol):
    """The part that `committee` adds to a node: it decides the votes of this account's seats."""

    def finish(self, finished: FinishedJob, snapshot: Snapshot) -> None:
        """Takes the result of a finished vote job."""
        ...


class Node:
    """The parts of one duty process, and the tick that runs them."""

    def __init__(
        self, chain: BlockView, pump: TransactionPump, pages: SnapshotPages, records: Records, executor: Executor,
        moves: MovePolicy, parts: Sequence[NodePart], pool: JobPool | None = None, auditor: Auditor | None = None,
        votes: VotePart | None = None, observe: Callable[[Snapshot], None] = lambda _: None, guards: Guards | None = None,
    ) -> None:  # fmt: skip
        """`moves` are the times and the portions in which this node makes moves. The node calls `observe` with each snapshot
        after the steps that have a deadline. `guards` decide which actions may begin; None allows all."""
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
        """Runs one pass. If there is no new block and no finished job, a pass only asks the chain for its newest block."""
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
        """Fetches records, gives finished audit jobs to the auditor, then runs every part except the votes. Returns whether all
        of these steps succeeded."""
        whole = self._isolated("records", lambda: self._records.step(snapshot))
        whole &= self._finish("audit", self._auditor, snapshot)
        for part in self._parts:
            if part is not self._votes:
                whole &= self._isolated(type(part).__name__, functools.partial(self._step, part, snapshot))
        return whole

    def _step(self, part: NodePart, snapshot: Snapshot) -> None:
        """Lets a part decide, and executes its actions at once, because the next part may have to wait for DA."""
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
        """Reads the batches up to this block, and returns whether that succeeded. After a failure the tick starts no new vote job
        and runs no part except the votes, but it still sends commitments, reveals and moves."""
        try:
            self._records.follow(snapshot)
        except (Fault, Unavailable) as error:
            metrics.PART_FAILURES.labels(part="follow", error=type(error).__name__).inc()
            telemetry.log_error("follow.failed", error)
            return False
        return True

    def _keep_deadlines(self, snapshot: Snapshot, followed: bool) -> bool:
        """Sends votes and moves before anything waits for DA. Returns whether the votes could be decided. Actions that need no
        envelope are sent before new vote jobs start."""
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
        """Sends what is in the outbox. An error is only logged: the node must decide even while another process has the nonce
        lease, or while the chain node is busy."""
        try:
            self._pump.pump()
        except (Fault, Unavailable) as error:
            metrics.PART_FAILURES.labels(part="sender", error=type(error).__name__).inc()
            telemetry.log_error("pump.failed", error)

    def _finish(self, kind: str, part: VotePart | Auditor | None, snapshot: Snapshot) -> bool:
        """Gives the finished jobs of one kind to their part, and returns whether the part took all of them. The next tick offers
        a result again that the part could not take."""
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
