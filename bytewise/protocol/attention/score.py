"""Scores what each account did with attention tests: it caught a test, missed it, was silent, or could not decide.

Only tests that are proven false count: by a verdict, or because the reader ran the request again. An account that honestly says
that it cannot open a receipt does not miss the test, so such results have a column of their own. Silence counts only if most
drawn auditors posted a result (`ScoredTest.is_audited`), because otherwise the fund may have withheld the receipt.
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
    """Result of one account in one light audit, or in one round in which it had seats."""

    CAUGHT = "caught"
    """The account said that the receipt is false. As an auditor it also opened the hashes that it found."""
    UNOPENED = "unopened"
    """The account posted a mismatch and never showed other hashes. It may have copied the mismatch of another auditor, so this
    does not count as caught."""
    MISSED = "missed"
    """The account said that the receipt is true, or found another false answer."""
    SILENT = "silent"
    """The account was drawn and posted or revealed nothing. An auditor counts as silent only if the test is audited
    (`ScoredTest.is_audited`)."""
    UNAVAILABLE = "unavailable"
    """The account could not decide: no bytes, no key, or a machine that cannot run the request. Perhaps no account could."""


class DrawnAudit(NamedTuple):
    """A verifier that was drawn to audit a test."""

    verifier: Address
    posted: AuditOutcome | None
    """Result that the verifier posted; None if it posted nothing."""
    shows_mismatch: bool = False
    """Whether the verifier opened its result to hashes that prove a mismatch. They must differ from the receipt's. If a verdict
    replaced the answer, they must be the verdict's."""


class SettledSeats(NamedTuple):
    """The seats of one account in one round about a test, after the dispute ended."""

    voter: Address
    vote: Vote | None
    """The vote that the account revealed. None if it revealed none, for example because it signed a certificate instead."""
    outcome: SeatOutcome
    """Treatment of the seats by the contract."""


@dataclass(frozen=True, slots=True)
class ScoredTest:
    """All data about one test: the chain's, and the result of the reader's own execution if there was one."""

    test: AttentionTest
    """The proven test."""
    auditors: tuple[DrawnAudit, ...]
    """All verifiers that were drawn to audit the test's receipt."""
    seats: tuple[SettledSeats, ...] = ()
    """Settled seats of all rounds of the test's dispute."""
    challenger: Address | None = None
    """Account that opened the dispute; None if nobody did."""
    verdict: Verdict = Verdict.NONE
    """The final verdict; NONE without a dispute."""
    rerun_differs: bool | None = None
    """Whether the reader ran the request again and got another answer; None if it did not run it."""
    is_void: bool = False
    """Whether the test's batch is void, because its list was not readable."""

    @property
    def is_false(self) -> bool | None:
        """Whether the answer is false, as far as the reader's own execution or a verdict proves it. None without such a proof.

        A claim of the fund is no proof.
        """
        if self.rerun_differs is not None:
            return self.rerun_differs
        return True if self.verdict in (Verdict.OVERTURNED, Verdict.INVALID) else None

    @property
    def is_audited(self) -> bool:
        """Whether most drawn auditors posted a match, or opened hashes that prove a mismatch. Always False for a void batch.

        These auditors had the envelope and the list. An auditor that cannot get both posts nothing. The chain does not show
        whether a fund withheld them, gave them only to its friends, or uploaded them late. But the fund cannot make most
        auditors say that they executed a request that they do not have.
        """
        found = sum(each.posted is AuditOutcome.MATCH or each.shows_mismatch for each in self.auditors)
        return not self.is_void and 2 * found > len(self.auditors)

    @property
    def is_signalled(self) -> bool:
        """Whether a drawn auditor posted a mismatch, which every watchtower can see."""
        return any(each.posted is AuditOutcome.MISMATCH for each in self.auditors)


@dataclass(frozen=True, slots=True)
class ResultCount:
    """Number of results of one account, by kind."""

    caught: int = 0
    """Number of times that the account caught a test."""
    unopened: int = 0
    """Number of times that the account posted a mismatch without opening it."""
    missed: int = 0
    """Number of times that the account said that the receipt is true, or found another false answer."""
    silent: int = 0
    """Number of times that the account said nothing."""
    unavailable: int = 0
    """Number of times that the account could not decide."""

    @classmethod
    def of(cls, results: Iterable[AttentionResult]) -> "ResultCount":
        """Counts these results by kind."""
        counted = Counter(results)
        return cls(**{each.value: counted[each] for each in AttentionResult})


@dataclass(frozen=True, slots=True)
class WatchCount:
    """Numbers of proven tests, by what one watchtower did about them.

    A watchtower does not run requests again. It learns about a test only from posted audit results.
    """

    disputed: int = 0
    """Tests whose dispute this watchtower opened."""
    by_others: int = 0
    """Tests whose dispute another account opened."""
    missed: int = 0
    """Tests for which an auditor posted a mismatch, and which nobody disputed."""
    unseen: int = 0
    """Tests for which no auditor posted a mismatch, so the watchtower could not know about them."""


@dataclass(frozen=True, slots=True)
class AttentionScore:
    """The results of one account in all proven tests."""

    audits: ResultCount
    """Results in the tests that the account was drawn to audit."""
    seats: ResultCount
    """Results in the rounds about tests in which the account had seats."""
    watch: WatchCount
    """All proven tests, counted as for a watchtower."""

    @property
    def caught_bps(self) -> int | None:
        """Share of the account's audits and rounds in which the account caught the test, in 1/10,000.

        Audits and rounds in which the account could not decide are not counted. None if no others are left.
        """
        both = (self.audits, self.seats)
        decided = sum(each.caught + each.unopened + each.missed + each.silent for each in both)
        return sum(each.caught for each in both) * BPS // decided if decided else None


def score_tests(records: Iterable[ScoredTest], watchers: Iterable[Address] = ()) -> dict[Address, AttentionScore]:
    """Returns the score of each account that was drawn, had seats, disputed a test, or is in `watchers`.

    A test counts once, even if several reveals contain it.
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
    """Returns the result of one audit of a test. `is_audited` is `ScoredTest.is_audited` of the test."""
    if audit.posted is None:
        return AttentionResult.SILENT if is_audited else AttentionResult.UNAVAILABLE
    if audit.posted is AuditOutcome.MISMATCH:
        return AttentionResult.CAUGHT if audit.shows_mismatch else AttentionResult.UNOPENED
    return AttentionResult.MISSED if audit.posted is AuditOutcome.MATCH else AttentionResult.UNAVAILABLE


def seats_result(receipt: Receipt, held: SettledSeats, verdict: Verdict) -> AttentionResult:
    """Returns the result of an account's seats in one round about a test.

    A revealed vote decides the result. A vote for a third answer counts as missed if the verdict convicts the operator and the
    contract treats the seats as wrong. Without a revealed vote, the contract's treatment of the seats decides.
    """
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
    """Counts the proven tests by what this watchtower did about them."""
    counted = Counter(_watched(each, account) for each in proven)
    return WatchCount(**counted)


def _watched(record: ScoredTest, account: Address) -> str:
    """Returns the field of `WatchCount` in which a test counts for this account."""
    if record.challenger is not None:
        return "disputed" if record.challenger == account else "by_others"
    return "missed" if record.is_signalled else "unseen"
