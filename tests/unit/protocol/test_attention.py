"""Attention tests: the draw of a schedule, what a reveal proves, funds that lie, and the score of who looked and who did not."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.attention.reveal import AttentionReveal, AttentionTest, verify_reveal
from bytewise.protocol.attention.schedule import RATE_UNIT, AttentionTerms, FraudKind, FraudSchedule, false_answer
from bytewise.protocol.attention.score import DrawnAudit, ScoredTest, SettledSeats, score_tests
from bytewise.protocol.court.settlement import SeatOutcome
from bytewise.protocol.errors.actors import RevealRefused
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.request import Request
from bytewise.protocol.records.statements import AuditOutcome, Outcome, Verdict, Vote
from bytewise.protocol.units import U8, U16, U32, U64, U256, ZERO_DIGEST, Digest
from chain.reads.attention import JudgedReveals
from tests.fixtures.attention_scene import FIRST, LAST, SIZE, FundScene
from tests.fixtures.builders import ANCHOR, CHAIN_ID, StubEngine, World, signer, word
from tests.fixtures.record_strategies import digests, record

FUND = FundScene()
SCHEDULE = FUND.schedule()
ENTRIES = FUND.entries(SCHEDULE)
HEADERS = FUND.headers(ENTRIES)
REVEAL = FUND.reveal(SCHEDULE, ENTRIES)
TESTS = FUND.tests(SCHEDULE)
schedules = st.builds(FraudSchedule, record(AttentionTerms), digests)


def proven(**changes: Any) -> tuple[AttentionTest, ...]:
    """The tests of the reveal with these changes."""
    return verify_reveal(dataclasses.replace(REVEAL, **changes), ANCHOR, HEADERS)


# --- the schedule ---


@given(schedules, schedules, st.sampled_from(["chain_id", "operator", "first", "last", "rate_ppm", "key"]))
def test_commitment_changes_with_each_term_and_with_the_key(schedule: FraudSchedule, other: FraudSchedule, name: str) -> None:
    try:
        changed = (
            dataclasses.replace(schedule, key=other.key) if name == "key"
            else dataclasses.replace(schedule, terms=dataclasses.replace(schedule.terms, **{name: getattr(other.terms, name)}))
        )  # fmt: skip
    except MalformedValue:
        return
    assert (changed.commitment == schedule.commitment) == (changed == schedule)


@given(digests, st.integers(0, 2**64 - 1))
def test_draw_is_the_same_every_time_and_nothing_outside_the_range(key: Digest, seq: int) -> None:
    schedule = FraudSchedule(FUND.schedule(RATE_UNIT).terms, key)
    assert (schedule.fraud_at(seq) is not None) == (FIRST <= seq <= LAST)
    assert schedule.fraud_at(seq) == FraudSchedule(schedule.terms, key).fraud_at(seq)


@given(digests, st.integers(1, RATE_UNIT), st.integers(1, RATE_UNIT))
def test_higher_rate_keeps_the_frauds_of_the_lower_one(key: Digest, one: int, other: int) -> None:
    low, high = (FraudSchedule(FUND.schedule(rate).terms, key) for rate in sorted((one, other)))
    assert set(low.frauds()) <= set(high.frauds())


@pytest.mark.parametrize("rate", [1_000, 10_000, 500_000, RATE_UNIT])
def test_announced_rate_is_drawn(rate: int) -> None:
    terms = dataclasses.replace(SCHEDULE.terms, first=U64(1), last=U64(50_000), rate_ppm=rate)
    found = list(FraudSchedule(terms, word("another key")).frauds())
    expected = 50_000 * rate / RATE_UNIT
    assert abs(len(found) - expected) <= 5 * (expected * (1 - rate / RATE_UNIT)) ** 0.5
    if expected > 40:
        assert {kind for _, kind in found} == set(FraudKind)


@pytest.mark.parametrize(
    "terms",
    [{"first": U64(0)}, {"first": U64(LAST + 1)}, {"last": U64(FIRST + 1_000_000)}, {"rate_ppm": 0}, {"rate_ppm": RATE_UNIT + 1}],
)
def test_terms_outside_their_bounds_are_refused(terms: dict[str, Any]) -> None:
    with pytest.raises(MalformedValue):
        dataclasses.replace(SCHEDULE.terms, **terms)


def test_text_of_a_schedule_does_not_show_its_key() -> None:
    assert SCHEDULE.key.hex() not in repr(SCHEDULE) and str(SCHEDULE.key) not in repr(SCHEDULE)


@pytest.mark.parametrize("kind", FraudKind)
def test_false_answer_differs_under_re_execution(kind: FraudKind) -> None:
    world = World()
    request = world.request(1)
    true = world.engine.generate(request)
    false = false_answer(kind, request, true)
    assert world.engine.verify(request, true.output, true.out_hash).divergence is None
    assert (false.output.tokens_hash, false.out_hash) != (true.output.tokens_hash, true.out_hash)
    assert (false.output.tokens_hash == true.output.tokens_hash) == (kind is FraudKind.TRACE)
    assert (false.out_hash == true.out_hash) == (kind is FraudKind.TEXT)
    assert StubEngine().verify(request, false.output, false.out_hash).divergence is not None


# --- the reveal ---


def test_reveal_of_an_honest_fund_proves_its_tests() -> None:
    assert len(TESTS) > 3
    assert [(int(test.receipt.seq), test.kind) for test in TESTS] == list(SCHEDULE.frauds())
    assert all(test.answer is not None for test in TESTS)


def test_reveal_without_openings_proves_its_tests() -> None:
    frauds = tuple(dataclasses.replace(each, answer=None) for each in REVEAL.frauds)
    assert [test.receipt_id for test in proven(frauds=frauds)] == [test.receipt_id for test in TESTS]


def test_skipped_number_of_the_schedule_is_no_test() -> None:
    seq = int(TESTS[0].receipt.seq)
    entries = FUND.entries(SCHEDULE, skipped=seq)
    found = verify_reveal(FUND.reveal(SCHEDULE, entries), ANCHOR, FUND.headers(entries))
    assert [int(test.receipt.seq) for test in found] == [int(test.receipt.seq) for test in TESTS[1:]]


LIES: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "another key": (lambda: {"key": word("chosen afterwards")}, "another key"),
    "another rate": (lambda: {"terms": dataclasses.replace(REVEAL.terms, rate_ppm=900_000)}, "other terms"),
    "a longer range": (lambda: {"terms": dataclasses.replace(REVEAL.terms, last=U64(LAST + 1))}, "other terms"),
    "another chain": (lambda: {"terms": dataclasses.replace(REVEAL.terms, chain_id=U256(CHAIN_ID + 1))}, "of chain"),
    "another operator": (lambda: {"terms": dataclasses.replace(REVEAL.terms, operator=signer("x").address)}, "of operator"),
    "a hidden test": (lambda: {"frauds": REVEAL.frauds[1:]}, "first missing"),
    "a test twice": (lambda: {"frauds": (REVEAL.frauds[0], *REVEAL.frauds)}, "not the receipts"),
    "another order": (lambda: {"frauds": REVEAL.frauds[::-1]}, "not the receipts"),
    "an earlier range": (lambda: {"terms": dataclasses.replace(REVEAL.terms, first=U64(FIRST - 1))}, "after the range began"),
    "another request": (lambda: {"carrier_request": FUND.asked(SCHEDULE, 4)}, "not that of its receipt"),
    "another version": (lambda: {"version": 2}, "version"),
}


@pytest.mark.parametrize("lie", LIES)
def test_reveal_that_does_not_prove_its_tests_is_refused(lie: str) -> None:
    changes, reason = LIES[lie]
    with pytest.raises(RevealRefused, match=reason):
        proven(**changes())


@pytest.mark.parametrize("carrier", [2, SIZE, FIRST + 1])
def test_commitment_in_a_later_receipt_is_refused(carrier: int) -> None:
    """A fund could commit to a schedule in each of many receipts, and reveal the one that excuses what it did."""
    entries = FUND.entries(SCHEDULE, carrier=carrier)
    with pytest.raises(RevealRefused, match="not in the operator's first"):
        verify_reveal(FUND.reveal(SCHEDULE, entries, carrier=carrier), ANCHOR, FUND.headers(entries))


def test_second_commitment_in_the_same_request_is_refused() -> None:
    other = FraudSchedule(SCHEDULE.terms, word("the key that fits better"))

    class TwoFaced(FundScene):
        """A fund that commits to two schedules at once."""

        def asked(self, schedule: FraudSchedule, seq: int, carrier: int = 1) -> Request:
            plain = super().asked(schedule, seq, carrier)
            stops = tuple(sorted((SCHEDULE.stop_string, other.stop_string))) if seq == carrier else ()
            return dataclasses.replace(plain, decode=dataclasses.replace(plain.decode, stop_strings=stops))

    fund = TwoFaced()
    for schedule in (SCHEDULE, other):
        entries = fund.entries(schedule)
        with pytest.raises(RevealRefused, match="one of 2"):
            verify_reveal(fund.reveal(schedule, entries), ANCHOR, fund.headers(entries))


def test_commitment_in_the_batch_in_which_the_range_begins_is_refused() -> None:
    schedule = FUND.schedule(first=U64(SIZE - 1))
    entries = FUND.entries(schedule)
    with pytest.raises(RevealRefused, match="after the range began"):
        verify_reveal(FUND.reveal(schedule, entries), ANCHOR, FUND.headers(entries))


def test_receipts_that_the_chain_does_not_have_are_refused() -> None:
    with pytest.raises(RevealRefused, match="the chain has no batch"):
        verify_reveal(REVEAL, ANCHOR, {number: header for number, header in HEADERS.items() if number != 2})
    swapped = HEADERS | {2: dataclasses.replace(HEADERS[2], root=word("another root"))}
    with pytest.raises(RevealRefused, match=r"receipt \d+"):
        verify_reveal(REVEAL, ANCHOR, swapped)


def test_commitment_under_a_tree_larger_than_its_batch_is_refused() -> None:
    """Under such a root a fund could have many first receipts, each with another schedule."""
    with pytest.raises(RevealRefused, match=r"receipt 1: .*root"):
        verify_reveal(REVEAL, ANCHOR, HEADERS | {0: dataclasses.replace(HEADERS[0], count=U32(1))})


def test_receipt_that_was_not_anchored_is_refused() -> None:
    first = REVEAL.frauds[0]
    place = dataclasses.replace(first.place, signed=FUND.answered(int(first.place.signed.record.seq)))
    forged = dataclasses.replace(first, place=place, answer=None)
    with pytest.raises(RevealRefused, match="root"):
        proven(frauds=(forged, *REVEAL.frauds[1:]))


def test_opening_of_another_receipt_is_refused() -> None:
    swapped = dataclasses.replace(REVEAL.frauds[0], answer=REVEAL.frauds[1].answer)
    with pytest.raises(RevealRefused, match="opening is of another receipt"):
        proven(frauds=(swapped, *REVEAL.frauds[1:]))


@given(st.data())
def test_reveal_with_a_changed_byte_of_a_proof_is_refused(data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(REVEAL.frauds) - 1))
    fraud = REVEAL.frauds[index]
    at = data.draw(st.integers(0, len(fraud.place.proof) - 1))
    proof = list(fraud.place.proof)
    proof[at] = Digest(bytes([proof[at][0] ^ 1]) + proof[at][1:])
    changed = dataclasses.replace(fraud, place=dataclasses.replace(fraud.place, proof=tuple(proof)))
    frauds = (*REVEAL.frauds[:index], changed, *REVEAL.frauds[index + 1 :])
    with pytest.raises(RevealRefused):
        proven(frauds=frauds)


def test_reveal_is_judged_once_and_again_with_other_batches() -> None:
    judged = JudgedReveals()
    assert judged.tests(REVEAL, ANCHOR, HEADERS) is judged.tests(REVEAL, ANCHOR, HEADERS)
    lie = dataclasses.replace(REVEAL, key=word("chosen afterwards"))
    reasons = []
    for _ in range(2):
        with pytest.raises(RevealRefused) as caught:
            judged.tests(lie, ANCHOR, HEADERS)
        reasons.append(caught.value)
    assert reasons[0] is reasons[1]
    with pytest.raises(RevealRefused):
        judged.tests(REVEAL, ANCHOR, HEADERS | {2: dataclasses.replace(HEADERS[2], root=word("another root"))})


# --- the score ---

CAREFUL, LAZY, SILENT, BLIND, TOWER = (signer(name).address for name in ("careful", "lazy", "silent", "blind", "tower"))
COPIER, OTHER, FOURTH = (signer(name).address for name in ("copier", "other", "fourth"))
AUDITORS = (
    DrawnAudit(CAREFUL, AuditOutcome.MISMATCH, shows_mismatch=True), DrawnAudit(COPIER, AuditOutcome.MISMATCH),
    DrawnAudit(LAZY, AuditOutcome.MATCH), DrawnAudit(SILENT, None), DrawnAudit(BLIND, AuditOutcome.NONE),
    DrawnAudit(OTHER, AuditOutcome.MATCH), DrawnAudit(FOURTH, AuditOutcome.MATCH),
)  # fmt: skip


def vote_of(test: AttentionTest, voter: str, outcome: Outcome, confirms: bool = False) -> Vote:
    """A vote about a test. A member that confirms repeats the fund's tokens and trace root, whatever they are."""
    words = (ZERO_DIGEST, ZERO_DIGEST)
    if outcome is Outcome.EXECUTED:
        request = test.answer.request if test.answer else FUND.request()
        true = FUND.engine.generate(request)
        claimed = false_answer(test.kind, request, true)
        words = (claimed.output.tokens_hash, claimed.trace_root) if confirms else (true.output.tokens_hash, true.trace_root)
    name = word("dispute", test.receipt_id)
    return Vote(name, U16(1), voter, U256(1), U8(outcome), U8(0), *words, ZERO_DIGEST, ZERO_DIGEST, ZERO_DIGEST)  # type: ignore[arg-type]


