"""The schedule, the fault proxy and the judge of `make soak-node`: each check passes on what is right, and finds its own planted
fault."""

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bench.soak_node import flatness, oracle
from bench.soak_node.__main__ import RESULTS, arguments
from bench.soak_node.campaign import Head, Record
from bench.soak_node.faults import Incident
from bench.soak_node.flatness import Sample
from bench.soak_node.history import Event, History, Transaction, read_history, until_lost
from bench.soak_node.oracle import Disturbances, ProcessEnd, Receipt
from bench.soak_node.report import known, planted
from bench.soak_node.schedule import KINDS, LONG_S, QUORUM, SPARED, schedule
from bytewise.protocol.court.settlement import SeatOutcome
from bytewise.protocol.records.statements import AuditOutcome, Verdict
from bytewise.service.clock import monotonic_s
from bytewise.service.settings import child_environment
from cli.demo.site import free_ports
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import deployed
from tests.source import ROOT

DISPUTE, RECEIPT = b"d" * 32, b"r" * 32
ADA, TOWER, SPITE = "0xada", "0x70e3", "0x591e"
WINDOW_END = 200


def event(name: str, block: int = 5, time: int = 100, sender: str = ADA, **values: Any) -> Event:
    return Event(name, values, block, time, sender)


OPENED = event("Disputes.DisputeOpened", receiptId=RECEIPT, id=DISPUTE, challenger=TOWER)
DRAWN = event("Disputes.CommitOpened", id=DISPUTE, round=1, commitEnd=145, revealEnd=170)
OVERTURNED = event("Disputes.Finalized", id=DISPUTE, verdict=int(Verdict.OVERTURNED))


def seats(*outcomes: SeatOutcome) -> list[Event]:
    """Ada's seats of the round, and her votes, if she did vote."""
    done = {SeatOutcome.RIGHT: ("Committed", "Revealed"), SeatOutcome.NOT_REVEALED: ("Committed",), SeatOutcome.ABSENT: ()}
    votes = [event(f"Rounds.{name}", id=DISPUTE, round=1, voter=ADA) for name in done[outcomes[0]]]
    settled: dict[str, Any] = {"id": DISPUTE, "round": 1, "from": 0, "holders": [ADA] * len(outcomes)}
    return [*votes, event("Settlement.SeatsSettled", **settled)]


def history(*events: Event, transactions: Sequence[Transaction] = (), ledger: int = 0, vault: int = 0) -> History:
    return History(list(events), list(transactions), [], {"Ledger": ledger, "StakeVault": vault}, 0)


def disturbed(*incidents: Incident) -> Disturbances:
    """Second n of the run is chain time n, and block n came in second n."""
    return Disturbances(incidents, float, float)


def receipts() -> Mapping[bytes, Receipt]:
    return {RECEIPT: Receipt(RECEIPT, "0xop", 0, b"t", b"o", WINDOW_END)}


def commitment(value: bytes) -> Transaction:
    return Transaction(ADA, "Rounds.commit", {"id": DISPUTE, "seatMask": 1, "commitment": value})


def vote(salt: bytes) -> Transaction:
    return Transaction(ADA, "Rounds.reveal", {"vote": {"dispute": DISPUTE, "round": 1, "salt": salt}, "quote": b""})


# The schedule.


def test_schedule_is_a_function_of_the_seed_and_has_every_kind() -> None:
    faults = list(schedule(7, 1_800))
    assert faults == list(schedule(7, 1_800)) != list(schedule(8, 1_800))
    assert {each.kind for each in faults} == set(KINDS)
    assert all(each.target in KINDS[each.kind].targets and each.at_s + each.for_s <= 1_800 for each in faults)
    assert all(a.at_s + a.for_s < b.at_s for a, b in itertools.pairwise(faults)), "one after the other"


def test_schedule_has_the_deepest_reorganisation_and_spares_some_actors() -> None:
    faults = list(schedule(1, 20_000))
    depths = {each.value for each in faults if each.kind == "reorganisation"}
    assert {1.0, 64.0} <= depths and max(depths) == 64
    ended = {each.target for each in faults if KINDS[each.kind].ends_process or each.kind == "pause-actor"}
    assert not ended & set(SPARED) and {"ada", "honest", "shard1", "da", "watchtower", "ben-enclave"} <= ended


