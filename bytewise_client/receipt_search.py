"""Finds receipts. It reads the batches of the chain, the newest first, and their lists from DA or from answers to demands.

Each list is checked against its batch.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.errors.actors import CallerError, TryAgain
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.keys.epochs import EpochState
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import BatchHeader, Receipt, SignedReceipt, list_subject, verify_entry, verify_receipt
from bytewise.protocol.units import Digest, hex0x
from bytewise_client.connection import Connection
from bytewise_client.network_state import Labels, verdict_of
from chain.reads.reader import SnapshotReader
from verifier.watch.batch_check import CheckedBatch, CheckedReceipt, verify_batch, verify_leaves

SearchProgress = Callable[[int, int], None]
"""Function that is called with the number of lists that were read so far, and the number of all lists."""


class Found(NamedTuple):
    """A receipt that was found in a batch, with the public data for its check."""

    header: BatchHeader
    checked: CheckedReceipt
    environment: Environment
    head: int
    is_listed: bool = True
    """Whether the batch's list contains the receipt.

    If not, the receipt comes from a saved answer, and `header` is the batch that covers its number. Then nothing proves that
    this batch contains this receipt.
    """


class Search(NamedTuple):
    """Result of a search, with the errors of lists that could not be read (`unread`) or do not fit their batch (`faulty`)."""

    found: Found | None
    unread: tuple[Unavailable, ...]
    faulty: tuple[Fault, ...]
    head: int
    """Number of the block at which the chain was read."""
    skipped_in: BatchHeader | None = None
    """The batch that has an empty leaf at the number of the saved receipt, although its operator signed the receipt. None if
    there is no such batch."""


def find_receipt(
    connection: Connection, identifier: Digest, progress: SearchProgress, saved: SignedReceipt | None = None
) -> Search:
    """Searches the anchored batches, the newest first, until the receipt is found.

    If the receipt is not found and some lists could not be read, the search returns the signed receipt `saved` instead. It does
    so only if `saved` has this id and fits the batch that covers its number.
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
    """Reads the list of a batch and checks it against the batch. Returns the checked batch.

    If DA does not have the list, or the list does not fit, it uses the operator's answer to a demand for the list. If there is
    no answer, raises the error.
    """
    try:
        data = _list_on_da(connection, header)
        environment = connection.documents.environment(header.environment, head)
        known = connection.reader.epoch_state(header.key_epoch, head) is not EpochState.NONE
        epochs = frozenset({int(header.key_epoch)} if known else ())
        return verify_batch(connection.network.anchor_domain, header, data, environment, epochs)
    except (Unavailable, Fault):
        answered = _answered_batch(connection, header, head)
        if answered is None:
            raise
        return answered


def _list_on_da(connection: Connection, header: BatchHeader) -> bytes:
    try:
        return connection.da.get(header.locator, lambda blob: labelled(Label.LIST, blob) == header.list_hash)
    except CallerError as error:
        # An operator chose the locator, and any proxy can answer 400. Neither proves that this program is wrong.
        raise TryAgain("DA", f"batch {header.batch_id}: {error}") from None


def _answered_batch(connection: Connection, header: BatchHeader, head: int) -> CheckedBatch | None:
    """Returns the batch from the leaves in the operator's answer to a demand for its list. Returns None if there is no
    answer."""
    reader, anchor = connection.reader, connection.network.anchor_domain
    known = reader.batch(header.batch_id, head)
    if known is None or not known[1].list_answered:
        return None
    where = list_subject(connection.network.demands_domain, header.batch_id), header.block, head
    leaves, data = reader.answered_leaves(*where), reader.answered(*where)
    if leaves is None or data is None:
        return None
    for leaf in leaves:
        # The contract has checked the signatures, but the node that gives the answer is not trusted.
        verify_receipt(anchor, leaf)
    environment = connection.documents.environment(header.environment, head)
    return verify_leaves(anchor, header, leaves, data, environment)


def known_receipts(connection: Connection) -> set[str]:
    """Returns the ids of all anchored receipts, 0x-hex.

    Raises `TryAgain` if a list cannot be read, because that list may have more.
    """
    head = connection.reader.head()
    headers, known = connection.reader.batches(connection.network.deploy_block, head), set[str]()
    for header in headers:
        try:
            known |= {hex0x(each.receipt_id) for each in checked_batch(connection, header, head).receipts}
        except Unavailable as error:
            raise TryAgain("DA", f"{error}; give the receipt id in full, for another receipt may begin like this") from None
        except Fault:
            # A list that does not fit its batch counts as empty.
            continue
    return known


def listed_receipts(
    connection: Connection, headers: Sequence[BatchHeader], head: int, limit: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns at most `limit` receipts of these batches as plain data, and a message for each list that could not be used.

    A `limit` of 0 means no limit.
    """
    reader, rows, unread = connection.reader, list[dict[str, Any]](), list[str]()
    labels, verdicts = Labels(reader, head), _verdicts(reader, head)
    for header in headers:
        if limit and len(rows) >= limit:
            break
        try:
            checked = checked_batch(connection, header, head)
        except (Unavailable, Fault) as error:
            unread.append(f"the list of batch {header.batch_id} was not read: {error}")
            continue
        rows += [
            {
                "receipt_id": hex0x(each.receipt_id), "operator": header.operator, "seq": each.signed.receipt.seq,
                "batch": header.batch_id, "anchored_at": header.anchored_at, "key_epoch": header.key_epoch,
                "assurance": labels.of_epoch(header.key_epoch), "verdict": verdicts.get(each.receipt_id),
            }
            for each in reversed(checked.receipts)
        ]  # fmt: skip
    return rows[: limit or None], unread


def _verdicts(reader: SnapshotReader, head: int) -> dict[Digest, str]:
    """Returns the verdict of each disputed receipt. It is NONE while the dispute runs."""
    cases = (reader.dispute(each.id, head) for each in reader.opened(reader.network.deploy_block, head))
    return {each.receipt_id: verdict_of(each).name for each in cases if each is not None}


def _skips(connection: Connection, batch: CheckedBatch, identifier: Digest, saved: SignedReceipt) -> bool:
    """Returns whether the operator signed the receipt and anchored an empty leaf in its place."""
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
