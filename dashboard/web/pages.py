"""The pages. The server renders them, and they are complete without scripts. Each page has the same content as `.json`, and a
list also as `.csv`."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel

from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import hex0x
from bytewise.storage.index.tables import BatchFact, DemandFact, DisputeFact, OperatorFact, VerifierFact
from dashboard.capsules import file_name
from dashboard.release_logs import LogsSeen
from dashboard.views import disputes, network, parties
from dashboard.views.console import ConsolePage, question
from dashboard.views.console_sections import console_page
from dashboard.views.disputes import MemberSeat
from dashboard.views.network import ItemSummary, Statistics
from dashboard.views.parties import OperatorSummary, VerifierSummary
from dashboard.views.records import (
    AuditSummary,
    BatchSummary,
    DemandSummary,
    DisputeDetail,
    DisputeSummary,
    EventLine,
    IndexMeta,
    Record,
)
from dashboard.views.replay import ReplayPage, replay_page
from dashboard.views.scene import Scene
from dashboard.web import lists
from dashboard.web.answers import (
    CODES,
    DashboardSite,
    FoundObject,
    Listing,
    answer,
    bad_request,
    caching_of,
    entity_tag,
    has_tag,
    not_found,
)
from dashboard.web.lists import (
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
    digest_of,
    span_of,
)
from dashboard.web.render import Renderer


class Overview(Record):
    """Content of the start page: open disputes, overdue demands, recent events and alarms."""

    meta: IndexMeta
    statistics: Statistics
    open_disputes: tuple[DisputeSummary, ...]
    """At most 20 open disputes, newest first."""
    overdue_demands: tuple[DemandSummary, ...]
    recent: tuple[EventLine, ...]
    """Events of disputes, batches and rules, newest first."""
    alarms: tuple[str, ...]
    """Sentences about what is wrong now."""


class OperatorPage(Record):
    """An operator with its disputes and batches."""

    meta: IndexMeta
    operator: OperatorSummary
    disputes: tuple[DisputeSummary, ...]
    batches: tuple[BatchSummary, ...]


class VerifierPage(Record):
    """A verifier with its seats and audits."""

    meta: IndexMeta
    verifier: VerifierSummary
    seats: tuple[MemberSeat, ...]
    audits: tuple[AuditSummary, ...]


class DisputePage(Record):
    """A dispute with its events."""

    meta: IndexMeta
    dispute: DisputeDetail
    events: tuple[EventLine, ...]


class ItemsPage(Record):
    """Environments and models."""

    meta: IndexMeta
    environments: tuple[ItemSummary, ...]
    models: tuple[ItemSummary, ...]


EVENTS_OF_DISPUTE = 200
RECENT = (
    ("Disputes", "DisputeOpened"), ("Disputes", "Decided"), ("Disputes", "Finalized"), ("Disputes", "Appealed"),
    ("ReceiptAnchor", "BatchAnchored"), ("Demands", "Demanded"), ("Demands", "Expired"), ("Params", "ParamsSet"),
    ("Breaker", "BreakerTripped"), ("Guardian", "Paused"), ("KeyEpochs", "EpochMoved"), ("Registry", "ItemMoved"),
)  # fmt: skip
"""Events that the overview shows."""

Build = Callable[[Scene], BaseModel]


class _Pages:
    """Router of the pages, each in its forms: HTML, JSON and, for lists, CSV."""

    def __init__(self, site: DashboardSite, renderer: Renderer) -> None:
        self.router = APIRouter(include_in_schema=False)
        self._site = site
        self._renderer = renderer

    @property
    def logs(self) -> LogsSeen | None:
        """Decisions in the shards' release logs, as `DashboardSite.logs`."""
        return self._site.logs

    def show(self, request: Request, template: str, block: int | None, build: Build, **rest: Any) -> Response:
        """Returns the content as JSON, CSV or HTML. The ending of the path chooses the form. `rest` are further values for the
        template."""
        if request.url.path.endswith(".json"):
            return answer(self._site, request, block, build)
        if request.url.path.endswith(".csv"):
            return answer(self._site, request, block, build, csv_items="items")
        with self._site.scene(block) as scene:
            tag = entity_tag(self._site, scene, request)
            headers = caching_of(scene, request, block, tag)
            if has_tag(request, tag):
                return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
            page, meta, watched = build(scene), scene.meta(), _watched(scene)
        text = self._renderer.page(template, request, page=page, meta=meta, block=block, watched=watched, **rest)
        return HTMLResponse(text, headers=headers)

    def get(self, path: str, *forms: str) -> Callable[[Callable[..., Response]], Callable[..., Response]]:
        """Returns a decorator. The decorated function then answers the path itself, and the path with each ending in `forms`."""

        def register(function: Callable[..., Response]) -> Callable[..., Response]:
            for form in (*forms, ""):
                at = f"/overview{form}" if path == "/" and form else f"{path}{form}"
                self.router.get(at, name=f"{path}{form}")(function)
            return function

        return register


