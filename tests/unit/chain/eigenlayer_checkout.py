"""Compares our interfaces of EigenLayer with its own contracts, by what the compiler says of both."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eth_utils.abi import abi_to_signature, collapse_if_tuple

from tests.eigenlayer_build import PROJECT, compile_sources, sources

OURS = "src/stake/eigenlayer/IEigenLayer.sol"
THEIRS = {
    "IAllocationManager": "AllocationManager",
    "IDelegationManager": "DelegationManager",
    "IStrategyManager": "StrategyManager",
    "IStrategy": "StrategyBase",
}
"""Contracts of EigenLayer behind our interfaces: each has more functions than its own interface names."""
Functions = dict[str, tuple[list[str], str]]
"""Signature to types of what is returned, and mutability."""


def functions_of(abi: Sequence[Any]) -> Functions:
    """The functions of an ABI."""
    return {
        abi_to_signature(entry): ([collapse_if_tuple(out) for out in entry["outputs"]], entry["stateMutability"])
        for entry in abi
        if entry["type"] == "function"
    }


def interfaces(root: Path = PROJECT) -> dict[str, Functions]:
    """Functions of each of our interfaces as the file under `root` has them."""
    said = compile_sources(sources(root, [OURS]), ("abi",), "solc")[OURS]
    return {name: functions_of(said[name]["abi"]) for name in THEIRS}


def differences(ours: dict[str, Functions], theirs: dict[str, Functions]) -> list[str]:
    """A line for each function of ours that theirs lack or answer otherwise."""
    return [
        f"{interface}.{signature}: ours {wanted}, theirs {theirs[interface].get(signature, 'have none')}"
        for interface, wanted_functions in ours.items()
        for signature, wanted in wanted_functions.items()
        if theirs[interface].get(signature) != wanted
    ]
