"""What `chain` plans, sends or makes an act of, as its source says it: contract, function, and the expressions of arguments."""

import ast
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from chain.acts import proposals
from chain.acts.disputes import VOTING
from chain.deployment.plan import ARTIFACT
from tests.source import Function, functions, python_files

PLACES = {
    "self._act": (0, 3), "self._plan": (0, 4), "self._again": (0, 9), "Act": (0, 2), "_call": (1, 3),
    "self._step": (-1, 3), "self._vote": (-1, 3),
}  # fmt: skip
"""What makes a call, and which of its arguments are the contract (-1: it is `Disputes`, or `Rounds` for votes) and those of the
call. The function is the next constant after the contract.
"""


class Wrapped(NamedTuple):
    """One call of one function."""

    contract: str
    function: str
    arguments: ast.expr | None
    """What its arguments are, together; None if there are none."""
    within: Function
    """Where."""


@functools.cache
def wrappers() -> tuple[Wrapped, ...]:
    """Every one of `chain`; of a wrapper that calls either of two functions, both."""
    found = ((path, within, node) for path in python_files("chain") for within in functions(path) for node in _planned(within))
    return tuple(each for path, within, node in found for each in _wrapped(path, within, node))


def _planned(within: Function) -> Iterator[ast.Call]:
    return (node for node in ast.walk(within) if isinstance(node, ast.Call) and ast.unparse(node.func) in PLACES)


def _wrapped(path: Path, within: Function, node: ast.Call) -> Iterator[Wrapped]:
    made = ast.unparse(node.func)
    contract, place = PLACES[made]
    arguments = node.args[place] if len(node.args) > place else None
    if made == "_call":
        arguments = ast.Tuple(node.args[place:])
    for function in _functions_in(node.args[contract + 1 :], path):
        court = ["Rounds" if function in VOTING else "Disputes"]
        for name in court if contract < 0 else _named(node.args[contract]):
            yield Wrapped(name, function, arguments, within)


def _named(contract: ast.expr) -> list[str]:
    """The contract of a call: written out, or one of the timelocks."""
    if isinstance(contract, ast.Name):
        return {"timelock": ["TimelockController"], "GOVERNOR": [proposals.GOVERNOR]}.get(contract.id, [])
    return [ARTIFACT.get(each, each) for each in _texts([contract])]


def _functions_in(arguments: Sequence[ast.expr], path: Path) -> list[str]:
    """The function of a call: the first text among what follows the contract, or the texts that its variable can have."""
    for each in arguments:
        if found := _texts([each]):
            return found
        if isinstance(each, ast.Name) and each.id == "function":
            values = assigned(ast.parse(path.read_text()), "function")
            return _texts([part for value in values if isinstance(value, ast.IfExp) for part in (value.body, value.orelse)])
    return []


def assigned(within: ast.AST, name: str) -> list[ast.expr]:
    """Everything that a variable is set to."""
    found = (node for node in ast.walk(within) if isinstance(node, ast.Assign))
    return [pair[1] for node in found for pair in _pairs(node) if isinstance(pair[0], ast.Name) and pair[0].id == name]


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each variable with its value, of several that are set at once too."""
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=True)
    yield target, value


def _texts(nodes: Sequence[ast.expr]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
