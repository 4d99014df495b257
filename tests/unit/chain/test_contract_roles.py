"""Every function of the contracts that asks who governs has a role in the charter, and the charter names no other."""

import re
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[3] / "chain" / "contracts" / "src"
FUNCTION = re.compile(r"^    function (\w+)\(([^{;]*)\{(.*?)^    \}", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"(\w+)\.selector")


def governed(source: str) -> set[str]:
    """Names of the functions of a contract that only a role may call, always or in some cases."""
    found = set()
    for name, head, body in FUNCTION.findall(source):
        if re.search(r"\brestricted\b", head) or "_checkCanCall(" in body:
            found.add(name)
    return found


def test_the_charter_names_every_governed_function_and_no_other() -> None:
    charter = (SOURCES / "governance" / "Charter.sol").read_text()
    asked = set().union(*(governed(path.read_text()) for path in SOURCES.rglob("*.sol")))
    assert len(asked) > 15
    assert set(NAMED.findall(charter)) == asked


def test_function_with_a_role_is_distinguished_from_one_without() -> None:
    source = """
    function open(uint256 x)
        external
        restricted
        returns (uint256)
    {
        return x;
    }

    function free() external {
        restrictedTo(1);
    }

    function sometimes() external {
        if (x) _checkCanCall(msg.sender, msg.data);
    }
"""
    assert governed(source) == {"open", "sometimes"}