def _watched(scene: Scene) -> EventLine | None:
    """Returns the newest event of the index if its block can still be replaced, because the page may rest on it. Otherwise
    returns None."""
    newest = scene.index.events(limit=1, descending=True)
    return scene.event(newest[0]) if newest and newest[0].block > scene.state.finalized else None


def page_routes(site: DashboardSite, renderer: Renderer) -> APIRouter:
    """Returns a router with all pages."""
    pages = _Pages(site, renderer)
    _add_overview(pages, site)
    _add_disputes(pages, site)
    _add_receipts(pages, site)
    _add_parties(pages)
    _add_network(pages)
    _add_statistics(pages)
    _add_console(pages)
    _add_search(pages, site)
    return pages.router


def _add_overview(pages: _Pages, site: DashboardSite) -> None:
    @pages.get("/", ".json")
    def overview(request: Request, block: BlockQuery = None) -> Response:
        """Shows what is wrong now and what is waiting."""
        return pages.show(request, "overview.html", block, _overview)

    @pages.get("/about", ".json")
    def about(request: Request) -> Response:
        """Shows the state of the index, the addresses of the contracts and the meanings of error codes."""
        return pages.show(request, "about.html", None, lambda scene: scene.meta(), addresses=site.addresses, codes=CODES)


def _overview(scene: Scene) -> Overview:
    told = network.statistics(scene)
    rows = sorted(disputes.open_disputes(scene), key=lambda row: -row["opened_block"])[:20]
    asked = parties.demands(scene, scene.index.all(DemandFact, state=1))
    recent = scene.index.events(limit=12, descending=True, names=RECENT)
    overdue = tuple(each for each in asked if each.state == "overdue")
    return Overview(
        meta=scene.meta(), statistics=told, open_disputes=tuple(disputes.summaries(scene, rows)), overdue_demands=overdue,
        recent=tuple(scene.event(each) for each in recent), alarms=tuple(network.alarms(scene, told, len(overdue))),
    )  # fmt: skip


def _add_disputes(pages: _Pages, site: DashboardSite) -> None:
    @pages.get("/disputes", ".json", ".csv")
    def dispute_list(
        request: Request, limit: LimitQuery = 50, cursor: CursorQuery = None, order: ListOrder = ListOrder.NEWEST,
        state: DisputeState | None = None, verdict: VerdictName | None = None, operator: AccountQuery = None,
        challenger: AccountQuery = None, receipt: IdQuery = None, block: BlockQuery = None,
    ) -> Response:  # fmt: skip
        """Shows a list of disputes."""
        given = (limit, cursor, order, state, verdict, operator, challenger, receipt)
        choices = {"states": list(DisputeState), "verdicts": list(VerdictName)}
        chosen = {"state": state, "verdict": verdict, "operator": operator or ""}
        return pages.show(
            request, "disputes.html", block, lambda scene: lists.dispute_list(scene, *given), **choices, chosen=chosen
        )

    @pages.get("/disputes/{id}", ".json")
    def one_dispute(request: Request, id: IdPath, block: BlockQuery = None) -> Response:  # noqa: A002  the URL's name
        """Shows one dispute with its events."""

        def build(scene: Scene) -> DisputePage:
            found = lists.dispute(scene, site, id)
            events = scene.index.events(limit=EVENTS_OF_DISPUTE, subject=id.lower())
            return DisputePage(meta=scene.meta(), dispute=found, events=tuple(scene.event(each) for each in events))

        return pages.show(request, "dispute.html", block, build)

    @pages.router.get("/disputes/{id}/capsule")
    def capsule(id: IdPath) -> Response:  # noqa: A002  the URL's name
        """Returns the capsule file that proves how a dispute ended."""
        data = site.capsules.read(digest_of(id))
        if data is None:
            raise not_found(f"a capsule of dispute {id}")
        headers = {"Content-Disposition": f'attachment; filename="{file_name(digest_of(id))}"', "Cache-Control": "no-cache"}
        return Response(data, media_type=site.capsules.media_type, headers=headers)


