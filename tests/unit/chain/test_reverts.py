"""The check of the contracts' reverts sees what it says that it sees."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.source import ROOT

TOOL: dict[str, Any] = runpy.run_path(str(ROOT / "chain/contracts/tools/reverts.py"))

INTERFACE = "interface IVault { error TooSmall(uint256 have); error Empty(); }\n"
VAULT = """
import {IVault} from "./IVault.sol";
// error Ghost(uint256 x); revert("no");
contract Vault is IVault {
    string constant NAME = "revert('no')";
    function take(uint256 n) external {
        if (n == 0) revert Empty();
        require(n > 9, TooSmall(n));
    }
}
"""
TEST = """
contract VaultTest is Check {
    function test_small(uint8 n) public { vm.expectRevert(IVault.TooSmall.selector); }
    function test_empty() public { vm.expectRevert(Vault.Empty.selector); }
    function invariant_whole() public {}
}
"""
BARE = {"IVault.Empty": "one argument"}


def found(folder: Path, vault: str = VAULT, test: str = TEST, interface: str = INTERFACE, bare: Any = BARE) -> list[str]:
    for name, text in (("src/IVault.sol", interface), ("src/Vault.sol", vault), ("test/Vault.t.sol", test)):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    lines: list[str] = TOOL["findings"](TOOL["read"](folder / "src"), TOOL["read"](folder / "test"), bare)
    return lines


def test_no_error_is_found_in_sound_contracts(tmp_path: Path) -> None:
    assert found(tmp_path) == []
    assert TOOL["fuzzed_tests"](TOOL["read"](tmp_path / "test")) == (2, 1)


@pytest.mark.parametrize(
    ("statement", "kept"),
    [
        ('revert("no");', "revert ("),
        ("revert();", "revert ("),
        ("assert(n > 1);", "assert ("),
        ("require(n > 1);", "require(n > 1);"),
        ('require(n > 1, "no");', "require"),
    ],
)
def test_a_revert_without_a_custom_error_is_found(tmp_path: Path, statement: str, kept: str) -> None:
    (line,) = found(tmp_path, vault=VAULT.replace("require(n > 9", f"{statement} require(n > 9"))
    assert line.startswith("Vault: `")
    assert line.endswith("` has no custom error")
    assert kept.split("(")[0].strip() in line


def test_an_error_that_is_never_raised_is_found(tmp_path: Path) -> None:
    assert found(tmp_path, vault=VAULT.replace("require(n > 9, TooSmall(n));", "")) == ["IVault.TooSmall: never raised"]


def test_an_error_that_no_test_names_is_found(tmp_path: Path) -> None:
    lines = found(tmp_path, test=TEST.replace("Vault.Empty.selector", "Other.Empty.selector"))
    assert lines == ["IVault.Empty: no test names it"]


def test_an_error_without_data_needs_a_reason(tmp_path: Path) -> None:
    assert found(tmp_path, bare={}) == ["IVault.Empty: carries no data, and BARE says no reason"]
    stale = found(tmp_path, bare=BARE | {"IVault.TooSmall": "it has data"})
    assert stale == ["IVault.TooSmall: in BARE, but it carries data or is not declared"]


def test_errors_of_one_name_are_distinguished(tmp_path: Path) -> None:
    """Another contract's error of the same name is another error: raised and tested for itself."""
    other = "contract Other { error TooSmall(uint256 have); }\n"
    assert found(tmp_path, interface=INTERFACE + other) == ["Other.TooSmall: never raised", "Other.TooSmall: no test names it"]
