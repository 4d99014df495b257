"""The leaves of the next batch: receipts, and signed empty leaves in the places of receipts that can no longer be posted.

The numbers of a batch have no gap. If a receipt is lost or late, the operator signs an empty leaf with the receipt's number, so
that later receipts can still be anchored (ADR-011). The operator skips a receipt only if the receipt is lost or too little time
is left to post it. A receipt must be anchored before its Request expires. An expired Request is a defect of the record (R-28),
and a committee would convict the operator for it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.records.receipt import BatchHeader, ListEntry, Receipt, SignedReceipt
from bytewise.protocol.records.request import Request
from bytewise.protocol.units import Digest
from bytewise.storage.receipt_store import ReceiptStore

EXPIRED = "its request expires, and anchoring it would convict this operator"


def verify_time_left(request: Request, until: int) -> Request:
    """Returns the request if it does not expire before `until`, a Unix second of chain time.

    The caller computes `until`: the time by which the receipt promises to be anchored, plus the longest pause. Raises
    `TryAgain` if the request expires earlier, because the request waited too long for the engine.
    """
    if request.expiry < until:
        raise TryAgain("engine", "the request waited for too long")
    return request


NO_RECEIPT = "there is no receipt with it"
CLOSED = "its environment, model or key epoch has closed, or the pool that judges it has stopped, for too long"


class ServiceTerms(NamedTuple):
    """The environment, model and key epoch that a batch header names. Each of the three can be closed on the chain, separately
    from the other two."""

    environment: Digest
    model_id: Digest
    key_epoch: int

    @classmethod
    def of(cls, record: Receipt | BatchHeader) -> "ServiceTerms":
        """Returns the terms under which a receipt was signed or a batch is posted."""
        return cls(record.environment, record.model_id, record.key_epoch)


class SendLimit(NamedTuple):
    """Time limit for posting a receipt. Limits compare by time: the smaller limit is the earlier one."""

    at: int
    """Last second of chain time at which the receipt can be posted."""
    why: str
    """Reason why the receipt cannot be posted after that time."""


class LeafSlot(NamedTuple):
    """One receipt number of the next batch. The slot has the receipt, or the reason why the batch skips the number."""

    seq: int
    signed: SignedReceipt | None
    """Receipt with this number if it can be posted, otherwise None."""
    why: str
    """Reason why the number is skipped, or an empty text if it has a receipt."""


def unanchored(receipt_store: ReceiptStore) -> tuple[SignedReceipt, ...]:
    """Returns up to two receipts: the oldest receipt of the open batch, and the oldest receipt that is in no batch.

    An empty result means that every receipt is anchored. This holds even while another thread builds batches: a receipt is
    first in no batch, then in the open batch, then on the chain, and this function reads the store in the same order.
    """
    loose = receipt_store.unbatched(1)
    header = receipt_store.open_batch()
    return (*(receipt_store.in_batch(header.first_seq, 1) if header else ()), *loose)


def receipts_of(leaves: Sequence[ListEntry]) -> tuple[SignedReceipt, ...]:
    """Returns the receipts among these leaves, without the empty leaves."""
    return tuple(each for each in leaves if isinstance(each, SignedReceipt))


def leaf_slots(numbers: range, receipts: Sequence[SignedReceipt], untils: Mapping[int, SendLimit], now: int) -> list[LeafSlot]:
    """Returns one slot for each number. A slot has the receipt if that receipt can be posted at chain time `now`. Otherwise it
    has the reason why the batch skips the number. `untils` maps a number to the time limit of its receipt."""
    found: dict[int, SignedReceipt] = {each.receipt.seq: each for each in receipts}
    return [_slot(seq, found.get(seq), untils.get(seq), now) for seq in numbers]


def uniform_head(waiting: Sequence[LeafSlot]) -> list[LeafSlot]:
    """Returns the slots before the first receipt with another environment, model or key epoch than the receipts before it. A
    batch header names only one of each."""
    run: list[LeafSlot] = []
    service = None
    for each in waiting:
        own = ServiceTerms.of(each.signed.receipt) if each.signed is not None else service
        if service is not None and own != service:
            break
        service = own
        run.append(each)
    return run


def _slot(seq: int, signed: SignedReceipt | None, until: SendLimit | None, now: int) -> LeafSlot:
    if signed is None or until is None:
        return LeafSlot(seq, None, NO_RECEIPT)
    return LeafSlot(seq, None, until.why) if now > until.at else LeafSlot(seq, signed, "")
