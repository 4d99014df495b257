"""The replay page: the chain's own results without changes, each change by hand, export, hostile input."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.economics.past_disputes import FLOWS
from bytewise.protocol.records.statements import Verdict
from chain.deployment.params import DEVNET, ETHER
from dashboard.views.replay import NAMES, past_disputes, replay_page
from dashboard.views.scene import Scene
from tests.fixtures.chain.anvil import running_anvil
from tests.fixtures.chain.devnet import word
from tests.fixtures.court.claimed_receipts import claimed
from tests.fixtures.court.session import DisputeFixture
from tests.fixtures.dashboard.indexed import index_of
from tests.fixtures.dashboard.site import RecordedSite, empty_database, served

WAIT_S = 120.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> RecordedSite:
    """Pages over the recorded index."""
    return RecordedSite(tmp_path_factory.mktemp("replay"))


@pytest.fixture(scope="module")
def client(site: RecordedSite) -> Iterator[httpx2.Client]:
    """A visitor of it."""
    with served(site.app) as url, httpx2.Client(base_url=url, timeout=WAIT_S) as made:
        yield made


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


def test_replay_of_an_empty_index_has_no_parameters(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("empty")
    with served(RecordedSite(folder, database=empty_database(folder)).app) as url:
        assert "No version of the parameters" in httpx2.get(f"{url}/console/replay", timeout=WAIT_S).text


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
