"""Reports operators that signed one receipt number twice: in two receipts, or in a receipt and in an anchored empty leaf. With an
empty leaf the operator declares that no receipt has the number.

The two signed records are the proof, and the reporter gets a share of the penalty. The reporter compares receipts from clients
with anchored receipts. If a list does not fit its batch, the reporter compares the list with the operator's answer to the demand
for that list.
"""

import functools
from collections.abc import Callable
from typing import Protocol

from bytewise.ports import BlockView, ReportSender, ReportView
from bytewise.protocol.decisions.actions import Action, ReportEquivocation, ReportSkipped
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.records.receipt import SignedReceipt
from bytewise.protocol.units import Address, Digest
from bytewise.service import metrics, telemetry
from bytewise.storage.archive import Archive
from verifier.refusals import Refusals
from verifier.watch.chain_events import EventCounter
from verifier.watch.leaf_index import MAX_PROOFS, DoubleNumber, EquivocationProofs, LeafIndex, LeafNumber, P, SkippedReceipt
from verifier.watch.receipt_inbox import ReceiptInbox

Report = ReportEquivocation | ReportSkipped


class ReporterChain(BlockView, ReportView, Protocol):
    """The part of the chain that a reporter reads."""


class EquivocationReporter:
    """The part of a watchtower that reports equivocation and skipped numbers. Implements `node.NodePart`."""

    def __init__(
        self,
        chain: ReporterChain,
        first_block: int,
        me: Address,
        leaves: LeafIndex,
        archive: Archive,
        given: ReceiptInbox | None = None,
    ) -> None:
        self._chain = chain
        self._times = {
            ReportEquivocation: EventCounter[tuple[Address, int]](chain, chain.reported, first_block),
            ReportSkipped: EventCounter[tuple[Address, int]](chain, chain.skipped, first_block),
        }
        self._me = me
        self._leaves = leaves
        self._archive = archive
        self._inbox = given
        self._refusals = Refusals()

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Returns the reports that the chain would accept now. The chain refuses a report about a fault that was punished, so the
        reporter asks about such a fault rarely."""
        self._refusals.begin()
        self._compare(() if self._inbox is None else tuple(self._inbox.receipts().values()))
        kinds = (ReportEquivocation, self._leaves.doubles.found), (ReportSkipped, self._leaves.skips.found)
        faults = {_name(kind, number): (kind, number) for kind, found in kinds for number in found}
        found = (self._decided(name, *faults[name], snapshot) for name in self._refusals.in_turn(faults))
        return tuple(each for each in found if each is not None)

    def report(self, action: Report, sender: ReportSender) -> None:
        """Plans the transaction of a report, with its proof. Raises `TryAgain` if the proof was not found since the start."""
        number = LeafNumber(action.operator, action.seq)
        match action:
            case ReportEquivocation():
                sender.report_equivocation(*_known(self._leaves.doubles, number), action.times)
            case ReportSkipped():
                sender.report_skipped(*_known(self._leaves.skips, number), action.times)

    def _compare(self, given: tuple[SignedReceipt, ...]) -> None:
        anchored = self._archive.numbered({(each.receipt.operator, int(each.receipt.seq)) for each in given})
        for signed in (*(each.signed for each in anchored), *given):
            self._leaves.note(signed)

    def _decided(self, name: Digest, kind: type[Report], number: LeafNumber, snapshot: Snapshot) -> Report | None:
        try:
            if self._refusals.is_refused(name, self._question(kind, number, snapshot), snapshot):
                return None
            # `times` makes each report a new transaction, because the outbox never repeats an earlier one.
            return kind(*number, self._times[kind].times(number, snapshot))
        except (Fault, Unavailable) as error:
            # A failed count must not stop the other reports.
            metrics.REPORT_FAILURES.labels(error=type(error).__name__).inc()
            telemetry.log_error("report.check_failed", error, operator=number.operator, seq=number.seq)
            return None

    def _question(self, kind: type[Report], number: LeafNumber, snapshot: Snapshot) -> Callable[[], str | None]:
        proofs: EquivocationProofs[DoubleNumber] | EquivocationProofs[SkippedReceipt]
        if kind is ReportEquivocation:
            proofs, double = self._leaves.doubles, self._leaves.doubles.found[number]
            ask = functools.partial(self._chain.report_refused, self._me, *double, snapshot.number)
        else:
            proofs, skip = self._leaves.skips, self._leaves.skips.found[number]
            ask = functools.partial(self._chain.skip_refused, self._me, *skip, snapshot.number)

        def answer() -> str | None:
            why = ask()
            if why is not None:
                proofs.note_refused(number)
            return why

        return answer


def _known(proofs: EquivocationProofs[P], number: LeafNumber) -> P:
    if number not in proofs.found:
        raise TryAgain("leaves", f"what number {number.seq} of {number.operator} contradicts was not seen since the start")
    return proofs.found[number]


@functools.lru_cache(2 * MAX_PROOFS)
def _name(kind: type[Report], number: LeafNumber) -> Digest:
    return Digest(keccak256(kind.__name__.encode() + bytes.fromhex(number.operator[2:]) + number.seq.to_bytes(8, "big")))
