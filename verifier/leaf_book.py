"""Signed leaves that lists, answers and clients showed us: two that say different things of one number are equivocation.

Both are signed by their operator, so whoever holds both has a proof that needs no committee and no verdict (design section 5).
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors import Fault
from bytewise.protocol.receipt import BatchHeader, ListEntry, Receipt, ReceiptList, SignedLeaf, verify_receipt
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Address, Blob

MAX_LEAVES = 20_000
"""Leaves kept at a time, the oldest go: anchored receipts are in the archive, these are what does not fit there."""
MAX_DOUBLES = 5_000
"""Contradictions kept at a time: more than clients can hand over, or those would come back at each step and push others out."""


class Number(NamedTuple):
    """A place in an operator's sequence."""

    operator: Address
    seq: int


class Double(NamedTuple):
    """Two records of one number, each with its operator's signature."""

    first: Receipt
    first_signature: Blob
    second: SignedLeaf


class LeafBook:
    """The first leaf that was seen of each number, and what contradicted it."""

    def __init__(self, anchor: Domain) -> None:
        self._anchor = anchor
        self._first: OrderedDict[Number, SignedLeaf] = OrderedDict()
        self._doubles: dict[Number, Double] = {}
        self._refused: dict[Number, None] = {}
        """Contradictions of which the chain wanted nothing, in the order in which it first said so."""

    @property
    def doubles(self) -> Mapping[Number, Double]:
        """By number; the first contradiction of each."""
        return self._doubles

    def note(self, leaf: SignedLeaf) -> None:
        """Takes a leaf whose signature is its operator's."""
        number = Number(leaf.record.operator, int(leaf.record.seq))
        first = self._first.setdefault(number, leaf)
        if first.record != leaf.record and number not in self._doubles:
            one, two = (first, leaf) if isinstance(first.record, Receipt) else (leaf, first)
            # Of two different leaves of one number one is a receipt: an empty leaf says nothing but its number.
            assert isinstance(one.record, Receipt), "two empty leaves of one number are equal"
            self._doubles[number] = Double(one.record, one.signature, two)
        if len(self._first) > MAX_LEAVES:
            self._first.popitem(last=False)
        if len(self._doubles) > MAX_DOUBLES:
            # What was refused makes room for what was not asked about yet.
            oldest = next(iter(self._refused or self._doubles))
            self._refused.pop(oldest, None)
            del self._doubles[oldest]

    def note_refused(self, number: Number) -> None:
        """The chain would take nothing for a contradiction: it is the first to go when there are too many."""
        if number in self._doubles:
            self._refused.setdefault(number)

    def note_list(self, header: BatchHeader, data: bytes) -> None:
        """Takes what the operator signed in the bytes of a list that does not fit its batch; of other bytes, nothing."""
        for each in islice(_own_entries(header, data), header.count):
            try:
                verify_receipt(self._anchor, each)
            except Fault:
                continue
            self.note(SignedLeaf(each.record, each.signature))


def _own_entries(header: BatchHeader, data: bytes) -> Iterator[ListEntry]:
    """Of the batch's operator and numbers: whoever posts may put anything else into a list, signed by keys of a minute."""
    try:
        entries = decode(ReceiptList, data).entries
    except Fault:
        return
    numbers = range(header.first_seq, header.first_seq + header.count)
    yield from (each for each in entries if each.record.operator == header.operator and each.record.seq in numbers)
