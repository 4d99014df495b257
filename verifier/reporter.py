"""Reports operators that signed two leaves with one number: the proof is in our hands, and a share of the slash is ours.

What clients handed over is compared with what is anchored, and lists that do not fit with what their batches turned out to be.
"""

import functools

from bytewise.ports import ChainView, Sender
from bytewise.protocol.actions import Action, ReportEquivocation
from bytewise.protocol.digests import keccak256
from bytewise.protocol.docket import Docket
from bytewise.protocol.errors import TryAgain
from bytewise.protocol.receipt import SignedLeaf, SignedReceipt
from bytewise.protocol.units import Address, Digest
from bytewise.storage.archive import Archive
from verifier.given import Given
from verifier.leaf_book import MAX_DOUBLES, LeafBook, Number
from verifier.refusals import Refusals


class Reporter:
    """The part of a watchtower that reports equivocation. Implements `node.Part`."""

    def __init__(
        self, chain: ChainView, first_block: int, me: Address, leaves: LeafBook, archive: Archive, given: Given | None = None
    ) -> None:
        self._chain = chain
        self._first_block = first_block
        self._me = me
        self._leaves = leaves
        self._archive = archive
        self._given = given
        self._refusals = Refusals()

    def step(self, docket: Docket) -> tuple[Action, ...]:
        """What to report: what the chain would punish now. What it has punished it refuses, and is asked for seldom."""
        self._refusals.begin()
        self._compare(() if self._given is None else tuple(self._given.receipts().values()))
        numbers = {_name(each): each for each in self._leaves.doubles}
        due = [numbers[name] for name in self._refusals.in_turn(numbers) if self._is_due(name, numbers[name], docket)]
        between = self._first_block, docket.number
        # As with demands, each time is an act of its own: the one before is in the outbox for good.
        return tuple(ReportEquivocation(*each, self._chain.times_reported(*each, *between)) for each in due)

    def report(self, action: ReportEquivocation, sender: Sender) -> None:
        """Sends both leaves."""
        double = self._leaves.doubles.get(Number(action.operator, action.seq))
        if double is None:
            raise TryAgain("leaves", f"number {action.seq} of {action.operator} was not seen twice since the start")
        first, second = (double.first, double.first_signature), (double.second.record, double.second.signature)
        sender.report_equivocation(*first, *second, action.times)

    def _compare(self, given: tuple[SignedReceipt, ...]) -> None:
        anchored = self._archive.numbered({(each.receipt.operator, int(each.receipt.seq)) for each in given})
        for signed in (*(each.signed for each in anchored), *given):
            self._leaves.note(SignedLeaf(signed.receipt, signed.signature))

    def _is_due(self, name: Digest, number: Number, docket: Docket) -> bool:
        def ask() -> str | None:
            double = self._leaves.doubles[number]
            why = self._chain.report_refused(self._me, *double[:2], double.second, docket.number)
            if why is not None:
                self._leaves.note_refused(number)
            return why

        return not self._refusals.is_refused(name, ask, docket)


@functools.lru_cache(MAX_DOUBLES)
def _name(number: Number) -> Digest:
    return Digest(keccak256(bytes.fromhex(number.operator[2:]) + number.seq.to_bytes(8, "big")))
