"""From signed receipts to a batch on-chain: list to DA, header to `ReceiptAnchor` (design section 5).

One batch at a time, since the contract wants first_seq = last_seq + 1. The header is stored before it is sent, so that a
crash in between sends the same header again; the chain, not the store, says that a batch is anchored. An operator that was away
for too long anchors nothing any more, since requests expired meanwhile; it lives on, for what is anchored can still be demanded.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bytewise.ports import BlobStore, Clock
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.merkle import batch_root
from bytewise.protocol.receipt import BatchHeader, Receipt, ReceiptList, SignedReceipt, batch_leaves, receipt_id
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U32, U64, Address
from bytewise.service import telemetry
from bytewise.storage.books import Books
from bytewise.storage.journal import Journal
from serving.deadline import expiry_of, too_late
from serving.in_order import before_stop, other_service, unanchored
from serving.standing import Standing, Watch

FEE_MARGIN = 2
"""Times the price of now: it rises by at most an eighth in each of its epochs, and what is too much comes back."""

LIST_BYTES = 126_976
"""For the receipts of one list. A demand is answered by one transaction that carries the list and its leaves, and nodes pass on
none above 128 KiB; 4 KiB are left for the rest. An operator that cannot answer loses a slash (`Demands.expire`)."""

LEAF_BYTES = 22 * 32
"""Of one receipt and its signature among the arguments of `answerList`: 16 words and 5, and one to spare."""


class StandingReader(Protocol):
    """Reads this operator's standing."""

    def read(self) -> Standing:
        """At the newest block; `Unavailable` if the chain does not answer."""
        ...

    def lost_since(self, moment: int, standing: Standing) -> int:
        """Seconds from a moment of chain time to that reading, in which no batch of our environment and model was taken."""
        ...


class Anchoring(Protocol):
    """The part of `chain.sender` that a batcher uses."""

    def anchor(self, header: BatchHeader, fee_wei: int, deadline: int = 0) -> None:
        """Posts the header once, however often it is asked, and not after the deadline in chain time; too much comes back."""
        ...


