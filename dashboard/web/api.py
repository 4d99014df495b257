"""The read API at `/api/v1`. Every route is a GET of public data. `openapi.json` beside this file is its published
description."""

from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from dashboard.views import network, period
from dashboard.views.disputes import MemberSeat
from dashboard.views.network import ItemSummary, KeyEpochSummary, MoneyReport, Parameters, Statistics
from dashboard.views.parties import OperatorSummary, VerifierSummary
from dashboard.views.period import PeriodStatistics
from dashboard.views.records import (
    AuditSummary,
    BatchSummary,
    DemandSummary,
    DisputeDetail,
    DisputeSummary,
    EventLine,
    IndexMeta,
    Problem,
    ReceiptDetail,
)
from dashboard.views.scene import Scene
from dashboard.web import lists
from dashboard.web.answers import DashboardSite, FoundObject, Listing, answer
from dashboard.web.lists import (
    EVENT_ID,
    AccountPath,
    AccountQuery,
    AuditResultName,
    BlockQuery,
    CursorQuery,
    DemandStateName,
    DisputeState,
    EventQuery,
    IdPath,
    IdQuery,
    LimitQuery,
    ListOrder,
    NumberPath,
    SinceQuery,
    UntilQuery,
    VerdictName,
    span_of,
)
from dashboard.web.stream import EventStream, frames

PREFIX = "/api/v1"
_PROBLEM = {"model": Problem, "content": {"application/problem+json": {}}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    int(HTTPStatus.NOT_MODIFIED): {"description": "The visitor has this answer already (`If-None-Match`)."},
    int(HTTPStatus.BAD_REQUEST): {**_PROBLEM, "description": "A parameter or cursor is wrong."},
    int(HTTPStatus.TOO_MANY_REQUESTS): {**_PROBLEM, "description": "Too many requests of this address."},
    int(HTTPStatus.SERVICE_UNAVAILABLE): {**_PROBLEM, "description": "The index does not answer now."},
}
_MISSING: dict[int | str, dict[str, Any]] = {
    int(HTTPStatus.NOT_FOUND): {**_PROBLEM, "description": "Nothing has this name."},
}


def _found(scene: Scene, data: Any) -> FoundObject[Any]:
    return FoundObject(meta=scene.meta(), data=data)


def api_routes(site: DashboardSite) -> APIRouter:
    """Returns a router with all routes of the API."""
    router = APIRouter(prefix=PREFIX, responses=_RESPONSES)
    _add_disputes(router, site)
    _add_receipts(router, site)
    _add_parties(router, site)
    _add_network(router, site)
    _add_statistics(router, site)
    _add_events(router, site)
    return router


def _add_disputes(router: APIRouter, site: DashboardSite) -> None:
    @router.get("/disputes", response_model=Listing[DisputeSummary], tags=["disputes"])
    def list_disputes(
        request: Request, limit: LimitQuery = 50, cursor: CursorQuery = None, order: ListOrder = ListOrder.NEWEST,
        state: DisputeState | None = None, verdict: VerdictName | None = None, operator: AccountQuery = None,
        challenger: AccountQuery = None, receipt: IdQuery = None, block: BlockQuery = None,
    ) -> Response:  # fmt: skip
        """Lists disputes with their phase and the verdict in force."""
        given = (limit, cursor, order, state, verdict, operator, challenger, receipt)
        return answer(site, request, block, lambda scene: lists.dispute_list(scene, *given))

    @router.get("/disputes/{id}", response_model=FoundObject[DisputeDetail], tags=["disputes"], responses=_MISSING)
    def get_dispute(request: Request, id: IdPath, block: BlockQuery = None) -> Response:  # noqa: A002  the URL's name
        """Returns one dispute: steps, rounds with their votes, reasons in words, money to the wei, and what may be done next."""
        return answer(site, request, block, lambda scene: _found(scene, lists.dispute(scene, site, id)))

    @router.get("/members", response_model=Listing[MemberSeat], tags=["disputes"])
    def list_members(
        request: Request, limit: LimitQuery = 200, cursor: CursorQuery = None, dispute: IdQuery = None,
        voter: AccountQuery = None, block: BlockQuery = None,
    ) -> Response:  # fmt: skip
        """Lists seats of committees: of one dispute, of one voter, or all."""
        return answer(site, request, block, lambda scene: lists.member_list(scene, limit, cursor, dispute, voter))


