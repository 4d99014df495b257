"""Handlers that compute the facts of batches, demands, reports and light audits from events. This module also computes the ends
of challenge windows."""

from collections.abc import Mapping
from typing import Any

from bytewise.protocol.records.receipt import list_subject
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U256, Address
from bytewise.storage.index.reader import IndexSnapshot, Row
from bytewise.storage.index.tables import AuditFact, BatchFact, DemandFact, ItemFact, PoolFact, ReportFact, SettingFact
from dashboard.index.fold import HANDLERS, Moment
from dashboard.index.registry import clock_at

LIST, ENVELOPE, ANCHOR = 1, 2, 3
"""Kinds of demands (`IDemands.Kind`)."""
OPEN, ANSWERED, EXPIRED = 1, 2, 3
"""States of demands (`IDemands.State`)."""


@HANDLERS.on("ReceiptAnchor", "BatchAnchored")
def anchored(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds an anchored batch."""
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
    """Marks a batch as void, because nobody answered the demand for its list."""
    at.facts.amend(BatchFact, v["batchId"], is_void=True)


@HANDLERS.on("Demands", "Demanded")
def demanded(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds an availability demand against an operator, in state OPEN. The event does not name the batch."""
    at.facts.put(
        DemandFact, v["subject"], kind=v["kind"], state=OPEN, operator=v["operator"], demanded_by=v["by"],
        contract=at.event.address, opened_block=at.block, opened_at=_clock(at), deadline=v["deadline"], closed_at=0,
        bond=v["bond"], answered_by=None,
    )  # fmt: skip


@HANDLERS.on("Demands", "Answered")
def answered(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that a demand was answered in time, by whom and when."""
    at.facts.amend(DemandFact, v["subject"], state=ANSWERED, answered_by=v["by"], closed_at=_clock(at))


@HANDLERS.on("Demands", "Expired")
def expired(at: Moment, v: Mapping[str, Any]) -> None:
    """Records that nobody answered a demand in time, and adds the penalty in wei. If a part of the penalty could not be taken at
    once, a second `Expired` event brings it later."""
    known = at.facts.find(DemandFact, v["subject"])
    if known is not None:
        at.facts.put(DemandFact, v["subject"], state=EXPIRED, closed_at=known["deadline"])
        at.facts.add(DemandFact, v["subject"], slashed=v["slashed"])


@HANDLERS.on("Demands", "Equivocation", "Skipped")
def reported(at: Moment, v: Mapping[str, Any]) -> None:
    """Records a report about receipts that an operator signed. Kind `equivocation`: the operator signed two leaves with one
    number. Kind `skipped`: the operator signed a receipt, but its batch has an empty leaf at the receipt's number."""
    kind = "equivocation" if at.event.name == "Equivocation" else "skipped"
    at.facts.put(ReportFact, v["operator"], v["seq"], kind, reporter=v["reporter"])
    at.facts.add(ReportFact, v["operator"], v["seq"], kind, slashed=v["slashed"])


@HANDLERS.on("Audits", "AuditPosted")
def audit_posted(at: Moment, v: Mapping[str, Any]) -> None:
    """Records the result of a light audit that a verifier posted. The contract has checked that the verifier was drawn for the
    batch that the verifier names."""
    at.facts.put(
        AuditFact, v["receiptId"], v["verifier"], batch_id=v["batchId"], result=v["result"], posted_block=at.block,
        audited_at=v["auditedAt"],
    )  # fmt: skip


@HANDLERS.on("Audits", "AuditOpened")
def audit_opened(at: Moment, v: Mapping[str, Any]) -> None:
    """Records the `out_hash` that a verifier opened. The verifier had committed to it when it posted its audit result."""
    at.facts.amend(AuditFact, v["receiptId"], v["verifier"], out_hash=bytes(v["outHash"]))


@HANDLERS.on("Audits", "BountyPaid")
def bounty_paid(at: Moment, v: Mapping[str, Any]) -> None:
    """Adds the bounty of a light audit, in wei. The contract pays it if another verifier found the same answer."""
    if at.facts.find(AuditFact, v["receiptId"], v["verifier"]) is not None:
        at.facts.add(AuditFact, v["receiptId"], v["verifier"], bounty=v["amount"])


def _clock(at: Moment) -> int:
    return clock_at(at.facts.find(SettingFact, "clock"), at.timestamp)


# --- windows ---


class BatchWindows:
    """Calculator of the ends of challenge windows, by the protocol clock. At the same block it gives the same results as
    `ReceiptAnchor.windowEnd`."""

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
        """Returns the last second in which receipts of a batch can be disputed. It does not count demands for envelopes, because
        such a demand extends the window of one receipt only."""
        stopped = self._stopped_seconds(batch["environment"]) - batch["stopped_at_start"]
        lasts = self._window(batch["params_version"]) + self._demanded_seconds(self.list_demand(batch)) + stopped
        return int(batch["started_at"] + lasts)

    def list_demand(self, batch: Row) -> Row | None:
        """Returns the demand for the list of a batch, or None if there was none."""
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
        """Returns the seconds for which an environment's pool was stopped and windows stood still
        (`Registry.stoppedSeconds`)."""
        if environment not in self._stopped:
            item = self._index.find(ItemFact, environment)
            pool = self._index.find(PoolFact, item["pool"]) if item and item["pool"] else None
            since = pool["stopped_since"] if pool else None
            running = 0 if since is None else self._clock - since
            self._stopped[environment] = running + (pool["stopped_s"] if pool else 0)
        return self._stopped[environment]
