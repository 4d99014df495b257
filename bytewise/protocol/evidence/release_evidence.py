"""On what grounds a shard decided: beside each release record, what was shown to the shard and what it concluded of it.

The record names evidence by hash alone, for an enclave can check no more of it. What the hash covers is kept here, and verified
against it; all else is the shard's word, for which its signature over record and grounds answers.
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
    """Where an audited receipt is anchored, which a ticket does not name: with it anybody can repeat the draw."""

    batch_id: int
    """The batch."""
    seq: U64
    """The receipt's number."""
    proof: tuple[Digest, ...]
    """Merkle siblings from the receipt's leaf to the batch's root."""


@dataclass(frozen=True, slots=True)
class ReleaseEvidence:
    """Why a shard decided as its record says."""

    evidence: NamedEvidence
    """What the platform signed about the enclave: its hash is the record's."""
    platform: PlatformKind
    """Where the enclave runs, by the policy's entry for its measurement."""
    measurement: Digest
    """What runs there."""
    status: TcbStatus
    """How current the vendor says the platform's trusted parts are."""
    gpu: GpuUse
    """Whether the program computes on a GPU, and whether there is evidence of that."""
    policy: U64
    """Serial number of the appraisal policy that accepted all this."""
    refusal: str
    """Rule for which the shard refused (`docs/reference/errors.md`); empty if it gave something."""
    audit: AuditedReceiptPath | None
    """Of the receipt of an audit for which something was given."""

    def __post_init__(self) -> None:
        # It is printed: who wrote it is a stranger to who reads it.
        if _RULE.fullmatch(self.refusal) is None:
            raise MalformedValue("grounds", "refusal is no rule")


@dataclass(frozen=True, slots=True)
class SignedReleaseEvidence:
    """Grounds and the shard's word that they are those of one record."""

    grounds: ReleaseEvidence
    """What it says."""
    signature: Blob
    """The shard's, over `release_evidence_digest`."""


def release_evidence_digest(record: Digest, grounds: ReleaseEvidence) -> Digest:
    """What a shard signs about the record of that EIP-712 digest."""
    return digests.labelled(Label.RELEASE_GROUNDS, record, encode(grounds))
