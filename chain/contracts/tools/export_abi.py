"""Write `chain/abi/<Name>.json` and `chain/abi/deploy_order.json` from what `forge build` left in `out/`, and
`chain/abi/next/<Name>.json` from what it left in `out-next/` (profile `next`: the contracts that replace those).

The Python client reads these files, so it needs neither Node nor Foundry at run time. Usage:

    python chain/contracts/tools/export_abi.py           # write
    python chain/contracts/tools/export_abi.py --check   # compare; exit 1 and name the files on drift
"""

import json
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
OUT = PROJECT / "out"
OUT_NEXT = PROJECT / "out-next"
ABI = PROJECT.parent / "abi"

DEPLOY_ORDER = {
    # Arguments name an earlier contract, or one of: "params" (the ParamSet struct), "owner" (the deployer's account).
    # A list is one struct argument with these members in this order.
    "deploy": [
        {"contract": "Params", "args": ["params"]},
        {"contract": "Ledger", "args": []},
        {"contract": "StakeVault", "args": ["Params", "Ledger"]},
        {"contract": "Registry", "args": ["Params", "StakeVault", "owner"]},
        {"contract": "KeyEpochs", "args": ["Params", "owner"]},
        {"contract": "BlockSeedSource", "args": []},
        {"contract": "ReceiptAnchor", "args": ["Params", "Registry", "StakeVault", "Ledger", "KeyEpochs"]},
        {
            "contract": "Disputes",
            "args": [["Params", "Registry", "StakeVault", "Ledger", "ReceiptAnchor", "BlockSeedSource"]],
        },
        {
            "contract": "Lens",
            "args": [["Params", "Registry", "StakeVault", "Ledger", "KeyEpochs", "ReceiptAnchor", "Disputes"]],
        },
    ],
    "wire": [
        {"contract": "Ledger", "args": ["StakeVault", "Disputes", "ReceiptAnchor"]},
        {"contract": "StakeVault", "args": ["Disputes", "ReceiptAnchor"]},
        {"contract": "ReceiptAnchor", "args": ["Disputes"]},
    ],
}

NOT_WIRED = ("RandaoSource", "StakeTree")
"""Written and tested, and part of no deployment yet."""

NEXT = (
    "Charter", "AccessManager", "TimelockController", "GovernanceToken", "BytewiseGovernor", "Params", "Guardian", "Ledger",
    "StakeVault", "Registry", "StakeTree", "RandaoSource", "BlsKeys", "Certifier", "KeyEpochs", "FeeMarket", "ReceiptAnchor",
    "Settlement", "Proceedings", "Disputes", "Audits", "Lens",
)  # fmt: skip
"""Contracts of a deployment of `next`; `chain.next.plan` knows their order."""

HALVES = {"Disputes": "Proceedings"}
"""The court's code is in two contracts, and callers see one."""


def rendered() -> dict[str, str]:
    """File name to content of everything in `chain/abi`."""
    files = {"deploy_order.json": _dump(DEPLOY_ORDER)}
    for name in (*(step["contract"] for step in DEPLOY_ORDER["deploy"]), *NOT_WIRED):
        files[f"{name}.json"] = _artifact(OUT, name)
    for name in NEXT:
        files[f"next/{name}.json"] = _artifact(OUT_NEXT, name, HALVES.get(name))
    return files


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
    (ABI / "next").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (ABI / name).write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
