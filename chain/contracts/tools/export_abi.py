"""Write `chain/abi/<Name>.json` from what `forge build` left in `out/`.

The Python client reads these files, so it needs neither Node nor Foundry at run time. Usage:

    python chain/contracts/tools/export_abi.py           # write
    python chain/contracts/tools/export_abi.py --check   # compare; exit 1 and name the files on drift
"""

import json
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
OUT = PROJECT / "out"
ABI = PROJECT.parent / "abi"

CONTRACTS = (
    "Charter", "AccessManager", "TimelockController", "GovernanceToken", "BytewiseGovernor", "Params", "Guardian", "Ledger",
    "StakeVault", "Registry", "StakeTree", "RandaoSource", "BlsKeys", "Certifier", "KeyEpochs", "FeeMarket", "ReceiptAnchor",
    "Settlement", "Proceedings", "Disputes", "Audits", "Lens", "EigenLayerStake",
)  # fmt: skip
"""Contracts of a deployment, whose order `chain.plan` knows; and the stake source that one may have in the vault's place."""

HALVES = {"Disputes": "Proceedings"}
"""The court's code is in two contracts, and callers see one."""


def rendered() -> dict[str, str]:
    """File name to content of everything in `chain/abi`."""
    return {f"{name}.json": _artifact(OUT, name, HALVES.get(name)) for name in CONTRACTS}


def _artifact(out: Path, name: str, more: str | None = None) -> str:
    """`more` is a contract whose functions the named one runs as its own."""
    built = json.loads((out / f"{name}.sol" / f"{name}.json").read_text())
    code, abi = built["bytecode"], built["abi"]
    if more is not None:
        others = json.loads((out / f"{more}.sol" / f"{more}.json").read_text())["abi"]
        abi += [entry for entry in others if entry["type"] != "constructor" and entry not in abi]
    return _dump({"abi": abi, "bytecode": code["object"], "linkReferences": code["linkReferences"]})


def _dump(content: object) -> str:
    return json.dumps(content, indent=1) + "\n"


def main(arguments: list[str]) -> int:
    """Write or check; 0 if the committed files are what the sources compile to."""
    files = rendered()
    if arguments == ["--check"]:
        present = {path.relative_to(ABI).as_posix(): path.read_text() for path in ABI.rglob("*.json")}
        drifted = sorted(n for n in files.keys() | present.keys() if files.get(n) != present.get(n))
        for name in drifted:
            print(f"chain/abi/{name} is not what chain/contracts compiles to", file=sys.stderr)
        return 1 if drifted else 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    ABI.mkdir(exist_ok=True)
    for name, content in files.items():
        (ABI / name).write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
