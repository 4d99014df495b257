"""`capsule.html`: one file without a network, whose results in real browsers are Python's on the whole corpus."""

import base64
import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bytewise.crypto.checkpoint import NoteKey, SignatureType, SignedNote, cosigned, parse_checkpoint
from bytewise.protocol.encoding import encode, to_json
from bytewise.protocol.keys.release_log import SignedRelease
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import ZERO_DIGEST, hex0x
from chain.capsule.conclusion import conclude
from chain.capsule.facts import domain_of
from chain.capsule.report import CapsuleReport, Failure, Group, Result
from chain.capsule.verification import PAGE, Trust, verify_capsule
from cli.evidence.capsule_report import report_page
from docs.tools.capsule_page import MAX_PAGE_BYTES, network_json, source_digest
from tests.fixtures.capsule import chromium, firefox
from tests.fixtures.capsule import weak_signatures as weak
from tests.fixtures.capsule.chromium import Browser
from tests.fixtures.capsule.firefox import Firefox
from tests.fixtures.capsule.good_capsules import JOURNALS, KINDS, SEER, made_capsule
from tests.fixtures.capsule.liars import in_finality, liars, witnessed
from tests.fixtures.capsule.sync_committees import published
from tests.fixtures.chain.devnet import VERIFIERS

needs_chromium = pytest.mark.skipif(chromium.PROGRAM is None, reason="no chromium")
needs_firefox = pytest.mark.skipif(firefox.PROGRAM is None, reason="no firefox")
in_chromium = pytest.mark.parametrize("page", [pytest.param("chromium", marks=needs_chromium)], indirect=True)
in_both = pytest.mark.parametrize(
    "page", [pytest.param("chromium", marks=needs_chromium), pytest.param("firefox", marks=needs_firefox)], indirect=True
)


@pytest.fixture(scope="module")
def page(request: pytest.FixtureRequest) -> Iterator[Browser | Firefox]:
    """The page as a reader opens it: from a file."""
    with chromium.browser(Browser) if request.param == "chromium" else firefox.firefox() as opened:
        opened.open(PAGE)
        yield opened


def test_page_is_built_from_its_sources() -> None:
    assert source_digest() in PAGE.read_text(), "run python docs/tools/capsule_page.py"


def test_page_is_one_file_that_may_fetch_nothing() -> None:
    text = PAGE.read_text()
    assert len(text.encode()) <= MAX_PAGE_BYTES
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None and text.index(policy[0]) < text.index("<style>") < text.index("<script>")
    (script,), (style,) = (re.findall(f"<{name}>(.*)</{name}>", text, re.DOTALL) for name in ("script", "style"))
    hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (script, style)]
    inline = f"script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'"
    assert policy[1] == f"default-src 'none'; {inline}; worker-src blob:; base-uri 'none'; form-action 'none'"
    assert not re.search(r"\b(src|href)=|fetch\(|XMLHttpRequest|WebSocket|import\(|eval\(|innerHTML", text)


def as_json(trust: Trust) -> dict[str, Any]:
    """What the page takes as the reader's knowledge."""
    return {
        "deployments": [hex0x(each) for each in trust.deployments], "witnesses": sorted(trust.witnesses),
        "blockHash": None if trust.block_hash is None else hex0x(trust.block_hash), "threshold": trust.threshold,
        "checkpoint": None if trust.checkpoint is None else hex0x(trust.checkpoint),
        "beacon": None if trust.beacon is None else network_json(trust.beacon),
        "journals": [hex0x(each) for each in trust.journals], "journalWitnesses": [each.text for each in trust.journal_witnesses],
    }  # fmt: skip


VERIFY = """
(() => {
  const bytes = Uint8Array.from(atob(%s), (each) => each.charCodeAt(0));
  const report = bytewiseCapsule.verifyCapsule(bytes, %s);
  return JSON.stringify({end: bytewiseCapsule.conclude(report), attested: report.attested, digest: report.digest,
    checks: report.checks.map((each) => [each.group, each.result, each.failure])});
})()
"""


