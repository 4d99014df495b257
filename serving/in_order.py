"""What must be anchored before anything else is signed (ADR 177).

Batches have contiguous numbers: a receipt that can be posted no more keeps all later ones out, and demands slash for these. So
what keeps one of those that wait out must keep all of them out: they are of one environment, model and key epoch, and no stop of
the network lies between their signatures.
"""

from typing import NamedTuple

from bytewise.protocol.errors import TryAgain
from bytewise.protocol.receipt import Receipt, SignedReceipt
from bytewise.protocol.units import Digest
from bytewise.storage.books import Books


class Service(NamedTuple):
    """What one batch header names, and what can be closed, stopped or ended apart from others."""

    environment: Digest
    model_id: Digest
    key_epoch: int

    @classmethod
    def of(cls, receipt: Receipt) -> "Service":
        """That under which a receipt was signed."""
        return cls(receipt.environment, receipt.model_id, receipt.key_epoch)


def unanchored(books: Books) -> tuple[SignedReceipt, ...]:
    """The oldest receipt of the batch that is not known to be anchored, if any, and the oldest that is in no batch, if any.

    Without them all is anchored, also while another thread builds batches: a receipt goes from no batch into one and to the
    chain, and is looked for in that order.
    """
    loose = books.unbatched(1)
    header = books.open_batch()
    return (*(books.in_batch(header.first_seq, 1) if header else ()), *loose)


def verify_alike(books: Books, service: Service) -> Service:
    """The service, if no receipt of another one waits to be anchored; `TryAgain` names the first that does."""
    for each in unanchored(books):
        if Service.of(each.receipt) != service:
            raise TryAgain("operator", other_service(each.receipt))
    return service


def other_service(receipt: Receipt) -> str:
    """Why nothing is signed under another service while this receipt waits."""
    which = f"receipt {receipt.seq} of key epoch {receipt.key_epoch}"
    return f"{which} must be anchored before another key epoch, environment or model is served"


def before_stop(receipt: Receipt) -> str:
    """Why nothing is signed while this receipt waits, though the network takes batches again."""
    return f"receipt {receipt.seq} was signed before a stop of the network and must be anchored first"