def convicted(test: AttentionTest, **changes: Any) -> ScoredTest:
    """A test that a watchtower disputed and a committee overturned."""
    seats = (
        SettledSeats(CAREFUL, vote_of(test, CAREFUL, Outcome.EXECUTED), SeatOutcome.RIGHT),
        SettledSeats(LAZY, vote_of(test, LAZY, Outcome.EXECUTED, confirms=True), SeatOutcome.WRONG),
        SettledSeats(SILENT, None, SeatOutcome.ABSENT),
        SettledSeats(BLIND, vote_of(test, BLIND, Outcome.NO_KEY), SeatOutcome.NEUTRAL),
    )
    return dataclasses.replace(ScoredTest(test, AUDITORS, seats, TOWER, Verdict.OVERTURNED), **changes)


def test_careful_member_scores_well_and_lazy_or_silent_one_badly() -> None:
    scores = score_tests([convicted(test) for test in (*TESTS, *TESTS)])
    count = len(TESTS)
    assert {who: score.caught_bps for who, score in scores.items()} == {
        CAREFUL: 10_000, LAZY: 0, SILENT: 0, BLIND: None, TOWER: None, COPIER: 0, OTHER: 0, FOURTH: 0,
    }  # fmt: skip
    assert (scores[LAZY].audits.missed, scores[LAZY].seats.missed) == (count, count)
    assert scores[COPIER].audits.unopened == count, "a mismatch that was copied from another auditor cannot be opened"
    assert (scores[SILENT].audits.silent, scores[SILENT].seats.silent) == (count, count)
    assert (scores[BLIND].audits.unavailable, scores[BLIND].seats.unavailable) == (count, count)
    assert scores[TOWER].watch.disputed == count and scores[CAREFUL].watch.by_others == count


