"""The process of a strategy: whatever a strategy does wrong, the watchtower goes on within its deadline and says what to do."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bytewise.protocol.decisions.strategies import AuditEvent, DisputeProposal, ReceiptEvent, WatchEvent
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import U64, U256
from tests.fixtures.builders import signer, word
from tests.source import ROOT
from verifier.disputes import strategy_process
from verifier.disputes.strategist import TRIES, Strategist, StrategyRunner
from verifier.disputes.strategy_process import StrategyProcess

DEADLINE_S = 1.0
FIXTURES = "tests.fixtures.bad_strategies"
OPERATOR = signer("operator").address


class Bench:
    """Processes that a test started."""

    def __init__(self) -> None:
        self.started: list[StrategyProcess] = []

    def process(self, name: str, folder: Path = ROOT) -> StrategyProcess:
        """A process of a strategy; it may not be loaded yet."""
        found = StrategyProcess(name if ":" in name else f"{FIXTURES}:{name}", folder, DEADLINE_S)
        self.started.append(found)
        return found

    def ready(self, name: str) -> StrategyProcess:
        """A process with its strategy loaded."""
        found = self.process(name)
        until_ready(found)
        return found


def until_ready(process: StrategyRunner) -> frozenset[str]:
    while True:
        try:
            return process.methods()
        except TryAgain as error:
            if "still starting" not in str(error) and "waits for its next start" not in str(error):
                raise


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(strategy_process, "FIRST_PAUSE_S", 0.1)
    found = Bench()
    yield found
    for each in found.started:
        each.close()


def audit(name: str = "fraud", mismatches: int = 2) -> AuditEvent:
    return AuditEvent(word(name), 0, OPERATOR, mismatches, 0, 500, U256(100))


def receipt(seq: int) -> ReceiptEvent:
    return ReceiptEvent(word("receipt", seq), 0, OPERATOR, U64(seq), word("environment"), "Good", 500, U256(100))


def test_process_proposes_what_its_strategy_proposes(bench: Bench) -> None:
    process = bench.ready("EveryAudit")
    assert process.methods() == {"on_audit"}
    assert process.ask(audit()) == (DisputeProposal(word("fraud"), "seen"),)
    assert process.ask(audit(mismatches=0)) == ()


def test_process_has_no_variable_and_no_descriptor_of_the_node(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "looking.py").write_text(
        "import os\nfrom bytewise_client.watch import DisputeProposal, Strategy\n"
        "class Looking(Strategy):\n"
        "    def on_audit(self, event):\n"
        "        places = [f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd')]\n"
        "        fds = [os.readlink(each).split(':')[0] for each in places if os.path.exists(each) or os.path.islink(each)]\n"
        "        return [DisputeProposal(event.receipt_id, ' '.join([*fds, os.environ.get('NODE_SECRET', 'unset')])[:200])]\n"
    )
    monkeypatch.setenv("NODE_SECRET", "value")
    with open(tmp_path / "key", "w") as key:
        os.set_inheritable(key.fileno(), True)
        process = bench.process("looking:Looking", tmp_path)
        until_ready(process)
    (found,) = process.ask(audit())
    words = found.reason.split()
    assert words[-1] == "unset" and words.count("socket") == 1 and not any("key" in each for each in words)


@pytest.mark.parametrize(
    ("name", "says"),
    [("Raising", "ZeroDivisionError: a mistake of the author (bad_strategies.py:"), ("Nonsense", "returned str"),
     ("Strange", "proposed bytes"), ("Endless", "more than 16"), ("Greedy", "MemoryError")],
)  # fmt: skip
def test_wrong_answer_is_one_line_and_the_process_lives(bench: Bench, name: str, says: str) -> None:
    process = bench.ready(name)
    for _ in range(2):
        with pytest.raises(MalformedValue) as refused:
            process.ask(audit())
        assert says in str(refused.value) and "\n" not in str(refused.value)
    assert process.generation == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [("Unmade", "RuntimeError: no configuration"), ("NoStrategy", "no subclass of bytewise_client.watch.Strategy"),
     ("nowhere:Bot", "ModuleNotFoundError"), (f"{FIXTURES}:Missing", "AttributeError")],
)  # fmt: skip
def test_strategy_that_cannot_be_loaded_is_named_with_its_error(bench: Bench, name: str, says: str) -> None:
    process = bench.process(name)
    with pytest.raises(TryAgain) as refused:
        until_ready(process)
    assert says in str(refused.value) and "could not be loaded" in str(refused.value)
    with pytest.raises(TryAgain, match="waits for its next start"):
        process.methods()


def test_hanging_strategy_is_killed_with_its_children(bench: Bench) -> None:
    process = bench.ready("Hanging")
    (leader,) = [int(each) for each in os.listdir("/proc") if each.isdigit() and _command(each).endswith("Hanging")]
    with pytest.raises(TryAgain, match="gave no answer"):
        process.ask(receipt(1))
    while any(_group(each) == leader for each in os.listdir("/proc") if each.isdigit()):
        time.sleep(0.05)
    assert until_ready(process) and process.generation == 2
    assert process.ask(receipt(2)) == (DisputeProposal(word("receipt", 2)),)


def test_ended_process_is_started_again(bench: Bench) -> None:
    process = bench.ready("Ending")
    with pytest.raises(TryAgain):
        process.ask(audit())
    assert until_ready(process) == {"on_audit"} and process.generation == 2


def show(strategist: Strategist, events: list[WatchEvent], rounds: int = 40) -> None:
    """Some ticks, until the strategy was asked about everything or gave up."""
    for _ in range(rounds):
        strategist.show(events)
        time.sleep(0.05)


def test_event_on_which_a_strategy_hangs_keeps_it_from_no_other(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    strategist = Strategist(bench.ready("Hanging"))
    events: list[WatchEvent] = [receipt(1), receipt(2), receipt(4)]
    for _ in range(100):
        strategist.show(events)
        time.sleep(0.05)
        if "strategy.event_skipped" in capsys.readouterr().err:
            break
    else:
        raise AssertionError("the event was never skipped")
    show(strategist, events)
    assert {each.receipt_id for each in strategist.proposals} == {word("receipt", 2), word("receipt", 4)}
    assert bench.started[0].generation == TRIES + 1


def test_event_on_which_a_strategy_raises_is_tried_again_then_skipped(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    strategist = Strategist(bench.ready("Raising"))
    for _ in range(TRIES + 3):
        strategist.show([audit()])
    lines = capsys.readouterr().err.splitlines()
    assert sum("strategy.failed" in line for line in lines) == TRIES
    assert all("Repair the strategy" in line for line in lines if "strategy.failed" in line)
    assert sum("strategy.event_skipped" in line for line in lines) == 1
    check = strategist.check()
    assert (check.ok, check.value) == (False, "1 events skipped after 3 failures each") and "Repair" in check.advice
    strategist.show([])
    assert strategist.check().ok, "the event is gone"
    once = Strategist(bench.ready("RaisingOnce"))
    once.show([audit()])
    once.show([audit()])
    assert len(once.proposals) == 1


def test_answer_is_replaced_by_the_next_and_forgotten_with_its_subject(bench: Bench) -> None:
    strategist = Strategist(bench.ready("EveryAudit"))
    strategist.show([audit("one"), audit("two")])
    assert [each.receipt_id for each in strategist.proposals] == [word("one"), word("two")]
    strategist.show([audit("one", mismatches=0), audit("two")])
    assert [each.receipt_id for each in strategist.proposals] == [word("two")]
    strategist.show([])
    assert strategist.proposals == ()


def test_answer_about_an_earlier_state_falls_while_nobody_can_be_asked() -> None:
    runner = Scripted()
    strategist = Strategist(runner)
    strategist.show([audit("one"), audit("two")])
    assert len(strategist.proposals) == 2
    assert strategist.check().ok
    runner.away = True
    strategist.show([audit("one", mismatches=9), audit("two")])
    assert len(strategist.proposals) == 1 and not strategist.check().ok


class Scripted:
    """A runner whose answers a test chooses."""

    generation = 1

    def __init__(self) -> None:
        self.asked: list[WatchEvent] = []
        self.away = False

    def methods(self) -> frozenset[str]:
        if self.away:
            raise TryAgain("strategy", "is still starting")
        return frozenset({"on_audit"})

    def ask(self, event: WatchEvent) -> tuple[DisputeProposal, ...]:
        self.asked.append(event)
        return (DisputeProposal(word("fraud")),)

    def close(self) -> None:
        raise Unavailable("unused")


def test_events_are_asked_once_again_after_a_start_and_not_while_it_starts() -> None:
    runner = Scripted()
    strategist = Strategist(runner)
    runner.away = True
    strategist.show([audit()])
    assert runner.asked == []
    runner.away = False
    for _ in range(3):
        strategist.show([audit(), receipt(1)])
    assert runner.asked == [audit()] and not strategist.wants(ReceiptEvent)
    runner.generation = 2
    strategist.show([audit()])
    assert len(runner.asked) == 2


def test_time_of_one_tick_is_bounded_for_any_number_of_events() -> None:
    runner, seconds = Scripted(), iter(range(1000))
    strategist = Strategist(runner, lambda: float(next(seconds)))
    events = [audit(f"receipt {i}") for i in range(10)]
    strategist.show(events)
    assert 0 < len(runner.asked) < 10
    for _ in range(10):
        strategist.show(events)
    assert runner.asked == events


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().rpartition(" ")[0].rpartition(" ")[0]
    except OSError:
        return ""


def _group(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[2])
    except OSError:
        return 0
