"""Logs of a shard that lies with its signature: tickets that are a right to nothing, dates that go back, what it leaves out."""

import itertools
from dataclasses import replace

import pytest

from bytewise.protocol.errors.actors import ReleaseLogBroken, TicketRefused, TryAgain
from bytewise.protocol.keys.release_log import LAG_S, START, SignedRelease, verify_log
from bytewise.protocol.units import U8, U64
from kms.release_log.copies import ReleaseLogCopy, ordering_problems
from kms.shard.release_policy import AHEAD_S
from tests.fixtures.kms.log_entries import DOMAIN, Entries, copy, grounded, logged, of, paged
from tests.fixtures.kms.memory_chain import NOW, OTHER_VOTER
from tests.fixtures.kms.release_network import World
from tests.fixtures.kms.rewritten_logs import claimed, rewritten

__all__ = ["copy", "logged"]


def dated(entry: SignedRelease, date: int) -> SignedRelease:
    """An entry of another time, not signed yet."""
    return replace(entry, record=replace(entry.record, decided_at=U64(date)))


def test_ticket_of_an_unknown_kind_is_refused(world: World, logged: Entries) -> None:
    """Also of a refusal: an honest shard writes no record about such a ticket."""
    for entry in (logged[0], logged[2]):
        with pytest.raises(ReleaseLogBroken, match="has a ticket of unknown kind 7"):
            verify_log((*logged[: entry.record.index], claimed(world, entry, kind=U8(7))), START, DOMAIN)
    verify_log((claimed(world, logged[0], voter=OTHER_VOTER.address),), START, DOMAIN)


def test_batch_outside_the_chains_range_is_refused(world: World, logged: Entries) -> None:
    place = of(logged[2]).audit
    assert place is not None
    for batch_id in (-1, 0):
        log = (*logged[:2], grounded(world, logged[2], audit=replace(place, batch_id=batch_id)))
        if batch_id < 0:
            with pytest.raises(ReleaseLogBroken, match="names batch -1, which cannot be"):
                verify_log(log, START, DOMAIN)
        else:
            assert verify_log(log, START, DOMAIN).next_index == 3


def test_log_that_goes_back_in_time_is_found(world: World, logged: Entries) -> None:
    """Control: two honest nodes are up to an hour apart."""
    for date in (NOW + LAG_S + 1, 2**62):
        (found,) = ordering_problems(rewritten(world, dated(logged[0], date), *logged[1:]))
        assert found == f"record 1 is dated {date - NOW} s before record 0"
    (found,) = ordering_problems(rewritten(world, logged[0], dated(logged[1], NOW - LAG_S - 1), logged[2]))
    assert found == f"record 1 is dated {LAG_S + 1} s before record 0"
    assert list(ordering_problems(rewritten(world, logged[0], dated(logged[1], NOW - LAG_S), logged[2]))) == []


def test_out_of_order_record_is_reported_at_each_read_and_kept(world: World, logged: Entries, copy: ReleaseLogCopy) -> None:
    wrong = rewritten(world, dated(logged[0], 2**62), *logged[1:])
    for _ in range(2):
        with pytest.raises(ReleaseLogBroken, match="record 1 is dated"):
            copy.extend(paged(wrong), DOMAIN)
        assert copy.read(DOMAIN)[0] == wrong


def test_shard_omits_no_ticket_or_evidence_once_it_recorded_them(logged: Entries) -> None:
    """Control: a shard of before that kept neither, and keeps both now."""
    assert list(ordering_problems((replace(logged[0], right=None, grounds=None), *logged[1:]))) == []
    (found,) = ordering_problems((logged[0], replace(logged[1], right=None), logged[2]))
    assert found == "record 1 has no ticket, and a record before it has"
    (found,) = ordering_problems((*logged[:2], replace(logged[2], grounds=None)))
    assert found == "record 2 has no evidence, and a record before it has"