def _add_receipts(router: APIRouter, site: DashboardSite) -> None:
    @router.get("/receipts/{id}", response_model=FoundObject[ReceiptDetail], tags=["receipts"], responses=_MISSING)
    def get_receipt(request: Request, id: IdPath, block: BlockQuery = None) -> Response:  # noqa: A002  the URL's name
        """Returns what the chain says about a receipt that was disputed, audited or demanded."""
        return answer(site, request, block, lambda scene: _found(scene, lists.receipt(scene, site, id)))

    @router.get("/batches", response_model=Listing[BatchSummary], tags=["receipts"])
    def list_batches(
        request: Request, limit: LimitQuery = 50, cursor: CursorQuery = None, order: ListOrder = ListOrder.NEWEST,
        operator: AccountQuery = None, block: BlockQuery = None,
    ) -> Response:  # fmt: skip
        """Lists anchored batches of receipts."""
        return answer(site, request, block, lambda scene: lists.batch_list(scene, limit, cursor, order, operator))

    @router.get("/batches/{number}", response_model=FoundObject[BatchSummary], tags=["receipts"], responses=_MISSING)
    def get_batch(request: Request, number: NumberPath, block: BlockQuery = None) -> Response:
        """Returns one batch."""
        return answer(site, request, block, lambda scene: _found(scene, lists.batch(scene, number)))

    @router.get("/demands", response_model=Listing[DemandSummary], tags=["receipts"])
    def list_demands(
        request: Request, limit: LimitQuery = 50, cursor: CursorQuery = None, order: ListOrder = ListOrder.NEWEST,
        state: DemandStateName | None = None, operator: AccountQuery = None, block: BlockQuery = None,
    ) -> Response:  # fmt: skip
        """Lists demands for lists, envelopes and unanchored receipts."""
        return answer(site, request, block, lambda scene: lists.demand_list(scene, limit, cursor, order, state, operator))

    @router.get("/audits", response_model=Listing[AuditSummary], tags=["receipts"])
    def list_audits(
        request: Request, limit: LimitQuery = 50, cursor: CursorQuery = None, order: ListOrder = ListOrder.NEWEST,
        result: AuditResultName | None = None, verifier: AccountQuery = None, receipt: IdQuery = None, block: BlockQuery = None,
    ) -> Response:  # fmt: skip
        """Lists light audits that were posted."""
        given = (limit, cursor, order, result, verifier, receipt)
        return answer(site, request, block, lambda scene: lists.audit_list(scene, *given))


def _add_parties(router: APIRouter, site: DashboardSite) -> None:
    @router.get("/operators", response_model=Listing[OperatorSummary], tags=["parties"])
    def list_operators(
        request: Request, limit: LimitQuery = 50, cursor: CursorQuery = None, block: BlockQuery = None
    ) -> Response:
        """Lists registered operators with their stake, batches, disputes and demands."""
        return answer(site, request, block, lambda scene: lists.operator_list(scene, limit, cursor))

    @router.get("/operators/{account}", response_model=FoundObject[OperatorSummary], tags=["parties"], responses=_MISSING)
    def get_operator(request: Request, account: AccountPath, block: BlockQuery = None) -> Response:
        """Returns one operator."""
        return answer(site, request, block, lambda scene: _found(scene, lists.operator(scene, account)))

    @router.get("/verifiers", response_model=Listing[VerifierSummary], tags=["parties"])
    def list_verifiers(
        request: Request, limit: LimitQuery = 50, cursor: CursorQuery = None, block: BlockQuery = None
    ) -> Response:
        """Lists verifiers with their stake, audits and seats, and the outcomes of these seats."""
        return answer(site, request, block, lambda scene: lists.verifier_list(scene, limit, cursor))

    @router.get("/verifiers/{account}", response_model=FoundObject[VerifierSummary], tags=["parties"], responses=_MISSING)
    def get_verifier(request: Request, account: AccountPath, block: BlockQuery = None) -> Response:
        """Returns one verifier."""
        return answer(site, request, block, lambda scene: _found(scene, lists.verifier(scene, account)))


