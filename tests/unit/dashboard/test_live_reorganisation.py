"""A visitor's browser watches a running dashboard while blocks of a real chain are replaced."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bytewise.storage.engine import open_database
from bytewise.storage.index.reader import IndexReader
from chain.client.artifacts import interface
from chain.deployment.calls import CALL_GAS
from chain.sending.transactions import TransactionCall, send_all
from dashboard.settings import ApiSettings
from dashboard.web.answers import DashboardSite
from dashboard.web.app import build_app
from dashboard.wiring import contract_titles
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import STAKE_WEI, VERIFIERS, mine, word
from tests.fixtures.court.session import DisputeFixture
from tests.fixtures.dashboard.browser import PROGRAM, running_browser
from tests.fixtures.dashboard.indexed import index_of
from tests.fixtures.dashboard.site import served
from tests.fixtures.storage.hand_clock import HandClock

STREAM = """
window.seen = [];
window.stream = new EventSource(%s);
for (const kind of ["reorg", "dispute.opened", "chain.event"]) {
  stream.addEventListener(kind, (event) => seen.push([kind, event.data]));
}
true
"""


@pytest.mark.skipif(PROGRAM is None, reason="no chromium")
def test_browser_sees_replaced_blocks_and_then_the_new_facts(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    mine(anvil, 4)
    made = index_of(anvil.client, court.network, tmp_path)
    clock = HandClock()
    clock.seconds = anvil.client.head().timestamp
    reader = IndexReader(open_database(made.url, read_only=True))
    site = DashboardSite(reader, contract_titles(court.network), {}, clock, 3600, "0")
    with served(build_app(site, ApiSettings(requests_per_minute=100_000))) as url, running_browser() as browser:
        (newest,) = httpx2.get(f"{url}/api/v1/log", params={"order": "newest", "limit": 1}, timeout=60).json()["items"]
        # A program of the visitor watches the whole stream; the pages' own script hears of their block alone.
        browser.call("Page.setBypassCSP", enabled=True)
        browser.visit(f"{url}/log")
        browser.value(STREAM % json.dumps(f"{url}/api/v1/events?after={newest['id']}"))
        court.open(0, word("wrong guess"))
        mine(anvil, 2)
        made.follow()
        browser.until("seen.some(([kind]) => kind === 'dispute.opened')")
        anvil.reorganise(4)
        assert made.follow() == 4
        browser.until("seen.some(([kind]) => kind === 'reorg')")
        _deposit(anvil, court)
        made.follow()
        browser.until("seen.filter(([kind, data]) => kind === 'chain.event' && JSON.parse(data).name === 'Deposited').length")
        seen: list[Any] = json.loads(browser.value("JSON.stringify(seen)"))
        kinds = [kind for kind, _ in seen]
        assert kinds.index("dispute.opened") < kinds.index("reorg") < len(kinds) - 1
        told = next(json.loads(data) for kind, data in seen if kind == "dispute.opened")
        back = next(json.loads(data) for kind, data in seen if kind == "reorg")
        assert back["block"] < told["block"]
        browser.visit(f"{url}/disputes/0x{court.dispute.hex()}")
        assert "in a block that was replaced" in browser.value("document.body.textContent")
        browser.visit(f"{url}/disputes")
        assert court.dispute.hex()[:12] not in browser.value("document.body.textContent")
        browser.visit(f"{url}/log")
        shown = browser.value("document.body.textContent")
        assert str(anvil.client.head().number) in shown and court.dispute.hex()[:12] not in shown


@pytest.mark.skipif(PROGRAM is None, reason="no chromium")
def test_page_tells_that_it_was_rolled_back(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    court.open(0, word("wrong guess"))
    mine(anvil, 2)
    made = index_of(anvil.client, court.network, tmp_path)
    clock = HandClock()
    clock.seconds = anvil.client.head().timestamp
    reader = IndexReader(open_database(made.url, read_only=True))
    with reader.snapshot() as snapshot:
        (newest,) = snapshot.events(limit=1, descending=True)
    site = DashboardSite(reader, contract_titles(court.network), {}, clock, 3600, "0")
    path = f"/disputes/0x{court.dispute.hex()}"
    with served(build_app(site, ApiSettings(requests_per_minute=100_000))) as url, running_browser() as browser:
        browser.visit(url + path)
        assert browser.value("document.getElementById('replaced').textContent") == ""
        assert anvil.client.head().number - newest.block < 4
        anvil.reorganise(4)
        made.follow()
        browser.until("document.getElementById('replaced').textContent")
        told = browser.value("document.getElementById('replaced').innerText")
        assert told.startswith("Rolled back.") and f"replaced block {newest.block}, on which this page rests" in told
        region = browser.value("[...document.getElementById('replaced').attributes].map((each) => each.value).join()")
        assert region == "replaced,status,polite" and browser.value("document.title").startswith("Rolled back: ")
        for width in (340, 1200):
            for dark in (False, True):
                browser.look(width, dark)
                assert browser.violations() == []
                assert browser.value("document.documentElement.scrollWidth") <= width
        browser.value("scrollTo(0, document.body.scrollHeight)")
        assert browser.value("document.getElementById('replaced').getBoundingClientRect().top") == 0
        assert browser.problems == []
        browser.value("void document.querySelector('#replaced a').click()")
        browser.until("document.body?.textContent.includes('in a block that was replaced')")
        assert browser.value("location.pathname") == path


def _deposit(anvil: Anvil, court: DisputeFixture) -> None:
    """Something that happens on the new blocks alone."""
    vault = court.network.addresses.stake_vault
    call = TransactionCall(VERIFIERS[0], vault, interface("StakeVault").call("deposit"), STAKE_WEI, CALL_GAS)
    send_all(anvil.client, [call], 60)
    mine(anvil, 2)
