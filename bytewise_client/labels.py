"""Assurance labels of key epochs: whether enclaves and shards of an epoch are hardware or simulated."""

import functools
from collections.abc import Mapping, Sequence

from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.records.receipt import BatchHeader
from bytewise.protocol.records.statements import AuditResult
from bytewise.protocol.units import Digest
from chain.reads.reader import SnapshotReader


class Labels:
    """The chain's labels of key epochs, and of the receipts that are sealed to them, at one block. Each epoch is read once."""

    def __init__(self, reader: SnapshotReader, block: int) -> None:
        self._reader, self._block = reader, block
        self.of_epoch = functools.cache(self._of_epoch)

    def _of_epoch(self, epoch: int) -> str:
        return self._reader.epoch_on_chain(epoch, self._block).assurance

    def of_receipts(
        self, audits: Sequence[AuditResult], disputes: Sequence[Dispute], batches: Sequence[BatchHeader]
    ) -> Mapping[Digest, str]:
        """The labels of the receipts that audits and disputes name."""
        epochs = {each.batch_id: int(each.key_epoch) for each in batches}
        disputed = {each.receipt_id: int(each.key_epoch) for each in disputes}
        audited = {each.receipt_id: each.verifier for each in audits if each.receipt_id not in disputed}
        if len(set(epochs.values())) == 1:
            # This is the usual case, and no receipt must be read.
            found = dict.fromkeys(audited, next(iter(epochs.values())))
        else:
            batch_of = self._reader.audited_batch
            found = {receipt: epochs[batch_of(receipt, by, self._block)] for receipt, by in audited.items()}
        return {receipt: self.of_epoch(epoch) for receipt, epoch in (disputed | found).items()}
