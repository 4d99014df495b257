"""Following, checking and keeping: every batch and receipt gets its finding by name, and missing bytes accuse nobody."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import NotServed, TryAgain
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import (
    AnchoredLate,
    BadSignature,
    ForeignChain,
    ListMismatch,
    MalformedValue,
    NotCanonical,
    RootMismatch,
    SequenceBroken,
    UnknownEnvironment,
    UnknownKeyEpoch,
)
from bytewise.protocol.merkle import batch_leaf, batch_root
from bytewise.protocol.records.receipt import BatchHeader, Mode, ReceiptList, SignedLeaf, SignedReceipt, receipt_id
from bytewise.protocol.units import U8, U32, U64, U256
from tests.fixtures.builders import ANCHOR, NOW, signer, word
from tests.fixtures.verifier.verifier_fixture import WORLD, VerifierFixture
from verifier.watch.batch_check import verify_batch, verify_leaves
from verifier.watch.blob_fetcher import LONGEST_PAUSE_S
from verifier.watch.list_reader import CHECKED, FAULTY, GOOD, NEW, WITHHELD
from verifier.watch.records import WITHHELD_FINDING

Broken = tuple[BatchHeader, bytes]


def answered(seq: int) -> SignedReceipt:
    """A signed receipt whose envelope exists somewhere."""
    return WORLD.sign(replace(WORLD.answered(seq).receipt, envelope_hash=word("envelope", seq)))


def batch(*entries: SignedReceipt, **header_changes: object) -> Broken:
    header, listed = WORLD.batch(entries or (answered(1), answered(2)))
    return replace(header, **header_changes), encode(listed)  # type: ignore[arg-type]


def with_list(listed: ReceiptList, header: BatchHeader) -> Broken:
    """The header names exactly these list bytes: what is wrong is inside."""
    return replace(header, list_hash=listed.list_hash, count=U32(len(listed.entries))), encode(listed)


def _relisted(*entries: SignedReceipt) -> Broken:
    header, listed = WORLD.batch((answered(1), answered(2)))
    return with_list(ReceiptList(listed.operator, listed.first_seq, entries), header)


def _changed(**changes: object) -> SignedReceipt:
    return WORLD.sign(replace(answered(2).receipt, **changes))  # type: ignore[arg-type]


LISTS: list[tuple[str, type[Fault], Callable[[], Broken]]] = [
    ("another root", RootMismatch, lambda: batch(root=word("root"))),
    ("another list", ListMismatch, lambda: batch(list_hash=word("list"))),
    ("another count", ListMismatch, lambda: batch(count=U32(3))),
    ("another operator", ListMismatch, lambda: batch(operator=signer("thief").address)),
    ("another first number", ListMismatch, lambda: batch(first_seq=U64(2))),
    ("no list at all", NotCanonical, lambda: (batch()[0], b"not json")),
    ("a reused number", SequenceBroken, lambda: _relisted(answered(1), answered(1))),
    ("a missing number", SequenceBroken, lambda: _relisted(answered(1), answered(3))),
    ("a foreign chain", ForeignChain, lambda: _relisted(answered(1), _changed(chain_id=U256(1)))),
    ("a receipt of another operator", SequenceBroken, lambda: _relisted(answered(1), _changed(operator=signer("thief").address))),
    (
        "a wrong signature", BadSignature,
        lambda: _relisted(answered(1), replace(answered(2), signature=answered(1).signature)),
    ),
    ("a receipt of another epoch", UnknownEnvironment, lambda: _relisted(answered(1), _changed(key_epoch=U64(2)))),
    ("a receipt of another model", UnknownEnvironment, lambda: _relisted(answered(1), _changed(model_id=word("m")))),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "make"), [(f, m) for _, f, m in LISTS], ids=[name for name, _, _ in LISTS])
def test_a_list_that_does_not_fit_its_batch_is_named(fault: type[Fault], make: Callable[[], Broken]) -> None:
    header, data = make()
    with pytest.raises(fault):
        verify_batch(ANCHOR, header, data, WORLD.environment, frozenset({1}))


def test_an_unknown_key_epoch_is_named() -> None:
    header, data = batch()
    with pytest.raises(UnknownKeyEpoch):
        verify_batch(ANCHOR, header, data, WORLD.environment, frozenset({2}))


def test_an_unregistered_environment_is_named() -> None:
    header, data = batch()
    with pytest.raises(UnknownEnvironment):
        verify_batch(ANCHOR, header, data, replace(WORLD.environment, driver="other"), frozenset({1}))


@pytest.mark.parametrize(
    ("fault", "entry"),
    [
        (AnchoredLate, lambda: _changed(anchor_by=U64(NOW - 1))),
        (UnknownEnvironment, lambda: _changed(gpu_arch=word("another architecture"))),
        (MalformedValue, lambda: replace(answered(2), locator="https://elsewhere")),
        (MalformedValue, lambda: _changed(req_hash=bytes(32))),
        (MalformedValue, lambda: _changed(mode=U8(Mode.TEE))),
    ],
)
def test_receipt_with_its_own_fault_does_not_affect_the_others(fault: type[Fault], entry: Callable[[], SignedReceipt]) -> None:
    header, data = batch(answered(1), entry())
    good, bad = verify_batch(ANCHOR, header, data, WORLD.environment, frozenset({1})).receipts
    assert good.fault is None and isinstance(bad.fault, fault)


def test_batch_is_followed_checked_and_its_ciphertext_kept_at_first_sight(setup: VerifierFixture) -> None:
    first, second = setup.signed(1), setup.signed(2)
    setup.anchor(first, second)
    setup.records.step(setup.chain.now())
    assert [live.seen.finding for live in setup.records.live] == [GOOD, GOOD]
    setup.shelf.blobs.clear()
    identifier = setup.records.live[0].seen.receipt_id
    assert setup.records.case(identifier, setup.chain.now()).signed == first
    assert setup.archive.batch(0) is not None and setup.archive.batch(0).state == CHECKED  # type: ignore[union-attr]


def test_repeated_read_fetches_nothing_twice(setup: VerifierFixture) -> None:
    setup.anchor(setup.signed(1))
    setup.records.step(setup.chain.now())
    reads = setup.shelf.reads
    setup.records.step(setup.chain.pass_time(1))
    assert setup.shelf.reads == reads


def test_list_without_bytes_is_withheld_only_after_the_deadline(setup: VerifierFixture) -> None:
    header = setup.anchor(setup.signed(1))
    del setup.shelf.blobs[header.locator]
    setup.records.step(setup.chain.now())
    assert setup.archive.batch(0).state == NEW  # type: ignore[union-attr]
    setup.records.step(setup.chain.pass_time(100))
    assert setup.archive.batch(0).state == WITHHELD  # type: ignore[union-attr]
    assert setup.records.live == ()


def test_late_list_is_still_checked(setup: VerifierFixture) -> None:
    header = setup.anchor(setup.signed(1))
    data = setup.shelf.blobs.pop(header.locator)
    setup.records.step(setup.chain.now())
    setup.shelf.blobs[header.locator] = data
    setup.records.step(setup.chain.pass_time(5))
    assert len(setup.records.live) == 1


@pytest.mark.parametrize("bytes_", [None, b"other bytes"])
def test_missing_or_other_ciphertext_is_withheld_after_the_deadline(setup: VerifierFixture, bytes_: bytes | None) -> None:
    signed = setup.signed(1)
    setup.anchor(signed)
    del setup.shelf.blobs[signed.locator]
    if bytes_ is not None:
        setup.shelf.blobs[signed.locator] = bytes_
    setup.records.step(setup.chain.now())
    identifier = setup.records.live[0].seen.receipt_id
    with pytest.raises(NotServed):
        setup.records.fetch(identifier)
    setup.records.step(setup.chain.pass_time(100))
    assert setup.archive.receipt(identifier).finding == WITHHELD_FINDING  # type: ignore[union-attr]


def test_list_larger_than_its_receipts_allow_is_not_parsed() -> None:
    header, _ = batch()
    with pytest.raises(ListMismatch, match="size"):
        verify_batch(ANCHOR, header, b"not json" * 2**11 + b"x", WORLD.environment, frozenset({1}))


def test_a_faulty_list_is_remembered_with_its_fault(setup: VerifierFixture) -> None:
    setup.anchor(setup.signed(1), root=word("another root"))
    setup.records.step(setup.chain.now())
    seen = setup.archive.batch(0)
    assert seen is not None and seen.state == FAULTY and "R-14" in seen.detail


def test_store_that_is_briefly_unavailable_accuses_nobody(setup: VerifierFixture) -> None:
    header = setup.anchor(setup.signed(1))
    blobs, setup.shelf.blobs = setup.shelf.blobs, {}
    for _ in range(5):
        setup.records.step(setup.chain.pass_time(1))
    setup.shelf.blobs = blobs
    setup.records.step(setup.chain.pass_time(LONGEST_PAUSE_S))
    assert setup.archive.batch(header.batch_id).state == CHECKED  # type: ignore[union-attr]


def test_reorganisation_removes_its_batches(setup: VerifierFixture) -> None:
    kept = setup.anchor(setup.signed(1), block=U64(12))
    setup.chain.number = 14
    setup.records.step(setup.chain.now())
    setup.anchor(setup.signed(2), first_seq=U64(2), block=U64(18))
    setup.chain.number = 20
    setup.records.step(setup.chain.now())
    assert len(setup.records.live) == 2
    setup.chain.branch, setup.chain.headers = "other", [kept]
    setup.records.step(setup.chain.pass_time(1))
    assert [live.header.batch_id for live in setup.records.live] == [0]
    assert setup.archive.batch(1) is None


def test_restart_restores_the_records(setup: VerifierFixture) -> None:
    setup.anchor(setup.signed(1))
    setup.records.step(setup.chain.now())
    setup.reopen()
    setup.shelf.blobs.clear()
    setup.records.step(setup.chain.pass_time(1))
    assert [live.seen.finding for live in setup.records.live] == [GOOD]


def test_answer_other_than_the_contract_accepted_is_not_believed() -> None:
    signed = answered(1)
    header, listed = WORLD.batch((signed,))
    leaves = (SignedLeaf(signed.receipt, signed.signature),)
    (found,) = verify_leaves(ANCHOR, header, leaves, encode(listed), WORLD.environment).receipts
    assert (found.signed, found.fault) == (signed, None), "its locator is in the list"
    for others in ((), (*leaves, *leaves), (SignedLeaf(answered(2).receipt, signed.signature),)):
        with pytest.raises(TryAgain, match="another root"):
            verify_leaves(ANCHOR, header, others, b"", WORLD.environment)


def test_leaf_not_named_by_its_batch_is_reported_as_no_member() -> None:
    signed = _changed(seq=U64(1), environment=word("elsewhere"))
    header, _ = WORLD.batch((answered(1),))
    leaf = batch_leaf(receipt_id(ANCHOR, signed.receipt), signed.receipt.seq)
    header = replace(header, root=batch_root((leaf,)))
    leaves = (SignedLeaf(signed.receipt, signed.signature),)
    (found,) = verify_leaves(ANCHOR, header, leaves, b"[]", WORLD.environment).receipts
    assert isinstance(found.fault, UnknownEnvironment) and found.signed.locator == ""
