"""All disputes at one block, page by page: an old open dispute must not hide the younger ones behind it."""

from dataclasses import replace

from bytewise.ports import ChainView
from bytewise.protocol.dispute import Dispute, Phase, Snapshot
from bytewise.protocol.errors import TryAgain
from bytewise.protocol.units import Address


class DisputePages:
    """Reads snapshots with every dispute that can still change; ends of whole pages that are over for good are remembered."""

    def __init__(self, chain: ChainView, me: Address) -> None:
        self._chain = chain
        self._me = me
        self._first_open = 0
        self._over: dict[int, int] = {}

    def read(self, block: int) -> Snapshot:
        """The snapshot at a block, with the disputes of all pages but those that were over before."""
        first = self._chain.snapshot(self._me, block, self._first_open)
        disputes, at = list(first.disputes), self._first_open
        at = self._turn(at, first.disputes)
        while at < first.dispute_count:
            page = self._chain.snapshot(self._me, block, at)
            if page.block_hash != first.block_hash or not page.disputes:
                raise TryAgain("chain", f"block {block} changed between two pages of disputes")
            disputes += page.disputes
            at = self._turn(at, page.disputes)
        self._advance(first.disputes)
        return replace(first, disputes=tuple(disputes))

    def _turn(self, at: int, page: tuple[Dispute, ...]) -> int:
        """Where the next page begins that is worth reading."""
        end = at + len(page)
        if page and closed_prefix(page) == len(page):
            self._over[at] = end
        while end in self._over:
            end = self._over[end]
        return end

    def _advance(self, page: tuple[Dispute, ...]) -> None:
        self._first_open += closed_prefix(page)
        self._first_open = self._over.get(self._first_open, self._first_open)
        self._over = {start: end for start, end in self._over.items() if start >= self._first_open}


def closed_prefix(disputes: tuple[Dispute, ...]) -> int:
    """How many disputes at the front are over for good."""
    for count, dispute in enumerate(disputes):
        if dispute.phase is not Phase.FINAL:
            return count
    return len(disputes)