def weakly_witnessed() -> tuple[bytes, Trust]:
    """Journals with cosignatures that anybody can make, because the witness's key is of small order."""
    made = made_capsule("opened")
    document, key = json.loads(made.data), NoteKey("example.org/weak", SignatureType.COSIGNATURE, weak.NEUTRAL.encoding)
    for part in document["journals"]:
        text = parse_checkpoint(part["checkpoint"]).note.text
        value = (1).to_bytes(8, "big") + weak.forged(weak.NEUTRAL, key.raw, cosigned(text, 1))
        part["checkpoint"] = SignedNote(text, (*parse_checkpoint(part["checkpoint"]).note.signatures, key.line(value))).encode()
    return encode(document), dataclasses.replace(made.trust, journal_witnesses=frozenset({key}))


def test_witness_of_small_order_vouches_for_nothing() -> None:
    found = next(each for each in verify_capsule(*weakly_witnessed()).checks if each.group is Group.JOURNALS)
    assert found.failure is Failure.JOURNAL_UNWITNESSED


TYPE = "(e => { e.value = %s; e.dispatchEvent(new Event('input')); })(document.getElementById('%s'))"


def in_browser(page: Browser | Firefox, data: bytes, trust: Trust) -> dict[str, Any]:
    """The page's report."""
    found = page.value(VERIFY % (json.dumps(base64.b64encode(data).decode()), json.dumps(as_json(trust))))
    report: dict[str, Any] = json.loads(found)
    return report


@functools.cache
def corpus() -> list[tuple[str, bytes, Trust, CapsuleReport]]:
    """Good capsules, liars and readers who know nothing, with what the program says of each."""
    good = [(kind, made_capsule(kind).data, made_capsule(kind).trust) for kind in KINDS]
    cases = [*good, ("witnessed", *witnessed("overturned", 2)), ("finalized", *in_finality())]
    cases += [(each.name, each.data, each.trust) for each in liars()]
    cases += [(f"{kind}, nothing known", data, Trust()) for kind, data, _ in good]
    unwitnessed = dataclasses.replace(made_capsule("opened").trust, journal_witnesses=frozenset({SEER._replace(name="other")}))
    cases.append(("journals without a witness", made_capsule("opened").data, unwitnessed))
    cases.append(("witness of small order", *weakly_witnessed()))
    return [(name, data, trust, verify_capsule(data, trust)) for name, data, trust in cases]


@in_both
def test_browser_and_program_agree_on_the_corpus(page: Browser | Firefox) -> None:
    differing = []
    for name, data, trust, report in corpus():
        shown = in_browser(page, data, trust)
        checks = [[each.group.value, each.result.value, each.failure and each.failure.value] for each in report.checks]
        if shown["checks"] != checks or shown["digest"] != hex0x(report.digest) or shown["attested"] != report.attested:
            differing.append(f"{name}: {shown['checks']} instead of {checks}")
        end = conclude(report)
        if (shown["end"]["word"], shown["end"]["shows"], shown["end"]["limits"]) != (end.word, list(end.shows), list(end.limits)):
            differing.append(f"{name}: {shown['end']} instead of {end}")
        if report.result is not Result.FAIL and shown["end"]["conditions"] != list(end.conditions):
            differing.append(f"{name}: {shown['end']['conditions']} instead of {end.conditions}")
    assert differing == [] and len(corpus()) > 160


@in_both
def test_reader_opens_a_file_and_names_the_block(page: Browser | Firefox, tmp_path: Path) -> None:
    made = made_capsule("overturned")
    file = tmp_path / "verdict.capsule.json"
    file.write_bytes(made.data)
    page.open(PAGE)
    page.choose("#file", file)
    page.until("document.getElementById('status').textContent.startsWith('UNVERIFIABLE')")
    assert hex0x(made.block_hash) in page.value("document.querySelector('.word').textContent")
    (deployment,) = as_json(made.trust)["deployments"]
    for name, text in (("block", hex0x(made.block_hash)), ("deployment", deployment)):
        page.value(TYPE % (json.dumps(text), name))
    page.until("document.getElementById('status').textContent === 'VALID: Every proof holds.'")
    shown = page.value("document.getElementById('report').textContent")
    assert "journal.absent: no entries of journals are included" in shown
    assert "OVERTURNED: a committee of 15 seats" in shown and "SIMULATED" in shown and "Round 1: 15 seats" in shown
    page.value(TYPE % ("'0x12'", "block"))
    assert "block hash: 0x and 64 hex digits" in page.value("document.getElementById('problem').textContent")
    cut = tmp_path / "cut.capsule.json"
    cut.write_bytes(made.data[:-5])
    page.choose("#file", cut)
    page.until("document.getElementById('status').textContent.startsWith('INVALID')")
    assert "capsule.malformed" in page.value("document.getElementById('report').textContent")


