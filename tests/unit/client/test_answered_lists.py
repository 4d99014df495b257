"""Receipts of a list that skips or hides them, or that DA lost or garbled: found, or reported, from the operator's own words."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import CallerError, TryAgain
from bytewise.protocol.keys.epochs import EpochState
from bytewise.protocol.records.receipt import (
    BatchHeader,
    EmptyLeaf,
    ReceiptList,
    SignedEmptyLeaf,
    SignedLeaf,
    list_subject,
    receipt_id,
)
from bytewise.protocol.units import U64, U256, Blob, hex0x
from bytewise.service.exit_codes import Exit
from bytewise_client.checks import not_found
from bytewise_client.connection import Connection
from bytewise_client.receipt_search import Search, find_receipt, known_receipts, listed_receipts
from tests.fixtures.builders import ANCHOR, CHAIN_ID, DEMANDS, word
from tests.fixtures.verifier.verifier_fixture import NETWORK, WORLD, BlobShelf, MemoryChain
from verifier.watch.batch_check import LOCATOR_PREFIX

FIRST, SECOND = (
    WORLD.sign(replace(WORLD.answered(seq).receipt, envelope_hash=word("envelope", seq)), LOCATOR_PREFIX) for seq in (1, 2)
)
NAME = receipt_id(ANCHOR, SECOND.receipt)
EMPTY = EmptyLeaf(WORLD.operator.address, U64(1), U256(CHAIN_ID))
SKIPPED = SignedEmptyLeaf(EMPTY, WORLD.operator.sign(receipt_id(ANCHOR, EMPTY)))
LEAVES = tuple(SignedLeaf(each.record, each.signature) for each in (FIRST, SECOND))


class Chain(MemoryChain):
    """A chain in memory with the reads of a search."""

    network = NETWORK

    def batch(self, batch_id: int, block: int) -> Any:
        return self.headers[batch_id], self.anchored(batch_id, block)[0]

    def epoch_state(self, epoch: int, block: int) -> EpochState:
        return EpochState.ACTIVE

    def epoch_on_chain(self, epoch: int, block: int) -> Any:
        return SimpleNamespace(assurance="simulated")


class Setup:
    """A batch of two receipts, whose list is at its locator."""

    def __init__(self, *entries: Any, listed: tuple[Any, ...] = ()) -> None:
        self.chain, self.shelf, self.nothing = Chain(), BlobShelf(), SimpleNamespace()
        header, made = WORLD.batch(entries or (FIRST, SECOND))
        if listed:
            made = ReceiptList(made.operator, made.first_seq, listed)
        self.data = Blob(encode(made))
        changes = {"batch_id": 0, "list_hash": made.list_hash, "locator": self.shelf.put(self.data)}
        self.header: BatchHeader = replace(header, **changes)  # type: ignore[arg-type]
        self.chain.headers.append(self.header)
        parts: Any = (self.chain, self.nothing, self.chain, self.shelf)
        self.connection = Connection(NETWORK, *parts)

    def answer(self, *leaves: SignedLeaf) -> None:
        """The operator answers a demand for the list."""
        subject = list_subject(DEMANDS, 0)
        self.chain.answers[subject], self.chain.leaves[subject] = self.data, leaves or LEAVES

    def find(self, saved: Any = None) -> Search:
        return find_receipt(self.connection, NAME, lambda *_: None, saved)


@pytest.mark.parametrize("blob", [None, b"<html>captive portal</html>"])
def test_receipt_is_found_in_the_answer_to_a_demand_for_its_list(blob: bytes | None) -> None:
    setup = Setup()
    read = setup.find().found
    del setup.shelf.blobs[setup.header.locator]
    if blob is not None:
        setup.shelf.blobs[setup.header.locator] = blob
    lost = setup.find()
    assert lost.found is None and not_found(lost).exit is Exit.UNAVAILABLE
    setup.answer()
    assert setup.find().found == read is not None
    assert known_receipts(setup.connection) == {hex0x(receipt_id(ANCHOR, each.receipt)) for each in (FIRST, SECOND)}
    rows, unread = listed_receipts(setup.connection, setup.chain.headers, setup.chain.number, 0)
    assert len(rows) == 2 and unread == []


def test_list_that_a_proxy_refuses_is_unread_and_ends_no_search() -> None:
    setup = Setup()

    def refused(locator: str, accept: Any = None) -> bytes:
        raise CallerError("da", "HTTP 400")

    setup.shelf.get = refused  # type: ignore[method-assign]
    search = setup.find()
    (unread,) = search.unread
    assert search.found is None and search.faulty == () and "HTTP 400" in str(unread)
    assert not_found(search).exit is Exit.UNAVAILABLE
    setup.answer()
    assert setup.find().found is not None


def test_receipt_that_its_list_hides_is_found_in_the_answer() -> None:
    setup = Setup(listed=(FIRST,))
    hidden = setup.find()
    assert hidden.found is None and not_found(hidden).exit is Exit.NOT_FOUND
    setup.answer()
    found = setup.find().found
    assert found is not None and found.is_listed and found.checked.signed == replace(SECOND, locator="")


def test_skipped_number_is_reported_from_the_list_and_from_the_answer() -> None:
    setup, lost = Setup(SKIPPED, SECOND), receipt_id(ANCHOR, FIRST.receipt)
    search = find_receipt(setup.connection, lost, lambda *_: None, FIRST)
    end = not_found(search)
    assert search.skipped_in == setup.header and end.exit is Exit.NOT_FOUND
    assert "batch 0 has an empty leaf there" in end.reason
    forged = replace(FIRST, signature=SECOND.signature)
    assert find_receipt(setup.connection, lost, lambda *_: None, forged).skipped_in is None, "its operator signed no such thing"
    assert find_receipt(setup.connection, lost, lambda *_: None).skipped_in is None
    found = setup.find(SECOND).found
    assert found is not None and found.checked.signed == SECOND
    setup.shelf.blobs.clear()
    setup.answer(SignedLeaf(EMPTY, SKIPPED.signature), LEAVES[1])
    assert find_receipt(setup.connection, lost, lambda *_: None, FIRST).skipped_in == setup.header


def test_answer_without_the_signature_of_the_operator_shows_nothing() -> None:
    """A chain node may give any leaves; `verify` says that the operator signed what it found."""
    setup = Setup()
    setup.shelf.blobs.clear()
    setup.answer(LEAVES[0], SignedLeaf(SECOND.receipt, FIRST.signature))
    search = setup.find()
    assert search.found is None and len(search.faulty) == 1 and "signature" in str(search.faulty[0])


def test_demand_that_was_not_answered_leaves_the_list_unread() -> None:
    setup = Setup()
    setup.shelf.blobs.clear()
    assert [type(each) for each in setup.find().unread] == [TryAgain]
    found = setup.find(SECOND).found
    assert found is not None and not found.is_listed