def test_member_that_upholds_a_proven_lie_missed_it() -> None:
    """The committee confirmed the lie. Its seats are right for the court, and the reader's own execution says otherwise."""
    test = next(test for test in TESTS if test.kind is FraudKind.TOKEN)
    seats = (
        SettledSeats(LAZY, vote_of(test, LAZY, Outcome.EXECUTED, confirms=True), SeatOutcome.RIGHT),
        SettledSeats(SILENT, None, SeatOutcome.RIGHT),
        SettledSeats(CAREFUL, vote_of(test, CAREFUL, Outcome.EXECUTED), SeatOutcome.WRONG),
    )
    upheld = ScoredTest(test, (), seats, TOWER, Verdict.UPHELD, rerun_differs=True)
    scores = score_tests([upheld])
    assert {who: scores[who].caught_bps for who in (LAZY, SILENT, CAREFUL)} == {LAZY: 0, SILENT: 0, CAREFUL: 10_000}


def test_signer_of_a_certificate_that_convicts_caught_the_test() -> None:
    record = convicted(TESTS[0], seats=(SettledSeats(CAREFUL, None, SeatOutcome.RIGHT),))
    assert score_tests([record])[CAREFUL].seats.caught == 1


def test_member_that_finds_a_third_answer_missed_the_test() -> None:
    vote = dataclasses.replace(vote_of(TESTS[0], LAZY, Outcome.EXECUTED), tokens_hash=word("invented"))
    record = convicted(TESTS[0], seats=(SettledSeats(LAZY, vote, SeatOutcome.WRONG),))
    assert score_tests([record])[LAZY].seats.missed == 1


