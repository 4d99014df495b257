"""The read API over a recorded index: content, cursors, tags, finality, hostile parameters, streams, limits."""

import base64
import json
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, text
from sqlalchemy.exc import DBAPIError

from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.index.tables import DisputeFact, EventRow
from dashboard.settings import ApiSettings
from dashboard.web.limits import MAX_VISITORS, RequestBudget
from tests.fixtures.chain.devnet import OPERATORS
from tests.fixtures.dashboard.site import RecordedSite, served
from tests.source import ROOT

OPENAPI = ROOT / "dashboard" / "web" / "openapi.json"
WAIT_S = 120.0
LISTS = ("disputes", "members", "batches", "demands", "audits", "operators", "verifiers", "models", "environments", "log")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> RecordedSite:
    """An application over the recorded index."""
    return RecordedSite(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def client(site: RecordedSite) -> Iterator[httpx2.Client]:
    """A client of its API."""
    with served(site.app) as url, httpx2.Client(base_url=f"{url}/api/v1", timeout=WAIT_S) as made:
        yield made


Own = tuple[RecordedSite, httpx2.Client]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Own]:
    """A site whose index a test may change, and a client of its API."""
    changed = RecordedSite(tmp_path)
    with served(changed.app) as url, httpx2.Client(base_url=f"{url}/api/v1", timeout=WAIT_S) as made:
        yield changed, made


def forget(site: RecordedSite, block: int) -> None:
    """The blocks from this one on are replaced."""
    with write_transaction(open_database(site.url)) as connection:
        connection.execute(delete(EventRow).where(EventRow.block >= block))
        connection.execute(text(f"DELETE FROM block WHERE number >= {block}"))


def ids(client: httpx2.Client, **query: str) -> list[str]:
    """Ids of disputes."""
    return [each["id"] for each in client.get("/disputes", params=query).json()["items"]]


def test_openapi_document_is_the_committed_one(client: httpx2.Client) -> None:
    told = client.get("/openapi.json").json()
    assert told["openapi"].startswith("3.1") and json.loads(OPENAPI.read_text()) == told, (
        "run tests/fixtures/dashboard/write_openapi.py"
    )


def test_dispute_has_votes_reasons_and_money(client: httpx2.Client) -> None:
    (overturned,) = ids(client, verdict="overturned")
    found = client.get(f"/disputes/{overturned}").json()
    data, meta = found["data"], found["meta"]
    assert (data["verdict"], data["phase"], data["operator"]["name"]) == ("overturned", "final", "lighthouse")
    assert data["sums"] and sum(int(each["amount"]["wei"]) for each in data["money_out"]) == sum(
        int(each["amount"]["wei"]) for each in data["money_in"]
    )
    (round_,) = data["rounds"]
    assert round_["quorum"] == 10 and sum(line["seats"] for line in round_["tally"]) == round_["seats"] == 15
    assert {each["did"] for each in round_["members"]} == {"revealed", "did not reveal", "did not commit"}
    assert [each for each in data["why"] if "found another answer" in each] and data["replacement"].startswith("0x")
    money = client.get("/money").json()["data"]
    taken, burned = ({each["label"]: each["amount"]["wei"] for each in money[name]} for name in ("taken", "burned_by_reason"))
    slashed = [each["amount"]["wei"] for each in data["money_in"] if each["label"] == "Slashed from the operator"]
    assert [taken["slash"]] == slashed and taken["seat penalty"] == burned["seat penalty"] == data["penalties"]["wei"] != "0"
    assert meta["chain_id"] == 31337 and meta["differences"] == [] and data["finality"] in ("pending", "safe", "finalized")


def test_open_dispute_names_acts_that_anybody_may_do(client: httpx2.Client) -> None:
    (open_,) = ids(client, state="open")
    data = client.get(f"/disputes/{open_}").json()["data"]
    assert data["acts"] and [step["name"] for step in data["steps"] if step["state"] == "current"]
    assert data["rounds"][0]["verdict"] == "none" and not data["ended"] and data["money_out"] == []
    for act in data["acts"]:
        assert re.fullmatch(r"0x[0-9a-f]{40}", act["to"])
        assert act["calldata"] is None or act["calldata"][10:74] == open_[2:]


def test_filters_select_and_cursor_goes_on(client: httpx2.Client) -> None:
    everything = ids(client)
    assert len(everything) == 2 and ids(client, operator=OPERATORS[0].address.upper().replace("0X", "0x")) == everything
    assert ids(client, operator=OPERATORS[1].address) == [] and ids(client, order="oldest") == everything[::-1]
    first = client.get("/disputes", params={"limit": 1}).json()
    second = client.get("/disputes", params={"limit": 1, "cursor": first["next_cursor"]}).json()
    assert [first["items"][0]["id"], second["items"][0]["id"]] == everything and second["next_cursor"] is None


