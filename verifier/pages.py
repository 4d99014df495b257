"""All disputes and all open windows at one block, page by page: an old one must not hide the younger ones behind it."""

from dataclasses import replace

from bytewise.ports import ChainView
from bytewise.protocol.docket import AnchoredBatch, Case, Docket
from bytewise.protocol.errors import TryAgain
from bytewise.protocol.phases import Phase
from bytewise.protocol.units import Address


class DocketPages:
    """Reads dockets with every dispute that can still change, and every batch whose window may be open or whose list is owed.

    Ends of whole pages that are over for good are remembered.
    """

    def __init__(self, chain: ChainView, me: Address) -> None:
        self._chain = chain
        self._me = me
        self._first_open = 0
        self._over: dict[int, int] = {}
        self._first_batch = 0

    def read(self, block: int) -> Docket:
        """The docket at a block, with the disputes of all pages but those that were over before, and with `batches`."""
        found = self.read_cases(block)
        return replace(found, batches=self._batches(found))

    def read_cases(self, block: int) -> Docket:
        """The same without `batches`."""
        first = self._chain.docket(self._me, block, self._first_open)
        cases, at = list(first.cases), self._first_open
        at = self._turn(at, first.cases)
        while at < first.case_count:
            page = self._chain.docket(self._me, block, at)
            if page.block_hash != first.block_hash or not page.cases:
                raise TryAgain("chain", f"block {block} changed between two pages of disputes")
            cases += page.cases
            at = self._turn(at, page.cases)
        self._advance(first.cases)
        return replace(first, cases=tuple(cases))

    def _batches(self, docket: Docket) -> tuple[AnchoredBatch, ...]:
        # Another branch may have fewer batches, and others in their place.
        self._first_batch = min(self._first_batch, docket.batch_count)
        found: list[AnchoredBatch] = []
        while self._first_batch + len(found) < docket.batch_count:
            page = self._chain.anchored(self._first_batch + len(found), docket.number)
            if not page:
                raise TryAgain("chain", f"block {docket.number} changed while batches were read")
            found += page
        # Once the clock is past a window it is past it for good; a demand that nobody answered still has to be ended.
        over = next((i for i, each in enumerate(found) if docket.clock <= each.window_end or each.list_demanded), len(found))
        self._first_batch += over
        return tuple(found[over:])

    def _turn(self, at: int, page: tuple[Case, ...]) -> int:
        """Where the next page begins that is worth reading."""
        end = at + len(page)
        if page and closed_prefix(page) == len(page):
            self._over[at] = end
        while end in self._over:
            end = self._over[end]
        return end

    def _advance(self, page: tuple[Case, ...]) -> None:
        self._first_open += closed_prefix(page)
        self._first_open = self._over.get(self._first_open, self._first_open)
        self._over = {start: end for start, end in self._over.items() if start >= self._first_open}


def closed_prefix(cases: tuple[Case, ...]) -> int:
    """How many disputes at the front are over for good, all their seats paid or charged."""
    for count, case in enumerate(cases):
        settled = all(each.settled == each.seats for each in case.rounds)
        if case.phase is not Phase.FINAL or not case.paid or not settled:
            return count
    return len(cases)
