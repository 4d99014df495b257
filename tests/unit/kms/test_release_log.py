"""A shard's public log, checked by who trusts no shard: what can be wrong with it, and what only who kept a copy can see."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, ReleaseLogBroken, TicketRefused
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.appraisal_policy import GpuUse, MeasurementRole, TcbStatus
from bytewise.protocol.keys.epochs import Decision
from bytewise.protocol.keys.release_log import START, LogHead, SignedRelease, SignedTicket, verify_log
from bytewise.protocol.records.statements import TicketKind
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import U8, U16, U64, Digest
from kms.release_log import copies
from kms.release_log.copies import ReleaseLogCopy
from tests.fixtures.kms.log_entries import DOMAIN, Entries, altered, chained, copy, grounded, key_of, logged, of, paged, signed
from tests.fixtures.kms.memory_chain import NOW, OTHER_VOTER
from tests.fixtures.kms.release_network import World, refused

__all__ = ["copy", "logged"]


def test_every_record_comes_with_the_ticket_that_its_voter_signed(logged: Entries) -> None:
    assert verify_log(logged, START, DOMAIN).next_index == 3
    assert [each.right.ticket.kind for each in logged if each.right] == [TicketKind.DISPUTE, TicketKind.DISPUTE, TicketKind.AUDIT]


def forged_ticket(world: World, entry: SignedRelease) -> SignedRelease:
    """A record about a ticket that its voter never signed."""
    assert entry.right is not None
    ticket = replace(entry.right.ticket, round=U16(2))
    changed = signed(world, entry, ticket_hash=typed_digest(DOMAIN, ticket))
    return replace(changed, right=SignedTicket(ticket, key_of(world).sign(typed_digest(DOMAIN, ticket))))


TAMPERED: dict[str, Callable[[World, Entries], Entries]] = {
    "the first record is dropped": lambda _, e: e[1:],
    "a record in the middle is dropped": lambda _, e: (e[0], e[2]),
    "two records change places": lambda _, e: (e[1], e[0], e[2]),
    "a record comes twice": lambda _, e: (e[0], e[0]),
    "a record is changed": lambda _, e: (replace(e[0], record=replace(e[0].record, voter=OTHER_VOTER.address)), *e[1:]),
    "a record is changed and signed again": lambda w, e: (e[0], signed(w, e[1], decided_at=U64(NOW - 1)), e[2]),
    "another's signature": lambda _, e: (e[0], replace(e[1], signature=e[2].signature), e[2]),
    "another's ticket": lambda _, e: (e[0], replace(e[1], right=e[2].right), e[2]),
    "a ticket that nobody signed": lambda w, e: (*e[:2], forged_ticket(w, e[2])),
    "a receipt that is not the ticket's": lambda w, e: (*e[:2], signed(w, e[2], receipt_id=e[0].record.receipt_id)),
    "an enclave that is not the ticket's": lambda w, e: (*e[:2], signed(w, e[2], transport_key_hash=Digest(bytes(32)))),
    "a decision that is none": lambda w, e: (*e[:2], signed(w, e[2], decision=U8(7))),
    "another's grounds": lambda _, e: (e[0], replace(e[1], grounds=e[2].grounds), e[2]),
    "grounds that are changed": lambda w, e: (*e[:2], altered(e[2], refusal="R-32")),
    "grounds of a refusal": lambda w, e: (*e[:2], grounded(w, e[2], refusal="R-32")),
    "an audit of no batch": lambda w, e: (*e[:2], grounded(w, e[2], audit=None)),
    "evidence that is not the record's": lambda w, e: (*e[:2], grounded(w, e[2], evidence=of(e[0]).evidence)),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_tampered_log_is_refused(
    world: World, logged: Entries, copy: ReleaseLogCopy, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control: an auditor that checks no chain keeps it."""
    shown = TAMPERED[how](world, logged)
    with pytest.raises(ReleaseLogBroken):
        copy.extend(paged(shown, 3), DOMAIN)
    assert not copy.path.exists()
    monkeypatch.setattr(copies, "verify_log", lambda entries, head, domain: LogHead(head.digest, head.next_index + len(entries)))
    copy.extend(paged(shown, 3), DOMAIN)
    assert copy.read(DOMAIN)[0] == shown != logged


