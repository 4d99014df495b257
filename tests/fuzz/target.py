"""What is fuzzed: one decoder with genuine inputs, and what must hold of every input."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bytewise.protocol.encoding import MAX_MARKS, decode, encode
from bytewise.protocol.errors.branches import Fault
from tests.fuzz.edits import mutant

Refusals = type[Exception] | tuple[type[Exception], ...]


class Target(NamedTuple):
    """A decoder under a fuzzer."""

    one: Callable[[bytes], bool]
    """Takes the fuzzer's bytes; says whether the decoder took the input. Any exception is a finding."""
    corpus: tuple[bytes, ...]
    """What the fuzzer starts from."""


def target(read: Callable[[bytes], Any], seeds: Sequence[bytes], refusals: Refusals = Fault) -> Target:
    """`read` takes an input: it returns, or raises one of the named `refusals`, and nothing else."""

    def one(data: bytes) -> bool:
        try:
            read(mutant(data, seeds))
        except refusals:
            return False
        return True

    return Target(one, corpus(seeds))


def corpus(seeds: Sequence[bytes]) -> tuple[bytes, ...]:
    """Each genuine input as it is, and as a recipe that leaves it so."""
    return (*(b"\0" + seed for seed in seeds), *(bytes([128, place, 0]) for place in range(len(seeds))))


def same(record: Any, data: bytes) -> Any:
    """The record that was read of these bytes, which must be its encoding."""
    if encode(record) != data:
        raise AssertionError(f"{type(record).__name__} has other bytes than it was read of")
    return record


def records(kinds: Sequence[type], seeds: Sequence[object], max_marks: int = MAX_MARKS, refusals: Refusals = Fault) -> Target:
    """Records of several kinds: each input is read as one of them, chosen by its first byte."""

    def one(data: bytes) -> bool:
        place = data[0] % len(kinds) if data else 0
        given = mutant(data[1:], [encode(seeds[place])])
        try:
            same(decode(kinds[place], given, max_marks), given)
        except refusals:
            return False
        return True

    own = (bytes([place]) + each for place, seed in enumerate(seeds) for each in corpus([encode(seed)]))
    return Target(one, tuple(own))
