"""Our own disputes, as the chain remembers them: what they cost counts, restarts or not."""

from bytewise.ports import ChainView
from bytewise.protocol.address_book import Network
from bytewise.protocol.court.commitments import dispute_id
from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.decisions.snapshot import Docket
from bytewise.protocol.units import Address, Digest


class OwnDisputes:
    """Disputes that one account opened."""

    def __init__(self, chain: ChainView, network: Network, me: Address) -> None:
        self._chain = chain
        self._domain = network.disputes_domain
        self._me = me
        self._first_block = int(network.deploy_block)
        self._next_block = self._first_block
        self._last: tuple[int, Digest] | None = None
        self._ours: set[Digest] = set()
        self._won: set[Digest] = set()

    def follow(self, docket: Docket) -> None:
        """Reads what was opened since; another branch of the chain is read from its beginning."""
        if self._last is not None and self._chain.block_hash(self._last[0]) != self._last[1]:
            self._next_block, self._last = self._first_block, None
            self._ours.clear()
            self._won.clear()
        if self._next_block <= docket.number:
            self._ours |= self._chain.alt_commits(self._me, self._next_block, docket.number).keys()
            self._next_block, self._last = docket.number + 1, (docket.number, docket.block_hash)
        self._won |= {case.id for case in docket.cases if case.ended and case.verdict in CONVICTIONS and case.id in self._ours}

    def has(self, receipt_id: Digest) -> bool:
        """Whether we put a bond on a receipt."""
        return dispute_id(self._domain, receipt_id) in self._ours

    def is_unwon(self, receipt_id: Digest) -> bool:
        """Whether we did, and never saw that it was won."""
        dispute = dispute_id(self._domain, receipt_id)
        return dispute in self._ours and dispute not in self._won