def test_unproven_or_true_answer_counts_for_nobody() -> None:
    """The fund's word proves no lie: it could call a true answer a test that every honest auditor missed."""
    unproven = convicted(TESTS[0], verdict=Verdict.NONE, challenger=None, seats=())
    true = dataclasses.replace(unproven, rerun_differs=False)
    withheld = dataclasses.replace(unproven, verdict=Verdict.UNAVAILABLE)
    assert (unproven.is_false, true.is_false, withheld.is_false) == (None, False, None)
    assert score_tests([unproven, true, withheld]) == {}
    assert score_tests([dataclasses.replace(unproven, rerun_differs=True)])[LAZY].audits.missed == 1


@pytest.mark.parametrize(
    ("found", "silent", "none", "is_void", "column"),
    [
        (0, 3, 0, False, "unavailable"), (0, 3, 2, False, "unavailable"), (1, 3, 0, False, "unavailable"),
        (2, 2, 0, False, "unavailable"), (3, 2, 0, False, "silent"), (3, 1, 2, False, "unavailable"),
        (3, 2, 0, True, "unavailable"),
    ],
)  # fmt: skip
def test_silence_is_one_only_if_most_could_audit(found: int, silent: int, none: int, is_void: bool, column: str) -> None:
    """A fund that hands its ciphertext to a few friends makes no other member silent."""
    names = [signer(f"auditor {i}").address for i in range(found + silent + none)]
    posted = [AuditOutcome.MISMATCH] * found + [None] * silent + [AuditOutcome.NONE] * none
    auditors = tuple(DrawnAudit(who, said, said is AuditOutcome.MISMATCH) for who, said in zip(names, posted, strict=True))
    record = convicted(TESTS[0], auditors=auditors, seats=(), is_void=is_void)
    score = score_tests([record])[names[found]]
    assert getattr(score.audits, column) == 1 and sum(dataclasses.asdict(score.audits).values()) == 1


