"""`bytewise attention` on a real chain: from a commitment by lie, audit, dispute and conviction to the score; and liars."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.attention.reveal import AttentionTest
from bytewise.protocol.attention.schedule import FraudKind
from bytewise.protocol.attention.score import ScoredTest
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.tally import key_of
from bytewise.protocol.digests import out_hash
from bytewise.protocol.records.statements import AuditOutcome, Outcome, Verdict
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U64, Address, hex0x
from bytewise.service.exit_codes import Exit
from chain.deployment.calls import call_of
from chain.deployment.deploy import compromise_epoch
from chain.reads.attention import AuditDraws, read_reveal, scored_range
from chain.sending.keys import save_signer
from chain.sending.transactions import send_all
from cli.__main__ import main
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import CHALLENGER, GUARDIAN, MEASUREMENT, POOL, VERIFIERS, word
from tests.fixtures.court.fund_court import FIRST, LAST, FundCourt, fund_court
from tests.fixtures.court.session import TRUE
from tests.fixtures.metric_values import value_of
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.verifier.node_file import node_file
from verifier.attention import AttentionJob
from verifier.settings import AttentionSettings


@pytest.fixture
def court(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[FundCourt]:
    """A fund's operator with a commitment and a range of lies."""
    with fund_court(anvil, tmp_path, capsys) as made:
        yield made


def convict(court: FundCourt, index: int) -> str:
    """A receipt is disputed and overturned; the member with the fewest seats confirms the lie, and is returned."""
    court.open(index, key_of(Outcome.EXECUTED, 0, out_hash(*TRUE)))
    lazy = min(court.until(Phase.COMMIT).members, key=lambda each: each.seat_mask.bit_count()).voter
    assert court.judged(lambda voter: court.claim(index) if voter == lazy else TRUE).verdict is Verdict.OVERTURNED
    court.settled()
    return lazy


def accounts(found: dict[str, Any]) -> dict[str, Any]:
    """Scores by account."""
    return {row["account"]: row for row in found["accounts"]}


def test_test_is_committed_caught_convicted_revealed_and_scored(court: FundCourt, tmp_path: Path) -> None:
    careful, lazy, blind, silent, copier = (each.address for each in VERIFIERS)
    court.anvil.mine(3)
    said = {careful: AuditOutcome.MISMATCH, lazy: AuditOutcome.MATCH, blind: AuditOutcome.NONE, copier: AuditOutcome.MISMATCH}
    lie, unseen, _ = court.lies
    drawn = court.audit(lie, said)
    confirmed = convict(court, lie)
    true = next(i for i in range(LAST - FIRST + 1) if i not in court.lies)
    out = tmp_path / "range.reveal.json"
    court.after_windows()
    for each in (each for each in VERIFIERS if each.address in drawn & {careful}):
        court.of(each).open_audit(court.name(lie), each.address, *TRUE, word("salt", lie))
    court.pump()
    court.run("reveal", "--folder", court.kept.path, "--out", out)
    assert "exists" in court.run("reveal", "--folder", court.kept.path, "--out", out, code=Exit.USAGE)
    found = json.loads(court.run("score", out, "--watchtower", CHALLENGER.address, "--output", "json"))
    (row,) = found["ranges"]
    assert (row["first"], row["last"], row["tests"], row["proven"], row["unproven"]) == (FIRST, LAST, 3, 1, 2)
    assert (row["disputed"], row["real_frauds"]) == (1, [])
    assert (row["drawn"], row["expected"], row["unlikely"]) == (3, 3.2, False)
    scores = accounts(found)
    assert scores[CHALLENGER.address]["watch"] == {"disputed": 1, "by_others": 0, "missed": 0, "unseen": 0}
    most = 2 * len(drawn & {careful, lazy}) > len(drawn)
    expected = {careful: "caught", lazy: "missed", blind: "unavailable", copier: "unopened"}
    expected[silent] = "silent" if most else "unavailable"
    for account, result in expected.items():
        assert scores[account]["audits"][result] == (account in drawn), (account, result)
        assert sum(scores[account]["audits"].values()) == (account in drawn)
    assert scores[confirmed]["seats"] == {"caught": 0, "unopened": 0, "missed": 1, "silent": 0, "unavailable": 0}
    others = [scores[each.address]["seats"]["caught"] for each in VERIFIERS if each.address != confirmed]
    assert sum(others) >= 2
    told = court.run("score", out)
    assert "REAL FRAUD" not in told and "UNLIKELY" not in told and "3 drawn, 3.2 expected" in told
    assert hex0x(court.name(true)) not in out.read_text() and unseen != lie


