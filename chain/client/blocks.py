"""Reads of blocks and of plain accounts, which no contract has a part in."""

import bisect
from collections.abc import Sequence

from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.units import Address, Digest
from chain.client.access import Chain
from chain.client.rpc import Block, at_number

TAGS = ("latest", "safe", "finalized")
"""What `BlockReader.head` may follow: the newest block, the newest justified or the newest finalized one (beacon chain)."""

SHORT_CHAIN_BLOCKS = 2_000
"""Of a chain no longer than this all blocks are looked at: it is a test's, whose owner may have set its time back."""


class BlockReader:
    """Blocks of one chain. `tag` is the finality of `head`: latest, safe or finalized."""

    def __init__(self, client: Chain, tag: str = "latest") -> None:
        if tag not in TAGS:
            raise ConfigurationError("chain", f"no finality is called {tag}")
        self.client = client
        self._tag = tag
        self._times: dict[int, int] = {}

    def head(self) -> int:
        """Number of the newest block at the configured finality."""
        return self.client.head(self._tag).number

    def block(self, number: int) -> Block:
        """The canonical block at a height."""
        return self.client.block(number)

    def block_hash(self, number: int) -> Digest:
        """Hash of the canonical block at a height."""
        return self.client.block(number).hash

    def numbers_at(self, timestamp: int, block: int) -> Sequence[int]:
        """Blocks of that time among those up to a block: one at most on Ethereum, more on chains with several blocks a second.

        Reads only headers, which every node has of all blocks.
        """
        if block <= SHORT_CHAIN_BLOCKS:
            return [number for number in range(block + 1) if self._time(number) == timestamp]
        return range(self._first_from(timestamp, block), self._first_from(timestamp + 1, block))

    def balance(self, account: Address, block: int) -> int:
        """Wei in the account itself."""
        return self.client.balance(account, at_number(block))

    def _first_from(self, timestamp: int, block: int) -> int:
        return bisect.bisect_left(range(block + 1), timestamp, key=self._time)

    def _time(self, number: int) -> int:
        # Kept for a search that many records repeat, in one run of a command.
        if number not in self._times:
            self._times[number] = self.client.block(number).timestamp
        return self._times[number]
