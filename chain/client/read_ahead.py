"""Batched reads of one node for a program that asks one question after the other.

`MissingRead` stops the program at a read that was not made yet. The caller collects what many such programs miss, fetches it in
one round trip, and starts them again with the answers known. So the program stays a plain sequence of reads. It must be a pure
function of them, and all reads must be at numbered blocks, whose state does not change.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from bytewise.ports import MissingRead
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.units import Address
from chain.client.artifacts import View
from chain.client.blocks import SHORT_CHAIN_BLOCKS
from chain.client.rpc import Block, ChainClient, Read, at_number, block_read, view_read

READS_PER_BATCH = 100
"""Reads in one round trip. Many nodes accept no more."""


class ReadAheadClient(ChainClient):
    """A node whose views and blocks must be fetched before they are read. Everything else is as in `ChainClient`."""

    def __init__(self, url: str, chain_id: int, timeout_s: float) -> None:
        super().__init__(url, chain_id, timeout_s)
        self._known: dict[str, Any] = {}

    def call(self, contract: str, at: Address, function: str, *arguments: Any, block: str | dict[str, Any]) -> Any:
        """Decoded result of a view. `MissingRead` before it was fetched."""
        # The key is not the encoded request: encoding the arguments costs more than the rest.
        name = f"{at}.{function}{arguments!r}@{block if isinstance(block, str) else json.dumps(block)}"
        return self._answer(name, lambda: view_read(name, View(contract, at, function, arguments), block))

    def block(self, number: int) -> Block:
        """The canonical block at a height. `MissingRead` before it was fetched."""
        found: Block = self._answer(at_number(number), lambda: block_read(number))
        return found

    def fetch(self, reads: Sequence[Read]) -> None:
        """Makes these reads. On a short chain it also reads neighbouring blocks, because a search looks at all of them."""
        wanted = {each.name: each for read in reads for each in (read, *_neighbours(read)) if each.name not in self._known}
        todo, answers = list(wanted.values()), list[Any]()
        try:
            for start in range(0, len(todo), READS_PER_BATCH):
                answers += self.read_many(todo[start : start + READS_PER_BATCH])
        except Unavailable as error:
            # Make no further round trip: it would wait as long as this one.
            answers += [error] * (len(todo) - len(answers))
        self._known |= zip([each.name for each in todo], answers, strict=True)

    def _answer(self, name: str, read: Callable[[], Read]) -> Any:
        if name not in self._known:
            raise MissingRead(self, read())
        answer = self._known[name]
        if isinstance(answer, BytewiseError):
            raise answer
        return answer


def _neighbours(read: Read) -> list[Read]:
    if read.number is None or read.number >= SHORT_CHAIN_BLOCKS:
        return []
    first = read.number - read.number % READS_PER_BATCH
    return [block_read(number) for number in range(first, first + READS_PER_BATCH)]
