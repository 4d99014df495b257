"""Every fact of the demo can turn false: each is taken away from a recorded run, once, and must then be named as missing."""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.units import Address, Digest, hex0x, unhex
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise.storage.archive import Archive
from bytewise.storage.engine import open_database
from chain.deployment.params import DEVNET
from cli.__main__ import main
from cli.demo.client import Answer
from cli.demo.director import MemberFailure, MemberFailures
from cli.demo.facts import judge
from cli.demo.run import _final_fact
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import mine
from tests.fixtures.court.session import DisputeFixture
from tests.fixtures.storage.databases import empty_database
from verifier.watch.list_reader import GOOD

RECORDED = json.loads(Path(__file__).with_name("recorded_demo.json").read_text())
"""Status, answers and fates of a real run (`make demo`)."""


@dataclass
class Run:
    """Everything that facts are judged on."""

    status: dict[str, Any]
    checked: dict[str, int]
    answers: list[Answer]
    failures: MemberFailures
    accounts: dict[str, Address]

    def judged(self) -> dict[str, bool]:
        return judge(self.status, self.checked, self.answers, self.failures, self.accounts)

    def frauds(self) -> list[dict[str, Any]]:
        return [d for d in self.status["disputes"] if d["operator"] == self.accounts["dishonest"]]

    def frivolous(self) -> dict[str, Any]:
        found: dict[str, Any] = next(d for d in self.status["disputes"] if d["challenger"] == self.accounts["challenger"])
        return found

    def seat(self, failure: MemberFailure | None) -> dict[str, Any]:
        assert failure is not None
        dispute = next(d for d in self.status["disputes"] if d["dispute"] == "0x" + failure.dispute.hex())
        found: dict[str, Any] = next(m for m in dispute["members"] if m["voter"] == self.accounts[failure.member])
        return found


def recorded() -> Run:
    raw = copy.deepcopy(RECORDED)
    failures = MemberFailures(
        _failure_of(raw["fates"]["killed"]), _failure_of(raw["fates"]["absent"]), -9, "an answer", True, True
    )
    answers = [Answer(**{**each, "opening": Path(each["opening"])}) for each in raw["answers"]]
    return Run(raw["status"], raw["checked"], answers, failures, raw["accounts"])


def _failure_of(raw: dict[str, Any]) -> MemberFailure:
    return MemberFailure(raw["member"], Digest(unhex(raw["dispute"])), raw["round"])


def _set(where: Callable[[Run], Any], key: str, value: Any) -> Callable[[Run], object]:
    return lambda run: where(run).__setitem__(key, value)


def _answer(**changes: Any) -> Callable[[Run], object]:
    return lambda run: run.answers.__setitem__(0, replace(run.answers[0], **changes))


def _never_retried(run: Run) -> None:
    run.answers = [replace(answer, retried_same_receipt=None) for answer in run.answers]


def _honest_mismatch(run: Run) -> None:
    honest = next(a.receipt_id for a in run.answers if a.operator == "honest")
    next(r for r in run.status["receipts"] if r["receipt"] == honest)["audits"]["mismatch"] = 1


def _no_audit(run: Run) -> None:
    run.status["receipts"][0]["audits"] = {"match": 0, "mismatch": 0, "none": 0}


def _fewer_tokens_cheated(run: Run) -> None:
    signed = {answer.receipt_id: answer.tokens_hash for answer in run.answers}
    for dispute in run.frauds():
        for member in dispute["members"]:
            member["tokens_hash"] = signed[dispute["receipt"]]


def _unattested(run: Run) -> None:
    next(m for m in run.frivolous()["members"] if m["revealed"])["attested_passes"] = None


