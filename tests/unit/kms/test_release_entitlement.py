"""Releases judged beside the chain: whether they were somebody's right, and still were when they were made."""

from dataclasses import replace
from typing import Any

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.keys.epochs import EpochState
from bytewise.protocol.keys.release_log import SignedRelease, SignedTicket
from bytewise.protocol.units import U16, U32, U64, ZERO_DIGEST, Digest
from kms.release_log.entitlement import AuditBlock, LogFindings, judge_log
from kms.shard import release_policy
from tests.fixtures.kms.log_court import Court
from tests.fixtures.kms.log_entries import Entries, altered, logged, of
from tests.fixtures.kms.memory_chain import NOW, OTHER_VOTER, VOTER
from tests.fixtures.kms.release_network import World
from tests.fixtures.snapshot_builders import POOL

__all__ = ["logged"]

SEEN = AuditBlock(100, NOW, NOW)


def test_release_to_a_ticket_without_entitlement_is_found(world: World, logged: Entries) -> None:
    court = Court(world.chain)
    assert judge_log(logged, court, SEEN) == LogFindings()
    assert logged[0].right and logged[1].right
    ticket = logged[0].right.ticket
    for changes, problem in (
        ({"subject": Digest(b"\x01" * 32)}, "there is no dispute 0x0101"),
        ({"subject": logged[1].right.ticket.subject}, "is about another receipt"),
        ({"round": U16(2)}, f"{VOTER.address} had no seat in round 2"),
        ({"voter": OTHER_VOTER.address}, f"{OTHER_VOTER.address} had no seat in round 1"),
    ):
        claimed = replace(logged[0], right=SignedTicket(replace(ticket, **changes), logged[0].signature))
        (found,) = judge_log((claimed,), court, SEEN).wrong
        assert found.startswith("record 0 released without entitlement") and problem in found
        assert judge_log((claimed,), court, SEEN._replace(timestamp=NOW - 1)).wrong == [], "the node may be behind"


def late(
    world: World, monkeypatch: pytest.MonkeyPatch, seq: int, phase: Phase = Phase.COMMIT, until: int = NOW + 60
) -> SignedRelease:
    """What a shard released whose operator took the check of tickets out."""
    case, shard = world.disputed(seq, phase=phase), world.shard(1)
    monkeypatch.setattr(release_policy, "verify_entitlement", lambda *_: 1)
    world.release(shard, case, ticket=world.ticket(case, expires_at=U64(until)))
    return shard.log(0).entries[-1]


