"""Evidence for a shard's decision, stored with each release record: the data that the shard saw, and its conclusions.

The record contains only the hash of the enclave's evidence, because an enclave cannot check more than the hash. This document
contains the evidence itself, which is verified against the hash. Its other fields are statements of the shard, which signs them
together with the record.
"""

import re
from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.appraisal_policy import GpuUse, PlatformKind, TcbStatus
from bytewise.protocol.evidence.claims import NamedEvidence
from bytewise.protocol.units import U64, Blob, Digest

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