@pytest.mark.parametrize("name", ["members", "log", "verifiers"])
def test_pages_of_a_list_are_the_whole_list(client: httpx2.Client, name: str) -> None:
    key = "after" if name == "log" else "cursor"
    found, query = [], {"limit": "7"}
    while True:
        page = client.get(f"/{name}", params=query).json()
        found += page["items"]
        if page["next_cursor"] is None:
            break
        query[key] = page["next_cursor"]
    whole = client.get(f"/{name}", params={"limit": 200}).json()["items"]
    if name == "members":
        assert sum(each["seats"] for each in found) == sum(each["seats"] for each in whole) > 15
    else:
        assert len(whole) == 200 or found == whole
        assert found[: len(whole)] == whole


def test_cursor_of_another_list_or_filter_is_refused(client: httpx2.Client) -> None:
    cursor = client.get("/disputes", params={"limit": 1}).json()["next_cursor"]
    for path, query in (("/disputes", {"order": "oldest"}), ("/disputes", {"state": "open"}), ("/verifiers", {})):
        answer = client.get(path, params={"cursor": cursor, **query})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_cursor")


def forged(client: httpx2.Client, *values: object) -> str:
    """A cursor with the right fingerprint and other values."""
    real = client.get("/disputes", params={"limit": 1}).json()["next_cursor"]
    told = json.loads(base64.urlsafe_b64decode(real + "=" * (-len(real) % 4)))
    return base64.urlsafe_b64encode(json.dumps([told[0], *values]).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "values",
    [
        (), (1,), (1, 2, 3), ("x'; DROP TABLE dispute; --", "y"), (None, None), ([], {}), (2**70, "0x" + "00" * 32), (-1, "z"),
        (True, False), ("\u0000", "\u0000"), (1.5, 2.5), ({"a": 1}, 2),
    ],
)  # fmt: skip
def test_forged_cursor_gives_no_error_of_the_server(client: httpx2.Client, values: tuple[object, ...]) -> None:
    answer = client.get("/disputes", params={"cursor": forged(client, *values)})
    assert answer.status_code in (200, 400), answer.text


HOSTILE = (
    "' OR 1=1 --", "0x' UNION SELECT 1 --", "; DROP TABLE dispute;", "\u0000", "%00", "../../etc/passwd", "{{7*7}}", "<script>",
    "0x" + "g" * 40, "0x" + "0" * 39, "-1", "9" * 30, "nan", "\ud7ff\U0010ffff", "a" * 5000, "", "null", "[]", "${jndi:x}",
)  # fmt: skip


@pytest.mark.parametrize("text_", HOSTILE)
def test_hostile_parameters_are_refused(client: httpx2.Client, site: RecordedSite, text_: str) -> None:
    before = (client.get("/disputes").json()["items"], site.writer.dump())
    for name in ("operator", "challenger", "receipt", "state", "verdict", "order", "limit", "cursor", "block"):
        answer = client.get("/disputes", params={name: text_})
        assert answer.status_code == 400 or (text_ == "" and answer.status_code == 200), (name, answer.text)
        if answer.status_code == 400:
            assert answer.headers["content-type"] == "application/problem+json" and answer.json()["code"] in (
                "bad_parameter",
                "bad_cursor",
            )
            assert text_ == "" or len(text_) < 4 or text_ not in answer.text
    assert (client.get("/disputes").json()["items"], site.writer.dump()) == before


PATHS = [
    path for path, verbs in json.loads(OPENAPI.read_text())["paths"].items() if "get" in verbs and not path.endswith("/events")
] if OPENAPI.exists() else []  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_parameter_gets_an_answer_that_the_document_promises(client: httpx2.Client, data: st.DataObject) -> None:
    document = json.loads(OPENAPI.read_text())
    path = data.draw(st.sampled_from(PATHS))
    operation = document["paths"][path]["get"]
    query: dict[str, Any] = {}
    for parameter in operation.get("parameters", []):
        good = _fitting(parameter["schema"])
        value = data.draw(st.one_of(good, st.text(string.printable, max_size=80)))
        if parameter["in"] == "path":
            path = path.replace(
                "{" + parameter["name"] + "}", httpx2.URL("http://x", params={"v": value or "0"}).query.decode()[2:]
            )
        elif data.draw(st.booleans()):
            query[parameter["name"]] = value
    answer = client.get(path.removeprefix("/api/v1"), params=query)
    assert str(answer.status_code) in operation["responses"], (path, query, answer.text)
    assert answer.status_code < 500


