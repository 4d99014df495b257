"""What an auditor with a node finds in logs that prove themselves: every release is either judged or counted."""

from dataclasses import replace

import pytest

from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.errors.actors import ChainReverted, RpcRefused, TryAgain
from bytewise.protocol.keys.release_log import LAG_S
from bytewise.protocol.units import U64, Digest
from kms.release_log.entitlement import AuditBlock, LogFindings, UnjudgedReason, judge_log, unjudged_log
from tests.fixtures.kms.log_court import Court
from tests.fixtures.kms.log_entries import Entries, logged
from tests.fixtures.kms.memory_chain import NOW
from tests.fixtures.kms.release_network import World
from tests.fixtures.kms.rewritten_logs import claimed, rewritten

__all__ = ["logged"]

SEEN = AuditBlock(100, NOW, NOW)
NOBODYS = Digest(b"\x01" * 32)


def test_unjudged_release_is_counted_with_its_reason(world: World, logged: Entries) -> None:
    """Control: with its ticket and its batch each of them is a right."""
    court = Court(world.chain)
    assert judge_log(logged, court, SEEN) == LogFindings()
    for entry, reason in (
        (replace(logged[0], right=None), UnjudgedReason.NO_TICKET),
        (replace(logged[2], grounds=None), UnjudgedReason.NO_BATCH),
    ):
        found = judge_log((logged[1], entry), court, SEEN)
        assert (found.wrong, found.unjudged) == ([], {reason: 1})
    found = judge_log(logged, court, SEEN._replace(timestamp=NOW - 1))
    assert (found.wrong, found.unjudged) == ([], {UnjudgedReason.TOO_NEW: 3}), "the node may be behind"
    assert unjudged_log(logged, UnjudgedReason.NOT_ASKED).unjudged == {UnjudgedReason.NOT_ASKED: 3}


def test_audit_of_an_unknown_batch_is_still_checked_against_its_time(world: World, logged: Entries) -> None:
    entry = replace(logged[2], grounds=None)
    timeless = replace(entry, record=replace(entry.record, decided_at=U64(NOW - 5)))
    found = judge_log((timeless,), Court(world.chain), SEEN)
    assert "no block has that time" in found.wrong[0] and not found.unjudged


def test_false_date_hides_no_release(world: World, logged: Entries) -> None:
    """What no node can have shown yet is named; a node that stands still accuses nobody."""
    wrong, court = claimed(world, logged[0], subject=NOBODYS), Court(world.chain)
    for date in (NOW + LAG_S + 1, 2**62):
        late = replace(wrong, record=replace(wrong.record, decided_at=U64(date)))
        (found,) = judge_log(rewritten(world, late, *logged), court, SEEN).wrong
        assert found == f"record 0 is dated {date}, long after block 100 of {NOW}"
    near = replace(wrong, record=replace(wrong.record, decided_at=U64(NOW + LAG_S)))
    assert judge_log((near,), court, SEEN).unjudged == {UnjudgedReason.TOO_NEW: 1}
    slow = SEEN._replace(timestamp=NOW - 10 * LAG_S)
    assert judge_log(logged, court, slow) == LogFindings(unjudged=unjudged_log(logged, UnjudgedReason.TOO_NEW).unjudged)


@pytest.mark.parametrize(
    ("error", "reason", "count"),
    [
        (TryAgain("chain", "away"), UnjudgedReason.NO_ANSWER, 2),
        (RpcRefused("eth_call", "why"), UnjudgedReason.NO_ANSWER, 1),
        (ChainReverted("case", "why"), UnjudgedReason.NOT_ASKED, 1),
    ],
    ids=["the node went away", "the node refused one question", "the chain refused one question"],
)
def test_findings_before_a_failure_count(
    world: World, logged: Entries, error: Exception, reason: UnjudgedReason, count: int
) -> None:
    assert logged[1].right is not None
    unasked = logged[1].right.ticket.subject

    class Failing(Court):
        def dispute(self, dispute: Digest, block: int, receipt_id: Digest) -> Dispute | None:
            if dispute == unasked:
                raise error
            return super().dispute(dispute, block, receipt_id)

    wrong = claimed(world, logged[0], subject=NOBODYS)
    found = judge_log((wrong, *logged[1:]), Failing(world.chain), SEEN)
    assert len(found.wrong) == 1 and "there is no dispute" in found.wrong[0]
    assert (found.unjudged, found.failure) == ({reason: count}, str(error))
