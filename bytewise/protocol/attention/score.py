"""What each account did with attention tests: it caught a test, missed it, was silent, or could not decide.

Only tests that are proven false count: by a verdict, or because the reader ran the request again. A result of unavailability is
no miss: an account that cannot open a receipt says so honestly, so such results have a column of their own. Nor is silence where
the fund may have withheld the receipt: it is one only if most drawn auditors found something (`ScoredTest.is_audited`).
"""

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from bytewise.protocol.attention.reveal import AttentionTest
from bytewise.protocol.court.params import BPS
from bytewise.protocol.court.settlement import SeatOutcome
from bytewise.protocol.digests import is_equal
from bytewise.protocol.records.receipt import Receipt
from bytewise.protocol.records.statements import AuditOutcome, Outcome, Verdict, Vote
from bytewise.protocol.units import Address


class AttentionResult(enum.StrEnum):
    """What one account did in one audit or one round of seats."""

    CAUGHT = "caught"
    """It said that the receipt is false, and an auditor opened what it found."""
    UNOPENED = "unopened"
    """It posted a mismatch and never opened it to one: it may have repeated the public mismatch of another. Not caught."""
    MISSED = "missed"
    """It said that the receipt is true, or found another false answer."""
    SILENT = "silent"
    """It was drawn and posted or revealed nothing, although most others could."""
    UNAVAILABLE = "unavailable"
    """It could not decide: no bytes, no key, or a machine that cannot run the request. Perhaps nobody could."""


class DrawnAudit(NamedTuple):
    """A verifier that was drawn to audit a test."""

    verifier: Address
    posted: AuditOutcome | None
    """What it posted; None for nothing."""
    shows_mismatch: bool = False
    """Whether it opened its audit to what a mismatch must show: other hashes than the receipt's, and those of the verdict that
    replaced the answer, if there is one."""


class SettledSeats(NamedTuple):
    """The seats of one holder in one round about a test, after its dispute."""

    voter: Address
    vote: Vote | None
    """The revealed vote; None if it revealed none itself, as a signer of a certificate."""
    outcome: SeatOutcome
    """How the court treats the seats."""


@dataclass(frozen=True, slots=True)
class ScoredTest:
    """Everything that the chain has about one test."""

    test: AttentionTest
    """The test."""
    auditors: tuple[DrawnAudit, ...]
    """All drawn auditors."""
    seats: tuple[SettledSeats, ...] = ()
    """Settled seats of all rounds."""
    challenger: Address | None = None
    """The account that disputed it; None if nobody did."""
    verdict: Verdict = Verdict.NONE
    """The final verdict; NONE without a dispute."""
    rerun_differs: bool | None = None
    """Whether the reader ran the request again and got another answer; None if it did not run it."""
    is_void: bool = False
    """Whether its batch is void: its list was not readable."""

    @property
    def is_false(self) -> bool | None:
        """Whether the answer is proven false or true; None without a proof. The fund's word is none."""
        if self.rerun_differs is not None:
            return self.rerun_differs
        return True if self.verdict in (Verdict.OVERTURNED, Verdict.INVALID) else None

    @property
    def is_audited(self) -> bool:
        """Whether more than half of the drawn auditors posted a match, or opened a mismatch: then envelope and list were there.

        An auditor without them posts nothing. The chain does not show whether a fund withheld them, and a fund can hand them to
        its friends or upload them later. It cannot make most members say that they executed what they do not have.
        """
        found = sum(each.posted is AuditOutcome.MATCH or each.shows_mismatch for each in self.auditors)
        return not self.is_void and 2 * found > len(self.auditors)

    @property
    def is_signalled(self) -> bool:
        """Whether a drawn auditor posted a mismatch, which every watchtower could see."""
        return any(each.posted is AuditOutcome.MISMATCH for each in self.auditors)


@dataclass(frozen=True, slots=True)
class ResultCount:
    """Results of one account, counted."""

    caught: int = 0
    """How often it said that the receipt is false."""
    unopened: int = 0
    """How often it said so without showing what it found."""
    missed: int = 0
    """How often it said that the receipt is true, or found another false answer."""
    silent: int = 0
    """How often it said nothing."""
    unavailable: int = 0
    """How often it could not decide."""

    @classmethod
    def of(cls, results: Iterable[AttentionResult]) -> "ResultCount":
        """The count of these results."""
        counted = Counter(results)
        return cls(**{each.value: counted[each] for each in AttentionResult})


