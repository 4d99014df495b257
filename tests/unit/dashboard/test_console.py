"""The economics console and its replay of past disputes: parameters in force, changes, export, hostile input, charts."""

import csv
import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.economics.past_disputes import FLOWS
from bytewise.protocol.records.statements import Verdict
from chain.deployment.params import DEVNET, ETHER
from dashboard.views.console import ASSUMED, Chart, Series, parameter_values
from dashboard.views.console_sections import chance, ether, ratio, seconds
from dashboard.views.replay import NAMES, past_disputes, replay_page
from dashboard.views.scene import Scene
from dashboard.web.render import draw
from tests.fixtures.chain.anvil import running_anvil
from tests.fixtures.chain.devnet import word
from tests.fixtures.court.claimed_receipts import claimed
from tests.fixtures.court.session import DisputeFixture
from tests.fixtures.dashboard.indexed import TIMES, index_of
from tests.fixtures.dashboard.site import RecordedSite, empty_database, served

WAIT_S = 120.0
STAKES = " ".join(["64"] * 12)
SECTIONS = ("deterrence", "gains", "committees", "capture", "attacks", "watchtower", "times", "flows")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> RecordedSite:
    """Pages over the recorded index."""
    return RecordedSite(tmp_path_factory.mktemp("console"))


@pytest.fixture(scope="module")
def client(site: RecordedSite) -> Iterator[httpx2.Client]:
    """A visitor of them."""
    with served(site.app) as url, httpx2.Client(base_url=url, timeout=WAIT_S) as made:
        yield made


def rows_of(page: dict[str, object], section: str) -> list[dict[str, str]]:
    """Rows of a table by column."""
    sections = page["sections"]
    assert isinstance(sections, list)
    (found,) = (each for each in sections if each["id"] == section)
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def test_console_weighs_the_parameters_in_force(client: httpx2.Client) -> None:
    params = replace(DEVNET, times=replace(DEVNET.times, **TIMES))
    page = client.get("/console.json").json()
    assert page["parameters"] == {name: str(value) for name, value in parameter_values(params)}
    assert (page["params_version"], page["changed"], page["violations"]) == (1, [], [])
    assert [each["id"] for each in page["sections"]] == list(SECTIONS)
    assert page["meta"]["version"] == "0.1.0" and page["meta"]["block"]["number"] > 0


def test_changed_parameter_changes_what_follows_and_is_named(client: httpx2.Client) -> None:
    query = {"stakes": STAKES, "audit_rate_bps": "5000", "slash_amount": "4"}
    page = client.get("/console.json", params=query).json()
    assert page["changed"] == ["slash_amount", "audit_rate_bps"]
    assert page["parameters"]["slash_amount"] == str(4 * ETHER)
    # Twelve verifiers of 57.6 ETH have one seat each; 4 · (1 - 0.3 - 0.04) = 2.64.
    assert rows_of(page, "deterrence")[0]["Auditors"] == "6.00"
    (section,) = (each for each in page["sections"] if each["id"] == "deterrence")
    assert "2.64 ETH after its own rewards" in section["sentence"]


def test_console_links_to_the_replay_of_the_same_values(client: httpx2.Client) -> None:
    page = client.get("/console.json", params={"slash_amount": "4", "gas": "3", "fee_per_seat": "0.1"}).json()
    assert page["replay"] == "/console/replay?fee_per_seat=0.1&slash_amount=4"
    assert client.get(page["replay"]).status_code == 200
    assert client.get("/console.json", params={"alpha_bps": "9000"}).json()["replay"] == "/console/replay"


def test_broken_law_is_shown_with_the_figures(client: httpx2.Client) -> None:
    page = client.get("/console", params={"alpha_bps": "9000", "unbond_delay": "60"}).text
    assert "The contracts would refuse these parameters" in page
    assert "alpha_bps + beta_bps is 13000, and must be from 0 to 8000." in page
    assert "unbond_delay leaves 60 s, and must outlast the longest dispute" in page


