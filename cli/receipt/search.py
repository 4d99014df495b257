"""Finds a receipt by its id: batches of the chain, newest first, their lists from DA, each checked before it is believed."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.keys.epochs import EpochState
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import BatchHeader, Receipt, SignedReceipt, verify_entry, verify_receipt
from bytewise.protocol.units import Digest
from cli.connect import Connection
from verifier.watch.batch_check import CheckedBatch, CheckedReceipt, verify_batch

Progress = Callable[[int, int], None]
"""Called with lists read and lists in all."""


class Found(NamedTuple):
    """A receipt in its batch, with everything public that was needed to check it."""

    header: BatchHeader
    checked: CheckedReceipt
    environment: Environment
    head: int
    is_listed: bool = True
    """Whether the batch's list has it. Otherwise a saved answer has it, and the batch is that of its number: nothing shows that
    this batch has this receipt, and there is no proof."""


class Search(NamedTuple):
    """What a search found, and which lists could not be read or did not fit."""

    found: Found | None
    unread: tuple[Unavailable, ...]
    faulty: tuple[Fault, ...]
    head: int
    """Block at which the chain was read."""
    skipped_in: BatchHeader | None = None
    """The batch that has an empty leaf in the place of the saved receipt, which its operator signed."""


def find_receipt(connection: Connection, identifier: Digest, progress: Progress, saved: SignedReceipt | None = None) -> Search:
    """Looks through every anchored batch, newest first; stops at the receipt.

    Where lists cannot be read, `saved` takes the place of the listed receipt, if it has this id and a batch has its number.
    """
    head = connection.reader.head()
    headers = connection.reader.batches(connection.network.deploy_block, head)
    unread: list[Unavailable] = []
    faulty: list[Fault] = []
    for number, header in enumerate(reversed(headers), 1):
        progress(number, len(headers))
        try:
            batch = checked_batch(connection, header, head)
        except Unavailable as error:
            unread.append(error)
        except Fault as error:
            faulty.append(error)
        else:
            for each in batch.receipts:
                if each.receipt_id == identifier:
                    environment = connection.documents.environment(header.environment, head)
                    return Search(Found(header, each, environment, head), tuple(unread), tuple(faulty), head)
            if saved is not None and _skips(connection, batch, identifier, saved):
                return Search(None, tuple(unread), tuple(faulty), head, header)
    found = _unlisted(connection, headers, identifier, saved, head) if unread and saved is not None else None
    return Search(found, tuple(unread), tuple(faulty), head)


def checked_batch(connection: Connection, header: BatchHeader, head: int) -> CheckedBatch:
    """The list of a batch, checked against it; its errors if it cannot be read or does not fit."""
    data = connection.da.get(header.locator)
    environment = connection.documents.environment(header.environment, head)
    known = connection.reader.epoch_state(header.key_epoch, head) is not EpochState.NONE
    epochs = frozenset({int(header.key_epoch)} if known else ())
    return verify_batch(connection.network.anchor_domain, header, data, environment, epochs)


def _skips(connection: Connection, batch: CheckedBatch, identifier: Digest, saved: SignedReceipt) -> bool:
    """Whether the operator signed the receipt and anchored an empty leaf in its place."""
    receipt = saved.receipt
    if not any((leaf.operator, leaf.seq) == (receipt.operator, receipt.seq) for leaf, _ in batch.skipped):
        return False
    try:
        return verify_receipt(connection.network.anchor_domain, saved) == identifier
    except Fault:
        return False


def _unlisted(
    connection: Connection, headers: Sequence[BatchHeader], identifier: Digest, saved: SignedReceipt, head: int
) -> Found | None:
    receipt = saved.receipt
    try:
        if verify_receipt(connection.network.anchor_domain, saved) != identifier:
            return None
        header = next(each for each in headers if _has_number(each, receipt))
        verify_entry(header, receipt, receipt.seq)
        environment = connection.documents.environment(header.environment, head)
    except (StopIteration, Fault):
        return None
    return Found(header, CheckedReceipt(identifier, saved, (), None), environment, head, is_listed=False)


def _has_number(header: BatchHeader, receipt: Receipt) -> bool:
    return header.operator == receipt.operator and header.first_seq <= receipt.seq < header.first_seq + header.count
