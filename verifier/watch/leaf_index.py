"""Index of receipts by operator and number, and of the numbers that batches skip. It finds records that contradict each other.

An operator signs its receipts and anchors its own batches. Two contradicting records are therefore a proof that needs no
committee and no verdict (design section 5).

The index is in memory. A restart reads clients' receipts again, and the lists of open batches that were not read before. A
skipped number whose list was read before the restart is lost.
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
"""Most receipts, and most skipped numbers, in memory. The oldest are dropped first. Anchored receipts are in the archive, too."""
MAX_PROOFS = 5_000
"""Most proofs of one kind. The limit is above the number of receipts that clients can hand over. With a lower limit, each step
would find the dropped proofs again."""

P = TypeVar("P")


class LeafNumber(NamedTuple):
    """A number in an operator's sequence of receipts."""

    operator: Address
    seq: int


class DoubleNumber(NamedTuple):
    """Two receipts with one number, each with its operator's signature."""

    first: Receipt
    first_signature: Blob
    second: Receipt
    signature: Blob


class LeafLocation(NamedTuple):
    """The batch that contains an empty leaf, and the leaf's path to the root."""

    batch_id: int
    proof: tuple[Digest, ...]


class SkippedReceipt(NamedTuple):
    """A signed receipt, and the place of the empty leaf that has its number."""

    receipt: Receipt
    signature: Blob
    batch_id: int
    proof: tuple[Digest, ...]


class EquivocationProofs(Generic[P]):
    """Proofs of one kind of fault, by number. Each number has one proof."""

    def __init__(self) -> None:
        self._found: dict[LeafNumber, P] = {}
        self._refused: dict[LeafNumber, None] = {}
        """Numbers whose report the chain refused, in the order of the first refusal."""

    @property
    def found(self) -> Mapping[LeafNumber, P]:
        """Proofs by number."""
        return self._found

    def add(self, number: LeafNumber, proof: P) -> None:
        """Stores a proof, in place of an earlier proof for the same number."""
        self._found[number] = proof
        if len(self._found) > MAX_PROOFS:
            # Drop a refused proof first, to make room for those that were not asked about yet.
            oldest = next(iter(self._refused or self._found))
            self._refused.pop(oldest, None)
            del self._found[oldest]

    def note_refused(self, number: LeafNumber) -> None:
        """Notes that the chain refused the report of this number. When there are too many proofs, refused ones are dropped
        first."""
        if number in self._found:
            self._refused.setdefault(number)


class LeafIndex:
    """The first receipt that was seen for each number, the numbers that were anchored as empty leaves, and the contradictions
    between these records."""

    def __init__(self, anchor: Domain) -> None:
        self._anchor = anchor
        self._first: OrderedDict[LeafNumber, SignedReceipt] = OrderedDict()
        self._skipped: OrderedDict[LeafNumber, LeafLocation] = OrderedDict()
        self.doubles = EquivocationProofs[DoubleNumber]()
        self.skips = EquivocationProofs[SkippedReceipt]()

    def note(self, signed: SignedReceipt) -> None:
        """Adds a receipt whose signature the caller has verified, and looks for contradictions."""
        number = LeafNumber(signed.receipt.operator, int(signed.receipt.seq))
        first = self._first.setdefault(number, signed)
        if first.receipt != signed.receipt and number not in self.doubles.found:
            self.doubles.add(number, DoubleNumber(first.receipt, first.signature, signed.receipt, signed.signature))
        if len(self._first) > MAX_LEAVES:
            self._first.popitem(last=False)
        if number in self._skipped and number not in self.skips.found:
            self._contradict(number, signed)

    def note_skipped(self, number: LeafNumber, place: LeafLocation) -> None:
        """Adds a number that its operator anchored as an empty leaf. `place` replaces an earlier place, because after a
        reorganisation another batch may have the leaf."""
        self._skipped[number] = place
        if len(self._skipped) > MAX_LEAVES:
            self._skipped.popitem(last=False)
        if number in self._first:
            self._contradict(number, self._first[number])

    def note_list(self, header: BatchHeader, data: bytes) -> None:
        """Adds receipts of a list that does not fit its batch. Adds only receipts that the batch's operator signed, and ignores
        all other entries."""
        for each in islice(_own_receipts(header, data), header.count):
            try:
                verify_receipt(self._anchor, each)
            except Fault:
                continue
            self.note(each)

    def _contradict(self, number: LeafNumber, signed: SignedReceipt) -> None:
        self.skips.add(number, SkippedReceipt(signed.receipt, signed.signature, *self._skipped[number]))


def _own_receipts(header: BatchHeader, data: bytes) -> Iterator[SignedReceipt]:
    """Yields the receipts in a list that have the batch's operator and one of its numbers. All other entries are left out,
    because an attacker may fill a list with entries that fresh keys signed."""
    try:
        entries = decode(ReceiptList, data).entries
    except Fault:
        return
    numbers = range(header.first_seq, header.first_seq + header.count)
    own = (each for each in entries if each.record.operator == header.operator and each.record.seq in numbers)
    yield from (each for each in own if isinstance(each, SignedReceipt))