def test_every_input_stands_beside_the_value_in_force(client: httpx2.Client) -> None:
    page = client.get("/console", params={"bounty": "0.002"}).text
    for name, _ in parameter_values(DEVNET):
        assert f'name="{name}"' in page and f'id="{name}-is">In force: ' in page.replace("\n", ""), name
    assert 'name="bounty" value="0.002"' in page and "In force: 0.0000001." in page
    assert all(f'name="{name}"' in page for name in (*ASSUMED, "stakes"))


def test_page_says_what_it_does_not_show(client: httpx2.Client) -> None:
    words = " ".join(client.get("/console").text.split())
    for sentence in ("The hostile are one party", "Prices are your inputs", "Deterrence is not proof",
                     "Nothing here says what an answer is worth to its reader"):  # fmt: skip
        assert sentence in words


def test_each_chart_is_followed_by_its_table(client: httpx2.Client) -> None:
    page = client.get("/console", params={"stakes": STAKES}).text
    for section in page.partition('id="export"')[0].split("<section ")[1:-1]:
        assert section.index("<svg") < section.index("<table"), section[:80]
    charts = re.findall(r"<svg class=\"chart\".*?</svg>", page, re.DOTALL)
    assert len(charts) == len(SECTIONS)
    assert all(ElementTree.fromstring(each).get("role") == "img" and "nan" not in each for each in charts)


def test_export_has_parameters_block_version_and_figures(client: httpx2.Client) -> None:
    link = {"stakes": STAKES, "gain": "0.05"}
    page = client.get("/console.json", params=link).json()
    assert page["assumptions"]["gain"] == "0.05 ETH" and page["assumptions"]["total_stake_wei"] == str(768 * ETHER)
    rows = list(csv.DictReader(io.StringIO(client.get("/console.csv", params=link).text)))
    assert [each["name"] for each in rows] == [each["name"] for each in page["items"]]
    assert {"name": "parameter bounty", "value": str(10**11), "unit": "contract"} in rows
    at = page["meta"]["block"]["number"]
    again = client.get("/console.json", params={**link, "block": at}).json()
    assert again["sections"] == page["sections"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gain", "nan"), ("gain", "inf"), ("gain", "-1"), ("gain", "1e30"), ("gain", "١"), ("gain", "0x10"), ("gain", "1" * 60),
        ("hostile", "100.1"), ("seeds", "0"), ("seeds", "1.5"), ("seeds", "99999999"), ("risk", "0"), ("tower_seats", "0.5"),
        ("slash_amount", "1e-19"), ("slash_amount", "79228162515"), ("window", "1.5"), ("window", "4294967296"),
        ("seats_1", "0"), ("seats_1", "256"),
        ("seats_1", "65536"), ("rounds", "0"), ("rounds", "9"), ("tau_den", "0"), ("tau_num", "1"),
        ("audit_unit", "0"), ("stakes", "1,x"), ("stakes", "1e10"), ("stakes", "9 " * 3_000), ("no_such_name", "1"),
        ("<script>", "1"), ("gas", "1e99"), ("alpha_bps", "65535"), ("hostile", "1e-99 OR 1"),
    ],
)  # fmt: skip
def test_hostile_input_is_refused_with_its_name(client: httpx2.Client, name: str, text: str) -> None:
    answer = client.get("/console.json", params={name: text})
    assert answer.status_code == 400, answer.text[:200]
    problem = answer.json()
    assert problem["code"] == "bad_parameter" and len(problem["detail"]) < 400
    page = client.get("/console", params={name: text})
    assert page.status_code == 400 and "<script" not in page.text