def _add_network(router: APIRouter, site: DashboardSite) -> None:
    @router.get("/meta", response_model=IndexMeta, tags=["network"])
    def get_meta(request: Request) -> Response:
        """Returns how far the index is, and whether it equals the contracts."""
        return answer(site, request, None, lambda scene: scene.meta())

    @router.get("/models", response_model=Listing[ItemSummary], tags=["network"])
    def list_models(request: Request, limit: LimitQuery = 50, cursor: CursorQuery = None, block: BlockQuery = None) -> Response:
        """Lists registered models."""
        return answer(site, request, block, lambda scene: lists.item_list(scene, limit, cursor, True))

    @router.get("/environments", response_model=Listing[ItemSummary], tags=["network"])
    def list_environments(
        request: Request, limit: LimitQuery = 50, cursor: CursorQuery = None, block: BlockQuery = None
    ) -> Response:
        """Lists registered environments."""
        return answer(site, request, block, lambda scene: lists.item_list(scene, limit, cursor, False))

    @router.get("/keys", response_model=Listing[KeyEpochSummary], tags=["network"])
    def list_key_epochs(request: Request, block: BlockQuery = None) -> Response:
        """Lists key epochs."""
        return answer(site, request, block, lists.key_epoch_list)

    @router.get("/parameters", response_model=FoundObject[Parameters], tags=["network"])
    def get_parameters(request: Request, block: BlockQuery = None) -> Response:
        """Returns the rules in force, the block since which each is in force, and the earlier values."""
        return answer(site, request, block, lambda scene: _found(scene, network.parameters(scene)))

    @router.get("/money", response_model=FoundObject[MoneyReport], tags=["network"])
    def get_money(request: Request, block: BlockQuery = None) -> Response:
        """Returns the money of the network by the place where it is."""
        return answer(site, request, block, lambda scene: _found(scene, network.money(scene)))


def _add_statistics(router: APIRouter, site: DashboardSite) -> None:
    @router.get("/statistics", response_model=FoundObject[Statistics], tags=["network"])
    def get_statistics(request: Request, block: BlockQuery = None) -> Response:
        """Returns counts of everything in the index."""
        return answer(site, request, block, lambda scene: _found(scene, network.statistics(scene)))

    @router.get("/statistics/period", response_model=FoundObject[PeriodStatistics], tags=["network"])
    def get_period(request: Request, since: SinceQuery = None, until: UntilQuery = None, block: BlockQuery = None) -> Response:
        """Returns audit coverage and agreement, each operator's record, availability, and openings by cause, in a period."""
        span = span_of(since, until)
        return answer(site, request, block, lambda scene: _found(scene, period.period_statistics(scene, *span, site.logs)))


def _add_events(router: APIRouter, site: DashboardSite) -> None:
    @router.get("/log", response_model=Listing[EventLine], tags=["events"])
    def list_events(
        request: Request, limit: LimitQuery = 50, after: EventQuery = None, subject: IdQuery = None,
        order: ListOrder = ListOrder.OLDEST, block: BlockQuery = None,
    ) -> Response:  # fmt: skip
        """Lists events of the contracts as they were decoded. `next_cursor` is the `after` of the next page."""
        newest = order is ListOrder.NEWEST
        return answer(site, request, block, lambda scene: lists.event_list(scene, limit, after, subject, newest))

    @router.get(
        "/events", tags=["events"], response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."}},
    )  # fmt: skip
    def stream_events(
        last_event_id: Annotated[str | None, Header(pattern=EVENT_ID, description="Continue after this event.")] = None,
        after: EventQuery = None,
        only: Annotated[
            Literal["reorg"] | None, Query(description="`reorg` alone, until the block of `after` is replaced or `final`.")
        ] = None,
    ) -> StreamingResponse:
        """Streams events as they are indexed, with a `reorg` event where blocks were replaced."""
        stream = EventStream(site, last_event_id or after, only is not None)
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(frames(stream), media_type="text/event-stream", headers=headers)
