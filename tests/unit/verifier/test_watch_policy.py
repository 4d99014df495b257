"""A watchtower with a strategy of its own: budget, window and balance hold, one line says why not, and its other duties go on."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.court.commitments import alt_commit, dispute_id
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import Action, OpenAlt, OpenDispute
from bytewise.protocol.decisions.snapshot import Challenger
from bytewise.protocol.decisions.strategies import Strategy, WatchPolicy
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.records.receipt import SignedReceipt, receipt_id
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import Digest
from bytewise.service.settings import load_settings
from tests.fixtures import bad_strategies
from tests.fixtures.builders import ANCHOR, DISPUTES, signer
from tests.fixtures.metric_values import value_of
from tests.fixtures.verifier.node_file import node_file
from tests.fixtures.verifier.verifier_fixture import NETWORK, PARAMS, WINDOW_S, VerifierFixture
from tests.fixtures.verifier.watchtower_fixture import EVERYBODY, KEY, hint, post
from tests.source import ROOT
from verifier.audits.audit_hints import HintBox
from verifier.disputes.own_disputes import unwon_wei
from verifier.disputes.strategist import LocalStrategy, Strategist
from verifier.disputes.strategy_process import StrategyProcess
from verifier.disputes.watchtower import Watchtower
from verifier.settings import NodeSettings

TOWER, BOND = signer("tower"), PARAMS.required_bond


class Scene:
    """A watchtower with a strategy in this process, over a chain in memory with some anchored receipts."""

    def __init__(self, folder: Path, strategy: Strategy, receipts: int, **policy: int) -> None:
        self.setup = VerifierFixture(folder)
        self.signed = [self.setup.signed(i + 1, cheat=True) for i in range(receipts)]
        self.setup.anchor(*self.signed)
        self.policy = WatchPolicy(**policy)
        self.tower = self.started(Strategist(LocalStrategy(strategy)))

    def started(self, strategist: Strategist, hints: HintBox | None = None) -> Watchtower:
        return Watchtower(self.setup.chain, NETWORK, self.setup.records, TOWER, self.policy, hints, strategist)

    def step(self, seconds: int = 1) -> tuple[Action, ...]:
        seen = self.setup.chain.pass_time(seconds)
        self.setup.records.step(seen)
        return self.tower.step(seen)

    def open(self, signed: SignedReceipt, **changes: Any) -> None:
        """Our dispute about a receipt is on the chain."""
        identifier = dispute_id(DISPUTES, receipt_id(ANCHOR, signed.receipt))
        self.setup.chain.alternatives[identifier] = identifier
        self.setup.dispute(signed, id=identifier, challenger=Challenger(TOWER.address, False), **changes)


def refusals(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    return [each["refusal"] for each in lines if each["event"] == "proposal.refused" and each["advice"]]


def disputed(actions: tuple[Action, ...]) -> list[Digest]:
    assert all(isinstance(each, OpenDispute) and each.bond_wei == BOND for each in actions)
    return [each.receipt_id for each in actions if isinstance(each, OpenDispute)]


def bonds() -> tuple[float, float]:
    return value_of("bytewise_bonds_wei", state="open"), value_of("bytewise_bonds_wei", state="ordered")


def test_budget_bounds_disputes_on_their_way_and_on_the_chain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(tmp_path, bad_strategies.EveryReceipt(), 3, budget_wei=2 * BOND)
    first = disputed(scene.step())
    assert len(first) == 2 and refusals(capsys) == ["budget"]
    assert bonds() == (0, 2 * BOND)
    assert disputed(scene.step()) == first and refusals(capsys) == [], "ordered again, and said once"
    by_id = {receipt_id(ANCHOR, each.receipt): each for each in scene.signed}
    scene.open(by_id[first[0]])
    assert disputed(scene.step()) == first[1:], "the bond on the chain counts"
    assert bonds() == (BOND, BOND)
    scene.tower = scene.started(Strategist(LocalStrategy(bad_strategies.EveryReceipt())))
    assert len(disputed(scene.step())) == 1, "a restart resets nothing"


def test_won_dispute_frees_its_part_of_the_budget(tmp_path: Path) -> None:
    scene = Scene(tmp_path, bad_strategies.EveryReceipt(), 2, budget_wei=BOND)
    (first,) = disputed(scene.step())
    by_id = {receipt_id(ANCHOR, each.receipt): each for each in scene.signed}
    scene.open(by_id.pop(first))
    assert scene.step() == ()
    (case,) = scene.setup.chain.disputes
    lost = value_of("bytewise_own_disputes_total", verdict="upheld")
    assert scene.step() == () and value_of("bytewise_own_disputes_total", verdict="upheld") == lost, "it is not final"
    for verdict, found in ((Verdict.UPHELD, []), (Verdict.OVERTURNED, list(by_id))):
        scene.setup.chain.disputes = [replace(case, ended=True, phase=Phase.FINAL, verdict=verdict)]
        assert disputed(scene.step()) == found
        assert unwon_wei(scene.setup.chain, TOWER.address, 0, scene.setup.chain.number) == (0 if found else BOND)
        assert value_of("bytewise_own_disputes_total", verdict="upheld") == lost + 1, "counted once"
    scene.setup.chain.disputes = [replace(case, ended=True, phase=Phase.FINAL, verdict=Verdict.UPHELD)]
    scene.tower = scene.started(Strategist(LocalStrategy(bad_strategies.EveryReceipt())))
    scene.step()
    assert value_of("bytewise_own_disputes_total", verdict="upheld") == lost + 1, "a restart counts no old verdict again"


def test_budget_counts_only_its_blocks(tmp_path: Path) -> None:
    scene = Scene(tmp_path, bad_strategies.EveryReceipt(), 2, budget_wei=BOND, budget_blocks=3)
    (first,) = disputed(scene.step())
    scene.open(next(each for each in scene.signed if receipt_id(ANCHOR, each.receipt) == first))
    assert [len(scene.step()) for _ in range(5)] == [0, 0, 0, 0, 1]


def test_proposal_near_the_end_of_the_window_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(tmp_path, bad_strategies.EveryReceipt(), 1, margin_s=30)
    assert scene.step(WINDOW_S - 20) == () and refusals(capsys) == ["late"]
    assert scene.step(30) == () and refusals(capsys) == [], "after the window nothing is asked"


def test_doubling_strategy_opens_one_dispute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(tmp_path, bad_strategies.Doubling(), 1)
    post(scene.setup, hint(receipt_id(ANCHOR, scene.signed[0].receipt), "voter"))
    assert len(disputed(scene.step())) == 1 and refusals(capsys) == ["double"]
    scene.open(scene.signed[0])
    assert scene.step() == () and refusals(capsys) == [], "our own dispute is no refusal"
    scene.setup.chain.disputes = [replace(scene.setup.chain.disputes[0], challenger=Challenger(signer("other").address, False))]
    scene.setup.chain.alternatives.clear()
    scene.tower = scene.started(Strategist(LocalStrategy(bad_strategies.Doubling())))
    assert scene.step() == () and refusals(capsys) == ["disputed"]


@pytest.fixture
def processes() -> Iterator[list[StrategyProcess]]:
    started: list[StrategyProcess] = []
    yield started
    for each in started:
        each.close()


@pytest.mark.parametrize("name", ["Raising", "Ending", "Nonsense", "Unmade"])
def test_commitment_is_opened_while_the_strategy_fails(tmp_path: Path, name: str, processes: list[StrategyProcess]) -> None:
    """The duty that must not be lost: the opener's share is gone after the airgap."""
    scene = Scene(tmp_path, bad_strategies.EveryAudit(), 1)
    identifier, box = receipt_id(ANCHOR, scene.signed[0].receipt), HintBox(DISPUTES, EVERYBODY)
    box.put(hint(identifier, "voter"))
    post(scene.setup, hint(identifier, "voter"))
    scene.tower = scene.started(Strategist(LocalStrategy(bad_strategies.EveryAudit())), box)
    (action,) = scene.step()
    assert isinstance(action, OpenDispute)
    scene.tower.open(action, scene.setup.sender)
    ((_, commitment),) = scene.setup.sender.of("open")
    dispute = dispute_id(DISPUTES, identifier)
    verdict = {"phase": Phase.AIRGAP, "verdict": Verdict.OVERTURNED, "key": KEY, "airgap_end": scene.setup.chain.timestamp + 600}
    scene.open(scene.signed[0], **verdict)
    scene.setup.chain.alternatives[dispute] = commitment
    process = StrategyProcess(f"tests.fixtures.bad_strategies:{name}", ROOT, 1.0)
    processes.append(process)
    while name != "Unmade":
        try:
            process.methods()
            break
        except TryAgain:
            continue
    scene.tower = scene.started(Strategist(process))
    for _ in range(3):
        (opening,) = scene.step()
        assert isinstance(opening, OpenAlt) and opening.dispute == dispute
        assert alt_commit(DISPUTES, dispute, TOWER.address, KEY, opening.salt) == commitment


