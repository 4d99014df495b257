"""What auditors and watchtowers decide: each audit once, shown when it harms nobody, and never an accusation out of doubt."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.court.sortition import audit_is_drawn, beacon_is_known
from bytewise.protocol.decisions.actions import ClaimBounty, OpenAudit, OpenDispute, PostAudit, RunAudit
from bytewise.protocol.decisions.audits import AuditDuty, AuditedReceipt, AuditStage, decide_auditor
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.decisions.strategies import WatchPolicy
from bytewise.protocol.records.statements import AuditOutcome, AuditResult
from bytewise.protocol.units import U8, U64, ZERO_DIGEST, Address, Digest
from tests.fixtures.builders import signer
from tests.fixtures.snapshot_builders import BLOCK, NOW, anchored, case, holdings, snapshot, word
from tests.fixtures.watch_strategies import defended

PEOPLE = tuple(signer(f"verifier {i}").address for i in range(5))
ME = PEOPLE[2]
RATE_BPS, SEATS = 9_000, tuple((who, 10) for who in PEOPLE)
WATCH = WatchPolicy(mismatches=2, margin_s=2)
BOND_WEI = 100


def seen(window_end: int = NOW + 500, **changes: object) -> Snapshot:
    """A snapshot with batch 0, whose window ends then, and money for ten bonds."""
    return snapshot(batches=(anchored(0, window_end=window_end),), required_bond_wei=70, me=holdings(balance_wei=1000), **changes)


def result(receipt: Digest, who: Address, said: AuditOutcome) -> AuditResult:
    return AuditResult(receipt, who, U8(said), ZERO_DIGEST, U64(NOW))


def test_an_audit_runs_once_and_is_posted_once_inside_the_window() -> None:
    receipt = word("r")
    duty = AuditDuty(receipt, 0, BLOCK - 2, None, AuditStage.NOTHING, agreed=False)
    assert decide_auditor(seen(), [duty], frozenset(), 5) == (RunAudit(receipt),)
    assert decide_auditor(seen(), [duty], {receipt}, 5) == ()
    said = result(receipt, ME, AuditOutcome.MATCH)
    assert decide_auditor(seen(), [replace(duty, result=said)], frozenset(), 5) == (PostAudit(said, 0),)
    assert decide_auditor(seen(), [replace(duty, result=said, stage=AuditStage.POSTED)], frozenset(), 5) == ()
    assert decide_auditor(seen(NOW + 5), [duty], frozenset(), 5) == (), "no time for it"
    assert decide_auditor(seen(NOW - 1), [replace(duty, result=said)], frozenset(), 5) == (), "too late to publish"
    assert decide_auditor(snapshot(), [duty], frozenset(), 5) == (), "its window was over before"


def test_audit_is_neither_begun_nor_posted_without_the_beacon() -> None:
    """The contract reads the hash of block N from block N + 1 to block N + 8191 (`Blockhash`, EIP-2935)."""
    said = result(word("r"), ME, AuditOutcome.MATCH)
    duty = AuditDuty(word("r"), 0, BLOCK - 2, None, AuditStage.NOTHING, agreed=False)
    for head, is_known in ((BLOCK - 1, False), (BLOCK, True), (BLOCK + 8190, True), (BLOCK + 8191, False)):
        assert beacon_is_known(BLOCK - 2, head) is is_known
        at = replace(seen(), number=head)
        assert len(decide_auditor(at, [duty], frozenset(), 5)) == is_known
        assert len(decide_auditor(at, [replace(duty, result=said)], frozenset(), 5)) == is_known


def test_audit_is_neither_begun_nor_posted_in_a_compromised_epoch() -> None:
    """`Audits.post` and the shards refuse it (`isOpenForAudits`). What was posted before is still shown."""
    said = result(word("r"), ME, AuditOutcome.MATCH)
    duty = AuditDuty(word("r"), 0, BLOCK - 2, None, AuditStage.NOTHING, agreed=False, is_open=False)
    assert decide_auditor(seen(), [duty, replace(duty, result=said)], frozenset(), 5) == ()
    posted = replace(duty, result=said, stage=AuditStage.POSTED)
    assert decide_auditor(seen(NOW - 1), [posted], frozenset(), 5) == (OpenAudit(word("r")),)


def test_audit_mismatch_is_revealed_after_the_window_and_paid_on_agreement() -> None:
    said = result(word("r"), ME, AuditOutcome.MISMATCH)
    duty = AuditDuty(word("r"), 0, BLOCK - 2, said, AuditStage.POSTED, agreed=False)
    over = seen(NOW - 1)
    assert decide_auditor(over, [duty], frozenset(), 5) == (OpenAudit(word("r")),)
    opened = replace(duty, stage=AuditStage.OPENED)
    assert decide_auditor(over, [opened], frozenset(), 5) == ()
    assert decide_auditor(over, [replace(opened, agreed=True)], frozenset(), 5) == (ClaimBounty(word("r")),)
    assert decide_auditor(over, [replace(opened, stage=AuditStage.PAID, agreed=True)], frozenset(), 5) == ()
    assert decide_auditor(over, [replace(duty, stage=AuditStage.NOTHING)], frozenset(), 5) == (), "the chain does not have it"
    nothing = replace(duty, result=result(word("r"), ME, AuditOutcome.NONE))
    assert decide_auditor(over, [nothing], frozenset(), 5) == ()


def drawn(count: int) -> tuple[Digest, Digest, list[Address]]:
    """A receipt and beacon that draw at least so many of our people."""
    for attempt in range(1000):
        receipt, beacon = word("audited", attempt), word("beacon")
        who = [each for each in PEOPLE if audit_is_drawn(beacon, receipt, each, RATE_BPS, 10)]
        if len(who) >= count:
            return receipt, beacon, who
    raise AssertionError("nobody is drawn")


def audited(*words: tuple[int, AuditOutcome]) -> AuditedReceipt:
    receipt, beacon, who = drawn(4)
    return AuditedReceipt(
        receipt, 0, beacon, SEATS, RATE_BPS, tuple(result(receipt, who[i], said) for i, said in words), BOND_WEI
    )


MISMATCHES = ((0, AuditOutcome.MISMATCH), (1, AuditOutcome.MISMATCH))


def test_two_drawn_auditors_that_disagree_with_a_receipt_open_one_dispute() -> None:
    fraud = audited(*MISMATCHES, (2, AuditOutcome.MATCH))
    assert defended(seen(), [fraud], frozenset(), WATCH) == (OpenDispute(fraud.receipt_id, BOND_WEI),), "the batch's bond"
    assert defended(seen(), [fraud], {fraud.receipt_id}, WATCH) == ()
    assert defended(replace(seen(), disputes=(case(receipt_id=fraud.receipt_id),)), [fraud], frozenset(), WATCH) == ()
    assert defended(replace(seen(), paused=True), [fraud], frozenset(), WATCH) == ()


@pytest.mark.parametrize(
    "words",
    [
        ((0, AuditOutcome.MISMATCH),),
        ((0, AuditOutcome.MISMATCH), (0, AuditOutcome.MISMATCH)),
        ((0, AuditOutcome.MISMATCH), (1, AuditOutcome.MISMATCH), (2, AuditOutcome.MATCH), (3, AuditOutcome.MATCH)),
        ((0, AuditOutcome.NONE), (1, AuditOutcome.NONE), (2, AuditOutcome.NONE)),
        ((0, AuditOutcome.MISMATCH), (1, AuditOutcome.MISMATCH), (0, AuditOutcome.MATCH)),
    ],
)
def test_too_few_or_contradicted_or_repeated_results_open_nothing(words: tuple[tuple[int, AuditOutcome], ...]) -> None:
    assert defended(seen(), [audited(*words)], frozenset(), WATCH) == ()


def test_results_of_undrawn_or_unstaked_auditors_do_not_count() -> None:
    fraud = audited(*MISMATCHES)
    assert defended(seen(), [replace(fraud, rate_bps=0)], frozenset(), WATCH) == ()
    assert defended(seen(), [replace(fraud, seats=tuple((who, 0) for who in PEOPLE))], frozenset(), WATCH) == ()
    strangers = tuple(result(fraud.receipt_id, signer(f"sybil {i}").address, AuditOutcome.MISMATCH) for i in range(9))
    assert defended(seen(), [replace(fraud, results=strangers)], frozenset(), WATCH) == ()


def test_opened_disputes_are_bounded_by_window_and_budget() -> None:
    fraud = audited(*MISMATCHES)
    assert defended(seen(NOW + 1), [fraud], frozenset(), WATCH) == ()
    assert defended(replace(seen(), me=holdings(balance_wei=99)), [fraud], frozenset(), WATCH) == ()
    two = [fraud, replace(fraud, receipt_id=word("another"))]
    assert len(defended(replace(seen(), me=holdings(balance_wei=199)), two, frozenset(), WATCH)) == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([AuditOutcome.MATCH, AuditOutcome.NONE])), max_size=8))
def test_nothing_is_opened_without_a_mismatch(words: list[tuple[int, AuditOutcome]]) -> None:
    assert defended(seen(), [audited(*words)], frozenset(), WATCH) == ()
