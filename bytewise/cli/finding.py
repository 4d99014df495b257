"""Finds a receipt by its id: batches of the chain, newest first, their lists from DA, each checked before it is believed."""

from collections.abc import Callable
from typing import NamedTuple

from bytewise.cli.connect import Connection
from bytewise.protocol.environment import Environment
from bytewise.protocol.errors import Fault, Unavailable
from bytewise.protocol.keys import EpochState
from bytewise.protocol.receipt import BatchHeader
from bytewise.protocol.units import Digest
from verifier.check import CheckedReceipt, verify_batch

Progress = Callable[[int, int], None]
"""Called with lists read and lists in all."""


class Found(NamedTuple):
    """A receipt in its batch, with everything public that was needed to check it."""

    header: BatchHeader
    checked: CheckedReceipt
    environment: Environment
    head: int


class Search(NamedTuple):
    """What a search found, and which lists could not be read or did not fit."""

    found: Found | None
    unread: tuple[Unavailable, ...]
    faulty: tuple[Fault, ...]


def find_receipt(connection: Connection, identifier: Digest, progress: Progress) -> Search:
    """Looks through every anchored batch, newest first; stops at the receipt."""
    head = connection.reader.head()
    headers = connection.reader.batches(connection.network.deploy_block, head)
    unread: list[Unavailable] = []
    faulty: list[Fault] = []
    for number, header in enumerate(reversed(headers), 1):
        progress(number, len(headers))
        try:
            found = _in_batch(connection, header, identifier, head)
        except Unavailable as error:
            unread.append(error)
        except Fault as error:
            faulty.append(error)
        else:
            if found is not None:
                return Search(found, tuple(unread), tuple(faulty))
    return Search(None, tuple(unread), tuple(faulty))


def _in_batch(connection: Connection, header: BatchHeader, identifier: Digest, head: int) -> Found | None:
    data = connection.da.get(header.locator)
    environment = connection.documents.environment(header.environment, head)
    known = connection.reader.epoch_state(header.key_epoch, head) is not EpochState.NONE
    epochs = frozenset({int(header.key_epoch)} if known else ())
    for checked in verify_batch(connection.network.anchor_domain, header, data, environment, epochs):
        if checked.receipt_id == identifier:
            return Found(header, checked, environment, head)
    return None