@dataclass(frozen=True, slots=True)
class Batcher:
    """The periodic work of an operator."""

    operator: Address
    anchor: Domain
    chain: StandingReader
    sender: Anchoring
    blobs: BlobStore
    books: Books
    journal: Journal
    watch: Watch
    clock: Clock
    max_batch: int
    anchor_within_s: int
    retry_memory_s: int
    retry_answers: int

    def tick(self) -> None:
        """Reads the chain, finishes what it shows, builds and sends the next batch. Idempotent.

        A batch whose requests expire is neither built nor sent, and no request accepted any more: see `serving.deadline`.
        """
        standing = self.chain.read()
        next_seq = self.books.next_seq()
        if standing.last_seq >= next_seq:
            # Signing on would reuse numbers, which is equivocation. Only a restored or foreign database leads here.
            raise ConfigurationError("database", f"the chain has receipt {standing.last_seq}, our next would be {next_seq}")
        self._finish_anchored(standing)
        self.watch.update(standing, self._behind(standing))
        waiting = self._waiting(standing)
        if waiting:
            self._publish(waiting, standing)
        # What a waiting receipt's answer says of its expiry is needed until it is anchored.
        left = (*waiting, *unanchored(self.books))
        for_retries = max(self.clock.now() - self.retry_memory_s, self.books.answered_since(self.retry_answers))
        kept_from = min([for_retries, *(each.receipt.issued_at for each in left)])
        self.books.forget_answers(kept_from)

    def _finish_anchored(self, standing: Standing) -> None:
        header = self.books.open_batch()
        if header is not None and standing.last_seq >= header.first_seq + header.count - 1:
            self.books.anchored(header.first_seq)
            telemetry.log("batch.anchored", first_seq=header.first_seq, count=header.count, block=standing.number)

    def _waiting(self, standing: Standing) -> Sequence[SignedReceipt]:
        """Receipts that must be anchored next: of the batch that is stored and not anchored, else of a new one."""
        stored = self.books.open_batch()
        if stored is not None:
            return self.books.in_batch(stored.first_seq)
        return answerable_head(uniform_head(self.books.unbatched(min(self.max_batch, standing.most))))

    def _publish(self, waiting: Sequence[SignedReceipt], standing: Standing) -> None:
        deadline = self._deadline(waiting)
        reason = too_late(waiting[0].receipt.seq, deadline, standing.timestamp)
        if reason is not None:
            # Ending the process would leave a batch that is under way to be mined late, and every demand unanswered.
            self.watch.update(standing, reason)
            telemetry.count("bytewise_batches_too_late_total")
            telemetry.log("operator.too_late", reason=reason)
            return
        header = self._current(waiting)
        self.sender.anchor(header, FEE_MARGIN * header.count * standing.price_wei, deadline)

    def _deadline(self, waiting: Sequence[SignedReceipt]) -> int:
        """Last second of chain time to send these receipts: time is left for the way into a block."""
        names = [receipt_id(self.anchor, each.receipt) for each in waiting]
        answers = self.books.answers_to(names)
        expiries = [expiry_of(each, answers.get(name)) for each, name in zip(waiting, names, strict=True)]
        return min(expiries) - self.anchor_within_s // 2

    def _current(self, entries: Sequence[SignedReceipt]) -> BatchHeader:
        """The header to send: the one that is stored and not anchored, else a new one."""
        stored = self.books.open_batch()
        if stored is not None:
            return stored
        listed = ReceiptList(self.operator, entries[0].receipt.seq, tuple(entries))
        data = encode(listed)
        header = self._header(listed, self.blobs.put(data))
        self.journal.append("batch.anchor", header.root, {"first_seq": str(header.first_seq), "count": header.count})
        self.books.add_batch(header, data)
        telemetry.log("batch.built", first_seq=header.first_seq, count=header.count)
        return header

    def _header(self, listed: ReceiptList, locator: str) -> BatchHeader:
        first = listed.entries[0].receipt
        return BatchHeader(
            batch_id=0, operator=self.operator, first_seq=first.seq, count=U32(len(listed.entries)),
            root=batch_root(batch_leaves(self.anchor, listed.entries)), list_hash=listed.list_hash,
            environment=first.environment, model_id=first.model_id, key_epoch=first.key_epoch, locator=locator,
            anchored_at=U64(0), block=U64(0),
        )  # fmt: skip

    def _behind(self, standing: Standing) -> str | None:
        """Why nothing more may be signed before what waits is anchored, which ticks do as fast as blocks come; or None."""
        oldest = self._oldest()
        if oldest is None:
            return None
        # Half of the promised time is kept in reserve: better to refuse requests than to break the promise of `anchorBy`.
        if oldest.anchor_by - standing.timestamp < self.anchor_within_s / 2:
            return f"receipt {oldest.seq} still waits to be anchored"
        if standing.epoch is not None and oldest.key_epoch != standing.epoch.epoch:
            return other_service(oldest)
        # The promise is the chain's time at the signature and `anchor_within_s`. What is closed is refused without a question.
        signed_at = oldest.anchor_by - self.anchor_within_s
        stopped = standing.closed_because is None and self.chain.lost_since(signed_at, standing) > 0
        return before_stop(oldest) if stopped else None

    def _oldest(self) -> Receipt | None:
        """The first receipt that is not anchored, if any, also where none may be batched now for want of free stake."""
        waiting = unanchored(self.books)
        return waiting[0].receipt if waiting else None


def uniform_head(pending: Sequence[SignedReceipt]) -> list[SignedReceipt]:
    """The longest run from the start that one header can name: contiguous, of one environment, model and key epoch."""
    run: list[SignedReceipt] = []
    for each in pending:
        if run and _named(each.receipt) != (*_named(run[0].receipt)[:3], run[-1].receipt.seq + 1):
            break
        run.append(each)
    return run


def answerable_head(run: Sequence[SignedReceipt]) -> Sequence[SignedReceipt]:
    """The longest part from the start whose list can answer a demand for it: `LIST_BYTES`, but at least one receipt."""
    sizes = itertools.accumulate(len(encode(each)) + len(",") + LEAF_BYTES for each in run)
    return run[: max(1, sum(size <= LIST_BYTES for size in sizes))]


def _named(receipt: Receipt) -> tuple[bytes, bytes, int, int]:
    return receipt.environment, receipt.model_id, receipt.key_epoch, receipt.seq
