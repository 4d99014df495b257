"""The disputes that this account opened. They are read from the chain, so that their cost still counts after a restart."""

from collections.abc import Mapping
from typing import Protocol

from bytewise.ports import AccountView, BlockView, SnapshotView, TermsView
from bytewise.protocol.address_book import Network
from bytewise.protocol.court.commitments import dispute_id
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.decisions.snapshot import Dispute, DisputeOpening, Snapshot
from bytewise.protocol.units import Address, Digest
from bytewise.service import metrics
from verifier.watch.chain_events import EventFollower


class OwnDisputesChain(BlockView, AccountView, SnapshotView, Protocol):
    """The part of the chain that `OwnDisputes` reads."""


class UnwonChain(AccountView, SnapshotView, TermsView, Protocol):
    """The part of the chain that `unwon_wei` reads."""


class OwnDisputes:
    """The disputes that this account opened, each with the block in which it was opened, and the disputes that are won."""

    def __init__(self, chain: OwnDisputesChain, network: Network, me: Address) -> None:
        self._chain = chain
        self._domain = network.disputes_domain
        self._me = me
        self._events = EventFollower(chain, int(network.deploy_block), "disputes")
        self._opened: dict[Digest, int] = {}
        self._won: set[Digest] = set()
        """Disputes of all accounts that ended with a conviction."""
        self._final: set[Digest] = set()
        """Disputes of this account whose final verdict was seen."""
        self._has_begun = False

    def follow(self, snapshot: Snapshot) -> None:
        """Reads the disputes that this account opened since the last snapshot, and notes which disputes are won.

        After a reorganisation it reads all of this account's disputes again. It keeps the notes about won disputes, because no
        later snapshot contains a dispute that is over.
        """
        for case in snapshot.disputes:
            (self._won.add if is_won(case) else self._won.discard)(case.id)
        if self._events.is_reset():
            self._opened.clear()
        first = self._events.next_block
        if first <= snapshot.number:
            ours = self._chain.alt_commits(self._me, first, snapshot.number)
            found = {each.id: each for each in self._chain.opened(first, snapshot.number) if each.id in ours} if ours else {}
            self._note_ended(snapshot, found)
            for each in ours:
                self._opened.setdefault(each, found[each].block if each in found else snapshot.number)
            self._events.mark_read(snapshot.number, snapshot.block_hash)
        self._count_final(snapshot)

    def _count_final(self, snapshot: Snapshot) -> None:
        """Counts verdicts of this account's disputes that become final while this process runs. Verdicts in the first snapshot
        are not counted, because they are older than the start."""
        for case in snapshot.disputes:
            if case.phase is Phase.FINAL and case.id in self._opened and case.id not in self._final:
                self._final.add(case.id)
                if self._has_begun:
                    metrics.OWN_DISPUTES.labels(verdict=case.verdict.name.lower()).inc()
        self._has_begun = True

    def _note_ended(self, snapshot: Snapshot, found: Mapping[Digest, DisputeOpening]) -> None:
        """Reads the new disputes of this account that the snapshot lacks because they are over. There are such disputes only
        after a start or a reorganisation, when old disputes are read again."""
        shown = {case.id for case in snapshot.disputes}
        missing = [opening for each, opening in found.items() if each not in shown]
        if missing:
            ended = self._chain.snapshot(self._me, snapshot.number, missing).disputes
            self._won |= {case.id for case in ended if is_won(case)}

    def has(self, receipt_id: Digest) -> bool:
        """Returns whether this account opened a dispute about a receipt."""
        return dispute_id(self._domain, receipt_id) in self._opened

    def is_unwon(self, receipt_id: Digest) -> bool:
        """Returns whether this account opened a dispute about a receipt and has not seen that dispute won."""
        dispute = dispute_id(self._domain, receipt_id)
        return dispute in self._opened and dispute not in self._won

    def unwon_since(self, block: int) -> tuple[Digest, ...]:
        """Returns the ids of this account's disputes that were opened in or after a block and were not seen to be won."""
        return tuple(each for each, opened in self._opened.items() if opened >= block and each not in self._won)


def is_won(case: Dispute) -> bool:
    """Returns whether a dispute ended with a conviction of the operator."""
    return case.ended and case.verdict in CONVICTIONS


def unwon_wei(chain: UnwonChain, me: Address, first_block: int, block: int) -> int:
    """Returns the sum of the bonds, in wei, of the disputes that account `me` opened from `first_block` to `block` and has not
    won. The state is read at `block`."""
    ours = chain.alt_commits(me, first_block, block)
    openings = [each for each in chain.opened(first_block, block) if each.id in ours] if ours else []
    cases = chain.snapshot(me, block, openings).disputes if openings else ()
    return sum(chain.params(case.params_version, block).required_bond for case in cases if not is_won(case))
