"""What the monitor says about an invariant: it holds, it is broken, or nobody can tell."""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bytewise.protocol.units import hex0x
from bytewise.service.exit_codes import Exit
from bytewise.storage.index.tables import Fact


class InvariantState(enum.StrEnum):
    """What is known of an invariant at one block."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    """A node, the index or a shard did not say enough, or contradicted itself. It accuses nobody."""


class Severity(enum.StrEnum):
    """How soon somebody must act; as the label of the alert rules."""

    CRITICAL = "critical"
    WARNING = "warning"


class InvariantFinding(NamedTuple):
    """One place where an invariant is broken."""

    subject: str
    """The dispute, batch, account or shard: an id for the other commands."""
    text: str
    """What is wrong, in one sentence."""
    row: tuple[type[Fact], tuple[Any, ...]] | None = None
    """Row of the index that shows it, which the contracts must confirm; None if the contracts or a signature showed it."""


@dataclass(slots=True)
class CheckReport:
    """What one check found."""

    findings: list[InvariantFinding] = field(default_factory=list)
    """Where the invariant is broken."""
    doubts: list[str] = field(default_factory=list)
    """What could not be checked. Without a finding, one doubt makes the invariant unknown."""

    def note(self, subject: bytes | str, text: str, row: tuple[type[Fact], tuple[Any, ...]] | None = None) -> None:
        """Adds a finding."""
        self.findings.append(InvariantFinding(hex0x(subject) if isinstance(subject, bytes) else subject, text, row))


class InvariantResult(NamedTuple):
    """One invariant at one block."""

    name: str
    state: InvariantState
    findings: Sequence[InvariantFinding]
    reason: str
    """Why the state is unknown, or what was left out of a broken one; empty otherwise."""

    def document(self) -> dict[str, Any]:
        """The result as an object of JSON."""
        found = [{"subject": each.subject, "text": each.text} for each in self.findings]
        return {"invariant": self.name, "state": self.state.value, "findings": found, "reason": self.reason}


Confirm = Callable[[Sequence[InvariantFinding]], list[str]]
"""Compares the rows that findings name with the contracts at the same block; what differs."""


def conclude(name: str, report: CheckReport, confirm: Confirm) -> InvariantResult:
    """The state of an invariant. A finding counts only if the contracts confirm the row that shows it."""
    doubts = "; ".join(report.doubts)
    if not report.findings:
        state = InvariantState.UNKNOWN if doubts else InvariantState.HOLDS
        return InvariantResult(name, state, (), doubts)
    if against := confirm(report.findings):
        told = f"the contracts do not confirm it: {'; '.join(against)}"
        return InvariantResult(name, InvariantState.UNKNOWN, (), told)
    return InvariantResult(name, InvariantState.BROKEN, tuple(report.findings), doubts)


def exit_of_results(results: Sequence[InvariantResult]) -> Exit:
    """Exit code of a check: a broken invariant goes before an unknown one."""
    states = {each.state for each in results}
    if InvariantState.BROKEN in states:
        return Exit.MISMATCH
    return Exit.INCONCLUSIVE if InvariantState.UNKNOWN in states else Exit.OK