def _add_receipts(pages: _Pages, site: DashboardSite) -> None:
    @pages.get("/receipts/{id}", ".json")
    def one_receipt(request: Request, id: IdPath, block: BlockQuery = None) -> Response:  # noqa: A002  the URL's name
        """Shows one receipt."""
        return pages.show(
            request, "receipt.html", block, lambda scene: FoundObject(meta=scene.meta(), data=lists.receipt(scene, site, id))
        )

    @pages.get("/batches", ".json", ".csv")
    def batch_list(
        request: Request, limit: LimitQuery = 50, cursor: CursorQuery = None, order: ListOrder = ListOrder.NEWEST,
        operator: AccountQuery = None, block: BlockQuery = None,
    ) -> Response:  # fmt: skip
        """Shows a list of batches."""
        return pages.show(request, "batches.html", block, lambda scene: lists.batch_list(scene, limit, cursor, order, operator))

    @pages.get("/batches/{number}", ".json")
    def one_batch(request: Request, number: NumberPath, block: BlockQuery = None) -> Response:
        """Shows one batch."""
        return pages.show(
            request, "batch.html", block, lambda scene: FoundObject(meta=scene.meta(), data=lists.batch(scene, number))
        )

    @pages.get("/demands", ".json", ".csv")
    def demand_list(
        request: Request, limit: LimitQuery = 50, cursor: CursorQuery = None, order: ListOrder = ListOrder.NEWEST,
        state: DemandStateName | None = None, operator: AccountQuery = None, block: BlockQuery = None,
    ) -> Response:  # fmt: skip
        """Shows a list of demands."""
        given = (limit, cursor, order, state, operator)
        return pages.show(request, "demands.html", block, lambda scene: lists.demand_list(scene, *given))

    @pages.get("/audits", ".json", ".csv")
    def audit_list(
        request: Request, limit: LimitQuery = 50, cursor: CursorQuery = None, order: ListOrder = ListOrder.NEWEST,
        result: AuditResultName | None = None, verifier: AccountQuery = None, receipt: IdQuery = None, block: BlockQuery = None,
    ) -> Response:  # fmt: skip
        """Shows a list of light audits."""
        given = (limit, cursor, order, result, verifier, receipt)
        return pages.show(request, "audits.html", block, lambda scene: lists.audit_list(scene, *given))


def _add_parties(pages: _Pages) -> None:
    @pages.get("/operators", ".json", ".csv")
    def operator_list(request: Request, limit: LimitQuery = 50, cursor: CursorQuery = None, block: BlockQuery = None) -> Response:
        """Shows a list of operators."""
        return pages.show(request, "operators.html", block, lambda scene: lists.operator_list(scene, limit, cursor))

    @pages.get("/operators/{account}", ".json")
    def one_operator(request: Request, account: AccountPath, block: BlockQuery = None) -> Response:
        """Shows one operator with its newest disputes and batches."""

        def build(scene: Scene) -> OperatorPage:
            return OperatorPage(
                meta=scene.meta(), operator=lists.operator(scene, account),
                disputes=lists.dispute_list(scene, 50, None, operator=account).items,
                batches=lists.batch_list(scene, 20, None, operator=account).items,
            )  # fmt: skip

        return pages.show(request, "operator.html", block, build)

    @pages.get("/verifiers", ".json", ".csv")
    def verifier_list(request: Request, limit: LimitQuery = 50, cursor: CursorQuery = None, block: BlockQuery = None) -> Response:
        """Shows a list of verifiers."""
        return pages.show(request, "verifiers.html", block, lambda scene: lists.verifier_list(scene, limit, cursor))

    @pages.get("/verifiers/{account}", ".json")
    def one_verifier(request: Request, account: AccountPath, block: BlockQuery = None) -> Response:
        """Shows one verifier with its seats and newest audits."""

        def build(scene: Scene) -> VerifierPage:
            return VerifierPage(
                meta=scene.meta(), verifier=lists.verifier(scene, account),
                seats=lists.member_list(scene, 200, None, voter=account).items,
                audits=lists.audit_list(scene, 20, None, verifier=account).items,
            )  # fmt: skip

        return pages.show(request, "verifier.html", block, build)


