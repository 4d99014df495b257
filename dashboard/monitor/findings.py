"""Results of the monitor: an invariant holds, is broken, or is unknown."""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bytewise.protocol.units import hex0x
from bytewise.service.exit_codes import Exit
from bytewise.storage.index.tables import Fact


class InvariantState(enum.StrEnum):
    """State of an invariant at one block."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    """The node, the index or a shard did not answer, did not say enough, or contradicted itself. This state accuses nobody."""


class Severity(enum.StrEnum):
    """Urgency of a broken invariant. The values are the severities of the alert rules."""

    CRITICAL = "critical"
    WARNING = "warning"


class InvariantFinding(NamedTuple):
    """One place where an invariant is broken."""

    subject: str
    """Id of the dispute, batch, account or shard, in the form that commands accept."""
    text: str
    """Description of the fault, in one sentence."""
    row: tuple[type[Fact], tuple[Any, ...]] | None = None
    """Table and key of the index row that shows the fault. The finding counts only if the contracts confirm this row. None if the
    contracts or a signature showed the fault."""


@dataclass(slots=True)
class CheckReport:
    """Findings and doubts of one check."""

    findings: list[InvariantFinding] = field(default_factory=list)
    """Places where the invariant is broken."""
    doubts: list[str] = field(default_factory=list)
    """Descriptions of what the check could not decide. One doubt makes the invariant unknown if the check has no finding."""

    def note(self, subject: bytes | str, text: str, row: tuple[type[Fact], tuple[Any, ...]] | None = None) -> None:
        """Adds a finding. A `subject` in bytes is shown as 0x-hex."""
        self.findings.append(InvariantFinding(hex0x(subject) if isinstance(subject, bytes) else subject, text, row))


class InvariantResult(NamedTuple):
    """Result of the check of one invariant at one block."""

    name: str
    state: InvariantState
    findings: Sequence[InvariantFinding]
    reason: str
    """For an unknown invariant: the reason why it is unknown. For a broken invariant: what the check could not decide. Empty
    otherwise."""

    def document(self) -> dict[str, Any]:
        """Returns the result as a JSON object."""
        found = [{"subject": each.subject, "text": each.text} for each in self.findings]
        return {"invariant": self.name, "state": self.state.value, "findings": found, "reason": self.reason}


Confirm = Callable[[Sequence[InvariantFinding]], list[str]]
"""A function that reads from the contracts, at the same block, the index rows that findings name. It returns the differences."""


def conclude(name: str, report: CheckReport, confirm: Confirm) -> InvariantResult:
    """Returns the result of a check. A check with findings makes the invariant broken if the contracts confirm the index rows of
    the findings, and unknown if they do not. A check without findings makes the invariant unknown if it has a doubt; otherwise
    the invariant holds."""
    doubts = "; ".join(report.doubts)
    if not report.findings:
        state = InvariantState.UNKNOWN if doubts else InvariantState.HOLDS
        return InvariantResult(name, state, (), doubts)
    if against := confirm(report.findings):
        told = f"the contracts do not confirm it: {'; '.join(against)}"
        return InvariantResult(name, InvariantState.UNKNOWN, (), told)
    return InvariantResult(name, InvariantState.BROKEN, tuple(report.findings), doubts)


def exit_of_results(results: Sequence[InvariantResult]) -> Exit:
    """Returns the exit code of a pass. It is `MISMATCH` if an invariant is broken, otherwise `INCONCLUSIVE` if an invariant is
    unknown, otherwise `OK`."""
    states = {each.state for each in results}
    if InvariantState.BROKEN in states:
        return Exit.MISMATCH
    return Exit.INCONCLUSIVE if InvariantState.UNKNOWN in states else Exit.OK