def test_watchtower_misses_only_what_an_auditor_showed() -> None:
    shown = convicted(TESTS[0], challenger=None, verdict=Verdict.NONE, seats=(), rerun_differs=True)
    hidden = dataclasses.replace(shown, test=TESTS[1], auditors=(DrawnAudit(LAZY, AuditOutcome.MATCH),))
    watch = score_tests([shown, hidden], [TOWER])[TOWER].watch
    assert (watch.disputed, watch.by_others, watch.missed, watch.unseen) == (0, 0, 1, 1)


def test_fraud_outside_the_schedule_is_no_test() -> None:
    """A fund that lies once more than it drew: the reveal cannot name that receipt, so it stays a fraud like any other."""
    real = next(seq for seq in range(FIRST, LAST) if SCHEDULE.fraud_at(seq) is None)
    request = FUND.asked(SCHEDULE, real)
    lied = FUND.sign(FUND.receipt(real, request, false_answer(FraudKind.TOKEN, request, FUND.engine.generate(request))))
    entries = [*ENTRIES[: real - 1], lied, *ENTRIES[real:]]
    reveal: AttentionReveal = FUND.reveal(SCHEDULE, entries)
    extra = dataclasses.replace(REVEAL.frauds[0], place=FUND.place(entries, real), answer=None)
    with pytest.raises(RevealRefused, match="not the receipts"):
        verify_reveal(dataclasses.replace(reveal, frauds=(*reveal.frauds, extra)), ANCHOR, FUND.headers(entries))
    tests = verify_reveal(reveal, ANCHOR, FUND.headers(entries))
    assert real not in {int(test.receipt.seq) for test in tests}