SABOTAGE: dict[str, Callable[[Run], object]] = {
    "9 answers": lambda run: run.answers.pop(),
    "every receipt says": _answer(client_mode=1),
    "2 of them are sampled": _answer(temperature=0.8),
    "a retried request": _never_retried,
    "every answer says of its key epoch": _answer(assurance="hardware"),
    "9 receipts are anchored": lambda run: run.status["batches"].pop(),
    "every verifier checked": _set(lambda run: run.checked, "ada", 7),
    "light audits are posted": _no_audit,
    "no honest receipt has": _honest_mismatch,
    "every window is over": _set(lambda run: run.status["batches"][0], "window_over", False),
    "the watchtower disputed": _set(lambda run: run.frauds()[0], "challenger", "0x" + "00" * 20),
    "4 frauds are OVERTURNED": _set(lambda run: run.frauds()[1], "replacement", None),
    "two are false tokens": _fewer_tokens_cheated,
    "the dishonest operator is slashed": _set(lambda run: run.frauds()[2]["money"], "slashed_wei", "0"),
    "challenger and committee are paid": _set(lambda run: run.frauds()[0]["money"], "to_verifiers_wei", "0"),
    "the watchtower had committed": _set(lambda run: run.frauds()[0], "challenger_knew", False),
    "every seat is paid": _set(lambda run: run.frauds()[0], "paid_out", False),
    "at least a fifth": _set(lambda run: run.frauds()[0]["money"], "burned_wei", "1"),
    "the frivolous dispute is UPHELD": _set(lambda run: run.frivolous(), "verdict", "DRAW"),
    "it costs its challenger": _set(lambda run: run.frivolous()["money"], "to_challenger_wei", "1"),
    "a member was killed": lambda run: setattr(run.failures, "kill_status", 0),
    "it came back": _set(lambda run: run.seat(run.failures.killed), "commitments", 2),
    "its journal had not": lambda run: setattr(run.failures, "journal_unmarked", False),
    "what is on-chain": lambda run: setattr(run.failures, "same_bytes", False),
    "another member stayed away": _set(lambda run: run.seat(run.failures.absent), "commitments", 1),
    "the verdict stands": lambda run: setattr(run.failures, "absent", None),
    "every vote rests": _unattested,
    "every committee has": _set(lambda run: run.frauds()[0], "seats", 31),
    "all money sums": _set(lambda run: run.status, "money_sums", False),
}


def test_a_complete_run_lacks_no_fact() -> None:
    assert all(recorded().judged().values())


def test_every_fact_has_a_sabotage() -> None:
    facts = list(recorded().judged())
    assert len(facts) == len(SABOTAGE)
    assert all(sum(fact.startswith(start) for fact in facts) == 1 for start in SABOTAGE)


@pytest.mark.parametrize("start", SABOTAGE)
def test_fact_without_its_evidence_is_missing(start: str) -> None:
    run = recorded()
    SABOTAGE[start](run)
    missing = [fact for fact, holds in run.judged().items() if not holds]
    assert any(fact.startswith(start) for fact in missing), missing


def test_open_window_makes_the_final_fact_missing(anvil: Anvil, tmp_path: Path) -> None:
    """As when the demo's time is over before every window is."""
    court = DisputeFixture(anvil, tmp_path)
    database = tmp_path / "watchtower.db"
    database.write_bytes(empty_database())
    url, batch = f"sqlite:///{database}", court.batch
    archive = Archive(open_database(url), SystemClock())
    names = [receipt_id(court.network.anchor_domain, each.receipt) for each in batch.entries]
    (anchored,) = court.reader.batches(court.network.deploy_block, court.reader.head())
    archive.add_batch(anchored)
    for name, entry, proof in zip(names, batch.entries, batch.proofs, strict=True):
        archive.add_receipt(name, anchored.batch_id, entry, proof, GOOD)
    answers = [replace(recorded().answers[0], operator="honest", receipt_id=hex0x(name)) for name in names]
    site: Any = SimpleNamespace(database=lambda actor: url)
    assert list(_final_fact(court.reader, site, answers).values()) == [False]
    mine(anvil, DEVNET.times.window + 2)
    assert list(_final_fact(court.reader, site, answers).values()) == [True]


@pytest.mark.parametrize("option", [("--adversary", "nobody"), ("--audits", "of"), ("--watchtower", "0")])
def test_a_mistyped_option_is_refused_and_no_network_is_started(option: tuple[str, str]) -> None:
    assert main(["demo", *option]) == Exit.USAGE