@dataclass(frozen=True, slots=True)
class WatchCount:
    """Tests as a watchtower sees them: it re-executes nothing and knows only posted audits."""

    disputed: int = 0
    """It opened the dispute."""
    by_others: int = 0
    """Another account opened it."""
    missed: int = 0
    """A mismatch was posted, and nobody disputed the receipt."""
    unseen: int = 0
    """No mismatch was posted: the watchtower could not know."""


@dataclass(frozen=True, slots=True)
class AttentionScore:
    """The tests of one account."""

    audits: ResultCount
    """Tests that it was drawn to audit."""
    seats: ResultCount
    """Rounds about tests in which it had seats."""
    watch: WatchCount
    """Every proven test, as a watchtower sees it."""

    @property
    def caught_bps(self) -> int | None:
        """Share of its audits and seats that caught the test, in 1/10,000; None if it could decide none."""
        both = (self.audits, self.seats)
        decided = sum(each.caught + each.unopened + each.missed + each.silent for each in both)
        return sum(each.caught for each in both) * BPS // decided if decided else None


def score_tests(records: Iterable[ScoredTest], watchers: Iterable[Address] = ()) -> dict[Address, AttentionScore]:
    """The score of each account that was drawn, had seats, disputed a test, or is among `watchers`.

    A test counts once, in however many files it is.
    """
    proven = list({each.test.receipt_id: each for each in records if each.is_false}.values())
    audits: dict[Address, list[AttentionResult]] = {}
    seats: dict[Address, list[AttentionResult]] = {}
    for record in proven:
        for auditor in record.auditors:
            audits.setdefault(auditor.verifier, []).append(audit_result(auditor, record.is_audited))
        for held in record.seats:
            seats.setdefault(held.voter, []).append(seats_result(record.test.receipt, held, record.verdict))
    accounts = {*watchers, *audits, *seats, *(each.challenger for each in proven if each.challenger is not None)}
    return {
        who: AttentionScore(
            ResultCount.of(audits.get(who, ())), ResultCount.of(seats.get(who, ())), watch_count(proven, who)
        )
        for who in accounts
    }  # fmt: skip


def audit_result(audit: DrawnAudit, is_audited: bool) -> AttentionResult:
    """The result of an audit of a test. `is_audited`: whether others show that it could be audited."""
    if audit.posted is None:
        return AttentionResult.SILENT if is_audited else AttentionResult.UNAVAILABLE
    if audit.posted is AuditOutcome.MISMATCH:
        return AttentionResult.CAUGHT if audit.shows_mismatch else AttentionResult.UNOPENED
    return AttentionResult.MISSED if audit.posted is AuditOutcome.MATCH else AttentionResult.UNAVAILABLE


def seats_result(receipt: Receipt, held: SettledSeats, verdict: Verdict) -> AttentionResult:
    """The result of seats in a round about a test. A revealed vote counts as it is, whatever verdict the committee reached."""
    convicted = verdict in (Verdict.OVERTURNED, Verdict.INVALID)
    vote = held.vote
    if vote is None:
        # A signer of a certificate reveals no vote of its own; its seats are right, as the certificate says.
        if held.outcome is SeatOutcome.RIGHT:
            return AttentionResult.CAUGHT if convicted else AttentionResult.MISSED
        return (
            AttentionResult.SILENT
            if held.outcome in (SeatOutcome.ABSENT, SeatOutcome.NOT_REVEALED)
            else AttentionResult.UNAVAILABLE
        )
    outcome = Outcome(vote.outcome)
    if outcome not in (Outcome.EXECUTED, Outcome.INVALID):
        return AttentionResult.UNAVAILABLE
    confirms = outcome is Outcome.EXECUTED and is_equal(
        receipt.tokens_hash, receipt.out_hash, vote.tokens_hash, vote.trace_root
    )  # fmt: skip
    refuted = convicted and held.outcome is SeatOutcome.WRONG
    return AttentionResult.MISSED if confirms or refuted else AttentionResult.CAUGHT


def watch_count(proven: Iterable[ScoredTest], account: Address) -> WatchCount:
    """How a watchtower did in proven tests."""
    counted = Counter(_watched(each, account) for each in proven)
    return WatchCount(**counted)


def _watched(record: ScoredTest, account: Address) -> str:
    """The field of `WatchCount` in which a test counts."""
    if record.challenger is not None:
        return "disputed" if record.challenger == account else "by_others"
    return "missed" if record.is_signalled else "unseen"
