"""Every call with a list, or that walks one, has its bound on the page and a figure at that bound."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench.chain import CAP, RESULTS
from chain.client.artifacts import ADAPTERS, CONTRACTS, interface

PAGE = Path("docs/reference/contracts.md")
INHERITED = {"AccessManager", "TimelockController", "GovernanceToken", "BytewiseGovernor"}
"""Of OpenZeppelin, as they are."""
OURS = sorted({*CONTRACTS, *ADAPTERS} - INHERITED)
READ_ONLY = "read only"


def rows() -> list[tuple[set[str], str, set[str]]]:
    """Functions, bound and figures of each row."""
    table = PAGE.read_text().partition("<!-- bounds -->")[2].partition("<!-- /bounds -->")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]
    return [
        (set(re.findall(r"`([^`]+)`", function)), most, set(re.findall(r"`([^`]+)`", figure)))
        for function, _, most, figure in cells
    ]


def of_no_fixed_length(argument: dict[str, Any]) -> bool:
    kind = argument["type"]
    inside = any(of_no_fixed_length(each) for each in argument.get("components", []))
    return inside or "[]" in kind or kind.partition("[")[0] in ("bytes", "string")


def lists_of(name: str) -> set[str]:
    functions = interface(name).functions.items()
    return {f"{name}.{f}" for f, entry in functions if any(of_no_fixed_length(each) for each in entry["inputs"])}


@pytest.mark.parametrize("name", OURS)
def test_every_call_with_a_list_has_a_bound_on_the_page(name: str) -> None:
    said = set().union(*(functions for functions, _, _ in rows()))
    assert lists_of(name) - said == set(), "say in docs/reference/contracts.md, section 7, what bounds it, and measure it there"


def test_every_bound_on_the_page_is_listed_once() -> None:
    named = [function for functions, _, _ in rows() for function in functions]
    assert len(named) == len(set(named))
    assert set(named) <= {f"{name}.{function}" for name in OURS for function in interface(name).functions}


def test_each_bound_has_a_figure_that_fits_one_transaction() -> None:
    gas = json.loads(RESULTS.read_text())["gas"]
    for functions, most, figures in rows():
        assert figures <= gas.keys(), functions
        assert figures or most.startswith(READ_ONLY), functions
        assert all(gas[figure] < CAP for figure in figures), functions


@pytest.mark.parametrize(
    "argument, dynamic",
    [
        ({"type": "bytes32[8]"}, False),
        ({"type": "bytes32"}, False),
        ({"type": "bytes"}, True),
        ({"type": "bytes[2]"}, True),
        ({"type": "uint256[][3]"}, True),
        ({"type": "tuple", "components": [{"type": "string"}]}, True),
        ({"type": "tuple[4]", "components": [{"type": "uint8"}]}, False),
    ],
)
def test_lengths_are_read_from_types(argument: dict[str, Any], dynamic: bool) -> None:
    assert of_no_fixed_length(argument) is dynamic
