"""Brings signed receipts to the chain in batches: the list goes to DA, the header to `ReceiptAnchor` (design section 5).

The operator sends one batch at a time, because the contract requires first_seq = last_seq + 1. It stores the header before it
sends the header. So it sends the same header again after a crash or a reorganisation. The chain, not the store, decides whether
a batch is anchored. If a receipt of the batch can no longer be posted, the operator waits until no transaction with the header
can be mined any more, and then discards the batch. The next batch skips that receipt's number. `BatchDuties` answers demands
about anchored batches and releases their collateral.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from bytewise.ports import BlobStore, Clock
from bytewise.protocol.decisions.actions import AnswerList, ReleaseBatch
from bytewise.protocol.decisions.disputes import decide_operator
from bytewise.protocol.decisions.snapshot import AnchoredBatch, Snapshot
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.merkle import batch_root, batch_tree
from bytewise.protocol.records.receipt import (
    BatchHeader,
    EmptyLeaf,
    ListEntry,
    Receipt,
    ReceiptList,
    SignedEmptyLeaf,
    SignedReceipt,
    batch_leaves,
    receipt_id,
)
from bytewise.protocol.signing import Domain, Signer, typed_preimage
from bytewise.protocol.units import U32, U64, U256, Address, Digest
from bytewise.service import metrics, telemetry
from bytewise.storage.journal import Journal
from bytewise.storage.receipt_store import ReceiptStore
from serving.anchoring_order import (
    CLOSED,
    EXPIRED,
    NO_RECEIPT,
    LeafSlot,
    SendLimit,
    ServiceTerms,
    leaf_slots,
    receipts_of,
    unanchored,
    uniform_head,
)
from serving.readiness import FEE_MARGIN, Readiness, ReadinessWatch

# Duties of an operator about anchored batches: it answers demands and releases collateral.

SUBJECTS_PER_CALL = 256
"""Most demands that one call to the chain reads."""

PAGES_PER_STEP = 16
"""Most such calls in one step. An operator with more receipts in open windows reads them over several blocks. All are read long
before any deadline, and anchoring goes on meanwhile."""


class _OwnBatch(NamedTuple):
    """The facts about one batch of this operator that `BatchDuties` needs."""

    names: tuple[Digest, ...]
    """Ids of the batch's receipts in order, without skipped numbers."""
    late: tuple[Digest, ...]
    """Ids of the receipts that were anchored after their promised time. Only for these receipts can somebody have demanded the
    anchoring."""


class BatchReader(Protocol):
    """The part of the chain that `BatchDuties` reads."""

    def head(self) -> int:
        """Returns the number of the newest block."""
        ...

    def snapshot(self, block: int) -> Snapshot:
        """Returns the snapshot for this operator, without disputes."""
        ...

    def anchored(self, from_batch: int, block: int) -> tuple[AnchoredBatch, ...]:
        """Returns the next batches of all operators from number `from_batch` on. One call returns as many batches as the chain
        client reads at once."""
        ...

    def demanded_envelopes(self, receipts: tuple[Digest, ...], block: int) -> dict[Digest, int]:
        """Returns the open demands for the envelopes of these receipts: for each demanded receipt the deadline of the demand."""
        ...

    def demanded_anchors(self, receipts: tuple[Digest, ...], block: int) -> dict[Digest, int]:
        """Returns the open demands to anchor these receipts: for each demanded receipt the deadline of the demand."""
        ...


class AnswerSender(Protocol):
    """The part of a sender that `BatchDuties` uses. Deadlines are times of the protocol clock."""

    def release(self, batch_id: int) -> None:
        """Releases the collateral of a batch."""
        ...

    def answer_list(self, batch_id: int, content: bytes, deadline: int = 0) -> None:
        """Answers a demand with the list of a batch, which the contract stores on the chain."""
        ...

    def answer_envelope(self, receipt: Digest, locator: bytes, deadline: int = 0) -> None:
        """Answers a demand with a locator at which the envelope can be fetched."""
        ...

    def answer_anchor(self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], deadline: int = 0) -> None:
        """Answers a demand with the proof that a receipt is anchored."""
        ...


