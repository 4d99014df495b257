"""The pages: whole without scripts, states, forms, and how a real browser shows them."""

import base64
import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import text

from bytewise.storage.engine import open_database, write_transaction
from dashboard.views.parties import OperatorSummary, _level, known_batch
from dashboard.views.records import FinalityState, Party
from dashboard.views.scene import amount
from dashboard.web.answers import csv_of
from dashboard.web.render import SCRIPT, SECTIONS, eth
from tests.fixtures.chain.devnet import OPERATORS, VERIFIERS
from tests.fixtures.dashboard.browser import PROGRAM, BrowserPage, running_browser
from tests.fixtures.dashboard.site import RecordedSite, empty_database, served
from tests.fixtures.dashboard.write_images import HEIGHTS, IMAGES, WIDTH

WAIT_S = 120.0
WITH_CSV = ("/disputes", "/batches", "/demands", "/audits", "/operators", "/verifiers", "/keys")
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no chromium")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> RecordedSite:
    """Pages over the recorded index."""
    return RecordedSite(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def url(site: RecordedSite) -> Iterator[str]:
    """Where they are."""
    with served(site.app) as address:
        yield address


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx2.Client]:
    """A visitor without scripts."""
    with httpx2.Client(base_url=url, timeout=WAIT_S) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[BrowserPage]:
    """A real browser."""
    with running_browser() as page:
        yield page


def every_page(client: httpx2.Client) -> list[str]:
    """Paths of all pages, with one of each kind of object."""
    items = client.get("/disputes.json").json()["items"]
    return [
        *(path for path, _ in SECTIONS), *(f"/disputes/{each['id']}" for each in items), f"/receipts/{items[0]['receipt_id']}",
        "/console?alpha_bps=9000&stakes=64+64+64", "/console/replay", "/console/replay?slash_amount=9&seats_1=17&rounds=1",
        "/batches/0", f"/operators/{OPERATORS[0].address}", f"/verifiers/{VERIFIERS[0].address}",
    ]  # fmt: skip


