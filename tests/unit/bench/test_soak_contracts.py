"""What the soak program of the contracts reads from a campaign, and what it calls a failure."""

import importlib
import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.soak_contracts import MOVES, VERDICTS, error_names, failures, summed, untried

CONTRACTS = Path(__file__).parents[3] / "chain" / "contracts"
FAULTS = tomllib.loads((CONTRACTS / "tools" / "faults.toml").read_text())["fault"]


@given(st.lists(st.tuples(st.lists(st.integers(0, 99), min_size=len(MOVES), max_size=len(MOVES)), st.integers(0, 9)), max_size=5))
def test_runs_of_a_campaign_are_summed(runs: list[tuple[list[int], int]]) -> None:
    ends = ",".join("1" for _ in VERDICTS)
    lines = [f"{','.join(map(str, moves))};{ends};open={opened};0x00000000=1,0x12345678=2" for moves, opened in runs]
    result = summed(lines, error_names())
    assert sum(result["moves"].values()) == sum(sum(moves) for moves, _ in runs)
    assert sum(result["ends"].values()) == len(runs) * len(VERDICTS)
    assert result["calls_by_name"]["open"] == sum(opened for _, opened in runs)
    assert (result["refusals"]["(no reason)"], result["refusals"]["0x12345678"]) == (len(runs), 2 * len(runs))


def test_every_error_of_the_contracts_has_its_name() -> None:
    assert {"WrongPhase", "CreditToZero", "BadCertificate"} <= set(error_names().values())


@pytest.mark.parametrize(
    "result, wrong",
    [
        ({}, []),
        ({"campaign": {"passed": True, "moves": dict.fromkeys(MOVES, 1)}, "faults": [{"fault": "x", "found": True}]}, []),
        ({"campaign": {"passed": False, "moves": dict.fromkeys(MOVES, 1)}}, ["a rule broke"]),
        ({"campaign": {"passed": True, "moves": dict.fromkeys(MOVES[1:], 1)}}, ["never met: stay"]),
        ({"faults": [{"fault": "x", "found": False, "by": ""}]}, ["survived: x"]),
        ({"faults": [{"fault": "x", "found": False, "by": "y"}]}, ["found by another check: x: y"]),
        ({"faults": [], "untried": ["x"]}, ["not tried: x"]),
        ({"walks": {"passed": False}}, ["a walk differed from the model"]),
    ],
)
def test_violated_invariant_is_named(result: dict[str, Any], wrong: list[str]) -> None:
    assert failures(result) == wrong


def test_faults_after_one_that_stopped_the_program_are_not_tried() -> None:
    names = [fault["name"] for fault in FAULTS]
    assert untried([{"fault": name} for name in names]) == []
    assert untried([{"fault": name} for name in names[:-2]]) == names[-2:]


REASONS = {
    "that": "Failed",
    "_wrong": "Failed",
    "_refused": "Failed",
    "same": "Differ",
    "must": "Refused",
    "_same": "Row",
    "_near": "Row",
}
"""The error of each kind of check; `_need` is of its file, and `revert` says it."""


def arguments(code: str, start: int) -> str:
    """What stands between the bracket before `start` and the one that closes it, with whatever lies deeper left out."""
    depth, own, quoted = 1, "", False
    for character in code[start:]:
        quoted ^= character == '"'
        depth += 0 if quoted else (character in "([{") - (character in ")]}")
        if depth == 0:
            return own
        own += character if depth == 1 else ""
    raise ValueError("an open bracket")


def checks_of(path: Path) -> Iterator[str]:
    """How the reason of each check of a file of the campaign begins."""
    code = re.sub(r"//.*", "", path.read_text())
    for call in re.finditer(r"(?<!function )\b(?:revert (\w+)|(that|_wrong|_refused|same|must|_same|_near|_need))\(", code):
        texts = re.findall(r'"([^"]*)"', arguments(code, call.end()))
        reason = call[1] or REASONS.get(call[2]) or {"Table": "Guard", "Deadlines": "When"}[path.stem]
        if texts:
            yield f'{reason}("{texts[-1]}"'
        elif call[1] == "NotInTheTable":
            yield "NotInTheTable("


def check_of(expect: str) -> str:
    """A check by what a fault expects of it: without the move that it was about, which one check may see of several."""
    return "NotInTheTable(" if expect.startswith("NotInTheTable(") else re.sub(r"^(Guard|When)\(\d+, ", r"\1(", expect)


CHECKS = {check for path in sorted((CONTRACTS / "campaign").glob("*.sol")) for check in checks_of(path)}


def test_checks_are_parsed_from_the_source() -> None:
    assert {'Failed("withdraw"', 'Refused("withdraw"', 'Wrong("undecided"', 'When("airgap"', 'Guard("airgap"'} <= CHECKS
    assert {'Row("a fifth is burned"', 'Differ("vault\'s wei"', 'Failed("bound stake left"', "NotInTheTable("} <= CHECKS
    assert len(CHECKS) > 150


def test_every_campaign_check_has_a_planted_fault_and_every_fault_a_check() -> None:
    expected = {check_of(fault["expect"]) for fault in FAULTS}
    assert (CHECKS - expected, expected - CHECKS) == (set(), set())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault["name"]))
def test_a_planted_fault_changes_one_place_of_its_contract(fault: dict[str, Any]) -> None:
    assert (CONTRACTS / fault["file"]).read_text().count(fault["old"]) == 1
    assert fault["old"] != fault["new"]


