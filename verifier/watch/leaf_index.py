"""Receipts by operator and number, and numbers that batches skip, to find records that contradict each other.

An operator signs its receipts and anchors its own batches, so two contradicting records are a proof that needs no committee and
no verdict (design section 5). The index is in memory. After a restart clients' receipts are read again, and so are lists of
open batches that were not read before. A skipped number is lost if its list was read before the restart.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.records.receipt import BatchHeader, Receipt, ReceiptList, SignedReceipt, verify_receipt
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Address, Blob, Digest

MAX_LEAVES = 20_000
"""Receipts kept at a time, and skipped numbers; the oldest go: anchored receipts are in the archive, these do not fit there."""
MAX_PROOFS = 5_000
"""Faults of one kind kept at a time: more than clients can hand over, or those would come back at each step for others."""

P = TypeVar("P")


class LeafNumber(NamedTuple):
    """A place in an operator's sequence."""

    operator: Address
    seq: int


class DoubleNumber(NamedTuple):
    """Two receipts with one number, each with its operator's signature."""

    first: Receipt
    first_signature: Blob
    second: Receipt
    signature: Blob


class LeafLocation(NamedTuple):
    """Where a batch has the empty leaf of a number."""

    batch_id: int
    proof: tuple[Digest, ...]


class SkippedReceipt(NamedTuple):
    """A receipt with its operator's signature, and where its number is an empty leaf."""

    receipt: Receipt
    signature: Blob
    batch_id: int
    proof: tuple[Digest, ...]


class EquivocationProofs(Generic[P]):
    """Faults of one kind by number, the first that was found of each."""

    def __init__(self) -> None:
        self._found: dict[LeafNumber, P] = {}
        self._refused: dict[LeafNumber, None] = {}
        """Those of which the chain wanted nothing, in the order in which it first said so."""

    @property
    def found(self) -> Mapping[LeafNumber, P]:
        """By number."""
        return self._found

    def add(self, number: LeafNumber, proof: P) -> None:
        """Takes a proof, in the place of one of the same number."""
        self._found[number] = proof
        if len(self._found) > MAX_PROOFS:
            # What was refused makes room for what was not asked about yet.
            oldest = next(iter(self._refused or self._found))
            self._refused.pop(oldest, None)
            del self._found[oldest]

    def note_refused(self, number: LeafNumber) -> None:
        """The chain would take nothing for it: it is the first to go when there are too many."""
        if number in self._found:
            self._refused.setdefault(number)


class LeafIndex:
    """The first receipt that was seen of each number, what contradicted it, and what its operator anchored in its place."""

    def __init__(self, anchor: Domain) -> None:
        self._anchor = anchor
        self._first: OrderedDict[LeafNumber, SignedReceipt] = OrderedDict()
        self._skipped: OrderedDict[LeafNumber, LeafLocation] = OrderedDict()
        self.doubles = EquivocationProofs[DoubleNumber]()
        self.skips = EquivocationProofs[SkippedReceipt]()

    def note(self, signed: SignedReceipt) -> None:
        """Takes a receipt whose signature is its operator's."""
        number = LeafNumber(signed.receipt.operator, int(signed.receipt.seq))
        first = self._first.setdefault(number, signed)
        if first.receipt != signed.receipt and number not in self.doubles.found:
            self.doubles.add(number, DoubleNumber(first.receipt, first.signature, signed.receipt, signed.signature))
        if len(self._first) > MAX_LEAVES:
            self._first.popitem(last=False)
        if number in self._skipped and number not in self.skips.found:
            self._contradict(number, signed)

    def note_skipped(self, number: LeafNumber, place: LeafLocation) -> None:
        """Takes a number that its operator anchored as an empty leaf; after a reorganisation that may be another batch."""
        self._skipped[number] = place
        if len(self._skipped) > MAX_LEAVES:
            self._skipped.popitem(last=False)
        if number in self._first:
            self._contradict(number, self._first[number])

    def note_list(self, header: BatchHeader, data: bytes) -> None:
        """Takes what the operator signed in the bytes of a list that does not fit its batch; of other bytes, nothing."""
        for each in islice(_own_receipts(header, data), header.count):
            try:
                verify_receipt(self._anchor, each)
            except Fault:
                continue
            self.note(each)

    def _contradict(self, number: LeafNumber, signed: SignedReceipt) -> None:
        self.skips.add(number, SkippedReceipt(signed.receipt, signed.signature, *self._skipped[number]))


def _own_receipts(header: BatchHeader, data: bytes) -> Iterator[SignedReceipt]:
    """Of the batch's operator and numbers: whoever posts may put anything else into a list, signed by keys of a minute."""
    try:
        entries = decode(ReceiptList, data).entries
    except Fault:
        return
    numbers = range(header.first_seq, header.first_seq + header.count)
    own = (each for each in entries if each.record.operator == header.operator and each.record.seq in numbers)
    yield from (each for each in own if isinstance(each, SignedReceipt))
