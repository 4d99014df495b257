"""Reads of blocks and of plain accounts, which no contract has a part in."""

from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.units import Address, Digest
from chain.access import Chain
from chain.client import Block, at_number

TAGS = ("latest", "safe", "finalized")
"""What `BlockReader.head` may follow: the newest block, the newest justified or the newest finalized one (beacon chain)."""


class BlockReader:
    """Blocks of one chain. `tag` is the finality of `head`: latest, safe or finalized."""

    def __init__(self, client: Chain, tag: str = "latest") -> None:
        if tag not in TAGS:
            raise ConfigurationError("chain", f"no finality is called {tag}")
        self.client = client
        self._tag = tag

    def head(self) -> int:
        """Number of the newest block at the configured finality."""
        return self.client.head(self._tag).number

    def block(self, number: int) -> Block:
        """The canonical block at a height."""
        return self.client.block(number)

    def block_hash(self, number: int) -> Digest:
        """Hash of the canonical block at a height."""
        return self.client.block(number).hash

    def balance(self, account: Address, block: int) -> int:
        """Wei in the account itself."""
        return self.client.balance(account, at_number(block))
