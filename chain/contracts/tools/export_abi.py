"""Write ABIs (`chain/abi`, `tests/abi`) and storage layouts (`chain/abi/layout`) from the output of `forge build` in `out/`.

The Python client and its tests read these files, so they need neither Node nor Foundry. Usage:

    python chain/contracts/tools/export_abi.py           # write
    python chain/contracts/tools/export_abi.py --check   # compare; exit 1 and name the files on drift

Both also exit 1 and name a contract that is larger than the project allows (`LARGEST_BYTES`).
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
OUT = PROJECT / "out"
ROOT = PROJECT.parent.parent
ABI, TEST_ABI = "chain/abi", "tests/abi"

CONTRACTS = (
    "Charter", "AccessManager", "TimelockController", "GovernanceToken", "BytewiseGovernor", "Params", "Guardian", "Ledger",
    "StakeVault", "Registry", "StakeTree", "RandaoSource", "BlsKeys", "KeyEpochs", "FeeMarket", "ReceiptAnchor",
    "Demands", "Settlement", "Rounds", "Breaker", "Disputes", "Keeper", "Audits", "Lens", "EigenLayerStake",
)  # fmt: skip
"""Contracts of a deployment (`chain.deployment.plan` has their order), and the stake source that may replace the vault."""

BESIDE = ("BondPool",)
"""Contracts that anybody may deploy for a network. No address book lists them."""

EIGENLAYER = ("IAllocationManager", "IDelegationManager", "IStrategy", "IWrappedEther")
"""Interfaces of EigenLayer, from `IEigenLayer.sol`, against which a deployment is checked."""

FAKES = ("FakeEigenLayer", "WrappedEther", "OpenRegistrar")
"""Contracts that Python tests deploy in addition."""

LARGEST_BYTES = 20_000
"""Largest size of a deployed contract in bytes. It leaves room for a correction below the 24,576 bytes of EIP-170."""
LARGEST = {"ReceiptAnchor": 18_000, "Demands": 18_000}
"""Largest size in bytes of contracts that have a smaller limit."""


def too_large() -> list[str]:
    """Returns one line for each contract whose deployed code is larger than its limit."""
    sizes = {name: len(_built(name)["deployedBytecode"]["object"]) // 2 - 1 for name in (*CONTRACTS, *BESIDE)}
    allowed = {name: LARGEST.get(name, LARGEST_BYTES) for name in sizes}
    return [
        f"{name} has {size:,} bytes of code: at most {allowed[name]:,}" for name, size in sizes.items() if size > allowed[name]
    ]


def rendered() -> dict[str, str]:
    """Returns the content of every file that this program writes, by its path from the repository root."""
    ours = {f"{ABI}/{name}.json": _artifact(OUT, name, name) for name in CONTRACTS}
    ours |= {f"{ABI}/{name}.json": _artifact(OUT, name, name, _runtime(name)) for name in BESIDE}
    ours |= {f"{ABI}/{name}.json": _artifact(OUT, "IEigenLayer", name) for name in EIGENLAYER}
    ours |= {f"{ABI}/layout/{name}.json": _layout(name) for name in CONTRACTS}
    return ours | {f"{TEST_ABI}/{name}.json": _artifact(OUT, name, name) for name in FAKES}


def _artifact(out: Path, file: str, name: str, more: Mapping[str, Any] | None = None) -> str:
    built = json.loads((out / f"{file}.sol" / f"{name}.json").read_text())
    code = built["bytecode"]
    return _dump({"abi": built["abi"], "bytecode": code["object"], "linkReferences": code["linkReferences"], **(more or {})})


def _built(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((OUT / f"{name}.sol" / f"{name}.json").read_text())
    return found


def _runtime(name: str) -> dict[str, Any]:
    """Returns the deployed code, and the offsets of the immutable values in it, in the order of their declarations."""
    code = _built(name)["deployedBytecode"]
    places = [[each["start"] for each in found] for _, found in sorted(code["immutableReferences"].items(), key=_declared)]
    return {"runtime": code["object"], "immutables": places}


def _declared(reference: tuple[str, Any]) -> int:
    return int(reference[0])


def _layout(name: str) -> str:
    """Returns the slots of the contract's variables, without the numbers that the compiler gives to declarations in each run."""
    built = _built(name)["storageLayout"]
    storage = [_variable(each) for each in built["storage"]]
    types = {_plain(key): _type(each) for key, each in (built["types"] or {}).items()}
    return _dump({"storage": storage, "types": dict(sorted(types.items()))})


def _type(entry: dict[str, Any]) -> dict[str, Any]:
    plain = {key: _plain(value) if key in ("key", "value", "base") else value for key, value in entry.items()}
    return plain | ({"members": [_variable(each) for each in entry["members"]]} if "members" in entry else {})


def _variable(entry: dict[str, Any]) -> dict[str, Any]:
    return {"label": entry["label"], "slot": entry["slot"], "offset": entry["offset"], "type": _plain(entry["type"])}


def _plain(kind: str) -> str:
    return re.sub(r"\)\d+(?=_|\)|,|$)", ")", kind)


def _dump(content: object) -> str:
    return json.dumps(content, indent=1) + "\n"


def main(arguments: list[str]) -> int:
    """Writes or checks the files. Returns 0 if the committed files are equal to the compiled sources and no contract is too
    large."""
    files, large = rendered(), too_large()
    for line in large:
        print(line, file=sys.stderr)
    if arguments == ["--check"]:
        paths = [path for folder in (ABI, TEST_ABI) for path in (ROOT / folder).rglob("*.json")]
        present = {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}
        drifted = sorted(n for n in files.keys() | present.keys() if files.get(n) != present.get(n))
        for name in drifted:
            print(f"{name} is not what chain/contracts compiles to", file=sys.stderr)
        return 1 if drifted or large else 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    for name, content in files.items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(content)
    return 1 if large else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