class BatchDuties:
    """The part of an operator that carries out the duties about its anchored batches, once for each block."""

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
        self.locked_from = 0
        """Number of the operator's first receipt whose collateral is not released, at the last block."""
        self._again: dict[Digest, str] = {}
        """Envelopes that this object put on DA again because of a demand. Maps a receipt to the new locator of its envelope."""

    def step(self) -> None:
        """Answers demands, and releases collateral that may be released. Several steps may decide the same transaction, but the
        sender sends it once."""
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
        self.locked_from = min((each.first_seq for each in mine), default=snapshot.me.last_seq + 1)
        self._number = head

    def _batches(self, snapshot: Snapshot) -> list[AnchoredBatch]:
        """Returns the batches of all operators, from this operator's first batch whose collateral is not released."""
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
        """Returns the receipts among these leaves by id, each with its place in the batch."""
        placed = ((place, each) for place, each in enumerate(leaves) if isinstance(each, SignedReceipt))
        return {receipt_id(self._anchor, each.receipt): (place, each) for place, each in placed}

    def _answer_anchors(self, batches: Sequence[AnchoredBatch], block: int) -> None:
        """Answers demands to anchor receipts that were anchored late. A demand without an answer costs a penalty, even if the
        receipt is anchored."""
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
        """Yields pages of ids: at most `PAGES_PER_STEP` in one step. The next step continues with the next page."""
        starts = range(0, len(names), SUBJECTS_PER_CALL)
        for _ in starts[:PAGES_PER_STEP]:
            self._page = (self._page + 1) % len(starts)
            yield tuple(names[starts[self._page] : starts[self._page] + SUBJECTS_PER_CALL])

    def _answer_envelope(self, name: Digest, deadline: int) -> None:
        """Puts a demanded envelope on DA again, and answers the demand with its new locator.

        The demander could not fetch the envelope at its first locator. Raises `Unavailable` if DA cannot be reached.
        """
        telemetry.log("demand.envelope", receipt=name)
        envelope = self._receipt_store.envelope(name)
        if envelope is None:
            telemetry.log("demand.no_envelope", receipt=name)
            return
        if name not in self._again:
            self._again[name] = self._blobs.put(envelope)
        self._sender.answer_envelope(name, self._again[name].encode(), deadline)


def _key(batch: AnchoredBatch) -> tuple[int, int]:
    """Returns the identity of a batch. A batch that is anchored again after a reorganisation has another time, and so another
    identity."""
    return batch.first_seq, batch.anchored_at


LIST_BYTES = 126_976
"""Most bytes of the receipts in one list. One transaction must be able to carry the list and its leaves, because the operator
answers a demand with them. Nodes forward no transaction above 128 KiB. Of these, 4 KiB are left for everything else. The
contract slashes an operator that does not answer (`Demands.expire`)."""

_SKIP_REASONS = {EXPIRED: "expired", CLOSED: "closed", NO_RECEIPT: "no_receipt"}
"""Maps each reason why a number is skipped to its label in the metric."""

LEAF_BYTES = 22 * 32
"""Bytes of one receipt and its signature among the arguments of `answerList`: words of 32 bytes, 16 for the receipt, 5 for the
signature and one in reserve."""


class ReadinessReader(Protocol):
    """A reader of the operator's state on the chain."""

    def read(self) -> Readiness:
        """Reads the operator's state at the newest block. Raises `Unavailable` if the chain does not answer."""
        ...

    def anchorable_for(self, service: ServiceTerms, readiness: Readiness) -> int | None:
        """Returns for how many more seconds of the protocol clock the contract accepts a batch with this environment, model and
        key epoch.

        The number is negative after that time is over. Returns None if there is no limit, because nothing that the batch needs
        is closing.
        """
        ...


class AnchorSender(Protocol):
    """The part of `chain.sending.sender` that a batcher uses."""

    def anchor(self, header: BatchHeader, fee_wei: int, deadline: int = 0) -> None:
        """Posts the header. Repeated calls post it once. Posts nothing after `deadline`, a Unix second of chain time; 0 means
        no deadline. `fee_wei` is the fee that the sender pays. The contract returns the part that it does not need."""
        ...

    def withdraw_batch(self, header: BatchHeader) -> bool:
        """Cancels the transaction that posts the header, if that transaction was never signed. Returns True if no transaction
        with this header can be mined any more."""
        ...


