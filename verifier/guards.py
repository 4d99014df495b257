"""Guards that keep a duty process from beginning anything while its disk is full or its newest block is old.

A block is old if the chain node is behind, or if this machine's clock is ahead. Steps that keep an earlier promise go on:
commitments and reveals of stored votes, and moves of disputes. Actions that make a new promise or risk money wait. A clock behind
the chain stops nothing here, because every deadline is read from the chain. The log says when each guard begins and ends
(`ReadinessRegistry.record`).
"""

import shutil
from pathlib import Path

from bytewise.ports import Clock
from bytewise.protocol.decisions.actions import (
    Action,
    DemandAnchor,
    DemandEnvelope,
    DemandList,
    OpenDispute,
    RunAudit,
    RunVoteJob,
)
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.service.chain_head import MAX_AGE_S
from bytewise.service.readiness import Check, ReadinessRegistry

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