def test_no_process_ends_late_in_the_run_so_that_memory_is_watched() -> None:
    faults = list(schedule(1, 7_200))
    ends = [each.at_s + each.for_s for each in faults if KINDS[each.kind].ends_process]
    assert max(ends) <= 3_600 < faults[-1].at_s and len(ends) > 80
    assert LONG_S / 2 > 2 * flatness.SETTLED_S + flatness.START_S + 20, "also in the shortest long run"
    assert {each.kind for each in schedule(1, LONG_S - 1, chosen=frozenset({"kill-da"})) if each.at_s > LONG_S / 2} == {"kill-da"}
    assert {each.kind for each in schedule(1, LONG_S, chosen=frozenset({"kill-da"}))} == {"kill-da"}
    assert {each.kind for each in faults if each.at_s > 3_600} == {name for name, kind in KINDS.items() if not kind.ends_process}


def test_what_the_machine_lacks_is_left_out() -> None:
    kinds = {each.kind for each in schedule(1, 3_000, frozenset({"libfaketime", "a PostgreSQL server"}))}
    assert not kinds & {"clock-jump", "database-cut"} and "disk-full" in kinds
    assert {each.kind for each in schedule(1, 300, chosen=frozenset({"kill-gossip"}))} == {"kill-gossip"}


