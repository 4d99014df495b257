"""The public records that this node has seen. It follows batches, fetches lists and ciphertext, checks them and stores them
(design section 10).

Bytes that are still missing after a deadline of chain time become the finding `Withheld`. The finding accuses nobody, and bytes
that arrive later replace it.
"""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from bytewise.ports import BatchView, BlobStore, BlockView, DemandView, Documents, TermsView
from bytewise.protocol.address_book import Network
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.actors import NotServed, TryAgain
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import BatchHeader
from bytewise.protocol.units import Digest
from bytewise.service import metrics, telemetry
from bytewise.storage.archive import Archive, BlockMark, Cursor, SeenReceipt
from verifier.jobs.job import JobCase
from verifier.watch.blob_fetcher import Backlog, BlobFetcher
from verifier.watch.leaf_index import LeafIndex
from verifier.watch.list_reader import CHECKED, FAULTY, GOOD, NEW, WITHHELD, ListReader

WITHHELD_FINDING = "Withheld"
FETCH_BUDGET_S = 2.0
"""Seconds of wall time in one tick after which no further fetch begins, because a slow store must not delay votes."""
CURSOR_STRIDE = 20
"""Blocks after which the progress is stored even if nothing was found. A restart reads at most these blocks again."""


class RecordsChain(BlockView, BatchView, TermsView, DemandView, Protocol):
    """The part of the chain that the records read."""

    def final_policy(self) -> Digest | None:
        """Returns the digest of the appraisal policy that is active at the newest final block, or None if no final block has a
        policy."""
        ...


class LiveReceipt(NamedTuple):
    """A checked receipt with the header of its batch. Its window was open at the last step only if `Records.live` has it."""

    seen: SeenReceipt
    header: BatchHeader


