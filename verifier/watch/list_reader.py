"""Reads the list of a batch from DA or the chain, checks the list, and stores the receipts that are proven (design section 5).

`PolicyDocuments` reads the active appraisal policy from the events of the chain. Enclaves and shards appraise each other by that
policy.
"""

from typing import Protocol

from bytewise.ports import DemandView, Documents, TermsView
from bytewise.protocol.address_book import Network
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import UnknownEnvironment
from bytewise.protocol.evidence.appraisal_policy import policy_digest
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import BatchHeader, list_subject
from bytewise.protocol.units import ZERO_DIGEST, Blob, Digest
from bytewise.service import metrics, telemetry
from bytewise.storage.archive import Archive
from verifier.watch.batch_check import CheckedBatch, verify_batch, verify_leaves
from verifier.watch.blob_fetcher import BlobFetcher
from verifier.watch.leaf_index import LeafIndex, LeafLocation, LeafNumber


class ListChain(DemandView, TermsView, Protocol):
    """The part of the chain that a list reader reads."""


class PolicyDocuments:
    """Appraisal policies by digest. Only the last policy is kept, because policies change rarely."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._last = ZERO_DIGEST, Blob(b"")

    def document(self, digest: Digest, block: int) -> Blob:
        """Returns the canonical bytes of the policy with this digest. Raises `UnknownEnvironment` if the chain shows no such
        policy up to the block."""
        if self._last[0] != digest:
            data = Blob(self._documents.policy_document(digest, block))
            if policy_digest(data) != digest:
                raise UnknownEnvironment("policy", digest.hex(), "its document is another's")
            self._last = digest, data
        return self._last[1]


NEW, CHECKED, FAULTY, WITHHELD = "NEW", "CHECKED", "FAULTY", "WITHHELD"
"""States of a batch: not read yet, read and proven, with a list that does not fit, or with a list that was missing at the
deadline."""
GOOD = "Good"
"""Finding of a receipt without a fault. For other receipts the finding is the class of the fault, or `Withheld`."""


class ListReader:
    """The reader that fetches and checks the lists of batches."""

    def __init__(
        self, chain: ListChain, documents: Documents, served: BlobFetcher, archive: Archive, network: Network,
        leaves: LeafIndex | None = None,
    ) -> None:  # fmt: skip
        self._chain = chain
        self._documents = documents
        self._served = served
        self._archive = archive
        self._anchor = network.anchor_domain
        self._subjects = network.demands_domain
        self._leaf_book = leaves
        self._environments: dict[Digest, Environment] = {}
        self.policies = PolicyDocuments(documents)
        """Appraisal policies by digest, read from the chain like the environments."""

    def read(self, header: BatchHeader, snapshot: Snapshot) -> bool:
        """Reads the list of a batch from DA or the chain, and stores its receipts. If the list does not fit the batch, reads the
        leaves in the operator's answer to a demand instead. Returns whether the receipts were proven.

        Raises `NotServed` if DA was just asked and has no bytes that fit.
        """
        environment = self.environment(header.environment, snapshot.number)
        epochs = frozenset({int(self._chain.epoch(header.key_epoch, snapshot.number).epoch)})
        data = self._served.list_of(header, snapshot)
        try:
            checked = verify_batch(self._anchor, header, data, environment, epochs)
        except Fault as fault:
            shown = self._shown(header, data, environment, snapshot)
            if shown is None:
                self._archive.mark_batch(header.batch_id, FAULTY, str(fault))
                telemetry.log_error("batch.faulty", fault, batch=header.batch_id)
                return False
            checked = shown
        self._keep(header, checked)
        return True

    def environment(self, digest: Digest, block: int) -> Environment:
        """Returns the document of a registered environment, which never changes."""
        if digest not in self._environments:
            self._environments[digest] = self._documents.environment(digest, block)
        return self._environments[digest]

    def _shown(self, header: BatchHeader, data: bytes, environment: Environment, snapshot: Snapshot) -> CheckedBatch | None:
        batch = snapshot.batch(header.batch_id)
        if batch is not None and not batch.list_answered:
            return None
        subject = list_subject(self._subjects, header.batch_id)
        leaves = self._chain.answered_leaves(subject, header.block, snapshot.number)
        if leaves is None:
            return None
        checked = verify_leaves(self._anchor, header, leaves, data, environment)
        if self._leaf_book is not None:
            # The list may contain other receipts than the batch. The operator signed both, so both are compared.
            self._leaf_book.note_list(header, data)
            for each in checked.receipts:
                self._leaf_book.note(each.signed)
        return checked

    def _keep(self, header: BatchHeader, checked: CheckedBatch) -> None:
        if self._leaf_book is not None:
            for leaf, proof in checked.skipped:
                self._leaf_book.note_skipped(LeafNumber(leaf.operator, int(leaf.seq)), LeafLocation(header.batch_id, proof))
        for each in checked.receipts:
            finding, detail = (GOOD, "") if each.fault is None else (type(each.fault).__name__, str(each.fault))
            self._archive.add_receipt(each.receipt_id, header.batch_id, each.signed, each.proof, finding, detail)
            metrics.RECEIPTS_SEEN.labels(result=finding).inc()
            telemetry.log("receipt.checked", receipt=each.receipt_id, batch=header.batch_id, finding=finding)
        self._archive.mark_batch(header.batch_id, CHECKED)
