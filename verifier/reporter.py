"""Reports operators that signed two leaves with one number: the proof is in our hands, and a share of the slash is ours.

What clients handed over is compared with what is anchored, and lists that do not fit with what their batches turned out to be.
"""

import functools

from bytewise.ports import ChainView, Sender
from bytewise.protocol.actions import Action, ReportEquivocation
from bytewise.protocol.digests import keccak256
from bytewise.protocol.docket import Docket
from bytewise.protocol.errors import Fault, TryAgain, Unavailable
from bytewise.protocol.receipt import SignedLeaf, SignedReceipt
from bytewise.protocol.units import Address, Digest
from bytewise.service import telemetry
from bytewise.storage.archive import Archive
from verifier.given import Given
from verifier.leaf_book import MAX_DOUBLES, LeafBook, Number
from verifier.refusals import Refusals
from verifier.tally import Tally


class Reporter:
    """The part of a watchtower that reports equivocation. Implements `node.Part`."""

    def __init__(
        self, chain: ChainView, first_block: int, me: Address, leaves: LeafBook, archive: Archive, given: Given | None = None
    ) -> None:
        self._chain = chain
        self._times = Tally[tuple[Address, int]](chain, chain.reported, first_block)
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
        found = (self._decided(name, numbers[name], docket) for name in self._refusals.in_turn(numbers))
        return tuple(each for each in found if each is not None)

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

    def _decided(self, name: Digest, number: Number, docket: Docket) -> ReportEquivocation | None:
        try:
            if self._refusals.is_refused(name, functools.partial(self._ask, number, docket), docket):
                return None
            # As with demands, each time is an act of its own: the one before is in the outbox for good.
            return ReportEquivocation(*number, self._times.times(number, docket))
        except (Fault, Unavailable) as error:
            # One that cannot be counted now keeps back no other.
            telemetry.count("bytewise_report_failures_total", error=type(error).__name__)
            telemetry.log_error("report.not_tried", error, operator=number.operator, seq=number.seq)
            return None

    def _ask(self, number: Number, docket: Docket) -> str | None:
        double = self._leaves.doubles[number]
        why = self._chain.report_refused(self._me, *double[:2], double.second, docket.number)
        if why is not None:
            self._leaves.note_refused(number)
        return why


@functools.lru_cache(MAX_DOUBLES)
def _name(number: Number) -> Digest:
    return Digest(keccak256(bytes.fromhex(number.operator[2:]) + number.seq.to_bytes(8, "big")))
