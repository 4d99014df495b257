"""Signed leaves that lists, answers and clients showed us: two that say different things of one number are equivocation.

Both are signed by their operator, so whoever holds both has a proof that needs no committee and no verdict (design section 5).
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors import Fault
from bytewise.protocol.receipt import Receipt, ReceiptList, SignedLeaf, verify_receipt
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Address, Blob

MAX_LEAVES = 20_000
"""Leaves kept at a time, the oldest go: anchored receipts are in the archive, these are what does not fit there."""


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

    def note_list(self, data: bytes) -> None:
        """Takes what is signed in the bytes of a list that does not fit its batch; of bytes that are no list, nothing."""
        try:
            entries = decode(ReceiptList, data).entries
        except Fault:
            return
        for each in entries:
            try:
                verify_receipt(self._anchor, each)
            except Fault:
                continue
            self.note(SignedLeaf(each.receipt, each.signature))