def test_shard_with_a_lagging_node_records_nothing_until_it_caught_up(fresh: World) -> None:
    """Its log would be taken for a liar's."""
    shard, now, cases = fresh.shard(1), fresh.chain.facts, [fresh.disputed(seq) for seq in (1, 2)]
    fresh.release(shard, cases[0])
    fresh.chain.facts = replace(now, timestamp=NOW - LAG_S - 1)
    with pytest.raises(TryAgain, match=f"{LAG_S + 1} s older than the newest date on record"):
        fresh.release(shard, cases[1])
    # A refusal is a record, too.
    expired = fresh.ticket(cases[1], expires_at=U64(now.clock))
    with pytest.raises(TryAgain, match=f"{LAG_S + 1} s older than the newest date on record"):
        fresh.release(shard, cases[1], ticket=expired)
    assert len(shard.log(0).entries) == 1
    fresh.chain.facts = replace(now, timestamp=NOW - LAG_S)
    fresh.release(shard, cases[1])
    entries = shard.log(0).entries
    assert [each.record.decided_at for each in entries] == [NOW, NOW - LAG_S] and list(ordering_problems(entries)) == []


def test_small_steps_back_do_not_add_up_to_a_convicting_date(fresh: World) -> None:
    """Each node is behind the one before: the newest date counts, not that of the newest record. Also after a restart."""
    now, shard, step = fresh.chain.facts, fresh.shard(1), LAG_S - 600
    for seq, back in ((1, 0), (2, step)):
        case = fresh.disputed(seq)
        fresh.chain.facts = replace(now, timestamp=NOW - back)
        fresh.release(shard, case)
    fresh.chain.facts = replace(now, timestamp=NOW - 2 * step)
    for asked in (shard, fresh.shard(1)):
        with pytest.raises(TryAgain, match=f"{2 * step} s older than the newest date on record"):
            fresh.release(asked, case)
    entries = shard.log(0).entries
    assert [each.record.decided_at for each in entries] == [NOW, NOW - step] and list(ordering_problems(entries)) == []


def test_one_false_future_date_leaves_no_record_and_stops_no_shard(fresh: World) -> None:
    """Of a refusal, too: at that time each ticket has expired, so anybody's request would put the date on record."""
    shard, case, true = fresh.shard(1), fresh.disputed(), fresh.chain.facts
    for ahead, expired in itertools.product((AHEAD_S + 1, 10**9, 2**62), (False, True)):
        date = NOW + ahead
        fresh.chain.facts = replace(true, timestamp=date, clock=date if expired else NOW)
        with pytest.raises(TryAgain, match=f"block 100 is dated {date}, and this machine's clock is at {NOW}: set the clock"):
            fresh.release(shard, case)
        assert shard.log(0).entries == ()
    fresh.chain.facts = true
    fresh.release(shard, case)
    # What the bound lets through stops no true block that is as old as final ones are.
    for date in (NOW + AHEAD_S, NOW + AHEAD_S - LAG_S):
        fresh.chain.facts = replace(true, timestamp=date)
        fresh.release(shard, case)
    assert list(ordering_problems(shard.log(0).entries)) == []


def test_shard_with_a_slow_clock_reports_it_and_serves_once_it_is_right(fresh: World) -> None:
    shard, case = fresh.shard(1), fresh.disputed()
    fresh.clock.seconds = NOW - AHEAD_S - 1
    with pytest.raises(TryAgain, match="set the clock if it is behind"):
        fresh.release(shard, case)
    with pytest.raises(TicketRefused):
        fresh.clock.seconds = NOW - AHEAD_S
        fresh.release(shard, case, ticket=fresh.ticket(case, expires_at=U64(NOW)))
    fresh.release(shard, case)
    assert [each.record.decided_at for each in shard.log(0).entries] == [NOW, NOW]


def test_true_block_counts_beside_the_latest_accepted_date(fresh: World) -> None:
    """The newest final block of an honest node is a quarter of an hour old."""
    shard, facts, cases = fresh.shard(1), fresh.chain.facts, [fresh.case(seq) for seq in (1, 2)]
    for case, date in zip(cases, (NOW + AHEAD_S, NOW - 900), strict=True):
        fresh.chain.open(case)
        fresh.chain.facts = replace(facts, timestamp=date)
        fresh.release(shard, case)
    assert list(ordering_problems(shard.log(0).entries)) == []