@pytest.mark.parametrize(
    "query",
    [
        {"hostile": "100"}, {"absent": "100"}, {"hostile": "0"}, {"client": "100"}, {"stakes": "0"}, {"stakes": "1e9"},
        {"audit_rate_bps": "0"}, {"audit_rate_bps": "10000", "stakes": STAKES}, {"slash_amount": "0"}, {"gain": "0"},
        {"fraud": "100"}, {"seeds": "1048576"}, {"fee_per_seat": "1000"}, {"gas": "0", "work": "0", "interest": "0"},
        {"window": "0"}, {"max_batch": "0"}, {"audit_unit": "1e-18"},
        {"rounds": "3", "seats_1": "101", "seats_2": "201", "seats_3": "255", "hostile": "12.34", "absent": "7.77"},
    ],
)  # fmt: skip
def test_extremes_are_weighed(client: httpx2.Client, query: dict[str, str]) -> None:
    page = client.get("/console", params=query)
    assert page.status_code == 200 and " nan" not in page.text.lower() and "inf ETH" not in page.text


def test_empty_index_has_no_parameters_to_weigh_or_replay(tmp_path: Path) -> None:
    with served(RecordedSite(tmp_path, database=empty_database(tmp_path)).app) as url:
        for path in ("console", "console/replay"):
            assert "No version of the parameters" in httpx2.get(f"{url}/{path}", timeout=WAIT_S).text


def test_numbers_for_people() -> None:
    assert (ether(1.5 * ETHER), ether(-ETHER), ether(float("inf")), ether(12_345 * ETHER)) == (
        "1.5 ETH", "-1 ETH", "no limit", "12,345 ETH",
    )  # fmt: skip
    assert (chance(0), chance(0.5), chance(1e-7), chance(1 - 1e-9), chance(1)) == (
        "0 %", "50 %", "1e-07", "almost 100 %", "100 %",
    )  # fmt: skip
    assert (ratio(float("inf")), ratio(6.464), seconds(90_061), seconds(0)) == ("no limit", "6.46", "1 d 1 h 1 min 1 s", "0 s")


def test_points_of_a_chart_lie_where_their_values_are() -> None:
    chart = Chart(kind="lines", x="x", y="y", series=(Series(name="one", points=((0, 0), (5, 10), (10, -10))),))
    (curve,) = re.findall(r'points="([^"]*)"', draw(chart, "A title"))
    places = [tuple(map(float, each.split(","))) for each in curve.split()]
    assert places[1][0] - places[0][0] == pytest.approx(places[2][0] - places[1][0], abs=0.2)
    assert places[0][1] - places[1][1] == pytest.approx(places[2][1] - places[0][1], abs=0.2)


def widths(values: tuple[float, ...], log: bool) -> list[float]:
    """Widths of drawn bars."""
    series = tuple(Series(name="a bar", points=((0.0, value),)) for value in values)
    drawn = draw(Chart(kind="bars", x="", y="", series=series, log_x=log), "")
    return [float(each) for each in re.findall(r'<rect [^>]*width="([0-9.]+)"', drawn)]


def test_bars_are_as_long_as_their_values() -> None:
    one, two, four = widths((1.0, 2.0, 4.0), log=False)
    assert (two, four) == (pytest.approx(2 * one, abs=0.2), pytest.approx(4 * one, abs=0.2))
    least, ten, hundred = widths((0.02, 0.2, 2.0), log=True)
    assert ten - least == pytest.approx(hundred - ten, abs=0.2)


def test_chart_escapes_its_words() -> None:
    shown = draw(Chart(kind="bars", x="<b>", y="", series=(Series(name="<script>", points=((0.0, 1.0),)),)), '"><script>')
    assert "<script" not in shown and "&lt;script&gt;" in shown


# --- the replay ---


def overturned(client: httpx2.Client, **changes: str) -> dict[str, Any]:
    """The dispute that ended in a conviction. The other one of the recorded chain may end or not: its draws decide."""
    found = client.get("/console/replay.json", params=changes).json()["disputes"]
    (one,) = (each for each in found if each["verdict"] == "overturned")
    assert isinstance(one, dict)
    return one