@pytest.fixture(scope="module")
def tools() -> Iterator[Any]:
    """`chain/contracts/tools/mutants.py`, which imports what lies beside it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(CONTRACTS / "tools"))
        yield importlib.import_module("mutants")


def test_a_fault_is_found_by_the_check_that_it_names_and_by_no_other(tools: Any) -> None:
    said = {"fault": "f", "expect": 'Failed("a"', "by": 'Failed("b")', "found": False}
    assert tools.line(said) == 'ELSEWHERE f: found by another check: Failed("b"), and not by Failed("a"'
    assert tools.line(said | {"by": ""}) == "SURVIVED  f"
    assert tools.line(said | {"by": 'Failed("a")', "found": True}) == 'found     f: Failed("a")'


def test_fault_shown_by_several_moves_names_the_check_only(tools: Any) -> None:
    assert tools.seen_by('When("reveals are open"', 'When(11, "reveals are open")')
    assert tools.seen_by('When(9, "reveals are open"', 'When(9, "reveals are open")')
    assert not tools.seen_by('When(9, "reveals are open"', 'When(11, "reveals are open")')
    assert not tools.seen_by('When("reveals are open"', 'When(9, "commit time")')
    assert not tools.seen_by('When("reveals are open"', "")


def test_fault_gets_other_campaigns_until_its_check_finds_it(tools: Any, tmp_path: Path) -> None:
    (tmp_path / "a.sol").write_text("right")
    asked: list[object] = []

    def planted(_file: str, text: str) -> AbstractContextManager[None]:
        asked.append(text)
        return nullcontext()

    fault = tools.PlantedFault("f", ["I1"], 'Failed("a"', "a.sol", "right", "wrong", longer=2)
    for reasons, found, runs in (
        (['Failed("a")'], True, 20), (["", 'Failed("a")'], True, 80), (['Failed("b")', "", 'Failed("a")'], True, 320),
        (['Failed("b")', "", ""], False, 320),
    ):  # fmt: skip
        asked.clear()
        left = iter(reasons)

        def campaign(_root: Path, *given: int, left: Iterator[str] = left) -> str:
            asked.append(given)
            return next(left)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tools, "campaign", campaign)
            result = tools.tried(SimpleNamespace(root=tmp_path, planted=planted), fault, 10, 250)
        assert (result["found"], result["runs"], result["by"]) == (found, runs, next(filter(None, reversed(reasons))))
        assert asked == ["wrong", (20, 250, 1), (80, 250, 2), (320, 250, 3)][: len(reasons) + 1]


def test_fault_compiler_is_found_from_the_name_of_the_copy(tools: Any, tmp_path: Path) -> None:
    compiler = tmp_path / "copy" / "tools" / "solc-lines"
    compiler.parent.mkdir(parents=True)
    compiler.write_text("#!/bin/sh\nexec cat\n")
    compiler.chmod(0o755)
    for folder in importlib.import_module("planting").Compiled.FOLDERS:
        (tmp_path / "copy" / folder).mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        with importlib.import_module("planting").Planting(Path("copy")) as planting:
            assert planting.root == tmp_path / "copy"


def test_every_fault_lies_in_a_deployed_contract_or_the_campaign(tools: Any) -> None:
    sources = importlib.import_module("planting").Sources(CONTRACTS)
    for path in {fault["file"] for fault in FAULTS}:
        text = (CONTRACTS / path).read_text()
        assert sources.is_of_the_campaign(path) or sources.deployed_with(path, text), path
    assert set(sources.deployed_with("src/libraries/SplitLib.sol", "library SplitLib {}")) == {"Settlement"}
    assert set(sources.deployed_with("src/libraries/SeatsLib.sol", "library SeatsLib {}")) == {"Rounds"}


def test_every_invariant_and_every_row_of_the_table_has_a_planted_fault() -> None:
    broken = {rule for fault in FAULTS for rule in fault["rules"]}
    assert {f"I{number}" for number in range(1, 34)} | set(MOVES) - {"stay"} <= broken


def test_every_planted_fault_is_listed_on_its_page() -> None:
    notes = (CONTRACTS.parents[1] / "docs" / "evidence" / "planted-faults.md").read_text()
    assert [fault["name"] for fault in FAULTS if fault["name"] not in notes] == []


NAMED = re.compile(r"\b(I\d+) ([A-Z][A-Z ]*[A-Z])\b")


def named(paths: Iterable[Path]) -> set[tuple[str, str]]:
    """Invariants as texts name them: number and name."""
    return {(number, name) for path in paths for number, name in NAMED.findall(path.read_text())}


def test_an_invariant_has_one_name_in_notes_contracts_and_campaign() -> None:
    noted = named([CONTRACTS.parents[1] / "docs" / "reference" / "contracts.md"])
    assert {number for number, _ in noted} == {f"I{number}" for number in range(1, len(noted) + 1)}, "each has one name"
    assert named((CONTRACTS / "campaign").glob("*.sol")) == noted, "the campaign checks each, and quotes no other"
    # That no call is dearer than a transaction is no single contract's.
    assert noted - named((CONTRACTS / "src").rglob("*.sol")) == {("I26", "FITS A TRANSACTION")}
    assert named((CONTRACTS / "src").rglob("*.sol")) <= noted