def _fitting(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    options = schema.get("anyOf", [schema])
    kinds = []
    for each in options:
        if "pattern" in each:
            kinds.append(st.from_regex(each["pattern"], fullmatch=True).map(lambda value: value.strip()))
        elif each.get("type") == "integer":
            kinds.append(st.integers(0, 400).map(str))
        elif "$ref" in each:
            kinds.append(st.sampled_from(["open", "final", "none", "upheld", "newest", "oldest", "match", "expired"]))
    return st.one_of(kinds) if kinds else st.just("")


def test_answer_is_tagged_and_not_sent_twice(client: httpx2.Client, site: RecordedSite) -> None:
    first = client.get("/disputes")
    again = client.get("/disputes", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"") and first.headers["cache-control"] == "no-cache"
    assert client.get("/operators", headers={"If-None-Match": first.headers["etag"]}).status_code == 200
    final = client.get("/meta").json()["finalized"]
    assert "immutable" in client.get("/disputes", params={"block": final}).headers["cache-control"]


def test_earlier_block_shows_the_state_of_then(client: httpx2.Client) -> None:
    (overturned,) = ids(client, verdict="overturned")
    opened = client.get(f"/disputes/{overturned}").json()["data"]["opened_block"]
    then = client.get(f"/disputes/{overturned}", params={"block": opened}).json()
    assert (then["data"]["phase"], then["meta"]["block"]["number"]) == ("seed", opened)
    before = client.get(f"/disputes/{overturned}", params={"block": opened - 1})
    assert (before.status_code, before.json()["code"]) == (404, "not_found")
    newest = client.get("/meta").json()["block"]["number"]
    answer = client.get("/disputes", params={"block": newest + 1})
    assert (answer.status_code, answer.json()["code"]) == (400, "no_block")


@pytest.mark.parametrize(
    "path", [f"/disputes/0x{'ab' * 32}", f"/receipts/0x{'ab' * 32}", "/batches/99", f"/operators/0x{'ab' * 20}"]
)
def test_what_never_was_is_not_found(client: httpx2.Client, path: str) -> None:
    answer = client.get(path)
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (404, 404, "not_found")
    assert problem["request_id"] == answer.headers["x-request-id"] and "is not in the index" in problem["detail"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_reads_are_answered(client: httpx2.Client, method: str) -> None:
    answer = client.request(method, "/disputes")
    assert answer.status_code == 405 and answer.headers["allow"] == "GET, HEAD"


def test_head_has_the_headers_and_no_body(client: httpx2.Client) -> None:
    whole, head = client.get("/disputes"), client.head("/disputes")
    assert head.status_code == 200 and head.content == b"" and head.headers["etag"] == whole.headers["etag"]
    assert client.head("/events").status_code == 405


def test_body_is_refused(client: httpx2.Client) -> None:
    assert client.request("GET", "/disputes", content=b"x").status_code == 413


def test_every_answer_has_the_security_headers(client: httpx2.Client) -> None:
    for path in ("/disputes", "/nothing", "/disputes?limit=0"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"] and headers["x-content-type-options"] == "nosniff"
        assert headers["access-control-allow-origin"] == "*" and "server" not in headers


def test_connection_of_the_site_writes_nothing(site: RecordedSite) -> None:
    engine = open_database(site.url, read_only=True)
    with pytest.raises(DBAPIError), engine.connect() as connection:
        connection.execute(text("DELETE FROM dispute"))
    with site.reader.snapshot() as snapshot:
        assert snapshot.count(DisputeFact) == 2


def test_too_many_requests_of_one_address_are_refused(tmp_path: Path) -> None:
    limited = RecordedSite(tmp_path, ApiSettings(requests_per_minute=3))
    with served(limited.app) as url:
        answers = [httpx2.get(f"{url}/api/v1/meta", timeout=WAIT_S) for _ in range(4)]
        assert [each.status_code for each in answers] == [200, 200, 200, 429]
        assert int(answers[3].headers["retry-after"]) >= 1 and answers[3].json()["retryable"]
        # Whoever is no trusted proxy cannot name another address.
        assert httpx2.get(f"{url}/api/v1/meta", headers={"X-Forwarded-For": "9.9.9.9"}, timeout=WAIT_S).status_code == 429


def test_trusted_proxy_names_the_visitor(tmp_path: Path) -> None:
    limited = RecordedSite(tmp_path, ApiSettings(requests_per_minute=1, trusted_proxies=("127.0.0.1",)))
    with served(limited.app) as url:
        for visitor in ("1.1.1.1", "9.9.9.9, 2.2.2.2", "3.3.3.3"):
            headers = {"X-Forwarded-For": visitor}
            assert httpx2.get(f"{url}/api/v1/meta", headers=headers, timeout=WAIT_S).status_code == 200
        spoofed = {"X-Forwarded-For": "8.8.8.8, 2.2.2.2"}
        assert httpx2.get(f"{url}/api/v1/meta", headers=spoofed, timeout=WAIT_S).status_code == 429


def test_budget_fills_again_and_forgets_silent_visitors() -> None:
    now = [0.0]
    budget = RequestBudget(60, lambda: now[0])
    assert [budget.take("a") for _ in range(60)] == [0.0] * 60 and budget.take("a") == pytest.approx(1.0)
    now[0] += 1.0
    assert budget.take("a") == 0.0 and budget.take("a") > 0
    for number in range(MAX_VISITORS):
        budget.take(str(number))
    assert budget.take("a") == 0.0


# --- the stream ---


def frames_of(lines: Iterator[str], count: int) -> list[dict[str, str]]:
    """The next frames with data."""
    found: list[dict[str, str]] = []
    frame: dict[str, str] = {}
    for line in lines:
        if not line:
            if "data" in frame:
                found.append(frame)
            frame = {}
            if len(found) == count:
                return found
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            frame[name] = value
    raise AssertionError("the stream ended")


def test_stream_goes_on_behind_the_last_event(client: httpx2.Client) -> None:
    events = client.get("/log", params={"limit": 5}).json()["items"]
    with client.stream("GET", "/events", headers={"Last-Event-ID": events[1]["id"]}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        frames = frames_of(answer.iter_lines(), 3)
    assert [frame["id"] for frame in frames] == [each["id"] for each in events[2:5]]
    assert json.loads(frames[0]["data"])["name"] == events[2]["name"]


def test_stream_says_what_was_replaced(client: httpx2.Client) -> None:
    newest = client.get("/log", params={"order": "newest", "limit": 1}).json()["items"][0]
    block, place, start = newest["id"].split(".")
    lost = f"{block}.{place}.{start[:-1]}{'0' if start[-1] != '0' else '1'}"
    final = client.get("/meta").json()["finalized"]
    with client.stream("GET", "/events", headers={"Last-Event-ID": lost}) as answer:
        first, second = frames_of(answer.iter_lines(), 2)
    assert first["event"] == "reorg" and json.loads(first["data"]) == {"block": final}
    assert json.loads(second["data"])["block"] > final


def test_open_stream_sees_a_rollback(own: Own) -> None:
    site, client = own
    events = client.get("/log", params={"order": "newest", "limit": 3}).json()["items"]
    with client.stream("GET", "/events", headers={"Last-Event-ID": events[2]["id"]}) as answer:
        lines = answer.iter_lines()
        frames_of(lines, 2)
        forget(site, events[0]["block"])
        (frame,) = frames_of(lines, 1)
    assert frame["event"] == "reorg" and json.loads(frame["data"])["block"] < events[0]["block"]


@pytest.mark.parametrize("end", ["reorg", "final"])
def test_stream_of_reorg_alone_ends_with_what_becomes_of_its_block(own: Own, end: str) -> None:
    site, client = own
    (watched,) = client.get("/log", params={"order": "newest", "limit": 1}).json()["items"]
    with client.stream("GET", "/events", params={"only": "reorg", "after": watched["id"]}) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "retry: 3000"
        if end == "reorg":
            forget(site, watched["block"])
        else:
            with write_transaction(open_database(site.url)) as connection:
                connection.execute(text(f"UPDATE index_meta SET value = '{watched['block']}' WHERE name = 'finalized'"))
        rest = [line for line in lines if line.startswith("event:")]
    assert rest[0] == f"event: {end}" and set(rest) <= {"event: reorg", "event: final"}


@pytest.mark.parametrize("bad", ["x", "1", "1.2", "1.2.zz", "9" * 40 + ".1." + "0" * 16, "-1.0." + "0" * 16])
def test_stream_refuses_a_forged_event_id(client: httpx2.Client, bad: str) -> None:
    assert client.get("/events", headers={"Last-Event-ID": bad}).status_code == 400


def test_one_address_has_few_streams(client: httpx2.Client) -> None:
    streams = [client.stream("GET", "/events") for _ in range(4)]
    opened = [each.__enter__() for each in streams]
    assert [each.status_code for each in opened] == [200] * 4
    assert client.get("/events").status_code == 429
    for each in streams:
        each.__exit__(None, None, None)