WATCH = """
(() => {
  globalThis.seen = { ticks: 0, told: new Set(), parts: [] };
  const status = document.getElementById('status'), bar = document.getElementById('progress');
  setInterval(() => { if (!bar.hidden) { seen.ticks++; seen.told.add(status.textContent); seen.parts.push(bar.value); } }, 1);
})()
"""


@in_both
@pytest.mark.parametrize("workers", [True, False], ids=["worker", "no worker"])
def test_page_answers_while_committees_are_verified(page: Browser | Firefox, tmp_path: Path, workers: bool) -> None:
    """The committees are Ethereum's of January 2025. They finalized another block than the capsule's, as the last check finds."""
    document = json.loads(made_capsule("overturned").data) | {"finality": to_json(published())}
    for part in ("claim", "receipt", "deployment"):
        document[part]["chain_id"] = "1"
    file = tmp_path / "verdict.capsule.json"
    file.write_bytes(encode(document))
    page.open(PAGE)
    if not workers:
        page.value("void (globalThis.Worker = undefined)")
    page.value(WATCH)
    page.choose("#file", file)
    page.until("document.getElementById('status').textContent.startsWith('INVALID')")
    assert "finality.execution" in page.value("document.getElementById('report').textContent")
    assert page.value("document.getElementById('progress').hidden")
    seen = json.loads(page.value("JSON.stringify({ ...seen, told: [...seen.told] })"))
    if workers:
        assert seen["ticks"] > 2 and seen["parts"] == sorted(seen["parts"]) and max(seen["parts"]) > 0
        assert any("signature 1 of" in told for told in seen["told"])
    else:
        assert seen["ticks"] == 0


SLOW_DISK = """
(() => {
  const read = Blob.prototype.arrayBuffer, released = new Promise((resolve) => (globalThis.release = resolve));
  Blob.prototype.arrayBuffer = function () { return this.name === %s ? released.then(() => read.call(this)) : read.call(this); };
})()
"""


@in_both
def test_worker_has_no_network_and_a_later_file_ends_an_earlier_one(page: Browser | Firefox, tmp_path: Path) -> None:
    page.open(PAGE)
    program = "fetch('data:text/plain,x').then(() => postMessage('open'), () => postMessage('closed'))"
    asked = f"new Worker(URL.createObjectURL(new Blob([{json.dumps(program)}]))).onmessage = (e) => (globalThis.net = e.data)"
    page.value(f"void ({asked})")
    page.until("globalThis.net")
    assert page.value("net") == "closed"
    slow, quick = tmp_path / "slow.capsule.json", tmp_path / "quick.capsule.json"
    slow.write_bytes(in_finality()[0])
    quick.write_bytes(made_capsule("mixed").data)
    # The disk gives the first file last.
    page.value(SLOW_DISK % json.dumps(slow.name))
    page.choose("#file", slow)
    page.choose("#file", quick)
    page.until("document.getElementById('status').textContent.startsWith('UNVERIFIABLE')")
    page.value("(async () => { release(); await new Promise((resolve) => setTimeout(resolve, 100)); return 1; })()")
    made = made_capsule("mixed")
    (deployment,) = as_json(made.trust)["deployments"]
    for name, text in (("block", hex0x(made.block_hash)), ("deployment", deployment)):
        page.value(TYPE % (json.dumps(text), name))
    page.until("!/^(UNVERIFIABLE|Verifying)/.test(document.getElementById('status').textContent)")
    assert page.value("document.getElementById('status').textContent").startswith("VALID")
    assert page.value("document.getElementById('name').textContent") == quick.name
    assert "one identical fault" in page.value("document.getElementById('report').textContent")


@in_chromium
def test_page_shows_who_opened_the_receipt_and_what_nodes_recorded(page: Browser, tmp_path: Path) -> None:
    file = tmp_path / "opened.capsule.json"
    file.write_bytes(made_capsule("opened").data)
    page.open(PAGE)
    page.choose("#file", file)
    page.until("document.getElementById('status').textContent.startsWith('UNVERIFIABLE')")
    shown = page.value("document.getElementById('report').textContent")
    assert "Who asked the key shards to open the receipt" in shown and "released" in shown
    assert "receipt.sign" in shown and "audit.sign" in shown and "journal.owner" in shown
    names = "\n".join(hex0x(each.public.fingerprint) for each in JOURNALS)
    page.value(TYPE % (json.dumps(names), "journals"))
    page.value(TYPE % (json.dumps(SEER.text), "seers"))
    told = "3 entries of 2 journals are in their checkpoints; a witness signed each"
    page.until(f"document.getElementById('report').textContent.includes({json.dumps(told)})")
    page.value(TYPE % ("'example.org/w+00'", "seers"))
    assert "NAME+ID+KEY" in page.value("document.getElementById('problem').textContent")