class Outline(HTMLParser):
    """Headings, links, labels and tables of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.headings: list[int] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.forms: list[tuple[str, dict[str, str]]] = []
        """Action of each form, and what its fields send while nobody has filled them in."""
        self.words = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"] or "")
        if tag == "form":
            self.forms.append((found["action"] or "", {}))
        if tag in ("input", "select") and found.get("name"):
            self.forms[-1][1][found["name"] or ""] = found.get("value") or ""
        if found.get("id"):
            self.ids.append(found["id"] or "")
        assert not any(name.startswith("on") or name == "style" for name in found), f"<{tag} {attrs}>"
        if tag == "script":
            digest = base64.b64encode(hashlib.sha256(SCRIPT.read_bytes()).digest()).decode()
            assert found == {"src": "/static/live.js", "integrity": f"sha256-{digest}", "defer": None}

    def handle_data(self, data: str) -> None:
        self.words += data


def test_every_page_and_every_link_is_there(client: httpx2.Client) -> None:
    seen, left = set[str](), every_page(client)
    while left:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        answer = client.get(path)
        assert answer.status_code == 200, path
        if answer.headers["content-type"].startswith("text/html"):
            outline = Outline(answer.text)
            assert outline.headings[0] == 1 and outline.headings.count(1) == 1, path
            assert all(after - before <= 1 for before, after in zip(outline.headings, outline.headings[1:], strict=False)), path
            assert len(set(outline.ids)) == len(outline.ids), path
            for action, fields in outline.forms:
                # Nothing is looked for: the search says so. Every other form shows everything.
                assert client.get(action, params=fields).status_code == (404 if action == "/search" else 200), (path, action)
            if len(seen) < 400:
                left += [link for link in outline.links if link.startswith("/") and "block=" not in link]
    assert len(seen) > 40


def test_dispute_page_says_why_who_and_how_much(client: httpx2.Client) -> None:
    (found,) = client.get("/disputes.json", params={"verdict": "overturned"}).json()["items"]
    words = " ".join(Outline(client.get(f"/disputes/{found['id']}").text).words.split())
    for sentence in (
        "Overturned: the receipt is wrong: a committee found another answer.", "10 of 15 seats decide (2/3)",
        "In and out are equal, to the wei.", "The challenger had committed to the winning answer before anybody voted",
        "Evidence is simulated.", "did not reveal", "did not commit", "with the verdict", "8000000000000000000 wei",
    ):  # fmt: skip
        assert sentence in words, sentence


def test_open_dispute_page_has_the_call_that_anybody_may_send(client: httpx2.Client) -> None:
    (found,) = client.get("/disputes.json", params={"state": "open"}).json()["items"]
    page = client.get(f"/disputes/{found['id']}").text
    assert "What may be done next" in page and 'aria-current="step"' in page and "not split yet" in page.lower()


@pytest.mark.parametrize("path", WITH_CSV)
def test_page_json_and_csv_have_the_same_rows(client: httpx2.Client, path: str) -> None:
    items = client.get(f"{path}.json").json()["items"]
    rows = list(csv.DictReader(io.StringIO(client.get(f"{path}.csv").text)))
    assert len(items) == len(rows)
    for item, row in zip(items, rows, strict=True):
        assert all(row[name] == str(item[name]) for name in row if isinstance(item.get(name), str))


def test_csv_names_where_its_list_goes_on(client: httpx2.Client) -> None:
    whole = list(csv.DictReader(io.StringIO(client.get("/verifiers.csv").text)))
    found, path = [], "/verifiers.csv?limit=2"
    while path:
        page = client.get(path)
        found += list(csv.DictReader(io.StringIO(page.text)))
        path = page.links.get("next", {}).get("url", "")
    assert found == whole and len(whole) == 5


@pytest.mark.parametrize("path", ["/disputes", "/statistics", "/console", "/console/replay"])
def test_forms_keep_the_block_of_their_page(client: httpx2.Client, path: str) -> None:
    block = client.get("/api/v1/meta").json()["block"]["number"] - 1
    (fields,) = (fields for action, fields in Outline(client.get(f"{path}?block={block}").text).forms if action == path)
    assert fields["block"] == str(block)
    assert f"State at block {block}" in client.get(path, params=fields).text


def test_spreadsheet_computes_no_cell_of_an_operator() -> None:
    zero = amount(0)
    row = OperatorSummary(
        operator=Party(account="0x1", name=None), endpoint="=HYPERLINK(1)", registered_block=1, suspended_until=None, stake=zero,
        stake_lapsed=False, locked=zero, collateral=zero, batches=0, receipts=0, convictions=0, upheld=0, open_disputes=0,
        demands_lost=0, demands_answered=0, equivocations=0, skipped=0, slashed=zero, credit=zero, finality=FinalityState.SAFE,
    )  # fmt: skip
    assert "'=HYPERLINK(1)" in csv_of([row]) and ",=" not in csv_of([row])


def test_amounts_are_cut_with_an_ellipsis_and_never_rounded() -> None:
    assert "1,234.999999…" in eth(amount(1234_999999999999999999)) and 'title="1234999999999999999999 wei"' in eth(
        amount(1234_999999999999999999)
    )
    assert amount(10**18).eth == "1" and amount(1).eth == "0.000000000000000001" and amount(0).eth == "0"


@pytest.mark.parametrize(
    "hostile", ["<script>alert(1)</script>", '"><img src=x onerror=1>', "{{7*7}}", "0x" + "z" * 64, "%", "\u202e"]
)
def test_hostile_search_is_answered_with_a_page(client: httpx2.Client, hostile: str) -> None:
    answer = client.get("/search", params={"q": hostile})
    assert answer.status_code == 404 and hostile not in answer.text and "49" not in answer.text.partition("<main")[2][:200]


@pytest.mark.parametrize("path", ["/disputes?block=abc=", "/disputes?block=1=", "/disputes?verdict==upheld"])
def test_malformed_field_is_refused_and_not_dropped(client: httpx2.Client, path: str) -> None:
    assert client.get(path).status_code == 400


def test_search_goes_to_what_it_finds(client: httpx2.Client) -> None:
    dispute = client.get("/disputes.json").json()["items"][0]
    for text_, where in (
        (dispute["id"], f"/disputes/{dispute['id']}"), (dispute["receipt_id"][2:].upper(), f"/receipts/{dispute['receipt_id']}"),
        (" 0 ", "/batches/0"), (OPERATORS[0].address, f"/operators/{OPERATORS[0].address}"),
        (VERIFIERS[1].address.upper().replace("0X", "0x"), f"/verifiers/{VERIFIERS[1].address}"),
    ):  # fmt: skip
        answer = client.get("/search", params={"q": text_})
        assert (answer.status_code, answer.headers["location"]) == (303, where)


def test_text_of_operators_is_escaped(tmp_path: Path) -> None:
    own = RecordedSite(tmp_path)
    with write_transaction(open_database(own.url)) as connection:
        connection.execute(text("UPDATE operator SET endpoint = '<script>alert(1)</script>'"))
    with served(own.app) as address:
        page = httpx2.get(f"{address}/operators/{OPERATORS[0].address}", timeout=WAIT_S).text
    assert "<script>" not in page and "&lt;script&gt;" in page


# --- states ---


def test_empty_index_says_that_there_is_nothing(tmp_path: Path) -> None:
    own = RecordedSite(tmp_path, database=empty_database(tmp_path))
    with served(own.app) as address:
        for path, _ in SECTIONS:
            answer = httpx2.get(f"{address}{path}", timeout=WAIT_S)
            assert answer.status_code == 200, path
            assert path in ("/about", "/params", "/money") or "No " in answer.text or "Nothing" in answer.text, path


def test_stale_index_says_how_old_it_is(tmp_path: Path) -> None:
    own = RecordedSite(tmp_path)
    own.clock.seconds += 4000
    with served(own.app) as address:
        page = httpx2.get(address, timeout=WAIT_S).text
        assert "These pages are 66 minutes behind." in page and 'role="status"' in page
        assert httpx2.get(f"{address}/api/v1/meta", timeout=WAIT_S).json()["is_stale"]


def test_request_for_an_earlier_block_tells_the_state_of_the_index(tmp_path: Path) -> None:
    own = RecordedSite(tmp_path)
    with served(own.app) as address:
        now = httpx2.get(f"{address}/overview.json", timeout=WAIT_S).json()["meta"]
        assert (now["behind_blocks"], now["behind_s"], now["is_stale"]) == (0, 3, False)
        block = now["block"]["number"] - 1
        then = httpx2.get(f"{address}/overview.json", params={"block": block}, timeout=WAIT_S).json()["meta"]
        assert then["block"]["number"] == block and then == now | {"block": then["block"]}
        own.clock.seconds += 4000
        then = httpx2.get(f"{address}/overview.json", params={"block": block}, timeout=WAIT_S).json()["meta"]
        assert then["is_stale"] and then["behind_s"] == 4003


def test_index_that_differs_warns_on_every_page(tmp_path: Path) -> None:
    own = RecordedSite(tmp_path)
    own.writer.note_check(7, ["dispute 0xab: phase is 3 in the index, 4 on the chain"])
    with served(own.app) as address:
        for path, _ in SECTIONS:
            page = httpx2.get(f"{address}{path}", timeout=WAIT_S).text
            assert "Do not rely on these pages." in page and "phase is 3 in the index" in page, path


def test_rolled_back_index_shows_the_earlier_state(tmp_path: Path) -> None:
    own = RecordedSite(tmp_path)
    with served(own.app) as address, httpx2.Client(base_url=address, timeout=WAIT_S) as visitor:
        before = visitor.get("/disputes")
        (found,) = visitor.get("/disputes.json", params={"verdict": "overturned"}).json()["items"]
        own.writer.rollback(found["opened_block"] - 1)
        after = visitor.get("/disputes", headers={"If-None-Match": before.headers["etag"]})
        assert after.status_code == 200 and found["id"] not in after.text
        gone = visitor.get(f"/disputes/{found['id']}")
        assert (
            gone.status_code == 404
            and "It may not exist, not yet be indexed, or have been in a block that was replaced." in gone.text
        )


def test_broken_database_is_answered_without_details(tmp_path: Path) -> None:
    own = RecordedSite(tmp_path)
    with write_transaction(open_database(own.url)) as connection:
        connection.execute(text("DROP TABLE setting"))
    with served(own.app) as address:
        page, api = httpx2.get(address, timeout=WAIT_S), httpx2.get(f"{address}/api/v1/meta", timeout=WAIT_S)
    assert page.status_code == api.status_code == 503 and api.json()["retryable"] and "setting" not in page.text + api.text


def test_earlier_state_is_marked(client: httpx2.Client) -> None:
    page = client.get("/disputes", params={"block": 100}).text
    assert "State at block 100." in page and "Show the newest state" in page


# --- in a browser ---


@needs_browser
def test_every_page_is_accessible_and_loads_nothing_from_elsewhere(browser: BrowserPage, client: httpx2.Client, url: str) -> None:
    for path in every_page(client):
        browser.requested.clear()
        browser.problems.clear()
        browser.visit(url + path)
        for width, dark in ((1280, False), (1280, True), (320, False)):
            browser.look(width, dark)
            assert browser.violations() == [], (path, width, dark)
            assert browser.value("document.documentElement.scrollWidth") <= width, (path, width)
        assert {each for each in browser.requested if not each.startswith((url, "data:"))} == set(), path
        assert browser.problems == [], path


@needs_browser
@pytest.mark.parametrize("state", ["empty", "stale", "differs", "error"])
def test_every_state_is_accessible(browser: BrowserPage, tmp_path: Path, state: str) -> None:
    own = RecordedSite(tmp_path, database=empty_database(tmp_path) if state == "empty" else None)
    own.clock.seconds += 4000 if state == "stale" else 0
    if state == "differs":
        own.writer.note_check(7, ["dispute 0xab: phase is 3 in the index, 4 on the chain"])
    with served(own.app) as address:
        for dark in (False, True):
            browser.look(1280, dark)
            browser.visit(f"{address}/{'nothing' if state == 'error' else ''}")
            assert browser.violations() == []


@needs_browser
def test_page_that_is_final_watches_nothing(browser: BrowserPage, tmp_path: Path) -> None:
    own = RecordedSite(tmp_path)
    with served(own.app) as address:
        browser.visit(address)
        browser.until("performance.getEntriesByType('resource').some((each) => each.name.endsWith('live.js'))")
        assert browser.value("document.getElementById('replaced').textContent") == ""
        with write_transaction(open_database(own.url)) as connection:
            connection.execute(text("UPDATE index_meta SET value = '1000000' WHERE name = 'finalized'"))
        browser.visit(f"{address}/disputes")
        assert not browser.value("document.querySelector('script, #replaced, template')")


@needs_browser
def test_keyboard_reaches_the_content_first_and_shows_where_it_is(browser: BrowserPage, url: str) -> None:
    browser.look(1280, False)
    browser.visit(url)
    _press(browser, "Tab")
    assert browser.value("document.activeElement.className") == "skip"
    assert browser.value("document.activeElement.getBoundingClientRect().left") >= 0
    assert browser.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    _press(browser, "Enter")
    assert browser.value("document.activeElement.id") == "main"
    _press(browser, "Tab")
    assert browser.value("document.getElementById('main').contains(document.activeElement)")


def _press(browser: BrowserPage, key: str) -> None:
    code = {"Tab": 9, "Enter": 13}[key]
    for kind in ("rawKeyDown", "char", "keyUp"):
        words = {"text": "\r"} if key == "Enter" and kind == "char" else {}
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **words)


@needs_browser
def test_printed_dispute_has_its_calls_and_no_navigation(browser: BrowserPage, client: httpx2.Client, url: str) -> None:
    (found,) = client.get("/disputes.json", params={"state": "open"}).json()["items"]
    browser.look(1280, False, medium="print")
    browser.visit(f"{url}/disputes/{found['id']}")
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.value("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert browser.pdf().startswith(b"%PDF")


@needs_browser
def test_text_at_twice_the_size_keeps_all_content(browser: BrowserPage, client: httpx2.Client, url: str) -> None:
    (found,) = client.get("/disputes.json", params={"verdict": "overturned"}).json()["items"]
    for path in ("/", f"/disputes/{found['id']}"):
        browser.look(640, False)
        browser.visit(url + path)
        browser.value("document.documentElement.style.fontSize = '200%'; 1")
        assert browser.value("document.documentElement.scrollWidth") <= 640, path


def test_documents_of_pages_are_json(client: httpx2.Client) -> None:
    for path in ("/overview.json", "/about.json", "/params.json", "/money.json", "/models.json", "/log.json"):
        assert json.loads(client.get(path).text), path


@pytest.mark.parametrize("name", sorted(HEIGHTS))
def test_guide_has_its_screenshots(name: str) -> None:
    data = (IMAGES / f"{name}.png").read_bytes()
    size = (int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big"))
    assert data.startswith(b"\x89PNG") and size == (WIDTH, HEIGHTS[name]) and len(data) < 250_000


def test_receipt_page_calls_only_paid_verifiers_its_auditors() -> None:
    """The contract accepts a result for a batch that the receipt is not in, and only a payment shows that it is in it."""
    scene: Any = None
    match, mismatch = {"batch_id": 4, "result": 1, "bounty": 0}, {"batch_id": 4, "result": 2, "bounty": 0}
    for checks in ([match, match], [match, mismatch]):
        level, words = _level(scene, None, None, checks, None)
        assert level == "audited" and "uditors" not in words and "`bytewise verify`" in words
    paid, doubt = match | {"batch_id": 7, "bounty": 9}, mismatch | {"batch_id": 7}
    assert _level(scene, None, None, [paid, doubt], 7)[1].endswith("Do not rely on it."), "both were drawn for batch 7"
    _, words = _level(scene, None, None, [mismatch | {"batch_id": 8}, paid, paid], 7)
    assert words == "Auditors that found the same answer and were paid: 2."
    named = [match, match | {"batch_id": 5, "bounty": 9}]
    assert (known_batch(named, None), known_batch(named[:1], None), known_batch(named, {"batch_id": 6})) == (5, None, 6)