def test_copy_grows_with_the_log_and_continues_after_a_torn_line(logged: Entries, copy: ReleaseLogCopy) -> None:
    assert copy.read(DOMAIN) == ((), START)
    assert copy.extend(paged(()), DOMAIN) == START
    assert copy.extend(paged(logged[:1]), DOMAIN).next_index == 1
    with copy.path.open("ab") as file:
        file.write(b'{"record":{"deci')
    assert copy.extend(paged(logged), DOMAIN) == verify_log(logged, START, DOMAIN)
    assert copy.read(DOMAIN)[0] == logged
    assert copy.extend(paged(logged), DOMAIN).next_index == 3


@pytest.mark.parametrize(
    ("what", "rewrite"),
    [
        ("ends before record 2", lambda _, e: e[:2]),
        ("ends before record 2", lambda _, e: ()),
        ("record 2 is another", lambda w, e: (*e[:2], signed(w, e[2], decided_at=U64(NOW - 1)))),
        ("record 2 is another", lambda w, e: chained(w, (e[1], e[2], e[0]))),
    ],
    ids=["truncated", "emptied", "last record rewritten", "all records in another order, signed again"],
)
def test_consistent_log_that_contradicts_the_copy_is_found(
    world: World, logged: Entries, copy: ReleaseLogCopy, what: str, rewrite: Callable[[World, Entries], Entries]
) -> None:
    """A chain alone does not show any of these: the control accepts each of them."""
    other = rewrite(world, logged)
    verify_log(other, START, DOMAIN)
    copy.extend(paged(logged), DOMAIN)
    kept = copy.path.read_bytes()
    with pytest.raises(ReleaseLogBroken, match=what):
        copy.extend(paged(other), DOMAIN)
    assert copy.path.read_bytes() == kept


def test_wrong_page_is_discarded_as_a_whole(logged: Entries, copy: ReleaseLogCopy) -> None:
    with pytest.raises(ReleaseLogBroken):
        copy.extend(paged((*logged[:2], logged[0])), DOMAIN)
    assert copy.read(DOMAIN)[0] == logged[:2]


def test_altered_copy_is_not_believed(logged: Entries, copy: ReleaseLogCopy) -> None:
    copy.extend(paged(logged), DOMAIN)
    lines = copy.path.read_bytes().splitlines(keepends=True)
    for wrong in (lines[1:], [*lines[:2], b"{}\n"], [lines[1], lines[0]]):
        copy.path.write_bytes(b"".join(wrong))
        with pytest.raises(ConfigurationError, match="was altered"):
            copy.read(DOMAIN)


def test_record_contains_the_evidence_of_the_decision(world: World, logged: Entries) -> None:
    shown = of(logged[0])
    assert (shown.evidence.digest, shown.evidence.assurance) == (logged[0].record.evidence_hash, "simulated")
    (enclave,) = (each for each in world.policy.measurements if each.role is MeasurementRole.VERIFIER_ENCLAVE)
    assert (shown.platform, shown.measurement, shown.policy) == (enclave.platform, enclave.measurement, world.policy.serial)
    assert (shown.status, shown.gpu, shown.refusal) == (TcbStatus.UP_TO_DATE, GpuUse.UNATTESTED, "")
    assert [of(each).audit is None for each in logged] == [True, True, False]


def test_refusal_names_its_rule(fresh: World) -> None:
    shard, case = fresh.shard(1), fresh.disputed(phase=Phase.FINAL)
    refused(TicketRefused, fresh, shard, fresh.request(case))
    (entry,) = shard.log(0).entries
    assert (entry.record.decision, of(entry).refusal, of(entry).audit) == (Decision.REFUSED, TicketRefused.rule, None)
    assert verify_log((entry,), START, DOMAIN).next_index == 1
    with pytest.raises(ReleaseLogBroken, match="the reason of another decision"):
        verify_log((grounded(fresh, entry, refusal=""),), START, DOMAIN)
    for text in ("R-3", "because", "R-32\n", "\x1b[31m"):
        with pytest.raises(MalformedValue):
            replace(of(entry), refusal=text)


def test_log_without_evidence_from_older_versions_is_accepted(logged: Entries, copy: ReleaseLogCopy) -> None:
    older = tuple(replace(each, grounds=None) for each in logged)
    assert b"grounds" not in encode(older[0]) and decode(SignedRelease, encode(older[0])) == older[0]
    copy.extend(paged(older), DOMAIN)
    assert copy.read(DOMAIN)[0] == older
