"""Each invariant on a real chain: it holds, it is broken once, and a node that lies, lags or is away accuses nobody."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.address_book import Network
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.sortition import BEACON_DELAY_BLOCKS, audit_is_drawn, seats_in_audit_draw
from bytewise.protocol.digests import keccak256
from bytewise.protocol.keys.epochs import Decision
from bytewise.protocol.keys.release_log import SignedRelease
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.records.statements import AuditOutcome, AuditResult, Release, audit_commitment
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import U8, U64, ZERO_DIGEST, Blob, Digest, hex0x
from bytewise.service.settings import load_settings
from bytewise.storage.index.tables import DisputeFact, VoteFact
from chain.client.address_book import write_network
from chain.deployment.calls import call_of
from chain.deployment.deploy import compromise_epoch
from chain.deployment.params import DEVNET
from chain.sending.transactions import send_all
from cli.demo.site import write_toml
from dashboard.monitor.checks import audits_agree, unproven_audits_agree
from dashboard.monitor.findings import CheckReport, InvariantFinding, InvariantState, conclude, exit_of_results
from dashboard.monitor.invariants import INVARIANTS, NAMES, all_unknown
from dashboard.monitor.observation import EpochLogs, MoneySource, Observation, ShardLog
from dashboard.monitor.settings import InvariantSettings, MonitorSettings
from dashboard.monitor.wiring import Monitor
from dashboard.views.scene import Scene
from tests.fixtures.chain.anvil import Anvil, running_anvil
from tests.fixtures.chain.devnet import GUARDIAN, OPERATORS, SHARDS, STAKE_WEI, VERIFIERS, mine, word
from tests.fixtures.chain.devnet import batch as receipts_of
from tests.fixtures.chain.lying_endpoints import LyingEndpoint, fronts, gone
from tests.fixtures.court.claimed_receipts import claimed
from tests.fixtures.court.session import TRUE, DisputeFixture
from tests.fixtures.dashboard.indexed import Indexed, overturned_chain
from tests.fixtures.dashboard.memory_chain import ACCOUNTS, Made, MemoryChain, audit
from tests.fixtures.dashboard.monitored import GRACE_S, Monitored, evaluated
from tests.fixtures.storage.hand_clock import HandClock
from tests.source import ROOT

HOLDS, BROKEN, UNKNOWN = InvariantState.HOLDS, InvariantState.BROKEN, InvariantState.UNKNOWN
LOGS = {"logs-extend", "logs-cover"}
"""Invariants that need shards. Of most networks here nobody serves them, so both are unknown."""
CHAIN_ONLY = [name for name in NAMES if name not in LOGS]


@pytest.fixture(scope="module")
def overturned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DisputeFixture]:
    """A chain on which an operator was convicted though one member was absent and one did not reveal."""
    with overturned_chain(tmp_path_factory.mktemp("overturned")) as court:
        yield court


def test_healthy_network_holds_every_invariant_of_the_chain(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    seen = Monitored(tmp_path / "monitor", court.network, anvil.url)
    assert {name: state for name, state in seen.states().items() if state is not HOLDS} == dict.fromkeys(LOGS, UNKNOWN)
    court.open(0, word("wrong guess"))
    court.judged(claimed(court, 0))
    court.settled()
    found = seen.look()
    assert [name for name in CHAIN_ONLY if found[name].state is not HOLDS] == []
    told = json.loads(json.dumps(seen.monitor.look().document()))
    assert [each["invariant"] for each in told["invariants"]] == list(NAMES) and told["block"] == anvil.client.head().number


# --- the court ---


def test_missing_votes_break_members_present(overturned: DisputeFixture, tmp_path: Path) -> None:
    found = Monitored(tmp_path, overturned.network, overturned.anvil.url).look()
    assert found["members-present"].state is BROKEN and found["votes-agree"].state is HOLDS
    said = [re.search(r"\) (.*)", each.text) for each in found["members-present"].findings]
    assert sorted(each[1] for each in said if each) == ["committed and did not reveal", "did not commit"]


def test_vote_against_its_round_and_finished_airgap_break_their_invariants(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    court.open(0, word("wrong guess"))
    wrong = min(court.until(Phase.COMMIT).members, key=lambda each: each.seat_mask.bit_count())
    court.judged(lambda voter: TRUE if voter == wrong.voter else claimed(court, 0), Phase.APPEAL)
    seen = Monitored(tmp_path / "monitor", court.network, anvil.url)
    look = seen.look()
    found = look["votes-agree"]
    assert found.state is BROKEN and [each.subject for each in found.findings] == [hex0x(court.dispute)]
    assert wrong.voter in found.findings[0].text
    assert look["disputes-advance"].state is HOLDS
    anvil.pass_time(DEVNET.times.appeal_time + DEVNET.times.airgap + GRACE_S + 2)
    found = seen.look()["disputes-advance"]
    assert found.state is BROKEN and "nobody finished it" in found.findings[0].text


def test_overdue_move_breaks_disputes_advance_until_somebody_makes_it(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    seen = Monitored(tmp_path / "monitor", court.network, anvil.url)
    court.open(0, word("wrong guess"))
    mine(anvil, 2)
    anvil.pass_time(DEVNET.times.seed_time + DEVNET.times.draw_time)
    assert seen.states()["disputes-advance"] is HOLDS
    anvil.pass_time(GRACE_S + 1)
    late = seen.look()
    assert late["disputes-advance"].state is BROKEN and "its seats should be drawn" in late["disputes-advance"].findings[0].text
    court.until(Phase.COMMIT)
    assert seen.states()["disputes-advance"] is HOLDS
    anvil.pass_time(DEVNET.times.commit_time + DEVNET.times.reveal_time + GRACE_S + 2)
    late = seen.look()
    assert "nobody counted the seats" in late["disputes-advance"].findings[0].text


def test_dispute_beyond_the_longest_breaks_disputes_end(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    court.open(0, word("wrong guess"))
    seen = Monitored(tmp_path / "monitor", court.network, anvil.url)
    times, rounds = DEVNET.times, DEVNET.committee.rounds
    one = times.seed_time + times.draw_time + times.commit_time + times.reveal_time + times.appeal_time
    longest = rounds * one + times.rerun_time + times.airgap + times.max_pause
    anvil.pass_time(longest)
    assert seen.states()["disputes-end"] is HOLDS
    anvil.pass_time(GRACE_S + 10)
    found = seen.look()["disputes-end"]
    assert found.state is BROKEN and f"the longest dispute takes {longest} s" in found.findings[0].text


def _post_audits(court: DisputeFixture, results: list[AuditOutcome]) -> Digest:
    """Drawn verifiers post these results about one receipt; its id."""
    anvil = court.anvil
    mine(anvil, BEACON_DELAY_BLOCKS + 1)
    block = court.reader.batches(0, court.reader.head())[0].block
    beacon = anvil.client.block(block + BEACON_DELAY_BLOCKS).hash
    seats, rate = seats_in_audit_draw(STAKE_WEI, DEVNET.money.audit_unit, True), DEVNET.shares.audit_rate_bps
    ids = [receipt_id(court.network.anchor_domain, each.receipt) for each in court.batch.entries]
    drawn = {subject: [v for v in VERIFIERS if audit_is_drawn(beacon, subject, v.address, rate, seats)] for subject in ids}
    subject = next(each for each in ids if len(drawn[each]) >= len(results))
    for verifier, said in zip(drawn[subject], results, strict=False):
        commitment = audit_commitment(subject, verifier.address, *TRUE, word("salt", verifier.address))
        result = AuditResult(subject, verifier.address, U8(said), commitment, U64(anvil.client.head().timestamp))
        court.of(verifier).post_audit(result, verifier.sign(typed_digest(court.domain, result)), 0)
    court.pump()
    return subject


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([AuditOutcome.MATCH], ""),
        ([AuditOutcome.MISMATCH], "nobody disputes the receipt"),
        ([AuditOutcome.MATCH, AuditOutcome.MISMATCH], "audits contradict each other"),
    ],
)
def test_unproven_mismatches_break_a_warning(anvil: Anvil, tmp_path: Path, results: list[AuditOutcome], words: str) -> None:
    """The contract asks nobody for the receipt that a post names: one verifier cannot break a critical invariant by a post."""
    court = DisputeFixture(anvil, tmp_path)
    subject = _post_audits(court, results)
    seen = Monitored(tmp_path / "monitor", court.network, anvil.url)
    # One mismatch alone is every honest find until a watchtower disputes the receipt.
    assert seen.states()["unproven-audits-agree"] is (BROKEN if len(set(results)) > 1 else HOLDS)
    anvil.pass_time(GRACE_S + 10)
    assert seen.states()["audits-agree"] is HOLDS
    found = seen.look()["unproven-audits-agree"]
    assert found.state is (BROKEN if words else HOLDS)
    assert all(words in each.text and each.subject == hex0x(subject) for each in found.findings)


def test_posts_for_other_batches_contradict_no_audit(new_database: Callable[[], str]) -> None:
    """The contract accepts a post for a batch that the receipt is not in; only a payment shows the right batch."""
    ada, ben, receipt = ACCOUNTS[2], ACCOUNTS[3], word("receipt")
    chain, no_views = MemoryChain(1), None
    index = Indexed(new_database(), chain)

    def findings(*made: Made) -> tuple[list[str], list[str]]:
        chain.add(made)
        chain.add(())
        index.follow()
        proven, unproven = CheckReport(), CheckReport()
        with index.reader.snapshot() as snapshot:
            scene, limits = Scene(snapshot, {}, 0, 60, "0"), InvariantSettings(grace_s=1)
            seen = Observation(scene, no_views, MoneySource((), (), ""), (), limits)  # type: ignore[arg-type]
            audits_agree(seen, proven)
            unproven_audits_agree(seen, unproven)
        return [each.text for each in proven.findings], [each.text for each in unproven.findings]

    other = f"{ben} found a mismatch for batch 2, and nobody disputes the receipt"
    made = audit(receipt, ada, AuditOutcome.MATCH, 1), audit(receipt, ben, AuditOutcome.MISMATCH, 2)
    assert findings(*made) == ([], [other])
    paid = {"receiptId": receipt, "verifier": ada, "amount": 9}
    assert findings(("Audits", "BountyPaid", paid)) == ([], []), "the receipt is in batch 1"
    (same,), rest = findings(audit(receipt, ben, AuditOutcome.MISMATCH, 1))
    assert same.startswith("audits contradict each other") and rest == []


# --- money, batches, demands ---


def test_missing_wei_breaks_money_sums_and_surplus_does_not(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    seen = Monitored(tmp_path / "monitor", court.network, anvil.url)
    ledger, held = court.network.addresses.ledger, court.reader.money(court.reader.head()).ledger_balance
    anvil.rpc("anvil_setBalance", ledger, hex(held + 5))
    anvil.mine()
    assert seen.states()["money-sums"] is HOLDS
    anvil.rpc("anvil_setBalance", ledger, hex(held - 1))
    anvil.mine()
    found = seen.look()["money-sums"]
    assert found.state is BROKEN and found.findings == (
        InvariantFinding("Ledger", f"holds {held - 1} wei and owes {held}: 1 wei are missing"),
    )
    anvil.rpc("anvil_setBalance", ledger, hex(held))
    anvil.rpc("anvil_setBalance", court.network.addresses.stake_vault, hex(7 * STAKE_WEI - 3))
    anvil.mine()
    found = seen.look()["money-sums"]
    assert found.state is BROKEN and [(each.subject, "3 wei are missing" in each.text) for each in found.findings] == [
        ("StakeVault", True)
    ]


def test_silent_operator_breaks_batches_follow(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path, window=36_000)
    price = court.reader.snapshot(OPERATORS[0].address, court.reader.head()).price_wei
    for first in (4, 5):
        more = receipts_of(court.network, OPERATORS[0], first, 1, anvil.client.head().timestamp)
        court.of(OPERATORS[0]).anchor(more.header, 10 * price)
        court.pump()
    seen = Monitored(tmp_path / "monitor", court.network, anvil.url, silent_s=600)
    assert seen.states()["batches-follow"] is HOLDS
    anvil.pass_time(2000)
    found = seen.look()["batches-follow"]
    assert found.state is BROKEN and found.findings[0].subject == OPERATORS[0].address
    anvil.pass_time(8 * 86_400)
    assert seen.states()["batches-follow"] is BROKEN, "a silence does not end by lasting"
    court.of(OPERATORS[0]).request_unbond(court.reader.holdings(OPERATORS[0].address, court.reader.head()).stake_wei, b"all")
    court.pump()
    assert seen.states()["batches-follow"] is HOLDS, "it has left"


def test_demand_that_nobody_ends_breaks_demands_end(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path, window=3600)
    bond = 3 * DEVNET.money.demand_bond
    court.of(VERIFIERS[0]).demand_list(0, bond)
    court.pump()
    seen = Monitored(tmp_path / "monitor", court.network, anvil.url)
    anvil.pass_time(DEVNET.times.cure)
    assert seen.states()["demands-end"] is HOLDS
    anvil.pass_time(GRACE_S + 2)
    found = seen.look()["demands-end"]
    assert found.state is BROKEN and "did not show the list" in found.findings[0].text


# --- release logs ---


def _logs(release: list[SignedRelease], silent: str = "", lacking: int = 0) -> tuple[EpochLogs, ...]:
    logs = tuple(
        ShardLog(1, place, shard.address, () if place <= lacking else release, (), silent if place <= lacking else "")
        for place, shard in enumerate(SHARDS, 1)
    )
    return (EpochLogs(1, 2, False, logs, ""),)


def test_vote_without_releases_breaks_logs_cover(overturned: DisputeFixture, tmp_path: Path) -> None:
    seen = Monitored(tmp_path, overturned.network, overturned.anvil.url)
    seen.look()
    with seen.monitor.observed() as found:
        (row,) = found.scene.index.all(DisputeFact)
        voters = [each["voter"] for each in found.scene.index.all(VoteFact, said=1)]
        records = [_release(row["receipt_id"], voter, place) for place, voter in enumerate(voters)]
        assert len(voters) > 1
        assert evaluated("logs-cover", found._replace(logs=_logs(records))).state is HOLDS
        assert evaluated("logs-cover", found._replace(logs=_logs(records, lacking=1))).state is HOLDS
        broken = evaluated("logs-cover", found._replace(logs=_logs(records, lacking=2)))
        assert broken.state is BROKEN and "missing at shard 1, shard 2" in broken.findings[0].text
        away = evaluated("logs-cover", found._replace(logs=_logs(records, "is away", lacking=2)))
        assert away.state is UNKNOWN and "2 logs are not known" in away.reason
        wrong = [_release(row["receipt_id"], voters[0], place, Decision.REFUSED) for place in range(2)]
        assert evaluated("logs-cover", found._replace(logs=_logs(wrong))).state is BROKEN


def _release(receipt: bytes, voter: Any, index: int, decision: Decision = Decision.RELEASED) -> SignedRelease:
    record = Release(
        receipt_id=Digest(receipt), ticket_hash=ZERO_DIGEST, key_epoch=U64(1), shard=SHARDS[0].address, voter=voter,
        evidence_hash=ZERO_DIGEST, transport_key_hash=ZERO_DIGEST, previous=ZERO_DIGEST, index=U64(index), decision=U8(decision),
        decided_at=U64(1),
    )  # fmt: skip
    return SignedRelease(record=record, signature=Blob(b""), right=None)


def test_broken_log_breaks_logs_extend_and_silence_does_not(overturned: DisputeFixture, tmp_path: Path) -> None:
    seen = Monitored(tmp_path, overturned.network, overturned.anvil.url)
    away = seen.look()["logs-extend"]
    assert away.state is UNKNOWN and "shard 3 of key epoch 1" in away.reason, "nobody serves these shards"
    with seen.monitor.observed() as found:
        (epoch,) = _logs([])
        assert evaluated("logs-extend", found._replace(logs=(epoch,))).state is HOLDS
        bad = tuple(log._replace(broken=("ends before record 4",) if log.place == 2 else (), silent="away") for log in epoch.logs)
        broken = evaluated("logs-extend", found._replace(logs=(epoch._replace(logs=bad),)))
    assert broken.state is BROKEN and broken.findings[0].subject == SHARDS[1].address and "away" in broken.reason


def test_logs_of_a_compromised_epoch_are_read_while_it_has_disputes(anvil: Anvil, tmp_path: Path) -> None:
    """Nobody serves these shards, so a log that the monitor reads is unknown."""
    court = DisputeFixture(anvil, tmp_path)
    seen = Monitored(tmp_path / "monitor", court.network, anvil.url)
    send_all(anvil.client, [call_of(GUARDIAN, court.network, compromise_epoch(1))], 30)
    found = seen.look()["logs-extend"]
    assert found.state is UNKNOWN and "shard 3 of key epoch 1" in found.reason
    anvil.pass_time(DEVNET.times.key_retention + 1)
    assert seen.states()["logs-extend"] is HOLDS


# --- nodes that lie, lag or are away ---


def _view_answers(name: str, change: Callable[[bytes], bytes]) -> Callable[[str, list[Any], Any], Any]:
    """A node that changes the answers of one view."""
    selector = hex0x(keccak256(name.encode())[:4])

    def changed(method: str, params: list[Any], answer: Any) -> Any:
        data = params[0].get("data") or params[0].get("input") or "" if method == "eth_call" else ""
        if not data.startswith(selector):
            return answer
        return {"result": hex0x(change(bytes.fromhex(answer["result"][2:])))}

    return changed


@pytest.fixture(scope="module")
def overdue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DisputeFixture]:
    """A dispute whose seats should be drawn. No test changes it."""
    with running_anvil() as anvil:
        court = DisputeFixture(anvil, tmp_path_factory.mktemp("overdue"))
        court.open(0, word("wrong guess"))
        mine(anvil, 2)
        anvil.pass_time(DEVNET.times.seed_time + DEVNET.times.draw_time + GRACE_S + 10)
        yield court


@pytest.fixture
def lying(overdue: DisputeFixture, tmp_path: Path) -> Iterator[tuple[LyingEndpoint, Monitored]]:
    """A node that may lie, and a monitor that has no other."""
    with fronts(overdue.anvil, 1) as (front,):
        yield front, Monitored(tmp_path / "monitor", overdue.network, front.url, overdue.anvil.url)


def test_wrong_balance_of_a_node_is_unknown(lying: tuple[LyingEndpoint, Monitored]) -> None:
    front, seen = lying
    assert seen.states()["money-sums"] is HOLDS
    front.change = _view_answers("money()", lambda raw: raw[:32] + (1).to_bytes(32) + raw[64:])
    found = seen.look()["money-sums"]
    assert found.state is UNKNOWN and "the node says that Ledger has a drift of" in found.reason
    front.refused = frozenset({"eth_getProof"})
    found = seen.look()["money-sums"]
    assert found.state is UNKNOWN and "does not prove it" in found.reason


def _settings(folder: Path, network: Network, urls: list[str]) -> Path:
    """Settings of a monitor with several nodes, of which most must agree."""
    write_network(folder / "network.json", network)
    return write_toml(folder / "several.toml", {
        "network_file": "network.json", "chain": {"rpc_urls": urls, "timeout_s": 60}, "db": {"url": "sqlite:///several.db"},
        "invariants": {"grace_s": GRACE_S},
    })  # fmt: skip


@pytest.mark.parametrize(("count", "state"), [(3, HOLDS), (2, UNKNOWN)])
def test_liar_among_several_nodes_is_outvoted_or_unknown(
    overdue: DisputeFixture, tmp_path: Path, count: int, state: InvariantState
) -> None:
    with fronts(overdue.anvil, count) as nodes:
        clock, urls = HandClock(overdue.anvil.client.head().timestamp), [each.url for each in nodes]
        monitor = Monitor(load_settings(MonitorSettings, _settings(tmp_path, overdue.network, urls)), clock)
        nodes[0].change = _view_answers("money()", lambda raw: raw[:32] + (1).to_bytes(32) + raw[64:])
        found = {each.name: each for each in monitor.look().results}
    assert found["money-sums"].state is state


def test_finding_that_the_contracts_deny_is_unknown(lying: tuple[LyingEndpoint, Monitored]) -> None:
    front, seen = lying
    assert seen.states()["disputes-advance"] is BROKEN
    # `phase` is the third word of a DisputeView behind the head of its list.
    front.change = _view_answers("disputes(bytes32[])", lambda raw: raw.replace(OPERATORS[0].address.encode(), b"") + b"\0" * 32)
    assert seen.states()["disputes-advance"] in (BROKEN, UNKNOWN)
    front.change = _view_answers("disputes(bytes32[])", lambda raw: raw[:-64] + b"\xff" * 64 if len(raw) > 64 else raw)
    assert seen.states()["disputes-advance"] is not HOLDS
    front.change = _view_answers("disputes(bytes32[])", lambda raw: b"\0" * 16)
    assert seen.states()["disputes-advance"] is UNKNOWN


def test_node_that_is_away_or_old_or_ahead_makes_everything_unknown(lying: tuple[LyingEndpoint, Monitored]) -> None:
    front, seen = lying
    for change, later_s in ((None, 1000), (None, -1000), (gone, 0)):
        front.change = change
        assert set(seen.states(later_s).values()) == {UNKNOWN}
        front.change = None
        assert seen.states()["disputes-advance"] is BROKEN


def test_node_that_leaves_out_a_log_makes_everything_unknown(lying: tuple[LyingEndpoint, Monitored]) -> None:
    front, seen = lying
    opened = hex0x(keccak256(b"DisputeOpened(bytes32,bytes32,address,address,uint64,bytes32)"))

    def without(method: str, params: list[Any], answer: Any) -> Any:
        if method != "eth_getLogs":
            return answer
        return {"result": [each for each in answer["result"] if each["topics"][0] != opened]}

    front.change, front.refused = without, frozenset({"eth_getBlockReceipts"})
    assert set(seen.states().values()) == {UNKNOWN}


# --- the catalogue ---


def test_unconfirmed_finding_is_unknown() -> None:
    report = CheckReport([InvariantFinding("x", "is late", (DisputeFact, (b"x",)))])
    assert conclude("votes-agree", report, lambda _: []).state is BROKEN
    unsure = conclude("votes-agree", report, lambda _: ["phase is 1 in the index, 2 on the chain"])
    assert unsure.state is UNKNOWN and unsure.findings == ()


def test_exit_code_puts_broken_before_unknown() -> None:
    unknown = all_unknown("away")
    assert exit_of_results(unknown) == 3
    assert exit_of_results((unknown[0]._replace(state=BROKEN), *unknown[1:])) == 2
    assert exit_of_results([each._replace(state=HOLDS) for each in unknown]) == 0


def test_every_invariant_has_its_page_and_no_page_is_left_over() -> None:
    folder = ROOT / "docs/reference/invariants"
    assert {path.stem for path in folder.glob("*.md")} == {*NAMES, "README"}
    listed = (folder / "README.md").read_text()
    for each in INVARIANTS:
        page = (ROOT / each.page).read_text()
        assert page.startswith(f"# {each.name}\n") and f"Severity: {each.severity}." in page
        assert re.findall(r"^## (.+)$", page, re.MULTILINE) == ["Purpose", "Formula", "Unknown when", "What to do"]
        assert each.purpose in " ".join(page.split()) and f"({each.name}.md)" in listed
