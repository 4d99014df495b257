"""The release log of a shard for one epoch: signed, chained records, each with its ticket and evidence, and their verification.

A release record contains only the hash of the enclave's evidence, because an enclave cannot check more than the hash. The
document `ReleaseEvidence` contains the evidence itself, which is verified against the hash. Its other fields are the conclusions
of the shard, which signs them together with the record.

The hash chain reveals every change, removal or insertion before its head. It does not reveal that the end was cut off, or that a
second log exists. Only an auditor that has an earlier head sees this (`kms.release_log.copies`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import LATER, encode
from bytewise.protocol.errors.actors import ReleaseLogBroken
from bytewise.protocol.errors.records import BadSignature, MalformedValue
from bytewise.protocol.evidence.appraisal_policy import GpuUse, PlatformKind, TcbStatus
from bytewise.protocol.evidence.claims import NamedEvidence
from bytewise.protocol.keys.epochs import RELEASES, Decision, release_decision
from bytewise.protocol.records.statements import Release, Ticket, TicketKind
from bytewise.protocol.signing import Domain, typed_digest, verify_signature
from bytewise.protocol.units import U64, ZERO_DIGEST, Address, Blob, Digest

_RULE = re.compile(r"(R-[0-9A-Z]{2,4})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class AuditedReceiptPath:
    """The place where an audited receipt is anchored.

    The ticket does not contain this place, but repeating the audit draw needs it.
    """

    batch_id: int
    """Number of the batch."""
    seq: U64
    """Number of the receipt."""
    proof: tuple[Digest, ...]
    """Merkle siblings from the receipt's leaf to the batch's root."""


@dataclass(frozen=True, slots=True)
class ReleaseEvidence:
    """The reasons of a shard for the decision in its release record."""

    evidence: NamedEvidence
    """Evidence of the enclave. Its digest is the record's `evidence_hash`."""
    platform: PlatformKind
    """Platform of the enclave, from the policy's entry for its measurement."""
    measurement: Digest
    """Measurement of the enclave's program."""
    status: TcbStatus
    """TCB status of the platform."""
    gpu: GpuUse
    """Whether the program computes on a GPU, and whether the GPU is attested."""
    policy: U64
    """Serial of the appraisal policy under which the shard accepted the evidence."""
    refusal: str
    """Number of the rule for which the shard refused (`docs/reference/errors.md`); empty if it released something."""
    audit: AuditedReceiptPath | None
    """Path of the audited receipt if the shard released something for an audit; otherwise None."""

    def __post_init__(self) -> None:
        # Accept only a rule number: programs print this text, and it comes from an untrusted shard.
        if _RULE.fullmatch(self.refusal) is None:
            raise MalformedValue("release evidence", "refusal is no rule number")


@dataclass(frozen=True, slots=True)
class SignedReleaseEvidence:
    """Release evidence with the shard's signature, which binds it to one record."""

    grounds: ReleaseEvidence
    """The release evidence."""
    signature: Blob
    """Signature of the shard over `release_evidence_digest`."""


def release_evidence_digest(record: Digest, evidence: ReleaseEvidence) -> Digest:
    """Returns the digest that a shard signs for its evidence. `record` is the EIP-712 digest of the release record."""
    return digests.labelled(Label.RELEASE_GROUNDS, record, encode(evidence))


@dataclass(frozen=True, slots=True)
class SignedTicket:
    """The ticket behind a release record, signed by the voter. The record contains only its hash."""

    ticket: Ticket
    """Ticket whose hash is in the record."""
    signature: Blob
    """Signature of the voter over the ticket's EIP-712 digest."""


@dataclass(frozen=True, slots=True)
class SignedRelease:
    """One entry of a shard's public release log."""

    record: Release
    """The release record."""
    signature: Blob
    """Signature of the shard over the record."""
    right: SignedTicket | None
    """The ticket behind the decision; None in records of older shards."""
    grounds: SignedReleaseEvidence | None = field(default=None, metadata=LATER)
    """The evidence behind the decision; None in records of older shards."""


@dataclass(frozen=True, slots=True)
class ReleaseLog:
    """Answer to `GET /v1/log`: release records of one epoch, in order."""

    entries: tuple[SignedRelease, ...]
    """Entries of the log, ascending by index."""


class LogHead(NamedTuple):
    """Position in a release log at which the next record must follow."""

    digest: Digest
    """EIP-712 digest of the newest record; zero before the first."""
    next_index: int
    """Index of the next record."""


START = LogHead(ZERO_DIGEST, 0)
"""Position before the first record."""

LAG_S = 3600
"""Largest difference in seconds between the newest blocks that honest parties see at one moment. The time of a record may be this
much earlier than the time of the record before it, and this much later than the moment of an audit."""

_DECISIONS = frozenset(each.value for each in Decision)
_KINDS = frozenset(each.value for each in TicketKind)


def verify_log(entries: Iterable[SignedRelease], head: LogHead, domain: Domain) -> LogHead:
    """Verifies records that follow `head`, and returns the position after them. `domain` is the domain of `KeyEpochs`.

    Raises `ReleaseLogBroken` at the first wrong record. A record is wrong if it is not signed, does not follow the previous
    one, or has an unknown decision. It is wrong if it records a release of another kind than its epoch allows: a share in place
    of a partial, or the reverse. It is also wrong if its ticket or evidence belongs to another record, or names an unknown kind
    or an impossible batch.
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
