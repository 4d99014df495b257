"""What happens to a transaction after it was believed: its block becomes final, or leaves the chain (design section 2).

A reorganisation deeper than the confirmations frees nonces that the outbox had done with. Until their bytes are in the chain
again, nothing that the account sends later can be mined: a vote waits behind a deposit that vanished.
"""

import functools

from bytewise.protocol.errors import ChainReverted, RpcRefused
from bytewise.service import telemetry
from bytewise.storage.outbox import Item, Outbox, State
from chain.client.access import Chain
from chain.client.rpc import Block
from chain.sending.apart import apart

FINAL_AFTER = 96
"""Blocks after which a block is believed for good: three epochs, one more than finality takes; full nodes keep 128 states."""


class Aftercare:
    """Looks after the ended rows of one outbox."""

    def __init__(self, client: Chain, outbox: Outbox, final_after: int = FINAL_AFTER) -> None:
        self._client = client
        self._outbox = outbox
        self._final_after = final_after
        self._seen: Block | None = None

    def step(self, used: int, head: Block) -> None:
        """Takes back what left the chain, to BROADCAST, and marks as FINAL what cannot leave it any more.

        `used` is the account's count of transactions. A block's hash fixes all its ancestors: while the head of the last step is
        in the chain, only rows that are about to become FINAL are looked at one by one.
        """
        moved, looked = self._seen is None or self._left(self._seen.number, self._seen.hash, head), True
        for item in self._outbox.leavable_rows():
            looked &= apart(item.intent.function, functools.partial(self._look, item, used, head, moved))
        apart("loose", functools.partial(self._push_loose, used))
        if looked:
            self._seen = head

    def _look(self, item: Item, used: int, head: Block, moved: bool) -> None:
        ripe = item.state is State.CONFIRMED and head.number - (item.block_number or 0) >= self._final_after
        if self._vanished(item, used, head, moved or ripe):
            self._outbox.mark(item.id, State.BROADCAST, detail="its block left the chain")
            telemetry.log("sender.reorganised", id=item.id, function=item.intent.function)
        elif ripe:
            self._outbox.mark(item.id, State.FINAL)

    def _vanished(self, item: Item, used: int, head: Block, look: bool) -> bool:
        assert item.nonce is not None, "rows without a nonce are not asked for"
        if item.nonce >= used:
            return True
        return look and item.block_number is not None and self._left(item.block_number, item.block_hash, head)

    def _left(self, number: int, block_hash: bytes | None, head: Block) -> bool:
        return number > head.number or self._client.block(number).hash != block_hash

    def _push_loose(self, used: int) -> None:
        """Hands in bytes whose row was planned again under a later nonce: that one waits for them."""
        for attempt in self._outbox.loose(used):
            try:
                self._client.broadcast(attempt.raw)
            except (RpcRefused, ChainReverted) as error:
                telemetry.log_error("sender.loose_not_accepted", error, nonce=attempt.nonce)