def test_short_run_of_make_check_has_the_same_faults_on_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not replace the committed figures."""
    text = (ROOT / "Makefile").read_text()
    recipe, check = (text.partition(f"\n{verb}:")[2].partition("\n\n")[0] for verb in ("soak-node-short", "check"))
    words = recipe.replace("\\\n", " ").partition("-m bench.soak_node ")[2].split()
    monkeypatch.setattr(sys, "argv", ["soak_node", *words])
    options = arguments()
    chosen, lacking = frozenset(options.only), frozenset(each.needs for each in KINDS.values() if each.needs)
    faults = list(schedule(options.seed, options.seconds, lacking, chosen))
    assert 75 <= options.seconds <= 90 and len(faults) == 9
    assert faults == list(schedule(options.seed, options.seconds, chosen=chosen))
    assert {"kill-member", "kill-shard", "rpc-lie", "reorganisation", "da-error"} <= {each.kind for each in faults}
    assert options.out != RESULTS
    assert [line for line in check.splitlines() if "--jobs=3 static contracts soak-node-short" in line]


# The judge.


def test_run_in_which_nothing_happened_is_found() -> None:
    assert oracle.emptiness(9, 3, 9) == [] and len(oracle.emptiness(0, 0, 0)) == 3
    assert oracle.emptiness(9, 0, 9) == ["no fraud was planted"]


def test_one_commitment_sent_again_is_one_vote() -> None:
    signed = [commitment(b"1"), commitment(b"1"), vote(b"s"), vote(b"s")]
    assert oracle.double_votes(signed, history(DRAWN, transactions=[commitment(b"1")])) == []


@pytest.mark.parametrize(
    "signed", [[commitment(b"1"), commitment(b"2")], [commitment(b"1"), vote(b"s"), vote(b"another")]], ids=["commit", "reveal"]
)
def test_two_signed_votes_of_one_round_are_found(signed: list[Transaction]) -> None:
    assert len(oracle.double_votes(signed, history(DRAWN))) == 1


def test_second_round_allows_a_second_commitment() -> None:
    second = event("Disputes.CommitOpened", id=DISPUTE, round=2, commitEnd=1, revealEnd=2)
    assert oracle.double_votes([commitment(b"1"), commitment(b"2")], history(DRAWN, second)) == []
    assert oracle.double_votes([commitment(x) for x in (b"1", b"2", b"3")], history(DRAWN, second)) != []


def test_two_commitments_on_the_chain_are_found() -> None:
    committed = event("Rounds.Committed", id=DISPUTE, round=1, voter=ADA)
    assert oracle.double_votes([], history(DRAWN, committed)) == []
    assert oracle.double_votes([], history(DRAWN, committed, committed)) != []


def test_challenge_of_a_planted_fraud_is_right_and_of_another_false() -> None:
    assert oracle.false_challenges(history(OPENED), receipts(), {RECEIPT}, {TOWER}) == []
    assert len(oracle.false_challenges(history(OPENED), receipts(), set(), {TOWER})) == 1
    assert oracle.false_challenges(history(OPENED), receipts(), set(), {SPITE}) == [], "only honest watchtowers are judged"


def mismatches(*times: int) -> list[Event]:
    return [
        event("Audits.AuditPosted", time=time, receiptId=RECEIPT, verifier=f"0x{time}", result=int(AuditOutcome.MISMATCH))
        for time in times
    ]


def test_audited_fraud_must_be_disputed_and_overturned() -> None:
    def fates(*events: Event, incidents: Sequence[Incident] = ()) -> oracle.FraudFates:
        return oracle.fates_of_frauds(history(*events), receipts(), {RECEIPT}, disturbed(*incidents))

    assert fates(OPENED, OVERTURNED) == oracle.FraudFates(overturned=1)
    assert fates(*mismatches(150)).unnoticed == 1, "one auditor does not convince a watchtower"
    assert fates(*mismatches(150, 195)).unnoticed == 1, "too late"
    assert len(fates(*mismatches(150, 160)).violations) == 1
    away = Incident("kill-watchtower", "watchtower", 150.0, 195.0)
    assert fates(*mismatches(150, 160), incidents=[away]).unnoticed == 1
    upheld = event("Disputes.Finalized", id=DISPUTE, verdict=int(Verdict.DRAW))
    assert len(fates(OPENED, upheld, *seats(SeatOutcome.RIGHT)).violations) == 1
    assert fates(OPENED, upheld, *seats(SeatOutcome.ABSENT)).undecided == 1


KILLED, AWAY = Incident("kill-watchtower", "watchtower", 90.0, 110.0), Incident("rpc-error", "watchtower", 95.0, 101.0)


@pytest.mark.parametrize(
    ("code", "incidents", "is_expected"),
    [
        (5, [KILLED, AWAY], True), (70, [KILLED, AWAY], False), (5, [KILLED], False), (5, [AWAY], False),
        (5, [KILLED, replace(AWAY, target="ada")], False), (5, [KILLED, replace(AWAY, start=101.0, end=104.0)], False),
        (5, [KILLED, Incident("chain-pause", "chain", 95.0, 99.0)], True),
    ],
)  # fmt: skip
def test_only_a_start_without_the_chain_may_end_a_process(code: int, incidents: list[Incident], is_expected: bool) -> None:
    wrong = oracle.unexpected_ends([ProcessEnd("watchtower", code, 100.0)], incidents)
    assert len(wrong) == (not is_expected)


def duties(*incidents: Incident, outcome: SeatOutcome = SeatOutcome.ABSENT) -> oracle.Duties:
    return oracle.duties(history(OPENED, replace(DRAWN, block=100), *seats(outcome)), {ADA: "ada"}, disturbed(*incidents))


def test_seat_without_a_fault_in_its_window_must_vote() -> None:
    assert duties(outcome=SeatOutcome.RIGHT).violations == ()
    assert len(duties().violations) == 1 and len(duties(outcome=SeatOutcome.NOT_REVEALED).violations) == 1


@pytest.mark.parametrize(("signers", "missed"), [(0b1, 0), (0b11, 0), (0b10, 1), (0, 1)])
def test_seat_that_signed_the_certificate_has_voted(signers: int, missed: int) -> None:
    certified = event("Rounds.Certified", id=DISPUTE, round=1, signers=signers)
    found = history(OPENED, replace(DRAWN, block=100), certified, *seats(SeatOutcome.ABSENT))
    assert oracle.duties(found, {ADA: "ada"}, disturbed()).missed == missed


def test_killed_gossip_process_excuses_no_seat() -> None:
    assert len(duties(Incident("kill-gossip", "ada-gossip", 100.0, 200.0)).violations) == 1


@pytest.mark.parametrize(
    ("incident", "is_excused"),
    [
        (Incident("kill-member", "ada", 110.0, 130.0), True),
        (Incident("kill-enclave", "ada-enclave", 110.0, 130.0), True),
        (Incident("da-drop", "all", 115.0, 130.0), True),
        (Incident("kill-member", "ben", 110.0, 130.0), False),
        (Incident("kill-shard", "shard1", 110.0, 130.0), False),
        (Incident("kill-member", "ada", 101.0, 105.0), False),
        (Incident("reorganisation", "all", 101.0, 102.0, 5.0, 102), True),
        (Incident("reorganisation", "all", 101.0, 102.0, 1.0, 102), False),
    ],
)
def test_only_a_fault_of_what_the_seat_needs_excuses_it(incident: Incident, is_excused: bool) -> None:
    found = duties(incident)
    assert (found.missed, found.excused, len(found.violations)) == (1, int(is_excused), int(not is_excused))


def test_two_shards_away_at_once_excuse_all_seats() -> None:
    one, other = Incident("kill-shard", "shard1", 105.0, 135.0), Incident("pause-actor", "shard2", 110.0, 140.0)
    assert duties(one, other).violations == () != duties(one).violations


def test_machine_with_too_much_work_excuses_seats_and_is_counted() -> None:
    found = oracle.overloads([(0.0, 5.0), (10.0, 6.5), (20.0, 3.0)], 2, 10.0)
    assert [(each.start, each.end) for each in found] == [(0.0, 20.0)]
    assert duties(replace(found[0], start=110.0, end=140.0)).violations == ()


def money(**changes: int) -> History:
    account = dict.fromkeys(
        ("appealBond", "advanced", "slashed", "toChallenger", "toAppellant", "toOperator", "toVerifiers", "repaid"), 0
    )
    ended = event("Settlement.Ended", id=DISPUTE, account={**account, "bond": 7, "burned": changes.get("burned", 7)})
    taken, burned = event("Ledger.Taken", amount=7), event("Ledger.Burned", amount=7)
    staked, slashed = event("StakeVault.Deposited", amount=9), event("StakeVault.Slashed", taken=2)
    ledger, vault = changes.get("ledger", 7), changes.get("vault", 7)
    return history(ended, taken, burned, staked, slashed, ledger=ledger, vault=vault)


def test_money_that_does_not_sum_is_found() -> None:
    assert oracle.money(money()) == []
    for wrong in ({"burned": 6}, {"ledger": 8}, {"vault": 9}):
        assert len(oracle.money(money(**wrong))) == 1, wrong


def test_planted_frauds_are_known_by_both_hashes(tmp_path: Path) -> None:
    path = tmp_path / "planted.jsonl"
    assert planted(path, receipts()) == set()
    path.write_text(json.dumps({"kind": "x", "tokens": b"t".hex(), "out": b"o".hex()}) + "\n")
    assert planted(path, receipts()) == {RECEIPT}
    path.write_text(json.dumps({"kind": "x", "tokens": b"t".hex(), "out": b"p".hex()}) + "\n")
    assert planted(path, receipts()) == set()


def test_times_of_the_chain_are_placed_in_the_run_even_when_they_go_back() -> None:
    record = Record([Head(0.0, 1, 10), Head(1.0, 2, 11), Head(2.0, 2, 9), Head(3.0, 3, 12)])
    assert (record.when(11), record.when(12), record.seen(2), record.when(99)) == (1.0, 3.0, 1.0, 3.0)


# Flatness.


def life(grows_by: int, descriptors: int = 10) -> list[Sample]:
    return [
        Sample(t, "eva", 1, 2**27 + int(grows_by * t / 3600), 10 if t < 2_400 else descriptors, 5) for t in range(0, 3_600, 10)
    ]


def test_growth_of_memory_or_descriptors_is_found() -> None:
    assert [each.wrong() for each in flatness.lives(life(2**20))] == [[]]
    assert "memory" in flatness.lives(life(200 * 2**20))[0].wrong()[0]
    assert "descriptors" in flatness.lives(life(0, descriptors=40))[0].wrong()[0]
    assert flatness.lives(life(0)[:60]) == [], "too short to be judged"
    young = flatness.lives(life(500 * 2**20)[:100])[0]
    assert young.rss_mib_per_hour is None and "memory has grown by" in young.wrong()[0], "too short for a slope"
    chain = [replace(each, name="chain") for each in life(200 * 2**20, descriptors=40)]
    assert ["descriptors" in wrong for wrong in flatness.lives(chain)[0].wrong()] == [True], "its memory is judged by receipts"


def test_process_whose_last_life_was_too_short_is_named() -> None:
    whole = [replace(each, t=each.t + 3_600) for each in life(0)]
    young = [replace(each, name="ada", pid=2, t=each.t - 600) for each in whole[-60:]]
    again = [replace(each, pid=3) for each in whole[-60:]]
    assert flatness.unwatched(whole, 3_600) == []
    assert flatness.unwatched([*whole, *young], 3_600) == ["ada: its last life was too short to be judged"], (
        "also if it is away at the end"
    )
    assert flatness.unwatched([*life(0), *whole[:60], *again], 3_600) == ["eva: its last life was too short to be judged"]
    for passing in ("challenger", "ada-second"):
        assert flatness.unwatched([replace(each, name=passing) for each in whole[-60:]], 3_600) == []
    assert flatness.unwatched([*whole, *young], 6_000) == [], "a fault ended a process late"


def test_database_that_grows_faster_per_receipt_is_found() -> None:
    linear = [(10 * n, 1_000 + 100 * n) for n in range(30)]
    worse = [(10 * n, 1_000 + 10 * n * n) for n in range(30)]
    found = flatness.growth({"linear": linear, "worse": worse, "too few": [(n, n * n) for n in range(30)]})
    assert found["linear"] <= flatness.GROWTH < found["worse"] and "too few" not in found
    shrinks = [(10 * n, 2**31 - n * 2**20 if n <= 20 else 2**31 + n * 2**30) for n in range(30)]
    assert flatness.growth({"chain": shrinks})["chain"] > flatness.GROWTH, "memory that shrank before"


# The proxy, in front of a real chain.


@pytest.fixture
def proxy(anvil: Anvil, tmp_path: Path) -> Iterator[str]:
    (port,) = free_ports(1)
    options = ["--chain", anvil.url, "--da", "http://127.0.0.1:1", "--port", str(port), "--record", str(tmp_path / "record")]
    process = subprocess.Popen([sys.executable, "-m", "adversaries.faulty_proxy", *options], cwd=ROOT, env=child_environment())
    url, deadline = f"http://127.0.0.1:{port}", monotonic_s() + 60
    try:
        while True:
            try:
                httpx2.get(f"{url}/control", timeout=5.0)
                break
            except httpx2.TransportError:
                assert process.poll() is None and monotonic_s() < deadline
        yield url
    finally:
        process.terminate()
        assert process.wait(60) == 0


def ask(url: str, endpoint: str, method: str, *params: Any) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx2.post(f"{url}/rpc/{endpoint}", json=body, timeout=30.0)


def order(url: str, endpoint: str, fault: str, value: float = 0.0) -> None:
    httpx2.post(f"{url}/control", json={"endpoint": endpoint, "fault": fault, "value": value}, timeout=30.0).raise_for_status()


def test_proxy_has_each_fault_at_the_ordered_endpoint_only(proxy: str, anvil: Anvil, tmp_path: Path) -> None:
    anvil.mine(3)
    true = ask(proxy, "ada/1", "eth_getBlockByNumber", "latest", False).json()["result"]
    order(proxy, "rpc/ada/1", "lie")
    assert ask(proxy, "ada/1", "eth_getBlockByNumber", "latest", False).json()["result"]["hash"] != true["hash"]
    assert ask(proxy, "ada/2", "eth_getBlockByNumber", "latest", False).json()["result"]["hash"] == true["hash"]
    order(proxy, "rpc/ada/1", "stale")
    anvil.mine(2)
    assert ask(proxy, "ada/1", "eth_getBlockByNumber", "latest", False).json()["result"]["number"] == true["number"]
    assert ask(proxy, "ada/1", "eth_getBlockByNumber", hex(int(true["number"], 16) + 1), False).json()["result"] is None
    order(proxy, "rpc/ada/1", "")
    assert ask(proxy, "ada/1", "eth_blockNumber").json()["result"] == hex(int(true["number"], 16) + 2)
    for fault, status in (("error", 500), ("refuse", 429)):
        order(proxy, "rpc/ada", fault)
        assert ask(proxy, "ada/3", "eth_blockNumber").status_code == status
    for fault in ("drop", "lose"):
        order(proxy, "rpc/ada", fault)
        with pytest.raises(httpx2.TransportError):
            ask(proxy, "ada/1", "evm_mine")
    order(proxy, "rpc/ada", "")
    assert ask(proxy, "ada/1", "eth_blockNumber").json()["result"] == hex(int(true["number"], 16) + 3), "what was lost happened"
    assert httpx2.get(f"{proxy}/control", timeout=5.0).json()["lie"] >= 1
    ask(proxy, "ben", "eth_sendRawTransaction", "0x02")
    assert [json.loads(line)["raw"] for line in (tmp_path / "record").read_text().splitlines()] == ["0x02"]
    assert set(QUORUM) <= {*KINDS["rpc-lie"].targets}


def test_votes_after_a_lost_block_are_judged_only_where_rounds_are_known() -> None:
    later = replace(commitment(b"1"), values={"id": b"e" * 32, "seatMask": 1, "commitment": b"1"})
    signed = [commitment(b"1"), vote(b"1"), later, replace(later, values={**later.values, "commitment": b"2"})]
    whole, cut = history(OPENED, DRAWN), replace(history(OPENED, DRAWN), is_whole=False)
    assert known(signed, whole) == signed and len(oracle.double_votes(known(signed, whole), whole)) == 1
    assert known(signed, cut) == signed[:2] and oracle.double_votes(known(signed, cut), cut) == []
    twice = [*signed, commitment(b"2")]
    assert len(oracle.double_votes(known(twice, cut), cut)) == 1, "a dispute that the history has is judged all the same"


def test_a_chain_that_lost_a_block_is_read_up_to_it(anvil: Anvil) -> None:
    network: Any = deployed(anvil)
    found = read_history(anvil.url, network)
    assert found.is_whole and len(found.times) == anvil.client.head().number + 1
    assert [each["n"] for each, _ in until_lost([({"n": 1}, []), ({"n": 2}, []), (None, None), ({"n": 4}, [])])] == [1, 2]
