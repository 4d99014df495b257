"""Duties of an operator about anchored batches: it answers demands, and releases its collateral."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from bytewise.ports import BlobStore
from bytewise.protocol.decisions.actions import AnswerList, ReleaseBatch
from bytewise.protocol.decisions.disputes import decide_operator
from bytewise.protocol.decisions.snapshot import AnchoredBatch, Snapshot
from bytewise.protocol.merkle import batch_tree
from bytewise.protocol.records.receipt import ListEntry, SignedReceipt, batch_leaves, receipt_id
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Address, Digest
from bytewise.service import telemetry
from bytewise.storage.receipt_store import ReceiptStore

SUBJECTS_PER_CALL = 256
"""Demands asked for at once."""

PAGES_PER_STEP = 16
"""Such questions in one step: who has more receipts in open windows asks for all of them over several blocks, long before any
deadline, and anchors in time meanwhile."""


class _OwnBatch(NamedTuple):
    """What duties remember of a batch of ours."""

    names: tuple[Digest, ...]
    """Its receipts, in order; skipped numbers are none."""
    late: tuple[Digest, ...]
    """Those that were anchored after their promise: only of these the anchoring can have been demanded."""


class BatchReader(Protocol):
    """The part of the chain that duties look at."""

    def head(self) -> int:
        """Number of the newest block."""
        ...

    def snapshot(self, block: int) -> Snapshot:
        """What concerns the operator, but for disputes."""
        ...

    def anchored(self, from_batch: int, block: int) -> tuple[AnchoredBatch, ...]:
        """A page of batches, everybody's."""
        ...

    def demanded_envelopes(self, receipts: tuple[Digest, ...], block: int) -> dict[Digest, int]:
        """Deadlines of the open demands for envelopes among these receipts."""
        ...

    def demanded_anchors(self, receipts: tuple[Digest, ...], block: int) -> dict[Digest, int]:
        """Deadlines of the open demands that one of these receipts be anchored."""
        ...


class AnswerSender(Protocol):
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

    def answer_anchor(self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], deadline: int = 0) -> None:
        """Shows that a receipt was anchored."""
        ...


class BatchDuties:
    """Duties about the own batches, looked at once a block."""

    def __init__(
        self,
        reader: BatchReader,
        sender: AnswerSender,
        receipt_store: ReceiptStore,
        blobs: BlobStore,
        operator: Address,
        anchor: Domain,
    ) -> None:
        self._reader = reader
        self._sender = sender
        self._receipt_store = receipt_store
        self._blobs = blobs
        self._operator = operator
        self._anchor = anchor
        self._first = 0
        self._number = -1
        self._page = 0
        self._own: dict[tuple[int, int], _OwnBatch] = {}
        self._again: dict[Digest, str] = {}
        """Where envelopes are that were put on DA again because of a demand."""

    def step(self) -> None:
        """Answers what is demanded, releases what nothing holds; each act is sent once, however often it is decided."""
        head = self._reader.head()
        if head == self._number:
            return
        snapshot = self._reader.snapshot(head)
        batches = self._batches(snapshot)
        numbered = {each.batch_id: each for each in batches}
        for action in decide_operator(snapshot, self._operator, batches):
            match action:
                case ReleaseBatch():
                    self._sender.release(action.batch_id)
                case AnswerList():
                    self._answer_list(action, numbered[action.batch_id])
        mine = [each for each in batches if each.operator == self._operator and not each.released]
        self._remember(mine)
        self._answer_anchors(mine, head)
        self._answer_envelopes(mine, head)
        self._number = head

    def _batches(self, snapshot: Snapshot) -> list[AnchoredBatch]:
        """All batches from the first of ours on that is not released."""
        self._first = min(self._first, snapshot.batch_count)
        found: list[AnchoredBatch] = []
        while self._first + len(found) < snapshot.batch_count:
            page = self._reader.anchored(self._first + len(found), snapshot.number)
            if not page:
                break
            found += page
        over = next((i for i, each in enumerate(found) if each.operator == self._operator and not each.released), len(found))
        self._first += over
        return found[over:]

    def _answer_list(self, action: AnswerList, batch: AnchoredBatch) -> None:
        content = self._receipt_store.list_data(batch.first_seq)
        if content is None:
            telemetry.log("demand.no_list", batch=batch.batch_id)
            return
        self._sender.answer_list(batch.batch_id, content, action.deadline)

    def _remember(self, batches: Sequence[AnchoredBatch]) -> None:
        known, self._own = self._own, {}
        for each in batches:
            key = _key(each)
            self._own[key] = known.get(key) or self._read(each)

    def _read(self, batch: AnchoredBatch) -> _OwnBatch:
        named = self._named(self._receipt_store.leaves(batch.first_seq))
        late = tuple(name for name, (_, each) in named.items() if each.receipt.anchor_by < batch.anchored_at)
        return _OwnBatch(tuple(named), late)

    def _named(self, leaves: Sequence[ListEntry]) -> dict[Digest, tuple[int, SignedReceipt]]:
        """The receipts among these leaves, by name, each with its place."""
        placed = ((place, each) for place, each in enumerate(leaves) if isinstance(each, SignedReceipt))
        return {receipt_id(self._anchor, each.receipt): (place, each) for place, each in placed}

    def _answer_anchors(self, batches: Sequence[AnchoredBatch], block: int) -> None:
        """Anchored late is anchored, but somebody has to show it: a demand that nobody answers costs a penalty all the same."""
        for batch in batches:
            late = self._own[_key(batch)].late
            demanded = self._reader.demanded_anchors(late, block) if late else {}
            if demanded:
                self._show_anchored(batch, demanded)

    def _show_anchored(self, batch: AnchoredBatch, demanded: Mapping[Digest, int]) -> None:
        leaves = self._receipt_store.leaves(batch.first_seq)
        named = self._named(leaves)
        proofs = batch_tree(batch_leaves(self._anchor, leaves)).proofs
        for name, deadline in demanded.items():
            place, signed = named[name]
            telemetry.log("demand.anchor", receipt=name)
            self._sender.answer_anchor(signed, batch.batch_id, proofs[place], deadline)

    def _answer_envelopes(self, batches: Sequence[AnchoredBatch], block: int) -> None:
        for page in self._pages([name for batch in batches for name in self._own[_key(batch)].names]):
            for name, deadline in self._reader.demanded_envelopes(page, block).items():
                self._answer_envelope(name, deadline)

    def _pages(self, names: Sequence[Digest]) -> Iterator[tuple[Digest, ...]]:
        """Portions in turns, at most `PAGES_PER_STEP` of them."""
        starts = range(0, len(names), SUBJECTS_PER_CALL)
        for _ in starts[:PAGES_PER_STEP]:
            self._page = (self._page + 1) % len(starts)
            yield tuple(names[starts[self._page] : starts[self._page] + SUBJECTS_PER_CALL])

    def _answer_envelope(self, name: Digest, deadline: int) -> None:
        """Who demands an envelope did not get it: it goes on DA again, and the answer says where. `Unavailable` if DA is away."""
        telemetry.log("demand.envelope", receipt=name)
        envelope = self._receipt_store.envelope(name)
        if envelope is None:
            telemetry.log("demand.no_envelope", receipt=name)
            return
        if name not in self._again:
            self._again[name] = self._blobs.put(envelope)
        self._sender.answer_envelope(name, self._again[name].encode(), deadline)


def _key(batch: AnchoredBatch) -> tuple[int, int]:
    """A batch that a reorganisation anchored again has another time."""
    return batch.first_seq, batch.anchored_at
