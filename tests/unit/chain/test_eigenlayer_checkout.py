"""Our interfaces of EigenLayer against a checkout of its contracts, where one is named; and that the comparison sees."""

import os
from pathlib import Path

import pytest

from tests.fixtures.chain.eigenlayer_build import PROJECT, VARIABLE, eigenlayer
from tests.fixtures.chain.eigenlayer_checkout import OURS, THEIRS, Functions, differences, functions_of, interfaces

CHANGES = {
    # What only renames is no difference.
    "address avs, SlashingParams": "address service, SlashingParams",
    "uint64 currentMagnitude": "uint128 currentMagnitude",
    "uint256[] wadsToSlash": "uint64[] wadsToSlash",
    "getSlasher(OperatorSet memory set) external view": "getSlasher(OperatorSet memory set) external",
    "function underlyingToken()": "function token()",
}


@pytest.fixture(scope="module")
def ours() -> dict[str, Functions]:
    return interfaces()


def test_every_difference_is_named_and_no_other(tmp_path: Path, ours: dict[str, Functions]) -> None:
    text = (PROJECT / OURS).read_text()
    for before, after in CHANGES.items():
        assert text.count(before) == 1
        text = text.replace(before, after)
    (tmp_path / OURS).parent.mkdir(parents=True)
    (tmp_path / OURS).write_text(text)
    named = [line.split(":")[0].split("(")[0] for line in differences(ours, interfaces(tmp_path))]
    assert sorted(named) == [
        "IAllocationManager.getAllocation",
        "IAllocationManager.getSlasher",
        "IAllocationManager.slashOperator",
        "IStrategy.underlyingToken",
    ]


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no checkout of EigenLayer's contracts")
def test_a_checkout_has_every_function_that_we_call(ours: dict[str, Functions]) -> None:
    built = eigenlayer(Path(os.environ[VARIABLE]))
    assert differences(ours, {name: functions_of(list(built[theirs].abi)) for name, theirs in THEIRS.items()}) == []