def replayed(client: httpx2.Client, **changes: str) -> dict[str, tuple[int, int, int]]:
    """Its amounts: as it was, least, largest."""
    lines = overturned(client, **changes)["lines"]
    return {each["flow"]: (int(each["was"]["wei"]), int(each["low"]["wei"]), int(each["high"]["wei"])) for each in lines}


def test_unchanged_parameters_give_the_chains_own_result(client: httpx2.Client) -> None:
    page = client.get("/console/replay.json").json()
    (ended,) = client.get("/disputes.json", params={"verdict": "overturned"}).json()["items"]
    own = client.get(f"/disputes/{ended['id']}.json").json()
    assert page["changed"] == {} and page["ended"] == page["kinds"]["recomputed"] == len(page["disputes"]) >= 1
    assert all(each["verdicts"] == [each["verdict"]] and not each["is_changed"] for each in page["disputes"])
    assert overturned(client)["id"] == ended["id"]
    amounts = replayed(client)
    assert set(amounts) == set(FLOWS) and all(was == low == high for was, low, high in amounts.values())
    assert amounts["slashed"][0] == DEVNET.money.slash_amount and amounts["penalties"][0] > 0
    assert str(amounts["burned"][0]) in str(own)


def test_other_alpha_moves_money_from_burned_to_challenger(client: httpx2.Client) -> None:
    now = replayed(client, alpha_bps=str(DEVNET.shares.alpha_bps + 500))
    moved = DEVNET.money.slash_amount * 500 // 10_000
    assert now["to_challenger"][1:] == (now["to_challenger"][0] + moved,) * 2
    assert now["burned"][1:] == (now["burned"][0] - moved,) * 2


def test_other_privacy_price_moves_bond_and_its_return(client: httpx2.Client) -> None:
    now = replayed(client, privacy_price="2")
    more = 2 * ETHER - DEVNET.money.privacy_price
    assert all(now[name][1:] == (now[name][0] + more,) * 2 for name in ("bond", "to_challenger"))
    assert now["burned"][0] == now["burned"][1] == now["burned"][2]