def _add_network(pages: _Pages) -> None:
    @pages.get("/models", ".json")
    def item_list(request: Request, block: BlockQuery = None) -> Response:
        """Shows environments and models."""

        def build(scene: Scene) -> ItemsPage:
            found = [lists.item_list(scene, 200, None, is_model).items for is_model in (False, True)]
            return ItemsPage(meta=scene.meta(), environments=found[0], models=found[1])

        return pages.show(request, "models.html", block, build)

    @pages.get("/keys", ".json", ".csv")
    def key_epoch_list(request: Request, block: BlockQuery = None) -> Response:
        """Shows all key epochs."""
        return pages.show(request, "keys.html", block, lists.key_epoch_list)

    @pages.get("/params", ".json")
    def parameters(request: Request, block: BlockQuery = None) -> Response:
        """Shows the rules in force, and proposals."""
        return pages.show(
            request, "params.html", block, lambda scene: FoundObject(meta=scene.meta(), data=network.parameters(scene))
        )

    @pages.get("/money", ".json")
    def money(request: Request, block: BlockQuery = None) -> Response:
        """Shows the money of the network by the place where it is."""
        return pages.show(request, "money.html", block, lambda scene: FoundObject(meta=scene.meta(), data=network.money(scene)))

    @pages.get("/log", ".json")
    def event_log(request: Request, limit: LimitQuery = 50, after: EventQuery = None, block: BlockQuery = None) -> Response:
        """Shows events, newest first."""

        def build(scene: Scene) -> Listing[Any]:
            return lists.event_list(scene, limit, after, newest=True)

        return pages.show(request, "log.html", block, build)


def _add_statistics(pages: _Pages) -> None:
    @pages.get("/statistics", ".json", ".csv")
    def statistics(request: Request, since: SinceQuery = None, until: UntilQuery = None, block: BlockQuery = None) -> Response:
        """Shows audits, operators, availability and openings in a period."""
        span = span_of(since, until)
        chosen = {"since": since or "", "until": until or ""}
        return pages.show(
            request, "statistics.html", block, lambda scene: lists.statistics_page(scene, *span, pages.logs), chosen=chosen
        )


def _add_console(pages: _Pages) -> None:
    @pages.get("/console", ".json", ".csv")
    def console(request: Request, block: BlockQuery = None) -> Response:
        """Shows the results that follow from the parameters and from the reader's assumptions."""
        query = {name: text.strip() for name, text in request.query_params.items() if name != "block"}

        def build(scene: Scene) -> ConsolePage:
            try:
                return console_page(scene, question(scene, query))
            except MalformedValue as error:
                raise bad_request(str(error), "bad_parameter") from None

        return pages.show(request, "console.html", block, build)

    @pages.get("/console/replay", ".json", ".csv")
    def replay(request: Request, block: BlockQuery = None) -> Response:
        """Shows how past disputes would have ended under other parameters."""
        query = {name: text.strip() for name, text in request.query_params.items() if name != "block"}

        def build(scene: Scene) -> ReplayPage:
            try:
                return replay_page(scene, query)
            except MalformedValue as error:
                raise bad_request(str(error), "bad_parameter") from None

        return pages.show(request, "replay.html", block, build)


def _add_search(pages: _Pages, site: DashboardSite) -> None:
    @pages.router.get("/search")
    def search(q: Annotated[str, Query(max_length=80)] = "") -> Response:
        """Redirects to the page of the dispute, receipt, account or batch that the text names."""
        with site.scene() as scene:
            where = _place_of(scene, q.strip().lower())
        if where is None:
            raise not_found("what you look for (a dispute or receipt id, an account, or a batch number)")
        return RedirectResponse(where, HTTPStatus.SEE_OTHER)


def _place_of(scene: Scene, text: str) -> str | None:
    index = scene.index
    if text.isascii() and text.isdigit() and len(text) < 19:
        return f"/batches/{int(text)}" if index.find(BatchFact, int(text)) else None
    try:
        raw = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        return None
    if len(raw) == 32:
        if index.find(DisputeFact, raw):
            return f"/disputes/{hex0x(raw)}"
        return f"/receipts/{hex0x(raw)}" if parties.receipt(scene, raw) else None
    account = hex0x(raw)
    if len(raw) == 20 and index.find(OperatorFact, account):
        return f"/operators/{account}"
    return f"/verifiers/{account}" if len(raw) == 20 and index.find(VerifierFact, account) else None
