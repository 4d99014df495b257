"""Our interfaces of EigenLayer against a checkout of its contracts, where one is named; and that the comparison sees."""

import os
from pathlib import Path

import pytest

from tests.unit.chain.eigenlayer_checkout import INTERFACES, OURS, PROJECT, THEIRS, Functions, differences, functions

VARIABLE = "BYTEWISE_EIGENLAYER"
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
    return functions(PROJECT, dict.fromkeys(INTERFACES, OURS))


def test_every_difference_is_named_and_no_other(tmp_path: Path, ours: dict[str, Functions]) -> None:
    text = (PROJECT / OURS).read_text()
    for before, after in CHANGES.items():
        assert text.count(before) == 1
        text = text.replace(before, after)
    library = tmp_path / "src/contracts/libraries/All.sol"
    file = tmp_path / THEIRS.format("All")
    for path in (library, file):
        path.parent.mkdir(parents=True)
    library.write_text(text)
    file.write_text('import "@openzeppelin/contracts/token/ERC20/IERC20.sol";\nimport "../libraries/All.sol";\n')
    # A checkout's files import each other: the compiler must find what is only reached that way.
    theirs = functions(tmp_path, dict.fromkeys(INTERFACES, THEIRS.format("All")))
    named = [line.split(":")[0].split("(")[0] for line in differences(ours, theirs)]
    assert sorted(named) == [
        "IAllocationManager.getAllocation",
        "IAllocationManager.getSlasher",
        "IAllocationManager.slashOperator",
        "IStrategy.underlyingToken",
    ]


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no checkout of EigenLayer's contracts")
def test_a_checkout_has_every_function_that_we_call(ours: dict[str, Functions]) -> None:
    root = Path(os.environ[VARIABLE])
    assert differences(ours, functions(root, {name: THEIRS.format(name) for name in INTERFACES})) == []