def test_smaller_slash_is_exact_and_larger_one_bounded(client: httpx2.Client) -> None:
    slash = DEVNET.money.slash_amount
    assert replayed(client, slash_amount=str(slash // ETHER / 2))["slashed"][1:] == (slash // 2,) * 2
    larger = replayed(client, slash_amount=str(4 * slash // ETHER))
    assert larger["slashed"] == (slash, slash, 4 * slash)
    assert larger["to_challenger"][1] < larger["to_challenger"][2]


def test_other_penalties_change_what_members_lose(client: httpx2.Client) -> None:
    now = replayed(client, absent_penalty="0", no_reveal_penalty="0", wrong_penalty="0")
    assert now["penalties"][0] > now["penalties"][1] == now["penalties"][2] == 0


def test_quorum_above_the_votes_leaves_the_verdict_open(client: httpx2.Client) -> None:
    found = overturned(client, tau_num="1", tau_den="1")
    assert found["kind"] == "bounded" and set(found["verdicts"]) == {"upheld", "overturned", "invalid", "unavailable", "draw"}
    last = overturned(client, tau_num="1", tau_den="1", rounds="1")
    assert (last["kind"], last["verdicts"]) == ("recomputed", ["draw"])
    amounts = replayed(client, tau_num="1", tau_den="1", rounds="1")
    assert amounts["slashed"][1:] == (0, 0) and amounts["burned"][1:] == (DEVNET.money.fee_per_seat,) * 2


def test_deadlines_are_not_answerable(client: httpx2.Client) -> None:
    page = client.get("/console/replay.json", params={"commit_time": "1"}).json()
    assert page["kinds"]["not answerable"] == page["ended"]
    assert all(each["verdicts"] == each["lines"] == [] for each in page["disputes"])
    words = " ".join(client.get("/console/replay", params={"commit_time": "1"}).text.split())
    assert "With others they would have acted otherwise" in words


def test_every_parameter_that_a_replay_takes_has_a_field(client: httpx2.Client) -> None:
    page = client.get("/console/replay").text
    assert all(f'name="{name}"' in page for name in NAMES) and 'name="gas"' not in page


def test_replay_export_has_parameters_and_amounts(client: httpx2.Client) -> None:
    page = client.get("/console/replay.json", params={"slash_amount": "1"}).json()
    rows = list(csv.DictReader(io.StringIO(client.get("/console/replay.csv", params={"slash_amount": "1"}).text)))
    assert [each["name"] for each in rows] == [each["name"] for each in page["items"]]
    assert any(each["name"] == "parameter slash_amount" and each["low"] == str(ETHER) for each in rows)
    assert any(each["dispute"] == "all" and each["name"] == "slashed wei" and each["low"] == str(ETHER) for each in rows)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("slash_amount", "nan"), ("slash_amount", "-1"), ("slash_amount", "1e30"), ("fee_per_seat", "1e-19"),
        ("alpha_bps", "8001"), ("operator_share_bps", "10001"), ("tau_num", "1"),
        ("tau_den", "0"), ("rounds", "0"), ("rounds", "4"), ("seats_1", "0"),
        ("seats_1", "256"), ("seats_1", "3.5"), ("gas", "1"), ("audit_unit", "1"), ("<script>", "1"), ("seats", "3"),
        ("commit_time", "4294967296"), ("max_reruns", "9" * 60),
    ],
)  # fmt: skip
def test_hostile_replay_is_refused(client: httpx2.Client, name: str, text: str) -> None:
    answer = client.get("/console/replay.json", params={name: text})
    assert answer.status_code == 400, answer.text[:200]
    assert answer.json()["code"] == "bad_parameter" and len(answer.json()["detail"]) < 400
    page = client.get("/console/replay", params={name: text})
    assert page.status_code == 400 and "<script" not in page.text


def test_index_facts_become_the_rounds_of_the_dispute(site: RecordedSite) -> None:
    with site.reader.snapshot() as snapshot:
        found = [past for _, past in past_disputes(Scene(snapshot, {}, 0, 0, ""))]
    (past,) = (each for each in found if each.verdict is Verdict.OVERTURNED)
    (one,) = past.rounds
    assert (one.seats, past.paid_seats, past.knew) == (15, one.lead, True) and one.lead >= 10
    assert [each.seats for each in one.groups if each.key == one.lead_key] == [one.lead]


def test_dispute_without_a_quorum_replays_to_the_wei(tmp_path: Path) -> None:
    with running_anvil() as anvil:
        court = DisputeFixture(anvil, tmp_path)
        court.open(0, word("wrong guess"))
        case = court.until(Phase.COMMIT)
        court.commit([court.vote(case, each.voter, claimed(court, 0)) for each in case.members][:3])
        court.until(Phase.FINAL)
        court.settled()
        made = index_of(anvil.client, court.network, tmp_path)
        with made.reader.snapshot() as snapshot:
            scene = Scene(snapshot, {}, 0, 0, "")
            ((_, past),) = past_disputes(scene)
            (same,) = replay_page(scene, {}).disputes
            (priced,) = replay_page(scene, {"fee_per_seat": "0.002"}).disputes
        made.engine.dispose()
    assert past.verdict is Verdict.DRAW and len(past.rounds) > 1
    assert (same.kind, same.verdicts, same.is_changed) == ("recomputed", ("draw",), False)
    # The treasury of this chain was empty, so it advanced nothing. A draw costs the challenger the fee of one seat.
    lines = {each.flow: each for each in priced.lines}
    assert lines["burned"].low.wei == lines["burned"].high.wei == str(2 * ETHER // 1000)
    assert lines["advanced"].low == lines["repaid"].low and lines["advanced"].high == lines["repaid"].high