def settings(folder: Path, **policy: Any) -> NodeSettings:
    return load_settings(NodeSettings, node_file(folder, "sqlite:///x", role="watchtower", executor=None, policy=policy))


@pytest.mark.parametrize(
    ("policy", "observes"),
    [({}, True), ({"strategy": "observe"}, True), ({"strategy": "defend"}, False), ({"strategy": "hunt"}, False),
     ({"strategy": "bots.mine:Bot"}, False), ({"strategy": "bots.mine:Bot", "dry_run": True}, True),
     ({"strategy": "defend", "dry_run": True}, True)],
)  # fmt: skip
def test_node_sends_only_with_a_strategy_and_without_dry_run(tmp_path: Path, policy: dict[str, Any], observes: bool) -> None:
    assert settings(tmp_path, **policy).observes is observes


@pytest.mark.parametrize("name", ["challenge", "bot", "bot:", ":Bot", "bot:Bot:x", "bot.py:Bot()", "../bot:Bot", ""])
def test_unknown_strategy_is_refused_with_the_names_of_all(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="use one of observe, defend, hunt, or module:Class"):
        settings(tmp_path, strategy=name)
    with pytest.raises(ConfigurationError, match="strategy_deadline_s"):
        settings(tmp_path, strategy_deadline_s=0)
