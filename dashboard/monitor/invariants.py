"""The invariants that the monitor checks, in the order of display. `docs/reference/invariants/NAME.md` explains each."""

from collections.abc import Callable
from typing import NamedTuple

from bytewise.protocol.errors.branches import Fault, Unavailable
from dashboard.monitor import checks
from dashboard.monitor.findings import CheckReport, InvariantResult, InvariantState, Severity, conclude
from dashboard.monitor.observation import Observation

Check = Callable[[Observation, CheckReport], None]
"""A function that checks one invariant and adds its findings to the report. If it raises `Unavailable` or `Fault`, the invariant
is unknown."""


class Invariant(NamedTuple):
    """A statement that must always be true of a network."""

    name: str
    """Name in commands and metrics, and file name of the invariant's page."""
    severity: Severity
    purpose: str
    """Purpose of the invariant, in one sentence. The invariant's page repeats it."""
    check: Check

    @property
    def page(self) -> str:
        """Path of the invariant's page, from the root of the repository."""
        return f"docs/reference/invariants/{self.name}.md"


INVARIANTS = (
    Invariant(
        "votes-agree", Severity.WARNING,
        "Members that re-execute one receipt find the same, so a vote against its round shows a broken or dishonest machine.",
        checks.votes_agree,
    ),
    Invariant(
        "audits-agree", Severity.CRITICAL,
        "Audits of one receipt say the same, once a dispute or a paid bounty shows that the receipt is in their batch.",
        checks.audits_agree,
    ),
    Invariant(
        "unproven-audits-agree", Severity.WARNING,
        "Audits that nothing connects to a receipt agree as well, and a mismatch among them is disputed or was invented.",
        checks.unproven_audits_agree,
    ),
    Invariant(
        "members-present", Severity.WARNING,
        "Drawn members commit and reveal, because a round that lacks a quorum of seats decides nothing.",
        checks.members_present,
    ),
    Invariant(
        "disputes-advance", Severity.WARNING,
        "Somebody makes each move that is due, because the chain moves no dispute by itself.",
        checks.disputes_advance,
    ),
    Invariant(
        "disputes-end", Severity.CRITICAL,
        "Every dispute ends within the longest time that its parameters allow, so that stake, keys and data outlast it.",
        checks.disputes_end,
    ),
    Invariant(
        "money-sums", Severity.CRITICAL,
        "The contracts hold at least what they owe, so that every account can be paid to the wei.",
        checks.money_sums,
    ),
    Invariant(
        "batches-follow", Severity.WARNING,
        "Operators anchor their receipts without gaps and without unusual silence, because only anchored receipts can be judged.",
        checks.batches_follow,
    ),
    Invariant(
        "demands-end", Severity.WARNING,
        "A demand without an answer is made to expire, because only then does withheld data cost the operator.",
        checks.demands_end,
    ),
    Invariant(
        "logs-extend", Severity.CRITICAL,
        "A shard's release log only grows, and every release in it had a right, so that nobody reads requests in secret.",
        checks.logs_extend,
    ),
    Invariant(
        "logs-cover", Severity.CRITICAL,
        "Every vote that needed a key is in enough release logs, because a log that stands still hides what its shard released.",
        checks.logs_cover,
    ),
)  # fmt: skip
"""All invariants, in the order of display."""

NAMES = tuple(each.name for each in INVARIANTS)


def evaluate(invariant: Invariant, seen: Observation) -> InvariantResult:
    """Checks one invariant and returns the result. If a source does not answer, or gives an answer that cannot be right, the
    invariant is unknown."""
    report = CheckReport()
    try:
        invariant.check(seen, report)
        return conclude(invariant.name, report, seen.confirm)
    except (Unavailable, Fault) as error:
        return InvariantResult(invariant.name, InvariantState.UNKNOWN, (), str(error))


def all_unknown(reason: str) -> tuple[InvariantResult, ...]:
    """Returns a result for every invariant. Each result is unknown, for the same reason."""
    return tuple(InvariantResult(each, InvariantState.UNKNOWN, (), reason) for each in NAMES)
