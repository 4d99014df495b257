"""Renders Jinja2 templates in which everything is escaped, with the few filters that pages need."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bytewise.protocol.digests import sha256
from dashboard.views.records import Amount, Party, Time
from dashboard.web.charts import draw
from dashboard.web.problems import Refused

FOLDER = Path(__file__).parent
SCRIPT = FOLDER / "static" / "live.js"
"""The only script of the pages."""
DECIMALS = 6
FIRST = ("id", "subject", "receiptId", "batchId", "operator", "account", "verdict", "round", "amount")
"""Arguments that pages show before all other arguments of an event."""
SECTIONS = (
    ("/", "Overview"), ("/disputes", "Disputes"), ("/batches", "Batches"), ("/demands", "Demands"), ("/audits", "Audits"),
    ("/operators", "Operators"), ("/verifiers", "Verifiers"), ("/models", "Models"), ("/keys", "Keys"), ("/params", "Rules"),
    ("/money", "Money"), ("/statistics", "Statistics"), ("/console", "Console"), ("/log", "Log"), ("/about", "About"),
)  # fmt: skip
"""Entries of the navigation: path and title."""


class Renderer:
    """Renderer of pages from templates."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        digest = base64.b64encode(sha256(SCRIPT.read_bytes())).decode()
        self._environment.globals |= {"script": f"/static/{SCRIPT.name}", "script_integrity": f"sha256-{digest}"}
        self._environment.filters |= {
            "short": short, "eth": eth, "exact": exact, "party": self.party, "when": when, "grouped": grouped, "seconds": seconds,
            "shown": shown_arguments, "percent": percent, "chart": draw,
        }  # fmt: skip

    def page(self, template: str, request: Request, **values: Any) -> str:
        """Returns a page as HTML. The navigation marks the section to which the path of the request belongs."""
        path = request.url.path
        section = "/" if path == "/" else "/" + path.strip("/").partition("/")[0]
        query = [(name, value) for name, value in request.query_params.multi_items() if name not in ("cursor", "after")]

        def link(**changes: Any) -> str:
            """Returns the path with the query parameters of the request, replaced by `changes`."""
            kept = {name: value for name, value in query if name not in changes}
            text = urlencode(kept | {name: str(value) for name, value in changes.items() if value is not None})
            return f"{path}?{text}" if text else path

        return self._environment.get_template(template).render(
            sections=SECTIONS, section=section, path=path, link=link, query=urlencode(query), **values
        )

    def error(self, request: Request, error: Refused, request_id: str) -> str:
        """Returns the page of an error as HTML."""
        return self.page(
            "error.html", request, error=error, request_id=request_id, meta=None, block=None, page=None, watched=None
        )

    def party(self, party: Party | None, kind: str = "") -> Markup:
        """Returns an account as markup: with its name if it has one, and with a link to its page if `kind` is `operators` or
        `verifiers`."""
        if party is None:
            return Markup('<span class="none">nobody</span>')
        account = short(party.account)
        shown = Markup("<b>{}</b> ").format(party.name) + account if party.name else account
        return Markup('<a href="/{}/{}">{}</a>').format(kind, party.account, shown) if kind else Markup("{}").format(shown)


def short(text: str | None, start: int = 10, end: int = 4) -> Markup:
    """Returns a hash or account as markup with its middle left out. The tooltip has the whole text."""
    if not text:
        return Markup('<span class="none">none</span>')
    if len(text) <= start + end + 2:
        return Markup('<code class="hash">{}</code>').format(text)
    return Markup('<code class="hash" title="{}">{}…{}</code>').format(text, text[:start], text[-end:])


def grouped(text: str | None) -> Markup:
    """Returns a whole hash as markup in groups of eight digits, so that a line can break between groups."""
    if not text:
        return Markup('<span class="none">none</span>')
    groups = [text[:2], *(text[place : place + 8] for place in range(2, len(text), 8))]
    return Markup('<code class="hash whole">{}</code>').format(Markup("<wbr>").join(groups))


def exact(amount: Amount) -> Markup:
    """Returns an amount in ether as markup, with all its digits."""
    whole, dot, part = amount.eth.partition(".")
    return Markup('<span class="amount">{}{}{} <abbr title="ether">ETH</abbr></span>').format(f"{int(whole):,}", dot, part)


def eth(amount: Amount) -> Markup:
    """Returns an amount in ether as markup, with at most six decimals. An ellipsis says that there are more, and the tooltip has
    the amount in wei."""
    whole, dot, part = amount.eth.partition(".")
    shown = part if len(part) <= DECIMALS else f"{part[:DECIMALS]}…"
    return Markup('<span class="amount" title="{} wei">{}{}{} <abbr title="ether">ETH</abbr></span>').format(
        amount.wei, f"{int(whole):,}", dot, shown
    )


def when(time: Time | None) -> Markup:
    """Returns a time in UTC as markup that people and programs can read."""
    if time is None:
        return Markup('<span class="none">none</span>')
    text = time.utc.replace("T", " ").replace("Z", "")
    return Markup('<time datetime="{}">{} <abbr title="Coordinated Universal Time">UTC</abbr></time>').format(time.utc, text)


def seconds(count: int) -> str:
    """Returns a duration as text, rounded down, in the largest unit of which it has at least two: days, hours or minutes. Below
    two minutes it is in seconds."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if count >= 2 * size:
            return f"{count // size} {unit}s"
    return f"{count} seconds" if count != 1 else "1 second"


def percent(bps: int | None) -> str:
    """Converts a share in 1/10,000 to text in percent, cut to a tenth of a percent. Returns `none` for None."""
    return "none" if bps is None else f"{bps // 100}.{bps % 100 // 10} %"


def shown_arguments(arguments: dict[str, Any], most: int = 4) -> Sequence[tuple[str, str]]:
    """Returns the first arguments of an event as (name, text), each cut to a line."""
    pairs = []
    order = sorted(arguments, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    for name in order[:most]:
        value = arguments[name]
        text = value if isinstance(value, str) else repr(value) if not isinstance(value, dict | list) else "…"
        pairs.append((name, text if len(text) <= 18 else f"{text[:10]}…{text[-4:]}"))
    return pairs