def with_a_false_shard() -> bytes:
    """The opened receipt with one more release record, by an account that is no shard, without a ticket."""
    made = made_capsule("opened")
    capsule = verify_capsule(made.data, made.trust).capsule
    assert capsule is not None
    stranger, first = VERIFIERS[1], capsule.releases[0].record
    record = dataclasses.replace(first, shard=stranger.address, ticket_hash=ZERO_DIGEST)
    signature = stranger.sign(typed_digest(domain_of(capsule.deployment, "KeyEpochs"), record))
    return encode(dataclasses.replace(capsule, releases=(*capsule.releases, SignedRelease(record, signature, None))))


ROWS = "JSON.stringify([...document.querySelectorAll('#report tbody tr')].map((row) => [...row.cells].map((c) => c.textContent)))"


def rows_of(page: Browser, file: Path, data: bytes, word: str) -> list[list[str]]:
    """Cells of all tables that the page shows for a capsule."""
    file.write_bytes(data)
    page.open(PAGE)
    page.choose("#file", file)
    page.until(f"document.getElementById('status').textContent.startsWith('{word}')")
    rows: list[list[str]] = json.loads(page.value(ROWS))
    return rows


def printed_rows(data: bytes, trust: Trust) -> list[list[str]]:
    """The same of the printed report."""
    rows = re.findall(r"<tr>(.*?)</tr>", report_page(verify_capsule(data, trust)))
    return [[re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in rows]


@in_chromium
def test_release_of_no_shard_is_marked_in_both_tables(page: Browser, tmp_path: Path) -> None:
    """Anybody can sign a record, and only the state of the chain says who is a shard."""
    data, made = with_a_false_shard(), made_capsule("opened")
    shown = rows_of(page, tmp_path / "stranger.capsule.json", data, "UNVERIFIABLE")
    for rows in (shown, printed_rows(data, made.trust)):
        marks = [row[-1] for row in rows if len(row) == 6 and row[0].startswith("0x ")]
        assert marks == ["", "", "no shard of the epoch now: anybody may have signed this; no ticket"]


@in_chromium
def test_facts_of_an_invalid_capsule_are_not_shown(page: Browser, tmp_path: Path) -> None:
    made = made_capsule("overturned")
    document = json.loads(made.data)
    verdict, document["claim"]["verdict"] = document["claim"]["verdict"], "upheld"
    assert verdict == "overturned"
    data = encode(document)
    report = verify_capsule(data, made.trust)
    assert report.facts is not None and conclude(report).word == "INVALID"
    shown, printed = rows_of(page, tmp_path / "false.capsule.json", data, "INVALID"), printed_rows(data, made.trust)
    assert "<h2>Votes" not in report_page(report), "as on the page"
    for rows in (shown, printed):
        assert len(rows) > 5 and [row for row in rows if row[0] in ("Verdict", "Accepted for good", "Claimed output")] == []
    assert ["Verdict", verdict] in printed_rows(made.data, made.trust)
    assert ["Verdict", verdict] in rows_of(page, tmp_path / "true.capsule.json", made.data, "UNVERIFIABLE")


@in_chromium
def test_page_fits_a_narrow_screen_and_hides_its_form_on_paper(page: Browser, tmp_path: Path) -> None:
    file = tmp_path / "verdict.capsule.json"
    file.write_bytes(made_capsule("escalated").data)
    page.open(PAGE)
    page.call("Emulation.setDeviceMetricsOverride", width=320, height=800, deviceScaleFactor=1, mobile=False)
    page.choose("#file", file)
    page.until("document.getElementById('status').textContent.startsWith('UNVERIFIABLE')")
    assert page.value("document.documentElement.scrollWidth") <= 320
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.value("getComputedStyle(document.getElementById('drop')).display") == "none"
    assert page.value("getComputedStyle(document.querySelector('.running')).display") == "block"
    page.call("Emulation.setEmulatedMedia", media="screen")
    page.call("Emulation.clearDeviceMetricsOverride")
