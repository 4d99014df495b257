"""Light audits: what a job's result says about an operator, and to whom a mismatch is due (design sections 10 and 11). Pure.

Doubt never accuses: only a judged difference of a complete record becomes MISMATCH, everything unclear becomes NONE.
"""

import enum
from typing import NamedTuple

from bytewise.protocol.jobs import JobResult
from bytewise.protocol.records.compare import differing_fields
from bytewise.protocol.records.preflight import Preflight
from bytewise.protocol.records.receipt import Receipt
from bytewise.protocol.records.statements import AuditOutcome, AuditResult, CannotReason, Outcome, audit_commitment
from bytewise.protocol.units import U8, U64, Digest


class Cause(enum.StrEnum):
    """To what a result that is no match is attributed, before anybody acts on it."""

    NOTHING = "match"
    OPERATOR = "operator"
    ENVIRONMENT = "environment drift"
    RECORD = "record too thin"
    VERIFIER = "verifier"


class Audited(NamedTuple):
    """A light audit's result for the public, its cause, and the salt that opens its commitment later."""

    result: AuditResult
    cause: Cause
    salt: Digest


def attribute(job: JobResult, receipt: Receipt, checklist: Preflight, profile: str) -> Cause:
    """The cause of a result. A difference was already reproduced by a second backend inside the enclave."""
    match Outcome(job.outcome):
        case Outcome.EXECUTED:
            if not differing_fields(receipt, job.tokens_hash, job.trace_root):
                return Cause.NOTHING
            return Cause.RECORD if checklist.too_thin_for(profile) else Cause.OPERATOR
        case Outcome.INVALID:
            return Cause.OPERATOR
        case Outcome.CANNOT_EXECUTE:
            foreign = (CannotReason.PROFILE_UNKNOWN, CannotReason.ENVIRONMENT)
            return Cause.ENVIRONMENT if CannotReason(job.code) in foreign else Cause.VERIFIER
        case Outcome.UNAVAILABLE | Outcome.NO_KEY:
            return Cause.VERIFIER


def conclude(job: JobResult, receipt: Receipt, checklist: Preflight, profile: str, salt: Digest, audited_at: int) -> Audited:
    """The unsigned audit result of a job. `audited_at`: time of the block that was read."""
    cause = attribute(job, receipt, checklist, profile)
    words = {Cause.NOTHING: AuditOutcome.MATCH, Cause.OPERATOR: AuditOutcome.MISMATCH}
    word = words.get(cause, AuditOutcome.NONE)
    commitment = audit_commitment(job.receipt_id, job.voter, job.tokens_hash, job.trace_root, salt)
    return Audited(AuditResult(job.receipt_id, job.voter, U8(word), commitment, U64(audited_at)), cause, salt)
