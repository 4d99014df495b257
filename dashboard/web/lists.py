"""Builds every list and object that API and pages share, with filters and order. Also defines the types of request parameters.

Each type accepts exactly one form, so that no other text of a visitor reaches a query.
"""

import enum
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Path, Query

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import unhex
from bytewise.storage.index.tables import (
    AuditFact,
    BatchFact,
    DemandFact,
    DisputeFact,
    ItemFact,
    OperatorFact,
    SeatFact,
    VerifierFact,
)
from dashboard.release_logs import LogsSeen
from dashboard.views import disputes, network, parties, period
from dashboard.views.disputes import MemberSeat
from dashboard.views.network import ItemSummary, KeyEpochSummary
from dashboard.views.parties import OperatorSummary, VerifierSummary
from dashboard.views.period import StatisticsPage
from dashboard.views.records import (
    AuditSummary,
    BatchSummary,
    DemandSummary,
    DisputeDetail,
    DisputeSummary,
    EventLine,
    ReceiptDetail,
)
from dashboard.views.scene import Scene
from dashboard.web.answers import LATEST_BLOCK, MAX_LIMIT, DashboardSite, Listing, ListQuery, bad_request, listing, not_found

# --- request parameters ---

_ID = r"^0x[0-9a-fA-F]{64}$"
_ACCOUNT = r"^0x[0-9a-fA-F]{40}$"
EVENT_ID = r"^[0-9]{1,18}\.[0-9]{1,9}\.[0-9a-f]{16}$"

IdPath = Annotated[str, Path(pattern=_ID, description="0x and 64 hex digits.")]
AccountPath = Annotated[str, Path(pattern=_ACCOUNT, description="0x and 40 hex digits.")]
NumberPath = Annotated[int, Path(ge=0, le=LATEST_BLOCK)]
AccountQuery = Annotated[str | None, Query(pattern=_ACCOUNT, description="0x and 40 hex digits.")]
IdQuery = Annotated[str | None, Query(pattern=_ID, description="0x and 64 hex digits.")]
EventQuery = Annotated[str | None, Query(pattern=EVENT_ID, description="Id of an event.")]
BlockQuery = Annotated[
    int | None, Query(ge=0, le=LATEST_BLOCK, description="State at the end of this block; by default the newest.")
]
LimitQuery = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Most items.")]
CursorQuery = Annotated[
    str | None, Query(max_length=1000, pattern=r"^[A-Za-z0-9_-]+$", description="`next_cursor` of the page before.")
]

_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?$"
SinceQuery = Annotated[
    str | None,
    Query(pattern=_MOMENT, description="First moment: `2026-11-01` or `2026-11-01T12:00:00Z`. By default from the first block."),
]
UntilQuery = Annotated[
    str | None, Query(pattern=_MOMENT, description="Last day, included, or the first moment after the period.")
]
DAY_S = 86_400


class ListOrder(enum.StrEnum):
    """Order of a list: newest or oldest first."""

    NEWEST = "newest"
    OLDEST = "oldest"


class DisputeState(enum.StrEnum):
    """Filter of disputes: open disputes can still change, final disputes cannot."""

    OPEN = "open"
    FINAL = "final"


class VerdictName(enum.StrEnum):
    """Names of verdicts."""

    NONE = "none"
    UPHELD = "upheld"
    OVERTURNED = "overturned"
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"
    DRAW = "draw"
    REFUNDED = "refunded"


class DemandStateName(enum.StrEnum):
    """States of an availability demand."""

    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"


class AuditResultName(enum.StrEnum):
    """Results of a light audit."""

    MATCH = "match"
    MISMATCH = "mismatch"
    NONE = "none"


def verdict_code(name: VerdictName) -> int:
    """Returns the contract's number of a verdict."""
    return int(Verdict[name.name])


def span_of(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """Returns the first moment of a period and the first moment after it, in Unix seconds. If `until` is a day without a time,
    that whole day belongs to the period. Raises `Refused` for a day that no calendar has, or if the period ends before it
    begins."""
    first, last = _moment("since", since), _moment("until", until)
    if until and last is not None and "T" not in until:
        last += DAY_S
    if first is not None and last is not None and first >= last:
        raise bad_request("until: the period ends before it begins", "bad_parameter")
    return first, last


def _moment(name: str, text: str | None) -> int | None:
    if not text:
        return None
    try:
        return int(datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC).timestamp())
    except (ValueError, OverflowError):
        raise bad_request(f"{name}: no calendar has this day: write it as 2026-11-01", "bad_parameter") from None


