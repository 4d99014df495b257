"""Facts of batches, availability demands, reports and light audits."""

from collections.abc import Mapping
from typing import Any

from bytewise.protocol.digests import keccak256_abi
from bytewise.storage.index.tables import AuditFact, BatchFact, DemandFact, ReportFact
from dashboard.index.fold import HANDLERS, Moment

LIST, ENVELOPE, ANCHOR = 1, 2, 3
"""Kinds of demands (`IDemands.Kind`)."""
OPEN, ANSWERED, EXPIRED = 1, 2, 3
"""States of demands (`IDemands.State`)."""


@HANDLERS.on("ReceiptAnchor", "BatchAnchored")
def anchored(at: Moment, v: Mapping[str, Any]) -> None:
    """A batch, and the subject under which its list may be demanded."""
    header, batch = v["header"], v["batch"]
    at.facts.put(
        BatchFact, v["batchId"], operator=v["operator"], first_seq=header["firstSeq"], receipts=header["count"],
        root=bytes(header["root"]), list_hash=bytes(header["listHash"]), environment=bytes(header["environment"]),
        model_id=bytes(header["modelId"]), key_epoch=header["keyEpoch"], locator=header["locator"].decode("utf-8", "replace"),
        params_version=batch["paramsVersion"], anchored_at=batch["anchoredAt"], block=at.block,
    )  # fmt: skip


@HANDLERS.on("ReceiptAnchor", "BatchVoided")
def voided(at: Moment, v: Mapping[str, Any]) -> None:
    """Nobody answered a demand for its list."""
    at.facts.amend(BatchFact, v["batchId"], is_void=True)


def list_subject(chain_id: int, demands: str, batch_id: int) -> bytes:
    """Subject of a demand for the list of a batch (`Demands.listSubject`)."""
    return keccak256_abi(("string", "uint256", "address", "uint64"), ("list", chain_id, demands, batch_id))


@HANDLERS.on("Demands", "Demanded")
def demanded(at: Moment, v: Mapping[str, Any]) -> None:
    """Somebody asks an operator for what it may withhold. The event does not name the batch."""
    at.facts.put(
        DemandFact, v["subject"], kind=v["kind"], state=OPEN, operator=v["operator"], demanded_by=v["by"],
        opened_block=at.block, deadline=v["deadline"], bond=v["bond"], answered_by=None, batch_id=None,
    )  # fmt: skip


@HANDLERS.on("Demands", "Answered")
def answered(at: Moment, v: Mapping[str, Any]) -> None:
    """It was answered in time."""
    at.facts.amend(DemandFact, v["subject"], state=ANSWERED, answered_by=v["by"])


@HANDLERS.on("Demands", "Expired")
def expired(at: Moment, v: Mapping[str, Any]) -> None:
    """Nobody answered. A penalty that could not be taken at once comes with a further event."""
    if at.facts.amend(DemandFact, v["subject"], state=EXPIRED):
        at.facts.add(DemandFact, v["subject"], slashed=v["slashed"])


@HANDLERS.on("Demands", "Equivocation", "Skipped")
def reported(at: Moment, v: Mapping[str, Any]) -> None:
    """The operator signed two receipts of one number, or one of a number that its batch skips."""
    kind = "equivocation" if at.event.name == "Equivocation" else "skipped"
    at.facts.put(ReportFact, v["operator"], v["seq"], kind, reporter=v["reporter"])
    at.facts.add(ReportFact, v["operator"], v["seq"], kind, slashed=v["slashed"])


@HANDLERS.on("Audits", "AuditPosted")
def audit_posted(at: Moment, v: Mapping[str, Any]) -> None:
    """A drawn verifier said what it found."""
    at.facts.put(AuditFact, v["receiptId"], v["verifier"], result=v["result"], posted_block=at.block, audited_at=v["auditedAt"])


@HANDLERS.on("Audits", "AuditOpened")
def audit_opened(at: Moment, v: Mapping[str, Any]) -> None:
    """It showed the digest that it had committed to."""
    at.facts.amend(AuditFact, v["receiptId"], v["verifier"], out_hash=bytes(v["outHash"]))


@HANDLERS.on("Audits", "BountyPaid")
def bounty_paid(at: Moment, v: Mapping[str, Any]) -> None:
    """Another verifier had found the same."""
    if at.facts.find(AuditFact, v["receiptId"], v["verifier"]) is not None:
        at.facts.add(AuditFact, v["receiptId"], v["verifier"], bounty=v["amount"])
