"""What an operator owes for batches that are anchored: answers to demands; and what it gets back: its collateral."""

from typing import Protocol

from bytewise.protocol.actions import AnswerList, ReleaseBatch
from bytewise.protocol.decide import decide_operator
from bytewise.protocol.docket import AnchoredBatch, Docket
from bytewise.protocol.receipt import SignedReceipt, receipt_id
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Address, Digest
from bytewise.service import telemetry
from bytewise.storage.books import Books

SUBJECTS_PER_CALL = 256
"""Demands asked for at once."""


class BatchReader(Protocol):
    """The part of the chain that duties look at."""

    def head(self) -> int:
        """Number of the newest block."""
        ...

    def docket(self, block: int) -> Docket:
        """What concerns the operator, but for disputes."""
        ...

    def anchored(self, from_batch: int, block: int) -> tuple[AnchoredBatch, ...]:
        """A page of batches, everybody's."""
        ...

    def demanded_envelopes(self, receipts: tuple[Digest, ...], block: int) -> dict[Digest, int]:
        """Deadlines of the open demands for envelopes among these receipts."""
        ...


class Answering(Protocol):
    """The part of a sender that duties use. Deadlines are of the protocol clock."""

    def release(self, batch_id: int) -> None:
        """Frees the collateral of a batch."""
        ...

    def answer_list(self, batch_id: int, content: bytes, deadline: int = 0) -> None:
        """Puts a list on the chain."""
        ...

    def answer_envelope(self, receipt: Digest, locator: bytes, deadline: int = 0) -> None:
        """Says where an envelope is."""
        ...


class Duties:
    """Duties about the own batches, looked at once a block."""

    def __init__(self, reader: BatchReader, sender: Answering, books: Books, operator: Address, anchor: Domain) -> None:
        self._reader = reader
        self._sender = sender
        self._books = books
        self._operator = operator
        self._anchor = anchor
        self._first = 0
        self._number = -1

    def step(self) -> None:
        """Answers what is demanded, releases what nothing holds; each act is sent once, however often it is decided."""
        head = self._reader.head()
        if head == self._number:
            return
        docket = self._reader.docket(head)
        batches = self._batches(docket)
        for action in decide_operator(docket, self._operator, batches):
            match action:
                case ReleaseBatch():
                    self._sender.release(action.batch_id)
                case AnswerList():
                    self._answer_list(action, next(each for each in batches if each.batch_id == action.batch_id))
        self._answer_envelopes([each for each in batches if each.operator == self._operator and not each.released], head)
        self._number = head

    def _batches(self, docket: Docket) -> list[AnchoredBatch]:
        """All batches from the first of ours on that is not released."""
        self._first = min(self._first, docket.batch_count)
        found: list[AnchoredBatch] = []
        while self._first + len(found) < docket.batch_count:
            page = self._reader.anchored(self._first + len(found), docket.number)
            if not page:
                break
            found += page
        over = next((i for i, each in enumerate(found) if each.operator == self._operator and not each.released), len(found))
        self._first += over
        return found[over:]

    def _answer_list(self, action: AnswerList, batch: AnchoredBatch) -> None:
        content = self._books.list_data(batch.first_seq)
        if content is None:
            telemetry.log("demand.no_list", batch=batch.batch_id)
            return
        self._sender.answer_list(batch.batch_id, content, action.deadline)

    def _answer_envelopes(self, batches: list[AnchoredBatch], block: int) -> None:
        own = {receipt_id(self._anchor, each.receipt): each for b in batches for each in self._books.in_batch(b.first_seq)}
        names = tuple(own)
        for start in range(0, len(names), SUBJECTS_PER_CALL):
            page = names[start : start + SUBJECTS_PER_CALL]
            for name, deadline in self._reader.demanded_envelopes(page, block).items():
                self._answer_envelope(name, own[name], deadline)

    def _answer_envelope(self, name: Digest, signed: SignedReceipt, deadline: int) -> None:
        telemetry.log("demand.envelope", receipt=name)
        self._sender.answer_envelope(name, signed.locator.encode(), deadline)
