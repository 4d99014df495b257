"""Assurance labels of key epochs. A label says whether the enclaves and shards of an epoch are hardware or simulated."""

import functools
from collections.abc import Mapping, Sequence

from bytewise.protocol.assurance import HARDWARE
from bytewise.protocol.decisions.audits import AuditStage, PostedAudit
from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.records.receipt import BatchHeader
from bytewise.protocol.units import Address, Digest
from chain.reads.reader import SnapshotReader


class Labels:
    """Reads assurance labels from the chain at one block: of key epochs, and of receipts by their key epoch.

    Each epoch is read once.
    """

    def __init__(self, reader: SnapshotReader, block: int) -> None:
        self._reader, self._block = reader, block
        self.of_epoch = functools.cache(self._of_epoch)

    def _of_epoch(self, epoch: int) -> str:
        return self._reader.epoch_on_chain(epoch, self._block).assurance

    def of_receipts(
        self, audits: Sequence[PostedAudit], disputes: Sequence[Dispute], batches: Sequence[BatchHeader]
    ) -> Mapping[Digest, str]:
        """Returns the label of each receipt that an audit or a dispute names. The label is empty if it is unknown.

        An unpaid audit cannot raise a label to `hardware` if the batches have different labels. The reason is that the contract
        accepts an audit result that names a wrong batch. It pays only results that name the receipt's batch.
        """
        disputed = {each.receipt_id: self.of_epoch(int(each.key_epoch)) for each in disputes}
        audited: dict[Digest, dict[Address, int]] = {}
        for result, _, batch in audits:
            if result.receipt_id not in disputed:
                audited.setdefault(result.receipt_id, {})[result.verifier] = batch
        labels = {each.batch_id: self.of_epoch(int(each.key_epoch)) for each in batches}
        if len(set(labels.values())) == 1:
            # This is the usual case, and no receipt must be read.
            return dict.fromkeys(audited, next(iter(labels.values()))) | disputed
        return {receipt: self._of_audited(receipt, by, labels) for receipt, by in audited.items()} | disputed

    def _of_audited(self, receipt: Digest, named: Mapping[Address, int], labels: Mapping[int, str]) -> str:
        """Returns the label of the batch that a paid audit names.

        If no audit is paid, a named batch can only lower the label. So nobody can make a receipt look like hardware by posting
        an audit for another batch.
        """
        weaker = sorted({labels[batch] for batch in named.values()} - {HARDWARE})
        for who, batch in named.items():
            if self._reader.audit_stage(receipt, batch, who, self._block) is AuditStage.PAID:
                return labels[batch]
        return weaker[0] if weaker else ""