@dataclass(frozen=True, slots=True)
class Batcher:
    """The builder and sender of an operator's batches. It works once in each tick."""

    operator: Signer
    """Signer of the operator's account, which owns the stake. It signs empty leaves."""
    environment: Digest
    model_id: Digest
    anchor: Domain
    chain: ReadinessReader
    sender: AnchorSender
    blobs: BlobStore
    receipt_store: ReceiptStore
    journal: Journal
    watch: ReadinessWatch
    clock: Clock
    max_batch: int
    anchor_within_s: int
    retry_memory_s: int
    retry_answers: int
    restored: bool = False
    """Whether the database came from a backup. Then the operator does not know which numbers it used for receipts after the
    backup. A second receipt with such a number would be equivocation, so the operator signs no more receipts."""

    def tick(self) -> None:
        """Reads the chain, records which batches are anchored, and builds and sends the next batch.

        The caller may call it at any time, because a repeated call repeats nothing. A receipt that can no longer be posted is
        not sent, and the batch skips its number (`serving.anchoring_order`). Raises `ConfigurationError` if the chain has a
        receipt number that this database has not used yet, unless `restored` is set.
        """
        readiness = self.chain.read()
        next_seq = self.receipt_store.next_seq()
        if readiness.last_seq >= next_seq and not self.restored:
            # Another signature would reuse a number, which is equivocation. Only a restored or a foreign database leads here.
            raise ConfigurationError("database", f"the chain has receipt {readiness.last_seq}, our next would be {next_seq}")
        metrics.RECEIPT_ROOM.set(readiness.room)
        metrics.RECEIPTS_UNANCHORED.set(max(next_seq - 1 - readiness.last_seq, 0))
        self._finish_anchored(readiness)
        self.watch.update(readiness, self._behind(readiness))
        self._publish(readiness)
        oldest_kept = max(self.clock.now() - self.retry_memory_s, self.receipt_store.answered_since(self.retry_answers))
        self.receipt_store.forget_answers(oldest_kept)

    def _finish_anchored(self, readiness: Readiness) -> None:
        """Brings the states of batches in the store into agreement with the chain. A reorganisation may have removed batches from
        the chain, and their transactions may fail in the new blocks."""
        reopened = self.receipt_store.reopen(readiness.last_seq)
        if reopened:
            telemetry.log("batch.reopened", batches=reopened, last_seq=readiness.last_seq, block=readiness.number)
        for header in self.receipt_store.open_batches():
            if readiness.last_seq < header.first_seq + header.count - 1:
                break
            self.receipt_store.anchored(header.first_seq)
            metrics.BATCHES_ANCHORED.inc()
            telemetry.log("batch.anchored", first_seq=header.first_seq, count=header.count, block=readiness.number)

    def _publish(self, readiness: Readiness) -> None:
        """Sends the oldest stored batch that is not anchored. If there is none, builds and sends a new batch.

        The sender posts no header twice. So a repeated call is harmless while a lagging chain node does not show the batch yet.
        If the time limit of the batch is over and no stored batch can be mined any more, this method discards all stored batches,
        and builds and sends a new one.
        """
        opened = self.receipt_store.open_batches()
        if opened:
            header = opened[0]
            until = self._sendable(header, readiness)
            if until is None or readiness.timestamp <= until.at:
                self._send(header, readiness, until)
                return
            # Never have two batches with one first number: the chain could take either, but the store has the list of only one.
            if not all(self.sender.withdraw_batch(each) for each in opened):
                telemetry.log("batch.expired", first_seq=header.first_seq, why=until.why)
                return
            for each in reversed(opened):
                self.receipt_store.discard(each)
                telemetry.log("batch.discarded", first_seq=each.first_seq, why=until.why)
        built = self._build(readiness)
        if built is not None:
            self._send(built, readiness, self._sendable(built, readiness))

    def _send(self, header: BatchHeader, readiness: Readiness, until: SendLimit | None) -> None:
        self.sender.anchor(header, FEE_MARGIN * header.count * readiness.price_wei, until.at if until else 0)

    def _sendable(self, header: BatchHeader, readiness: Readiness) -> SendLimit | None:
        """Returns the time limit of a stored batch: the earliest limit of its receipts and of its terms. Returns None if there is
        no limit."""
        untils = list(self._untils(receipts_of(self.receipt_store.leaves(header.first_seq)), readiness).values())
        left = self.chain.anchorable_for(ServiceTerms.of(header), readiness)
        return min(untils if left is None else [*untils, SendLimit(readiness.timestamp + left, CLOSED)], default=None)

    def _untils(self, waiting: Sequence[SignedReceipt], readiness: Readiness) -> dict[int, SendLimit]:
        """Returns the time limit of each receipt, by number. The limit leaves enough time to mine a transaction before the
        Request expires."""
        expiries = self.receipt_store.expiries([each.receipt.seq for each in waiting])
        services = {ServiceTerms.of(each.receipt) for each in waiting}
        left = {each: self.chain.anchorable_for(each, readiness) for each in services}
        untils: dict[int, SendLimit] = {}
        reserve_s = readiness.promise_s(self.anchor_within_s) // 2
        for each in waiting:
            expired = SendLimit(expiries[each.receipt.seq] - reserve_s, EXPIRED)
            seconds = left[ServiceTerms.of(each.receipt)]
            untils[each.receipt.seq] = (
                expired if seconds is None else min(expired, SendLimit(readiness.timestamp + seconds, CLOSED))
            )
        return untils

    def _build(self, readiness: Readiness) -> BatchHeader | None:
        """Builds and stores a new batch, and returns its header. Returns None if no receipt waits, or if none may be posted
        now."""
        # Read the next number before the receipts. Otherwise a receipt that is signed between both reads looks like a gap.
        next_seq, most = self.receipt_store.next_seq(), min(self.max_batch, readiness.most)
        first = max(self.receipt_store.batched_until(), readiness.last_seq) + 1
        receipts = self.receipt_store.unbatched(most, first)
        numbers = range(first, min(first + most, next_seq))
        waiting = leaf_slots(numbers, receipts, self._untils(receipts, readiness), readiness.timestamp)
        run = uniform_head(waiting)
        service = self._service(run, readiness)
        if not run or service is None:
            return None
        leaves = answerable_head([each.signed or self._skip(each) for each in run])
        listed = ReceiptList(self.operator.address, leaves[0].record.seq, tuple(leaves))
        data = encode(listed)
        header = self._header(listed, service, self.blobs.put(data))
        self.journal.append("batch.anchor", header.root, {"first_seq": str(header.first_seq), "count": header.count})
        lacking = sum(each.why == NO_RECEIPT for each in run[: len(leaves)])
        self.receipt_store.add_batch(header, data, lacking)
        telemetry.log("batch.built", first_seq=header.first_seq, count=header.count)
        return header

    def _service(self, run: Sequence[LeafSlot], readiness: Readiness) -> ServiceTerms | None:
        """Returns the terms under which the operator posts these leaves: the terms of their receipts. If all leaves are empty,
        returns the active terms, or None if the operator may not serve."""
        for each in run:
            if each.signed is not None:
                return ServiceTerms.of(each.signed.receipt)
        if readiness.epoch is None or readiness.closed_because is not None:
            return None
        return ServiceTerms(self.environment, self.model_id, readiness.epoch.epoch)

    def _skip(self, slot: LeafSlot) -> SignedEmptyLeaf:
        """Signs the empty leaf for a number whose receipt cannot be posted."""
        leaf = EmptyLeaf(self.operator.address, U64(slot.seq), U256(self.anchor.chain_id))
        identifier = receipt_id(self.anchor, leaf)
        self.journal.append("receipt.skip", identifier, {"seq": str(slot.seq), "why": slot.why})
        metrics.RECEIPTS_SKIPPED.labels(reason=_SKIP_REASONS[slot.why]).inc()
        telemetry.log("receipt.skipped", seq=slot.seq, why=slot.why)
        return SignedEmptyLeaf(leaf, self.operator.sign_preimage(typed_preimage(self.anchor, leaf)))

    def _header(self, listed: ReceiptList, service: ServiceTerms, locator: str) -> BatchHeader:
        return BatchHeader(
            batch_id=0, operator=listed.operator, first_seq=listed.first_seq, count=U32(len(listed.entries)),
            root=batch_root(batch_leaves(self.anchor, listed.entries)), list_hash=listed.list_hash,
            environment=service.environment, model_id=service.model_id, key_epoch=U64(service.key_epoch), locator=locator,
            anchored_at=U64(0), block=U64(0),
        )  # fmt: skip

    def _behind(self, readiness: Readiness) -> str | None:
        """Returns the reason why the operator may sign no receipt before the waiting receipts are anchored. Returns None if it
        may sign."""
        if self.restored:
            return "the database came from a backup: register another account to serve again"
        oldest = self._oldest()
        # Half of the promised time is kept in reserve, because a refused request is better than a broken `anchorBy`.
        if oldest is None or oldest.anchor_by - readiness.timestamp >= readiness.promise_s(self.anchor_within_s) / 2:
            return None
        return f"receipt {oldest.seq} still waits to be anchored"

    def _oldest(self) -> Receipt | None:
        """Returns the first receipt that is not anchored, or None. The result can be a receipt that no batch can take now,
        because free stake is missing."""
        waiting = unanchored(self.receipt_store)
        return waiting[0].receipt if waiting else None


def answerable_head(run: Sequence[ListEntry]) -> Sequence[ListEntry]:
    """Returns the first entries of `run`. The result has as many entries as the operator can send to the contract if somebody
    demands the list (`LIST_BYTES`), but at least one."""
    sizes = itertools.accumulate(len(encode(each)) + len(",") + LEAF_BYTES for each in run)
    return run[: max(1, sum(size <= LIST_BYTES for size in sizes))]
