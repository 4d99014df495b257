"""Everything public that this node has seen: follows batches, fetches lists and ciphertext, checks, keeps (design section 10).

Missing bytes are retried until a deadline of chain time and then become the finding `Withheld`, which accuses nobody.
"""

from typing import NamedTuple

from bytewise.ports import BlobStore, ChainView, Documents
from bytewise.protocol.dispute import Snapshot
from bytewise.protocol.environment import Environment
from bytewise.protocol.errors import BadCertificate, Fault, TryAgain, Unavailable
from bytewise.protocol.network import Network
from bytewise.protocol.receipt import BatchHeader
from bytewise.protocol.seal import envelope_hash
from bytewise.protocol.units import Digest
from bytewise.service import telemetry
from bytewise.storage.archive import Archive, SeenBatch, SeenReceipt
from bytewise.storage.cursor import Cursor
from verifier.check import CheckedReceipt, verify_batch
from verifier.tickets import Case

NEW, CHECKED, FAULTY, WITHHELD = "NEW", "CHECKED", "FAULTY", "WITHHELD"
"""Our word for a batch."""
GOOD = "Good"
"""Finding of a receipt without fault; otherwise the class of the fault, or `Withheld`."""
WITHHELD_FINDING = "Withheld"

FETCHES_PER_TICK = 8
"""Envelopes asked for in one tick: a slow store must not hold up votes."""
CURSOR_STRIDE = 20
"""Blocks after which the cursor is stored although nothing was found: a restart reads at most these again."""


class Live(NamedTuple):
    """A checked receipt whose window is open."""

    seen: SeenReceipt
    header: BatchHeader