def test_release_after_its_deadline_is_found(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dispute exists, and the voter had a seat: at the block of the record it was no right any more."""
    court = Court(fresh.chain)
    final, expired = late(fresh, monkeypatch, 1, Phase.FINAL), late(fresh, monkeypatch, 2, until=NOW)
    for entry, problem in ((final, "dispute is in round 1, FINAL"), (expired, f"expired at {NOW}, protocol time {NOW}")):
        (found,) = judge_log((entry,), court, SEEN).wrong
        assert "released without entitlement: at block 100, when it was decided: " in found and problem in found
    right = late(fresh, monkeypatch, 3)
    assert judge_log((right,), court, SEEN) == LogFindings()
    fresh.chain.facts = replace(fresh.chain.facts, epoch_state=EpochState.RETIRED)
    (found,) = judge_log((right,), court, SEEN).wrong
    assert "RETIRED" in found


def test_late_audit_or_audit_by_no_member_of_the_pool_is_found(world: World, logged: Entries) -> None:
    court = Court(world.chain)
    court.clock = world.chain.window_end
    assert logged[2].right is not None
    patient = replace(logged[2].right, ticket=replace(logged[2].right.ticket, expires_at=U64(court.clock + 10)))
    entry = replace(logged[2], right=patient)
    assert judge_log((entry,), court, SEEN) == LogFindings()
    court.clock += 1
    (found,) = judge_log((entry,), court, SEEN).wrong
    assert "window of batch 0 is over" in found
    court.extended_s = 1
    assert judge_log((entry,), court, SEEN) == LogFindings(), "a demand for its envelope held its own window open"
    court.clock, at = NOW, world.chain.batches[0].block
    for pool, joined_at, is_member in ((ZERO_DIGEST, 0, False), (POOL, at + 1, False), (POOL, at, True)):
        court.pool, court.joined_at = pool, joined_at
        wrong = judge_log((entry,), court, SEEN).wrong
        assert [f"{VOTER.address} is not drawn" in found for found in wrong] == [True] * (not is_member)


@pytest.mark.parametrize("changes", [{"round": U16(1)}, {"subject": Digest(b"\x01" * 32)}], ids=["round", "subject"])
def test_audit_whose_ticket_names_something_else_is_found(world: World, logged: Entries, changes: dict[str, Any]) -> None:
    """No honest shard takes such a ticket: under another subject or round one audit would count as many."""
    court, right = Court(world.chain), logged[2].right
    assert right is not None and judge_log(logged[2:], court, SEEN) == LogFindings()
    (found,) = judge_log((replace(logged[2], right=replace(right, ticket=replace(right.ticket, **changes))),), court, SEEN).wrong
    assert "the subject of an audit must be its receipt and its round 0" in found


def test_audit_decided_before_the_draw_is_found(world: World, logged: Entries, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest block has the beacon, and the block of the record's time had none."""
    court = Court(world.chain)
    header = world.chain.batches[0]
    monkeypatch.setattr(court, "numbers_at", lambda timestamp, block: range(header.block, header.block + 1))
    (found,) = judge_log(logged[2:], court, SEEN).wrong
    assert f"at block {header.block}, when it was decided" in found and "no batch 0 or no beacon" in found


def test_impossible_block_time_is_found_and_forgotten_block_judges_nothing(world: World, logged: Entries) -> None:
    court = Court(world.chain)
    timeless = replace(logged[0], record=replace(logged[0].record, decided_at=U64(NOW - 5)))
    (found,) = judge_log((timeless,), court, SEEN).wrong
    assert f"its date is {NOW - 5}, and no block has that time" in found
    court.forgets = True
    assert judge_log(logged, court, SEEN) == LogFindings(undated=[0, 1, 2])
    assert logged[0].right is not None
    ticket = replace(logged[0].right.ticket, round=U16(2))
    assert judge_log((replace(logged[0], right=replace(logged[0].right, ticket=ticket)),), court, SEEN).wrong


def test_audit_that_was_not_drawn_is_found(world: World, logged: Entries) -> None:
    court, place = Court(world.chain), of(logged[2]).audit
    assert place is not None and judge_log(logged[2:], court, SEEN) == LogFindings()
    for changes, problem in (
        ({"batch_id": 9}, "there is no batch 9"),
        ({"seq": U64(4)}, "the receipt is not in batch 0"),
        ({"proof": ()}, "the receipt is not in batch 0"),
    ):
        claimed = altered(logged[2], audit=replace(place, **changes))
        (found,) = judge_log((claimed,), court, SEEN).wrong
        assert found.startswith("record 2 released without entitlement") and problem in found
    header = world.chain.batches[0]
    for wrong in ({"first_seq": U64(header.first_seq + 1)}, {"first_seq": U64(1)}, {"count": U32(1)}):
        world.chain.batches[0] = replace(header, **wrong)
        (found,) = judge_log(logged[2:], court, SEEN).wrong
        assert "the receipt is not in batch 0" in found, wrong
    world.chain.batches[0] = header
    (early,) = judge_log(logged[2:], court, SEEN._replace(block=91)).wrong
    assert "nothing has drawn its auditors" in early
    court.stake = 0
    (found,) = judge_log(logged[2:], court, SEEN).wrong
    assert f"{VOTER.address} was not drawn to audit a receipt of batch 0" in found
    assert judge_log((replace(logged[2], grounds=None),), court, SEEN).wrong == [], "of before grounds were kept"
