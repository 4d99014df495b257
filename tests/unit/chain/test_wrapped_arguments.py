"""No wrapper gives a contract two arguments in the other's place: each is called there what it is called here.

The ABI alone tells apart what has another type; two digests, or two numbers, it takes either way round.
"""

import ast
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from chain.client.artifacts import interface
from tests.fixtures.chain.call_sources import Wrapped, assigned, wrappers

OURS = {
    "a": "result", "notePlace.keyHash": "public_key", "delegatee": "to", "duration": "seconds",
    "emptySig": "signature", "f": "finding", "g": "governed", "h": "holders", "id": "dispute operation", "key": "public_key",
    "list": "content", "long": "LongTimelock", "manager": "AccessManager", "newDelay": "seconds",
    "newProposalThreshold": "votes", "newQuorumNumerator": "percent", "newVotingDelay": "blocks", "newVotingPeriod": "blocks",
    "p": "params", "payloads": "calldatas", "policyDigest": "policy", "predecessor": "ZERO_DIGEST", "proposalId": "proposal",
    "r": "receipt", "receiptId": "receipt", "roleId": "role", "round": "round_number", "shards": "holders",
    "short": "ShortTimelock", "sig": "signature", "sigs": "signatures", "r1": "first", "r2": "second",
    "sig1": "first_signature", "sig2": "signature",
}  # fmt: skip
"""What has another name here than in the ABI: everywhere, or in one function."""

AS_READ = {"executeBatch"}
"""Handed on as the chain has it, in its order (`voting.execute_slow`)."""

KINDS = {"addr": "text", "stri": "text"}
"""Types that begin alike are taken one for the other, and these by the encoder too."""


def kinds(inputs: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the encoder tells apart."""
    parts = [(each["type"][:4], each["type"].count("[")) for each in inputs]
    return [KINDS.get(start, start) + "[]" * depth for start, depth in parts]


def plain(name: str) -> str:
    """A name without what only a convention adds."""
    bare = name.rstrip("_").removesuffix("_wei").removesuffix("_s").replace("_", "").lower()
    return bare.removesuffix("seconds") or bare


def fits(ours: str, function: str, name: str) -> bool:
    """Whether what we call so may be given for an input."""
    known = OURS.get(f"{function}.{name}", OURS.get(name.rstrip("_"), "")).split()
    return plain(ours) in {plain(each) for each in known or (name, name.removeprefix("new"))}


def called(node: ast.expr) -> str:
    """What an expression is about: its last name, through what only converts it."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Call() if node.args:
            return called(node.args[0])
        case ast.Call(func=ast.Attribute(value=converted)):
            return called(converted)
        case ast.ListComp():
            return called(node.elt) + "s"
        case ast.Subscript(slice=ast.Constant(value=key)):
            return str(key)
    return ""


def spread(node: ast.expr | None, each: Wrapped) -> Iterator[list[ast.expr]]:
    """Every list of arguments that an expression can be; none if it is only known when it runs."""
    if node is None:
        yield []
    elif isinstance(node, ast.Name):
        for value in assigned(each.within, node.id):
            yield from spread(value, each)
    elif isinstance(node, ast.Tuple):
        yield [part for item in node.elts for part in _parts(item, each)]


def _parts(item: ast.expr, each: Wrapped) -> list[ast.expr]:
    if not isinstance(item, ast.Starred):
        return [item]
    return next(spread(item.value, each), [item])


def misplaced(function: str, inputs: Sequence[Mapping[str, Any]], given: Sequence[ast.expr], each: Wrapped) -> list[str]:
    """What is given for another input than its name says, inside structs too."""
    found = []
    if len(inputs) != len(given):
        return [f"{len(given)} for {len(inputs)}"]
    for entry, node in zip(inputs, given, strict=True):
        if entry["type"] == "tuple" and (fields := list(spread(node, each) if isinstance(node, ast.Name) else [])):
            found += [wrong for part in fields for wrong in misplaced(function, entry["components"], part, each)]
        elif not isinstance(node, ast.Constant) and not fits(called(node), function, entry["name"]):
            found.append(f"{ast.unparse(node)} for {entry['name']}")
    return found


def wrong(each: Wrapped) -> list[str]:
    """What a wrapper gives in another's place."""
    inputs = interface(each.contract).functions[each.function]["inputs"]
    lists = list(spread(each.arguments, each))
    if not lists:
        return [] if max(Counter(kinds(inputs)).values()) == 1 else ["nothing tells its arguments apart"]
    return [wrong for given in lists for wrong in misplaced(each.function, inputs, given, each)]


@pytest.mark.parametrize("each", wrappers(), ids=lambda each: f"{each.contract}.{each.function}")
def test_every_argument_is_passed_for_the_input_of_its_name(each: Wrapped) -> None:
    if each.function not in AS_READ:
        assert wrong(each) == []


def test_swapped_arguments_are_noticed_wherever_the_abi_accepts_them() -> None:
    swapped = 0
    for each in wrappers():
        inputs = interface(each.contract).functions[each.function]["inputs"]
        alike = [pair for pair in itertools.combinations(range(len(inputs)), 2) if len({kinds(inputs)[at] for at in pair}) == 1]
        for (one, other), given in itertools.product(alike, spread(each.arguments, each)):
            given[one], given[other] = given[other], given[one]
            assert misplaced(each.function, inputs, given, each) != [], (
                each.function,
                inputs[one]["name"],
                inputs[other]["name"],
            )
            swapped += 1
            given[one], given[other] = given[other], given[one]
    assert swapped > 20
