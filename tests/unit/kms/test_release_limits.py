"""What a shard counts of what it released: each limit its own records, of its own right, instance and epoch."""

import contextlib
import os
from dataclasses import replace

from sqlalchemy import insert

from bytewise.protocol.errors.actors import TicketRefused
from bytewise.protocol.keys.release_log import LogHead, SignedRelease
from bytewise.protocol.records.statements import Ticket, TicketKind
from bytewise.protocol.units import U16, U64, Digest
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.releases import ReleaseRecords, Usage
from bytewise.storage.tables import AuditBudgetRow
from tests.fixtures.kms.memory_chain import NOW
from tests.fixtures.kms.release_network import World, refused


class Looked(Exception):
    """Nothing is to be recorded."""


def usage(records: ReleaseRecords, ticket: Ticket) -> tuple[Usage, int]:
    """What the shard would decide this ticket by, and how many records its instance has."""
    seen: list[tuple[Usage, int]] = []

    def decide(found: Usage, _head: LogHead) -> SignedRelease:
        seen.append((found, found.given()))
        raise Looked

    with contextlib.suppress(Looked):
        records.append(ticket, decide)
    return seen[0]


def test_refusal_uses_no_instance_and_counts_as_no_release(fresh: World) -> None:
    case, shard = fresh.disputed(), fresh.shard(1)
    for _ in range(3):
        ticket = fresh.ticket(case, expires_at=U64(NOW), instance=Digest(os.urandom(32)))
        refused(TicketRefused, fresh, shard, fresh.request(case, ticket=ticket))
    found, given = usage(fresh.records(1), ticket)
    assert (found.instances, found.of_receipt, given) == (frozenset(), 3, 0)
    fresh.release(shard, case)
    found, given = usage(fresh.records(1), fresh.ticket(case))
    assert (found.instances, found.of_receipt, given) == ({fresh.instance}, 4, 1)


def test_releases_to_an_instance_under_another_entitlement_do_not_count(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    subject = fresh.chain.open(case)
    fresh.release(shard, case)
    fresh.chain.disputes[subject] = replace(fresh.chain.disputes[subject], round=2)
    later = fresh.ticket(case, round=U16(2))
    found, given = usage(fresh.records(1), later)
    assert (found.instances, found.of_receipt, given) == (frozenset(), 1, 0)
    fresh.release(shard, case, ticket=later)
    found, given = usage(fresh.records(1), later)
    assert (found.instances, found.of_receipt, given) == ({fresh.instance}, 2, 1)
    assert usage(fresh.records(1), replace(later, instance=Digest(bytes(32))))[1] == 0


def test_each_epoch_has_its_own_budget(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    ticket = fresh.ticket(case, TicketKind.AUDIT)
    fresh.release(shard, case, ticket=ticket, proof=fresh.chain.anchor(case))
    with write_transaction(open_database(f"sqlite:///{fresh.folder / 'shard-1' / 'kms.sqlite'}")) as connection:
        connection.execute(insert(AuditBudgetRow).values(epoch=2, spent=7))
    for epoch, spent in ((1, 1), (2, 7), (3, 0)):
        assert usage(fresh.records(1), replace(ticket, key_epoch=U64(epoch)))[0].audits == spent


def test_newest_date_is_known_with_and_without_a_verified_chain(fresh: World) -> None:
    """A start verifies it and so reads every date; what comes later is read where it is needed."""
    case, shard, facts = fresh.disputed(), fresh.shard(1), fresh.chain.facts
    for date in (NOW, NOW - 60):
        fresh.chain.facts = replace(facts, timestamp=date)
        fresh.release(shard, case)
    verified, bare = fresh.records(1), fresh.records(1)
    verified.verify_chain(1)
    fresh.chain.facts = replace(facts, timestamp=NOW - 30)
    fresh.release(shard, case)
    for records in (verified, bare):
        assert [usage(records, fresh.ticket(case))[0].newest for _ in range(2)] == [NOW, NOW]
    assert usage(bare, replace(fresh.ticket(case), key_epoch=U64(2)))[0].newest == 0