def digest_of(text: str) -> bytes:
    """Returns the 32 bytes of an id that is written as 0x-hex."""
    return unhex(text.lower())


# --- lists and objects ---

_OPEN = tuple(int(each) for each in Phase if each not in (Phase.NONE, Phase.FINAL))
_DEMANDS = {DemandStateName.OPEN: 1, DemandStateName.ANSWERED: 2, DemandStateName.EXPIRED: 3}
_AUDITS = {AuditResultName.MATCH: 1, AuditResultName.MISMATCH: 2, AuditResultName.NONE: 3}


def _filters(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def dispute_list(
    scene: Scene, limit: int, cursor: str | None, order: ListOrder = ListOrder.NEWEST, state: DisputeState | None = None,
    verdict: VerdictName | None = None, operator: str | None = None, challenger: str | None = None,
    receipt: str | None = None,
) -> Listing[DisputeSummary]:  # fmt: skip
    """Returns a page of disputes, sorted by the block in which they were opened."""
    phases = None if state is None else (int(Phase.FINAL),) if state is DisputeState.FINAL else _OPEN
    where = _filters(
        phase=phases, verdict=None if verdict is None else verdict_code(verdict), operator=operator and operator.lower(),
        challenger=challenger and challenger.lower(), receipt_id=receipt and digest_of(receipt),
    )  # fmt: skip
    query = ListQuery("disputes", where, "opened_block", order is ListOrder.NEWEST, limit, cursor)
    return listing(scene, DisputeFact, query, disputes.summaries)


def dispute(scene: Scene, site: DashboardSite, id_: str) -> DisputeDetail:
    """Returns one dispute with its capsule. Raises `Refused` if the index does not have the dispute."""
    row = scene.index.find(DisputeFact, digest_of(id_))
    if row is None:
        raise not_found(f"dispute {id_}")
    return disputes.detail(scene, row, site.addresses).model_copy(update={"capsule": site.capsules.note(row["id"])})


def receipt(scene: Scene, site: DashboardSite, id_: str) -> ReceiptDetail:
    """Returns one receipt with the capsule of its dispute. Raises `Refused` if no event names the receipt."""
    found = parties.receipt(scene, digest_of(id_))
    if found is None:
        raise not_found(f"receipt {id_}")
    if found.dispute_id is None:
        return found
    return found.model_copy(update={"capsule": site.capsules.note(digest_of(found.dispute_id))})


def batch_list(
    scene: Scene, limit: int, cursor: str | None, order: ListOrder = ListOrder.NEWEST, operator: str | None = None
) -> Listing[BatchSummary]:
    """Returns a page of batches, sorted by number."""
    query = ListQuery("batches", _filters(operator=operator and operator.lower()), "id", order is ListOrder.NEWEST, limit, cursor)
    return listing(scene, BatchFact, query, parties.batches)


def batch(scene: Scene, number: int) -> BatchSummary:
    """Returns one batch. Raises `Refused` if the index does not have it."""
    row = scene.index.find(BatchFact, number)
    if row is None:
        raise not_found(f"batch {number}")
    return parties.batches(scene, [row])[0]


def demand_list(
    scene: Scene, limit: int, cursor: str | None, order: ListOrder = ListOrder.NEWEST, state: DemandStateName | None = None,
    operator: str | None = None,
) -> Listing[DemandSummary]:  # fmt: skip
    """Returns a page of demands, sorted by the block in which they were made."""
    where = _filters(state=None if state is None else _DEMANDS[state], operator=operator and operator.lower())
    query = ListQuery("demands", where, "opened_block", order is ListOrder.NEWEST, limit, cursor)
    return listing(scene, DemandFact, query, parties.demands)


def audit_list(
    scene: Scene, limit: int, cursor: str | None, order: ListOrder = ListOrder.NEWEST, result: AuditResultName | None = None,
    verifier: str | None = None, receipt: str | None = None,
) -> Listing[AuditSummary]:  # fmt: skip
    """Returns a page of light audits, sorted by the block in which they were posted."""
    where = _filters(
        result=None if result is None else _AUDITS[result], verifier=verifier and verifier.lower(),
        receipt_id=receipt and digest_of(receipt),
    )  # fmt: skip
    query = ListQuery("audits", where, "posted_block", order is ListOrder.NEWEST, limit, cursor)
    return listing(scene, AuditFact, query, parties.audits)


def operator_list(scene: Scene, limit: int, cursor: str | None) -> Listing[OperatorSummary]:
    """Returns a page of operators, sorted by account."""
    return listing(scene, OperatorFact, ListQuery("operators", {}, "account", False, limit, cursor), parties.operators)


def operator(scene: Scene, account: str) -> OperatorSummary:
    """Returns one operator. Raises `Refused` if the account is not a registered operator."""
    row = scene.index.find(OperatorFact, account.lower())
    if row is None:
        raise not_found(f"operator {account}")
    return parties.operators(scene, [row])[0]


def verifier_list(scene: Scene, limit: int, cursor: str | None) -> Listing[VerifierSummary]:
    """Returns a page of verifiers, sorted by account."""
    return listing(scene, VerifierFact, ListQuery("verifiers", {}, "account", False, limit, cursor), parties.verifiers)


def verifier(scene: Scene, account: str) -> VerifierSummary:
    """Returns one verifier. Raises `Refused` if the account never joined as verifier."""
    row = scene.index.find(VerifierFact, account.lower())
    if row is None:
        raise not_found(f"verifier {account}")
    return parties.verifiers(scene, [row])[0]


def member_list(
    scene: Scene, limit: int, cursor: str | None, dispute: str | None = None, voter: str | None = None
) -> Listing[MemberSeat]:
    """Returns a page of seats, sorted by dispute. `limit` counts seats. One record shows the seats of the page that
    one member holds in one round with one outcome."""
    where = _filters(dispute=dispute and digest_of(dispute), voter=voter and voter.lower())
    query = ListQuery("members", where, "dispute", False, limit, cursor)
    return listing(scene, SeatFact, query, disputes.member_seats)


def item_list(scene: Scene, limit: int, cursor: str | None, is_model: bool) -> Listing[ItemSummary]:
    """Returns a page of models if `is_model` is true, otherwise of environments."""
    pools = () if is_model else tuple({row["pool"] for row in scene.index.all(ItemFact)} - {None})
    where = {"pool": None} if is_model else {"pool": pools}
    query = ListQuery("models" if is_model else "environments", where, "digest", False, limit, cursor)
    return listing(scene, ItemFact, query, network.items)


def statistics_page(scene: Scene, since: int | None, until: int | None, logs: LogsSeen | None) -> StatisticsPage:
    """Returns the statistics of a period, as records and as lines of one table."""
    told = period.period_statistics(scene, since, until, logs)
    return StatisticsPage(meta=scene.meta(), statistics=told, items=tuple(period.measures(told)))


def key_epoch_list(scene: Scene) -> Listing[KeyEpochSummary]:
    """Returns all key epochs as one page."""
    return Listing(meta=scene.meta(), items=tuple(network.key_epochs(scene)), next_cursor=None)


def event_list(
    scene: Scene, limit: int, after: str | None, subject: str | None = None, newest: bool = False
) -> Listing[EventLine]:
    """Returns a page of events in chain order, or newest first. The page begins behind the event whose id is `after`."""
    place = event_place(after) if after else None
    found = scene.index.events((place[0], place[1]) if place else None, limit + 1, newest, (subject or "").lower())
    shown = tuple(scene.event(each) for each in found[:limit])
    return Listing(meta=scene.meta(), items=shown, next_cursor=shown[-1].id if len(found) > limit else None)


def event_place(event_id: str) -> tuple[int, int, str]:
    """Splits an event id into the block, the place in the block, and the first digits of the block's hash. The type of the
    request parameter has checked the form of the id."""
    block, place, start = event_id.split(".")
    return int(block), int(place), start