class Records:
    """The public records of one node: batches, checked receipts and ciphertext."""

    def __init__(
        self, chain: RecordsChain, documents: Documents, da: BlobStore, archive: Archive, cursor: Cursor, network: Network,
        fetch_deadline_s: int, monotonic: Callable[[], float] = time.monotonic, leaves: LeafIndex | None = None,
    ) -> None:  # fmt: skip
        self._chain = chain
        self._archive = archive
        self._cursor = cursor
        self._network = network
        self._served = BlobFetcher(chain, da, network.demands_domain)
        self._lists = ListReader(chain, documents, self._served, archive, network, leaves)
        self._fetch_deadline_s = fetch_deadline_s
        self._monotonic = monotonic
        self._live: dict[Digest, LiveReceipt] = {}
        self._unread: dict[int, BatchHeader] = {}
        self._faulty: dict[int, BatchHeader] = {}
        self._backlog: Backlog[int | Digest] = Backlog()
        """Batches whose list is missing, and receipts whose ciphertext is missing."""
        self._followed: Digest | None = None

    @property
    def live(self) -> tuple[LiveReceipt, ...]:
        """Checked receipts whose window was open at the last step."""
        return tuple(self._live.values())

    def find(self, receipt_id: Digest) -> LiveReceipt | None:
        """Returns a checked receipt of any age, or None if this node has none with that id."""
        if receipt_id in self._live:
            return self._live[receipt_id]
        seen = self._archive.receipt(receipt_id)
        batch = None if seen is None else self._archive.batch(seen.batch_id)
        return None if seen is None or batch is None else LiveReceipt(seen, batch.header)

    def follow(self, snapshot: Snapshot) -> None:
        """Reads the headers of new batches up to the snapshot's block, from the chain alone. Raises `TryAgain` if the chain was
        reorganised meanwhile."""
        if self._followed == snapshot.block_hash:
            return
        seen = self._cursor.head()
        common = self._cursor.common(self._chain.block_hash)
        start = self._network.deploy_block if common is None else common.number + 1
        found = self._chain.batches(start, snapshot.number) if start <= snapshot.number else ()
        self._verify_unmoved(common, snapshot)
        # If anything below fails, the next call starts again as after a restart.
        clean, self._followed = self._followed is not None, None
        if common != seen and seen is not None:
            metrics.REORG_DEPTH.observe(seen.number - start + 1)
            telemetry.log("chain.reorganised", back_to=start - 1)
        if common != seen or not clean:
            self._take_back(start - 1, snapshot)
        self._store(start, found, snapshot)
        self._followed = snapshot.block_hash
        metrics.INDEXED_BLOCK.set(snapshot.number)

    def step(self, snapshot: Snapshot) -> None:
        """Follows the chain, then fetches and checks missing data within the time budget of a tick. The node calls it after all
        steps with a deadline."""
        self.follow(snapshot)
        self._look_again(snapshot)
        self._fetch_due(snapshot)
        over = [key for key, live in self._live.items() if not snapshot.can_question(key, live.header.batch_id)]
        for key in over if snapshot.has_windows else ():
            del self._live[key]
            self._backlog.drop(key)
        metrics.FETCH_BACKLOG.set(len(self._backlog))

    def obtain(self, receipt_id: Digest, batch_id: int, snapshot: Snapshot) -> bytes:
        """Gets the ciphertext of a disputed or demanded receipt from the archive. If the archive lacks it, DA is asked now, even
        if DA lacked it before. If the receipt is not known yet, the list of its batch is read first.

        Raises `NotServed` only if DA was just asked and gave no bytes that fit. Every other error says nothing about the bytes.
        """
        if self.find(receipt_id) is None:
            batch = self._archive.batch(batch_id)
            if batch is None:
                raise TryAgain("archive", f"batch {batch_id} was not seen yet")
            if not self.read_list(batch.header, snapshot):
                raise NotServed(f"a list of batch {batch_id} that fits it", "faulty")
        try:
            return self.fetch(receipt_id)
        except NotServed:
            live = self._required(receipt_id)
            name = live.seen.signed.receipt.envelope_hash
            data = self._served.cured_envelope(name, receipt_id, live.header, snapshot)
            if data is None:
                raise
            self._archive.keep_envelope(data)
            return data

    def fetch(self, receipt_id: Digest) -> bytes:
        """Gets the ciphertext of a checked receipt from the archive, or else from DA. Raises `NotServed` if DA has no bytes that
        fit."""
        live = self._required(receipt_id)
        receipt = live.seen.signed.receipt
        data: bytes | None = self._archive.envelope(receipt.envelope_hash)
        if data is None:
            data = self._served.envelope(live.seen.signed.locator, receipt.envelope_hash, receipt_id)
            self._archive.keep_envelope(data)
        if live.seen.finding == WITHHELD_FINDING:
            self._mark(live, GOOD)
        return data

    def case(self, receipt_id: Digest, snapshot: Snapshot) -> JobCase:
        """Collects the inputs of a job about the receipt, with the ciphertext from the archive. Raises `Unavailable` while an
        input is missing.

        The job gets the appraisal policy of the newest final block, because shards use that policy, too.
        """
        live = self._required(receipt_id)
        header = live.header
        envelope = self._archive.envelope(live.seen.signed.receipt.envelope_hash)
        if envelope is None:
            raise TryAgain("archive", f"ciphertext of {receipt_id.hex()} was not fetched yet")
        final = self._chain.final_policy()
        policy = snapshot.policy if final is None else final
        return JobCase(
            receipt_id, live.seen.signed, header, live.seen.proof, envelope,
            self.environment(header.environment, snapshot.number), self._chain.epoch(header.key_epoch, snapshot.number),
            self._lists.policies.document(policy, snapshot.number),
        )  # fmt: skip

    def environment(self, digest: Digest, block: int) -> Environment:
        """Returns the document of a registered environment."""
        return self._lists.environment(digest, block)

    @property
    def faulty(self) -> Mapping[int, BatchHeader]:
        """Open batches whose list has the right hash but does not fit the batch."""
        return self._faulty

    def overdue(self, snapshot: Snapshot, tries: int) -> dict[int | Digest, BatchHeader]:
        """Returns the open batches whose list is missing, by number, and the receipts whose ciphertext is missing, by id. The
        value is the header of the batch. A list or a ciphertext is returned only if its fetch deadline is over and at least
        `tries` fetches failed."""
        wanted: dict[int | Digest, BatchHeader] = dict(self._unread.items())
        wanted.update((key, live.header) for key, live in self._live.items())
        # A receipt whose window is open only because of a demand was demanded already.
        late = {key: each for key, each in wanted.items() if _is_open(each, snapshot) and self._is_late(each, snapshot)}
        return {key: header for key, header in late.items() if self._backlog.failures(key) >= tries}

    def _load(self, snapshot: Snapshot) -> None:
        for batch in self._archive.batches(CHECKED):
            if snapshot.has_open(batch.header.batch_id):
                self._remember(batch.header, snapshot)
        for batch in self._archive.batches(NEW):
            self._await(batch.header)
        for batch in self._archive.batches(FAULTY):
            if _is_open(batch.header, snapshot):
                self._faulty[batch.header.batch_id] = batch.header
        for batch in self._archive.batches(WITHHELD):
            if _is_open(batch.header, snapshot):
                self._await(batch.header)

    def _verify_unmoved(self, common: BlockMark | None, snapshot: Snapshot) -> None:
        # A block's hash fixes all its ancestors. If the last block is still the snapshot's, everything was read on this branch.
        kept = common is None or self._chain.block_hash(common.number) == common.hash
        if not kept or self._chain.block_hash(snapshot.number) != snapshot.block_hash:
            raise TryAgain("chain", "reorganised while events were read")

    def _take_back(self, block: int, snapshot: Snapshot) -> None:
        """Forgets everything after a block.

        The stored progress is reset first, and `_store` writes it last. So the progress never covers a row that is missing. Rows
        after it, from a process that died, are removed at the next start.
        """
        self._cursor.rewind(block)
        self._archive.rewind(block)
        for kept in (self._live, self._unread, self._faulty, self._backlog):
            kept.clear()
        self._load(snapshot)

    def _store(self, start: int, found: tuple[BatchHeader, ...], snapshot: Snapshot) -> None:
        for header in found:
            seen = self._archive.add_batch(header, NEW)
            if seen.state == NEW:
                self._await(header)
            metrics.BATCHES_SEEN.inc()
            telemetry.log("batch.seen", batch=header.batch_id, operator=header.operator, count=header.count)
        if found or snapshot.number - start >= CURSOR_STRIDE:
            self._cursor.advance(snapshot.number, snapshot.block_hash)

    def _await(self, header: BatchHeader) -> None:
        self._unread[header.batch_id] = header
        self._backlog.add(header.batch_id)

    def _fetch_due(self, snapshot: Snapshot) -> None:
        until = self._monotonic() + FETCH_BUDGET_S
        while due := self._backlog.due(snapshot.timestamp):
            for key in due:
                if self._monotonic() >= until:
                    telemetry.log("fetch.postponed", waiting=len(self._backlog.due(snapshot.timestamp)))
                    return
                if isinstance(key, int):
                    self._try_list(key, snapshot)
                else:
                    self._try_envelope(key, snapshot)

    def _try_list(self, batch_id: int, snapshot: Snapshot) -> None:
        header = self._unread[batch_id]
        try:
            self.read_list(header, snapshot)
        except NotServed as error:
            if self._is_late(header, snapshot):
                self._archive.mark_batch(batch_id, WITHHELD, str(error))
                metrics.WITHHELD.labels(what="list").inc()
                telemetry.log("batch.withheld", batch=batch_id, detail=str(error))
        except (Unavailable, Fault) as error:
            # This error says nothing about the list: only the chain could not be read.
            telemetry.log_error("batch.read_failed", error, batch=batch_id)
        else:
            return
        if _is_open(header, snapshot) or not self._is_late(header, snapshot):
            self._backlog.failed(batch_id, snapshot.timestamp)
        else:
            self._settled(batch_id)

    def read_list(self, header: BatchHeader, snapshot: Snapshot) -> bool:
        """Reads the list of a batch and stores its receipts. Returns whether the receipts are proven, by the list itself or by
        the leaves in the operator's answer to a demand. Raises `NotServed` if neither DA nor such an answer gave a list with the
        right hash."""
        good = self._lists.read(header, snapshot)
        self._settled(header.batch_id)
        if good and snapshot.has_open(header.batch_id):
            self._remember(header, snapshot)
        elif not good and _is_open(header, snapshot):
            self._faulty[header.batch_id] = header
        return good

    def _look_again(self, snapshot: Snapshot) -> None:
        """Makes the node read a list again without a pause once the operator's answer to a demand is on the chain, even if the
        list from DA did not fit."""
        for batch_id, header in (*self._faulty.items(), *self._unread.items()):
            batch = snapshot.batch(batch_id)
            if batch is None or batch.list_answered:
                self._faulty.pop(batch_id, None)
            if batch is not None and batch.list_answered:
                self._backlog.drop(batch_id)
                self._await(header)

    def _settled(self, batch_id: int) -> None:
        self._unread.pop(batch_id, None)
        self._backlog.drop(batch_id)

    def _remember(self, header: BatchHeader, snapshot: Snapshot) -> None:
        for seen in self._archive.receipts(header.batch_id):
            if not snapshot.can_question(seen.receipt_id, header.batch_id):
                continue
            self._live[seen.receipt_id] = LiveReceipt(seen, header)
            if self._archive.envelope(seen.signed.receipt.envelope_hash) is None:
                self._backlog.add(seen.receipt_id)

    def _try_envelope(self, receipt_id: Digest, snapshot: Snapshot) -> None:
        live = self._required(receipt_id)
        try:
            self.fetch(receipt_id)
        except NotServed as error:
            if self._is_late(live.header, snapshot) and live.seen.finding == GOOD:
                self._mark(live, WITHHELD_FINDING, str(error))
                metrics.WITHHELD.labels(what="envelope").inc()
                telemetry.log("receipt.withheld", receipt=receipt_id, detail=str(error))
            self._backlog.failed(receipt_id, snapshot.timestamp)
        else:
            self._backlog.drop(receipt_id)

    def _mark(self, live: LiveReceipt, finding: str, detail: str = "") -> None:
        key = live.seen.receipt_id
        self._archive.mark_receipt(key, finding, detail)
        if key in self._live:
            self._live[key] = LiveReceipt(live.seen._replace(finding=finding, detail=detail), live.header)

    def _required(self, receipt_id: Digest) -> LiveReceipt:
        live = self.find(receipt_id)
        if live is None:
            raise TryAgain("archive", f"receipt {receipt_id.hex()} was not seen yet")
        return live

    def _is_late(self, header: BatchHeader, snapshot: Snapshot) -> bool:
        return snapshot.timestamp > header.anchored_at + self._fetch_deadline_s


def _is_open(header: BatchHeader, snapshot: Snapshot) -> bool:
    return snapshot.is_open(header.batch_id)