class Records:
    """The public records of one node."""

    def __init__(
        self, chain: ChainView, documents: Documents, da: BlobStore, archive: Archive, cursor: Cursor, network: Network,
        fetch_deadline_s: int,
    ) -> None:  # fmt: skip
        self._chain = chain
        self._documents = documents
        self._da = da
        self._archive = archive
        self._cursor = cursor
        self._network = network
        self._fetch_deadline_s = fetch_deadline_s
        self._environments: dict[Digest, Environment] = {}
        self._live: dict[Digest, Live] = {}
        self._missing: dict[Digest, Live] = {}
        self._loaded = False

    @property
    def live(self) -> tuple[Live, ...]:
        """Checked receipts whose window was open at the last step."""
        return tuple(self._live.values())

    def find(self, receipt_id: Digest) -> Live | None:
        """A checked receipt, whatever its age."""
        if receipt_id in self._live:
            return self._live[receipt_id]
        seen = self._archive.receipt(receipt_id)
        batch = None if seen is None else self._archive.batch(seen.batch_id)
        return None if seen is None or batch is None else Live(seen, batch.header)

    def step(self, snapshot: Snapshot) -> None:
        """Reads new batches up to the snapshot's block, and fetches and checks what is missing."""
        if not self._loaded:
            self._load(snapshot)
        self._follow(snapshot)
        for batch in self._archive.batches(NEW):
            self._check(batch, snapshot)
        for live in list(self._missing.values())[:FETCHES_PER_TICK]:
            self._keep_envelope(live, snapshot)
        closed = [key for key, live in self._live.items() if not _is_open(live.header, snapshot)]
        for key in closed:
            del self._live[key]

    def fetch(self, receipt_id: Digest) -> bytes:
        """Ciphertext of a receipt: own archive first, then DA. `Unavailable` or `BadCertificate` if it cannot be had."""
        live = self.find(receipt_id)
        if live is None:
            raise TryAgain("archive", f"receipt {receipt_id.hex()} is in no list that we could read")
        receipt = live.seen.signed.receipt
        kept = self._archive.envelope(receipt.envelope_hash)
        if kept is not None:
            return kept
        data = self._da.get(live.seen.signed.locator)
        if envelope_hash(data) != receipt.envelope_hash:
            raise TryAgain("envelope", f"{receipt_id.hex()}: the locator leads to other bytes")
        self._archive.keep_envelope(data)
        return data

    def case(self, receipt_id: Digest, snapshot: Snapshot) -> Case:
        """What a job about the receipt needs; `Unavailable` while something is missing."""
        live = self.find(receipt_id)
        if live is None:
            raise TryAgain("archive", f"receipt {receipt_id.hex()} was not seen yet")
        header = live.header
        return Case(
            receipt_id, live.seen.signed, header, live.seen.proof, self.fetch(receipt_id),
            self.environment(header.environment, snapshot.number), self._chain.epoch(header.key_epoch, snapshot.number),
            snapshot.policy,
        )  # fmt: skip

    def environment(self, digest: Digest, block: int) -> Environment:
        """A registered environment's document; it never changes once published."""
        if digest not in self._environments:
            self._environments[digest] = self._documents.environment(digest, block)
        return self._environments[digest]

    def _load(self, snapshot: Snapshot) -> None:
        for batch in self._archive.batches(CHECKED):
            if _is_open(batch.header, snapshot):
                self._remember(batch.header)
        self._loaded = True

    def _follow(self, snapshot: Snapshot) -> None:
        mark = self._cursor.head()
        if mark is not None and self._chain.block_hash(mark.number) != mark.hash:
            mark = self._cursor.rewind_to_common(self._chain.block_hash)
            block = self._network.deploy_block if mark is None else mark.number
            telemetry.log("chain.reorganised", back_to=block)
            self._archive.rewind(block)
            self._live.clear()
            self._missing.clear()
            self._load(snapshot)
        start = self._network.deploy_block if mark is None else mark.number + 1
        if start > snapshot.number:
            return
        found = self._chain.batches(start, snapshot.number)
        for header in found:
            self._archive.add_batch(header, NEW)
            telemetry.log("batch.seen", batch=header.batch_id, operator=header.operator, count=header.count)
        if found or snapshot.number - start >= CURSOR_STRIDE:
            self._cursor.advance(snapshot.number, snapshot.block_hash)

    def _check(self, batch: SeenBatch, snapshot: Snapshot) -> None:
        header = batch.header
        try:
            checked = self._verify(header, snapshot)
        except (Unavailable, BadCertificate) as error:
            if self._is_late(header, snapshot):
                self._archive.mark_batch(header.batch_id, WITHHELD, str(error))
                telemetry.log("batch.withheld", batch=header.batch_id, error=type(error).__name__)
            return
        except Fault as fault:
            self._archive.mark_batch(header.batch_id, FAULTY, str(fault))
            telemetry.log_error("batch.faulty", fault, batch=header.batch_id)
            return
        for each in checked:
            finding, detail = (GOOD, "") if each.fault is None else (type(each.fault).__name__, str(each.fault))
            self._archive.add_receipt(each.receipt_id, header.batch_id, each.signed, each.proof, finding, detail)
            telemetry.log("receipt.checked", receipt=each.receipt_id, batch=header.batch_id, finding=finding)
        self._archive.mark_batch(header.batch_id, CHECKED)
        self._remember(header)

    def _verify(self, header: BatchHeader, snapshot: Snapshot) -> tuple[CheckedReceipt, ...]:
        data = self._da.get(header.locator)
        epochs = frozenset({int(self._chain.epoch(header.key_epoch, snapshot.number).epoch)})
        return verify_batch(
            self._network.anchor_domain, header, data, self.environment(header.environment, snapshot.number), epochs
        )

    def _remember(self, header: BatchHeader) -> None:
        for seen in self._archive.receipts(header.batch_id):
            live = Live(seen, header)
            self._live[seen.receipt_id] = live
            if self._archive.envelope(seen.signed.receipt.envelope_hash) is None and seen.finding != WITHHELD_FINDING:
                self._missing[seen.receipt_id] = live

    def _keep_envelope(self, live: Live, snapshot: Snapshot) -> None:
        key = live.seen.receipt_id
        try:
            self.fetch(key)
        except (Unavailable, BadCertificate) as error:
            if not self._is_late(live.header, snapshot):
                self._missing[key] = self._missing.pop(key)  # to the end of the queue
                return
            self._archive.mark_receipt(key, WITHHELD_FINDING, str(error))
            telemetry.log("receipt.withheld", receipt=key, error=type(error).__name__)
        del self._missing[key]

    def _is_late(self, header: BatchHeader, snapshot: Snapshot) -> bool:
        return snapshot.timestamp > header.anchored_at + self._fetch_deadline_s


def _is_open(header: BatchHeader, snapshot: Snapshot) -> bool:
    return snapshot.timestamp <= header.anchored_at + snapshot.params.window_s
