"""Facts of batches, availability demands, reports and light audits, and the windows that follow from them."""

from collections.abc import Mapping
from typing import Any

from bytewise.protocol.records.receipt import list_subject
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U256, Address
from bytewise.storage.index.reader import IndexSnapshot, Row
from bytewise.storage.index.tables import AuditFact, BatchFact, DemandFact, ItemFact, PoolFact, ReportFact, SettingFact
from dashboard.index.clock import clock_at
from dashboard.index.fold import HANDLERS, Moment

LIST, ENVELOPE, ANCHOR = 1, 2, 3
"""Kinds of demands (`IDemands.Kind`)."""
OPEN, ANSWERED, EXPIRED = 1, 2, 3
"""States of demands (`IDemands.State`)."""


@HANDLERS.on("ReceiptAnchor", "BatchAnchored")
def anchored(at: Moment, v: Mapping[str, Any]) -> None:
    """A batch."""
    header, batch = v["header"], v["batch"]
    at.facts.put(
        BatchFact, v["batchId"], operator=v["operator"], first_seq=header["firstSeq"], receipts=header["count"],
        root=bytes(header["root"]), list_hash=bytes(header["listHash"]), environment=bytes(header["environment"]),
        model_id=bytes(header["modelId"]), key_epoch=header["keyEpoch"], locator=header["locator"].decode("utf-8", "replace"),
        params_version=batch["paramsVersion"], anchored_at=batch["anchoredAt"], started_at=batch["startedAt"],
        stopped_at_start=batch["stoppedAtStart"], block=at.block,
    )  # fmt: skip


@HANDLERS.on("ReceiptAnchor", "BatchVoided")
def voided(at: Moment, v: Mapping[str, Any]) -> None:
    """Nobody answered a demand for its list."""
    at.facts.amend(BatchFact, v["batchId"], is_void=True)


@HANDLERS.on("Demands", "Demanded")
def demanded(at: Moment, v: Mapping[str, Any]) -> None:
    """Somebody asks an operator for what it may withhold. The event does not name the batch."""
    at.facts.put(
        DemandFact, v["subject"], kind=v["kind"], state=OPEN, operator=v["operator"], demanded_by=v["by"],
        contract=at.event.address, opened_block=at.block, opened_at=_clock(at), deadline=v["deadline"], closed_at=0,
        bond=v["bond"], answered_by=None,
    )  # fmt: skip


@HANDLERS.on("Demands", "Answered")
def answered(at: Moment, v: Mapping[str, Any]) -> None:
    """It was answered in time."""
    at.facts.amend(DemandFact, v["subject"], state=ANSWERED, answered_by=v["by"], closed_at=_clock(at))


@HANDLERS.on("Demands", "Expired")
def expired(at: Moment, v: Mapping[str, Any]) -> None:
    """Nobody answered. A penalty that could not be taken at once comes with a further event."""
    known = at.facts.find(DemandFact, v["subject"])
    if known is not None:
        at.facts.put(DemandFact, v["subject"], state=EXPIRED, closed_at=known["deadline"])
        at.facts.add(DemandFact, v["subject"], slashed=v["slashed"])


@HANDLERS.on("Demands", "Equivocation", "Skipped")
def reported(at: Moment, v: Mapping[str, Any]) -> None:
    """The operator signed two receipts of one number, or one of a number that its batch skips."""
    kind = "equivocation" if at.event.name == "Equivocation" else "skipped"
    at.facts.put(ReportFact, v["operator"], v["seq"], kind, reporter=v["reporter"])
    at.facts.add(ReportFact, v["operator"], v["seq"], kind, slashed=v["slashed"])


@HANDLERS.on("Audits", "AuditPosted")
def audit_posted(at: Moment, v: Mapping[str, Any]) -> None:
    """A verifier said what it found. It was drawn in the batch that its post names."""
    at.facts.put(
        AuditFact, v["receiptId"], v["verifier"], batch_id=v["batchId"], result=v["result"], posted_block=at.block,
        audited_at=v["auditedAt"],
    )  # fmt: skip


@HANDLERS.on("Audits", "AuditOpened")
def audit_opened(at: Moment, v: Mapping[str, Any]) -> None:
    """It showed the digest that it had committed to."""
    at.facts.amend(AuditFact, v["receiptId"], v["verifier"], out_hash=bytes(v["outHash"]))


@HANDLERS.on("Audits", "BountyPaid")
def bounty_paid(at: Moment, v: Mapping[str, Any]) -> None:
    """Another verifier had found the same."""
    if at.facts.find(AuditFact, v["receiptId"], v["verifier"]) is not None:
        at.facts.add(AuditFact, v["receiptId"], v["verifier"], bounty=v["amount"])


def _clock(at: Moment) -> int:
    return clock_at(at.facts.find(SettingFact, "clock"), at.timestamp)


# --- windows ---


class BatchWindows:
    """When the windows of batches end, by the protocol clock, as `ReceiptAnchor.windowEnd` has it at the same block."""

    def __init__(self, index: IndexSnapshot) -> None:
        state = index.state()
        self._index = index
        self._clock = clock_at(index.find(SettingFact, "clock"), state.timestamp)
        lists = index.all(DemandFact, kind=LIST)
        self._lists = {row["subject"]: row for row in lists}
        self._domains = [Domain(U256(state.chain_id), Address(each)) for each in sorted({row["contract"] for row in lists})]
        self._seconds: dict[int, int] = {}
        self._stopped: dict[bytes, int] = {}

    def end(self, batch: Row) -> int:
        """Last second in which its receipts can be disputed. The demand for an envelope adds time for its receipt alone."""
        stopped = self._stopped_seconds(batch["environment"]) - batch["stopped_at_start"]
        lasts = self._window(batch["params_version"]) + self._demanded_seconds(self.list_demand(batch)) + stopped
        return int(batch["started_at"] + lasts)

    def list_demand(self, batch: Row) -> Row | None:
        """The demand for its list, if there was one."""
        subjects = (list_subject(domain, batch["id"]) for domain in self._domains)
        return next((self._lists[each] for each in subjects if each in self._lists), None)

    def _demanded_seconds(self, demand: Row | None) -> int:
        if demand is None:
            return 0
        end = min(self._clock, demand["deadline"]) if demand["state"] == OPEN else demand["closed_at"]
        return int(end - demand["opened_at"])

    def _window(self, version: int) -> int:
        if version not in self._seconds:
            found = self._index.find(SettingFact, f"params {version}")
            self._seconds[version] = int(found["content"]["times"]["window"]) if found else 0
        return self._seconds[version]

    def _stopped_seconds(self, environment: bytes) -> int:
        """Of the environment's pool, in which windows stood still (`Registry.stoppedSeconds`)."""
        if environment not in self._stopped:
            item = self._index.find(ItemFact, environment)
            pool = self._index.find(PoolFact, item["pool"]) if item and item["pool"] else None
            since = pool["stopped_since"] if pool else None
            running = 0 if since is None else self._clock - since
            self._stopped[environment] = running + (pool["stopped_s"] if pool else 0)
        return self._stopped[environment]