def node_status(court: FundCourt, folder: Path, key: LocalSigner, capsys: pytest.CaptureFixture[str]) -> tuple[Any, str]:
    """What `bytewise status` says of the attention of a member with this key, as JSON and for people."""
    if not (folder / "actor.db").exists():
        save_signer(folder / "account.key", key)
        (folder / "actor.db").write_bytes(empty_database())
        node_file(folder, f"sqlite:///{folder / 'actor.db'}", court.anvil.url, attention={"folder": "reveals"})
    said = []
    for form in ("json", "table"):
        capsys.readouterr()
        assert main(["status", "--config", str(folder / "node.json"), "--output", form]) == Exit.NOT_READY
        said.append(capsys.readouterr().out)
    (line,) = [line for line in said[1].splitlines() if line.startswith("attention")]
    return json.loads(said[0])["attention"], line


def node_tests(court: FundCourt, path: Path, account: Address) -> tuple[ScoredTest, ...]:
    """The tests of a reveal as the duty process reads them."""
    return scored_range(court.reader, read_reveal(path), only=account).records


def test_status_shows_the_score_of_a_member(court: FundCourt, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    court.anvil.mine(3)
    lie = court.lies[0]
    lazy = convict(court, lie)
    court.after_windows()
    (tmp_path / "reveals").mkdir()
    key = next(each for each in VERIFIERS if each.address == lazy)
    found, line = node_status(court, tmp_path, key, capsys)
    assert (found["tests"], found["score"], found["refused"]) == (0, None, {}) and line == "attention no test revealed yet"
    court.run("reveal", "--folder", court.kept.path, "--out", tmp_path / "reveals" / "one.json")
    (tmp_path / "reveals" / "other.json").write_text("{}")
    found, line = node_status(court, tmp_path, key, capsys)
    assert (found["ranges"], found["tests"], found["unproven"]) == (1, 3, 2)
    assert found["score"]["seats"] == {"caught": 0, "unopened": 0, "missed": 1, "silent": 0, "unavailable": 0}
    assert found["score"]["caught_bps"] == 0 and "R-6F" in found["refused"]["other.json"]
    assert line.startswith("attention score 0.0%") and "seats: 1 missed" in line and "2 unproven" in line
    job = AttentionJob(AttentionSettings(tmp_path / "reveals"), key.address, lambda path: node_tests(court, path, key.address))
    job.run()
    assert value_of("bytewise_attention_results", result="missed") == 1
    (row,) = [row for row in json.loads(court.run("score", tmp_path / "reveals" / "one.json", "--output", "json"))["accounts"]
              if row["account"] == lazy]  # fmt: skip
    assert row == found["score"], "one account alone is scored as among all"


def drawn_for(court: FundCourt, block: int | None = None, only: Address | None = None) -> set[Address]:
    """Who was drawn for any receipt of the range, as if its batch were of this block."""
    reader, head = court.reader, court.reader.head()
    header = next(each for each in reader.batches(int(reader.network.deploy_block), head) if each.batch_id == 1)
    header = header if block is None else dataclasses.replace(header, block=U64(block))
    draws = AuditDraws(reader, head, only)
    tests = [AttentionTest(court.name(i), entry.receipt, 1, FraudKind.TOKEN, None) for i, entry in enumerate(court.batch.entries)]
    return {each.verifier for test in tests for each in draws.of(test, header)}


def test_who_quit_or_joined_after_the_batch_was_not_drawn(court: FundCourt) -> None:
    """`Audits.post` refuses both, so they could post nothing. Who leaves after the window is scored like who stays."""
    court.anvil.mine(3)
    everyone = {each.address for each in VERIFIERS}
    assert drawn_for(court) == everyone
    quitter, late, leaver = VERIFIERS[:3]
    for each in (quitter, late):
        court.of(each).quit_pool()
    court.pump()
    court.of(late).join_pool(POOL, word("machine", 1), MEASUREMENT)
    court.pump()
    members = {each.account: each.verifier for each in court.reader.verifiers(POOL, court.reader.head())}
    assert members[late.address].pool == POOL != members[quitter.address].pool
    assert drawn_for(court) == everyone - {quitter.address, late.address}
    assert drawn_for(court, only=late.address) == set()
    court.after_windows()
    court.of(leaver).quit_pool()
    court.pump()
    assert drawn_for(court) == everyone - {quitter.address, late.address}
    assert drawn_for(court, only=leaver.address) >= {leaver.address}
    court.anvil.mine(3)
    assert drawn_for(court, court.reader.head() - 3) == everyone - {quitter.address, leaver.address}


def test_nobody_is_silent_where_a_compromise_ended_the_audits(court: FundCourt) -> None:
    """`Audits.post` refuses every result of the epoch from then on. After the window nobody could have posted any more anyway."""
    court.anvil.mine(3)
    everyone, before = drawn_for(court), court.anvil.rpc("evm_snapshot")
    compromise = [call_of(GUARDIAN, court.network, compromise_epoch(1))]
    send_all(court.anvil.client, compromise, 30)
    assert everyone and drawn_for(court) == set()
    court.anvil.rpc("evm_revert", before)
    court.after_windows()
    send_all(court.anvil.client, compromise, 30)
    assert drawn_for(court) == everyone


def test_fraud_outside_the_schedule_is_shown_as_a_real_one(court: FundCourt, tmp_path: Path) -> None:
    true = next(i for i in range(LAST - FIRST + 1) if i not in court.lies)
    convict(court, true)
    court.after_windows()
    out = tmp_path / "range.reveal.json"
    court.run("reveal", "--folder", court.kept.path, "--out", out)
    (row,) = json.loads(court.run("score", out, "--output", "json"))["ranges"]
    assert (row["proven"], row["disputed"]) == (0, 0)
    assert row["real_frauds"] == [{"receipt": hex0x(court.name(true)), "verdict": "OVERTURNED"}]
    assert f"REAL FRAUD, no test: {hex0x(court.name(true))}" in court.run("score", out)


def test_reveal_is_refused_until_windows_and_disputes_are_over(court: FundCourt, tmp_path: Path) -> None:
    out = tmp_path / "range.reveal.json"
    court.open(court.lies[0], key_of(Outcome.EXECUTED, 0, out_hash(*TRUE)))
    assert "the end of all windows" in court.run("reveal", "--folder", court.kept.path, "--out", out, code=Exit.UNAVAILABLE)
    case = court.judged(TRUE, Phase.AIRGAP)
    court.after_windows()
    refused = court.run("reveal", "--folder", court.kept.path, "--out", out, code=Exit.UNAVAILABLE)
    assert f"the end of dispute {hex0x(case.id)}" in refused and not out.exists()
    court.until(Phase.FINAL)
    court.run("reveal", "--folder", court.kept.path, "--out", out)


def test_reveals_that_lie_are_refused(court: FundCourt, tmp_path: Path) -> None:
    plan_says_what_a_rate_costs_and_who_fails_when(court)
    court.after_windows()
    out = tmp_path / "range.reveal.json"
    court.run("reveal", "--folder", court.kept.path, "--out", out)
    honest, text = read_reveal(out), out.read_text()
    lies = {
        "another key": text.replace(hex0x(honest.key), "0x" + "11" * 32),
        "other terms": text.replace('"rate_ppm":400000', '"rate_ppm":999999'),
        "is anchored": text.replace(f'"last":"{LAST}"', f'"last":"{LAST + 9}"'),
        "is no reveal": text[:-1],
    }
    for reason, lie in lies.items():
        assert lie != text, reason
        out.write_text(lie)
        # A range that is not anchored is refused before it is drawn: a small file can name a million receipts.
        code = {"is anchored": Exit.UNAVAILABLE, "is no reveal": Exit.USAGE}.get(reason, Exit.MISMATCH)
        assert reason in court.run("score", out, code=code)
    assert "No such file" in court.run("score", tmp_path / "none.json", code=Exit.USAGE)


def test_range_that_is_not_anchored_to_its_end_is_refused(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with fund_court(anvil, tmp_path, capsys, anchored=LAST - 1) as court:
        court.after_windows()
        refused = court.run("reveal", "--folder", court.kept.path, "--out", tmp_path / "out.json", code=Exit.UNAVAILABLE)
        assert f"the end of the range is not before receipt {LAST} is anchored" in refused


def test_commitment_in_a_batch_of_the_range_proves_nothing(
    anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with fund_court(anvil, tmp_path, capsys, carried=FIRST) as court:
        court.after_windows()
        refused = court.run("reveal", "--folder", court.kept.path, "--out", tmp_path / "out.json", code=Exit.MISMATCH)
        assert "after the range began" in refused and "ordinary fraud" in refused


def plan_says_what_a_rate_costs_and_who_fails_when(court: FundCourt) -> None:
    """Asserts it on a chain of which nothing but stakes and parameters counts."""
    terms = ("--rate", 0.005, "--per-day", 1000, "--stake", 208)
    (row,) = json.loads(court.run("plan", *terms, "--output", "json"))
    assert (row["tests_per_day"], row["affordable_convictions"], row["most_rate"]) == (5.0, 25, 0.025)
    assert {each["account"] for each in row["members"]} == {each.address for each in VERIFIERS}
    assert {each["drawn"] for each in row["members"]} == {0.9}
    assert "25 convictions, 5.0 days" in court.run("plan", *terms)
    for wrong in (
        ("--rate", 2), ("--rate", 0), ("--rate", "nan"), ("--rate", 1e308), ("--per-day", -1), ("--per-day", 1e308),
        ("--per-day", 1e-310), ("--stake", "inf"), ("--stake", 1e300), ("--stake", -1), ("--checked", 1), ("--sure", "nan"),
    ):  # fmt: skip
        assert f"[R-55] {wrong[0]}: must " in court.run("plan", *terms, *wrong, code=Exit.USAGE), wrong
