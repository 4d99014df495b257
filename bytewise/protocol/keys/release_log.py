"""Verification of a release log: the signed, chained records of one shard for one epoch, each with its ticket and evidence.

The hash chain reveals every change, removal or insertion before its head. It does not reveal that the end was cut off, or that a
second log exists. Only an auditor that has an earlier head sees this (`kms.release_log.copies`).
"""

from collections.abc import Iterable
from typing import NamedTuple

from bytewise.protocol.errors.actors import ReleaseLogBroken
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.evidence.release_evidence import SignedReleaseEvidence, release_evidence_digest
from bytewise.protocol.keys.epochs import RELEASES, Decision, SignedRelease, SignedTicket, release_decision
from bytewise.protocol.records.statements import Release, Ticket, TicketKind
from bytewise.protocol.signing import Domain, typed_digest, verify_signature
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest


class LogHead(NamedTuple):
    """Position in a release log at which the next record must follow."""

    digest: Digest
    """EIP-712 digest of the newest record; zero before the first."""
    next_index: int
    """Index of the next record."""


START = LogHead(ZERO_DIGEST, 0)
"""Position before the first record."""

LAG_S = 3600
"""Largest difference in seconds between the newest blocks that honest parties see at one moment. A record's time may be that much
before the time of the record before it, and that much after the moment of an audit."""

_DECISIONS = frozenset(each.value for each in Decision)
_KINDS = frozenset(each.value for each in TicketKind)


def verify_log(entries: Iterable[SignedRelease], head: LogHead, domain: Domain) -> LogHead:
    """Verifies records that follow `head`, and returns the position after them. `domain` is the domain of `KeyEpochs`.

    Raises `ReleaseLogBroken` at the first wrong record. A record is wrong if it is not signed, does not follow the previous one,
    has an unknown decision, or releases what its epoch does not release. It is also wrong if its ticket or evidence belongs to
    another record, or names an unknown kind or an impossible batch.
    """
    for signed in entries:
        record, digest = signed.record, typed_digest(domain, signed.record)
        if record.index != head.next_index or record.previous != head.digest:
            raise ReleaseLogBroken(record.shard, f"record {record.index} does not follow {head.next_index - 1}")
        if record.decision not in _DECISIONS:
            raise ReleaseLogBroken(record.shard, f"record {record.index} has decision {record.decision}")
        if record.decision in RELEASES and record.decision != release_decision(record.key_epoch).value:
            gave = Decision(record.decision).name
            raise ReleaseLogBroken(record.shard, f"record {record.index} is {gave}, not for key epoch {record.key_epoch}")
        try:
            verify_signature(f"release record {record.index}", digest, signed.signature, record.shard)
            if signed.right is not None:
                _verify_ticket(record, signed.right, domain)
            if signed.grounds is not None:
                _verify_evidence(signed, signed.grounds, digest)
        except BadSignature as error:
            raise ReleaseLogBroken(record.shard, str(error)) from None
        head = LogHead(digest, record.index + 1)
    return head


def verify_owner(entries: Iterable[SignedRelease], shard: Address, epoch: int) -> Address:
    """Returns the shard if all records are by this shard and for this epoch. Otherwise raises `ReleaseLogBroken`."""
    for signed in entries:
        record = signed.record
        if (record.shard, record.key_epoch) != (shard, epoch):
            raise ReleaseLogBroken(shard, f"record {record.index} is by {record.shard} for key epoch {record.key_epoch}")
    return shard


def _verify_ticket(record: Release, right: SignedTicket, domain: Domain) -> SignedTicket:
    ticket, digest = right.ticket, typed_digest(domain, right.ticket)
    verify_signature(f"ticket of release record {record.index}", digest, right.signature, ticket.voter)
    _verify_kind(record, ticket)
    for what, named, have in (
        ("ticket", record.ticket_hash, digest),
        ("receipt", record.receipt_id, ticket.receipt_id),
        ("voter", record.voter, ticket.voter),
        ("key epoch", record.key_epoch, ticket.key_epoch),
        ("transport key", record.transport_key_hash, ticket.transport_key_hash),
    ):
        if named != have:
            raise ReleaseLogBroken(record.shard, f"record {record.index} names another {what} than its ticket")
    return right


def _verify_kind(record: Release, ticket: Ticket) -> Ticket:
    # An honest shard writes no record about a ticket of another kind, not even a refusal.
    if ticket.kind not in _KINDS:
        raise ReleaseLogBroken(record.shard, f"record {record.index} has a ticket of unknown kind {ticket.kind}")
    return ticket


def _verify_evidence(signed: SignedRelease, why: SignedReleaseEvidence, digest: Digest) -> SignedReleaseEvidence:
    record, grounds = signed.record, why.grounds
    verify_signature(
        f"grounds of release record {record.index}", release_evidence_digest(digest, grounds), why.signature, record.shard
    )
    if grounds.evidence.digest != record.evidence_hash:
        raise ReleaseLogBroken(record.shard, f"record {record.index} names another evidence than its grounds")
    if bool(grounds.refusal) != (record.decision == Decision.REFUSED.value):
        raise ReleaseLogBroken(record.shard, f"record {record.index} has the reason of another decision")
    if grounds.audit is not None and grounds.audit.batch_id < 0:
        raise ReleaseLogBroken(record.shard, f"record {record.index} names batch {grounds.audit.batch_id}, which cannot be")
    is_audit = signed.right is not None and signed.right.ticket.kind == TicketKind.AUDIT.value
    if is_audit and record.decision in RELEASES and grounds.audit is None:
        raise ReleaseLogBroken(record.shard, f"record {record.index} does not say where the audited receipt is anchored")
    return why
