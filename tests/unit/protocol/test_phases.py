"""The phase table of the contracts: whole, without dead ends, and numbered as the contracts number it."""

import re
import runpy

import pytest

from bytewise.protocol.court.phases import DERIVED, TRANSITIONS, Event, EventActor, Phase, phase_after
from bytewise.protocol.court.settlement import SeatOutcome
from bytewise.protocol.records.statements import Verdict
from tests.source import ROOT

TYPES = (ROOT / "chain/contracts/src/libraries/Types.sol").read_text()


@pytest.mark.parametrize(("name", "kind"), [("Phase", Phase), ("Verdict", Verdict), ("Standing", SeatOutcome)])
def test_phase_numbers_are_those_of_the_contracts(name: str, kind: type[Phase] | type[Verdict] | type[SeatOutcome]) -> None:
    found = re.search(rf"^enum {name} {{(.*?)^}}", TYPES, re.MULTILINE | re.DOTALL)
    assert found
    names = re.findall(r"^    (\w+)", found[1], re.MULTILINE)
    assert names == [each.name for each in kind]
    assert [each.value for each in kind] == list(range(len(names)))


def test_every_phase_and_event_is_used_and_leads_to_one_place() -> None:
    assert {row.end for row in TRANSITIONS} | {Phase.NONE} == set(Phase)
    assert {row.event for row in TRANSITIONS} == set(Event)
    assert len({(row.start, row.event) for row in TRANSITIONS}) == len(TRANSITIONS)
    assert phase_after(Phase.FINAL, Event.FINALIZE) is None


def test_every_phase_ends_without_a_particular_actor() -> None:
    reaches = {Phase.FINAL}
    ways = [row for row in TRANSITIONS if row.who in (EventActor.ANYBODY, EventActor.TIME)]
    for _ in Phase:
        reaches |= {row.start for row in ways if row.end in reaches}
    assert reaches == set(Phase) - {Phase.NONE}


def test_page_prints_the_phase_table() -> None:
    tool = runpy.run_path(str(ROOT / "chain/contracts/tools/phase_page.py"))
    page = tool["PAGE"].read_text()
    assert tool["written"](page) == page, "python chain/contracts/tools/phase_page.py writes it again"
    assert page.count("\n| SEED |") == sum(row.start is Phase.SEED for row in TRANSITIONS)
    with pytest.raises(ValueError, match="phases"):
        tool["written"](page.replace("<!-- phases -->", ""))


def test_derived_phases_follow_from_time_or_a_count() -> None:
    assert DERIVED == {row.end for row in TRANSITIONS if row.who is EventActor.TIME}


def test_page_names_every_function_that_has_a_role() -> None:
    page = (ROOT / "docs/reference/contracts.md").read_text()
    roles = page[page.index("## 3. Roles") : page.index("## 4.")]
    governed = (ROOT / "chain/contracts/src/governance/Charter.sol").read_text()
    functions = {
        f"{contract.removeprefix('I')}.{function}" for contract, function in re.findall(r"(\w+)\.(\w+)\.selector", governed)
    }
    assert len(functions) > 15 and [name for name in sorted(functions) if f"`{name}`" not in roles] == []
