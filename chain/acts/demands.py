"""Transactions about demands for lists, envelopes and anchoring, and reports of reused or skipped receipt numbers."""

from typing import Any

from bytewise.protocol.encoding import decode
from bytewise.protocol.records.receipt import EmptyLeaf, Receipt, ReceiptList, SignedReceipt, receipt_id
from bytewise.protocol.signing import struct_values
from bytewise.protocol.units import U8, U64, ZERO_ADDRESS, ZERO_DIGEST, Blob, Digest
from chain.acts.base import NetworkPlanner


class DemandTransactions(NetworkPlanner):
    """Transactions of a client, an operator or a helper. Deadlines: protocol clock; `within_s`: see `bytewise.ports`."""

    def demand_list(self, batch_id: int, bond_wei: int, within_s: int = 0) -> None:
        """Demands the list of a batch."""
        self._act("Demands", "demandList", _number(batch_id), (batch_id,), value_wei=bond_wei, within_s=within_s)

    def answer_list(self, batch_id: int, content: bytes, deadline: int = 0) -> None:
        """Puts the list's bytes and the leaves of its root on the chain. Errors of `decode` if the bytes are no list."""
        entries = decode(ReceiptList, content).entries
        receipts, signatures = [_leaf_values(each.record) for each in entries], [each.signature for each in entries]
        arguments = (batch_id, content, receipts, signatures)
        self._act("Demands", "answerList", _number(batch_id), arguments, deadline=deadline)

    def demand_envelope(
        self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], bond_wei: int, within_s: int = 0
    ) -> None:
        """Demands the envelope of a member of a batch."""
        arguments = (struct_values(signed.receipt), signed.signature, batch_id, proof)
        subject = self._id(signed.receipt)
        self._act("Demands", "demandEnvelope", subject, arguments, value_wei=bond_wei, within_s=within_s)

    def answer_envelope(self, receipt: Digest, locator: bytes, deadline: int = 0) -> None:
        """States where the envelope is."""
        self._act("Demands", "answerEnvelope", receipt, (receipt, locator), deadline=deadline)

    def demand_anchor(self, signed: SignedReceipt, bond_wei: int, within_s: int = 0) -> None:
        """Demands that an issued receipt be anchored."""
        arguments = (struct_values(signed.receipt), signed.signature)
        subject = self._id(signed.receipt)
        self._act("Demands", "demandAnchor", subject, arguments, value_wei=bond_wei, within_s=within_s)

    def answer_anchor(self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], deadline: int = 0) -> None:
        """Shows the demanded receipt in a batch."""
        arguments = (struct_values(signed.receipt), signed.signature, batch_id, proof)
        self._act("Demands", "answerAnchor", self._id(signed.receipt), arguments, deadline=deadline)

    def expire(self, subject: Digest, times: int = 0) -> None:
        """Ends a demand that nobody answered in time. `times` is how often it was ended before; each time is its own
        transaction."""
        self._act("Demands", "expire", subject + _again(times), (subject,))

    def expire_list(self, batch_id: int) -> None:
        """Ends a demand for a list that nobody answered in time."""
        where = ("Demands", self._at("Demands"), "listSubject")
        self.expire(Digest(self.transactions.client.call(*where, batch_id, block="latest")))

    def collect(self, ref: Digest, times: int = 0) -> None:
        """Distributes stake that a report or an expiry slashed and that has arrived since; each of the `times` is its own
        transaction."""
        self._act("Demands", "collect", ref + _again(times), (ref,))

    def report_equivocation(
        self, first: Receipt, first_signature: Blob, second: Receipt, signature: Blob, times: int = 0
    ) -> None:
        """Reports two receipts that an operator signed with one number. `times` counts earlier penalties; each is its own
        transaction."""
        arguments = (struct_values(first), first_signature, struct_values(second), signature)
        self._act("Demands", "equivocation", _place(first) + _again(times), arguments)

    def report_skipped(self, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], times: int = 0) -> None:
        """Reports a receipt whose number its operator anchored as an empty leaf. `proof` is the leaf's path in the batch.

        `times` counts earlier penalties; each is its own transaction.
        """
        arguments = (struct_values(receipt), signature, batch_id, proof)
        self._act("Demands", "reportSkipped", _place(receipt) + _again(times), arguments)

    def _id(self, receipt: Receipt) -> Digest:
        return receipt_id(self._network.anchor_domain, receipt)


def _leaf_values(record: Receipt | EmptyLeaf) -> tuple[Any, ...]:
    """A leaf as `answerList` takes it. A receipt of mode 0 represents the empty leaf of its operator, number and chain."""
    if isinstance(record, Receipt):
        return struct_values(record)
    zero, none = ZERO_DIGEST, U64(0)
    return struct_values(
        Receipt(
            record.operator, record.seq, zero, zero, zero, zero, zero, zero, none, zero, none, none, U8(0), U8(0), ZERO_ADDRESS,
            record.chain_id,
        )
    )  # fmt: skip


def _place(receipt: Receipt) -> bytes:
    """Operator and number of a receipt."""
    return bytes.fromhex(receipt.operator[2:]) + receipt.seq.to_bytes(8, "big")


def _number(batch_id: int) -> bytes:
    return batch_id.to_bytes(8, "big")


def _again(times: int) -> bytes:
    return times.to_bytes(2, "big") if times else b""
