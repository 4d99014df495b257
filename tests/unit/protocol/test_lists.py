"""A published list fits its batch header in every respect, or has the fault that is named (design section 5)."""

import dataclasses
from collections.abc import Callable
from math import ceil, log2
from typing import Any

import pytest

from bytewise.protocol.encoding import decode, encode, from_json, to_json
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import (
    BadSignature,
    ForeignChain,
    ListMismatch,
    MerkleProofMismatch,
    RootMismatch,
    SequenceBroken,
    UnknownEnvironment,
)
from bytewise.protocol.merkle import batch_leaf, batch_root, batch_tree, verify_batch_proof
from bytewise.protocol.records.receipt import (
    BatchHeader,
    EmptyLeaf,
    ListEntry,
    ReceiptList,
    SignedEmptyLeaf,
    SignedReceipt,
    batch_leaves,
    plain_enclave_key,
    receipt_id,
    verify_list,
    verify_place,
    verify_receipt,
)
from bytewise.protocol.units import U32, U64, U256, ZERO_ADDRESS, Blob
from tests.fixtures.builders import ANCHOR, DISPUTES, World, signer, word

WORLD = World()
ENTRIES = tuple(WORLD.answered(seq) for seq in range(4, 9))
HEADER, LISTED = WORLD.batch(ENTRIES)


def relisted(*entries: ListEntry, **header: Any) -> tuple[BatchHeader, ReceiptList]:
    """A list of these entries under the old header, its list hash made to fit."""
    listed = dataclasses.replace(LISTED, entries=entries)
    fitting: dict[str, Any] = {"list_hash": listed.list_hash, "count": U32(len(entries))} | header
    return dataclasses.replace(HEADER, **fitting), listed


def changed(index: int, resign: bool = True, **fields: Any) -> tuple[SignedReceipt, ...]:
    """The entries, one receipt changed; signed again by the operator, or not."""
    entry = ENTRIES[index]
    receipt = dataclasses.replace(entry.receipt, **fields)
    new = WORLD.sign(receipt) if resign else dataclasses.replace(entry, receipt=receipt)
    return (*ENTRIES[:index], new, *ENTRIES[index + 1 :])


def test_a_list_that_fits_gives_the_receipt_ids_in_order() -> None:
    members = verify_list(ANCHOR, HEADER, LISTED)
    assert [each.receipt_id for each in members] == [receipt_id(ANCHOR, entry.receipt) for entry in ENTRIES]
    assert tuple(each.signed for each in members) == ENTRIES
    for each in members:
        verify_batch_proof(HEADER.root, batch_leaf(each.receipt_id, each.signed.record.seq), each.proof)


def test_a_locator_may_change_without_a_new_signature() -> None:
    entry = dataclasses.replace(ENTRIES[0], locator="eigenda:standard:0xffff")
    assert verify_receipt(ANCHOR, entry) == receipt_id(ANCHOR, ENTRIES[0].receipt)


CASES: dict[str, tuple[type[Fault], Callable[[], tuple[BatchHeader, ReceiptList]]]] = {
    "list hash": (ListMismatch, lambda: (dataclasses.replace(HEADER, list_hash=word("other")), LISTED)),
    "one entry dropped": (ListMismatch, lambda: (HEADER, dataclasses.replace(LISTED, entries=ENTRIES[:-1]))),
    "count": (ListMismatch, lambda: relisted(*ENTRIES[:-1], count=U32(5))),
    "another operator's header": (ListMismatch, lambda: (dataclasses.replace(HEADER, operator=signer("eve").address), LISTED)),
    "first number": (ListMismatch, lambda: (dataclasses.replace(HEADER, first_seq=U64(3)), LISTED)),
    "missing number": (SequenceBroken, lambda: relisted(ENTRIES[0], *ENTRIES[2:])),
    "reused number": (SequenceBroken, lambda: relisted(ENTRIES[0], ENTRIES[0], *ENTRIES[2:])),
    "swapped numbers": (SequenceBroken, lambda: relisted(ENTRIES[1], ENTRIES[0], *ENTRIES[2:])),
    "another operator's receipt": (SequenceBroken, lambda: relisted(*changed(2, operator=signer("eve").address))),
    "environment": (UnknownEnvironment, lambda: relisted(*changed(2, environment=word("other")))),
    "model": (UnknownEnvironment, lambda: relisted(*changed(2, model_id=word("other")))),
    "key epoch": (UnknownEnvironment, lambda: relisted(*changed(2, key_epoch=U64(9)))),
    "foreign chain": (ForeignChain, lambda: relisted(*changed(2, chain_id=U256(1)))),
    "altered after signing": (BadSignature, lambda: relisted(*changed(2, resign=False, out_hash=word("other")))),
    "root": (RootMismatch, lambda: (dataclasses.replace(HEADER, root=word("other")), LISTED)),
    "another answer than anchored": (RootMismatch, lambda: relisted(*changed(2, out_hash=word("other")))),
}


@pytest.mark.parametrize("name", CASES)
def test_a_list_that_does_not_fit_has_the_named_fault(name: str) -> None:
    fault, case = CASES[name]
    with pytest.raises(Fault) as found:
        verify_list(ANCHOR, *case())
    assert type(found.value) is fault


@pytest.mark.parametrize(
    "signature",
    [
        b"", bytes(65), signer("eve").sign(receipt_id(ANCHOR, ENTRIES[0].receipt)),
        # Under another contract.
        WORLD.operator.sign(receipt_id(DISPUTES, ENTRIES[0].receipt)),
    ],
)  # fmt: skip
def test_a_receipt_without_the_operators_signature_is_refused(signature: bytes) -> None:
    with pytest.raises(BadSignature):
        verify_receipt(ANCHOR, dataclasses.replace(ENTRIES[0], signature=Blob(signature)))


def test_empty_leaf_is_no_receipt_although_it_has_its_number() -> None:
    leaf = EmptyLeaf(WORLD.operator.address, U64(4), U256(ANCHOR.chain_id))
    assert receipt_id(ANCHOR, leaf) != receipt_id(ANCHOR, ENTRIES[0].receipt)


def skipped(seq: int) -> SignedEmptyLeaf:
    leaf = EmptyLeaf(WORLD.operator.address, U64(seq), U256(ANCHOR.chain_id))
    return SignedEmptyLeaf(leaf, WORLD.operator.sign(receipt_id(ANCHOR, leaf)))


def with_skipped(place: int, entry: SignedEmptyLeaf) -> tuple[BatchHeader, ReceiptList]:
    """The list with an empty leaf in place of a receipt, and the header whose root that makes."""
    entries: tuple[ListEntry, ...] = (*ENTRIES[:place], entry, *ENTRIES[place + 1 :])
    return relisted(*entries, root=batch_root(batch_leaves(ANCHOR, entries)))


@pytest.mark.parametrize("place", range(5))
def test_list_with_a_skipped_number_proves_every_leaf(place: int) -> None:
    header, listed = with_skipped(place, skipped(4 + place))
    members = verify_list(ANCHOR, header, decode(ReceiptList, encode(listed)))
    assert tuple(each.signed for each in members) == listed.entries
    assert members[place].receipt_id == receipt_id(ANCHOR, skipped(4 + place).empty_leaf)
    for each in members:
        verify_batch_proof(header.root, batch_leaf(each.receipt_id, each.signed.record.seq), each.proof)


def test_list_refused_for_skipped_number_of_another_place_signer_or_chain() -> None:
    good = skipped(6)
    for fault, entry in (
        (SequenceBroken, skipped(7)),
        (BadSignature, dataclasses.replace(good, signature=ENTRIES[0].signature)),
        (ForeignChain, dataclasses.replace(good, empty_leaf=dataclasses.replace(good.empty_leaf, chain_id=U256(1)))),
    ):
        with pytest.raises(fault):
            verify_list(ANCHOR, *with_skipped(2, entry))


def test_list_entry_with_fields_of_both_kinds_is_refused() -> None:
    (entry,) = to_json(dataclasses.replace(LISTED, entries=(skipped(4),)))["entries"]
    assert sorted(entry) == ["empty_leaf", "signature"]
    both = entry | {"receipt": to_json(ENTRIES[0].receipt)}
    lies: list[Any] = [entry | {"locator": ""}, both, {"signature": "0x"}, [], None]
    for wrong in lies:
        with pytest.raises(Fault):
            from_json(ReceiptList, to_json(LISTED) | {"entries": [wrong]})


def test_plain_mode_has_no_enclave_key() -> None:
    assert plain_enclave_key() == ZERO_ADDRESS == ENTRIES[0].receipt.enclave_key


@pytest.mark.parametrize("count", range(1, 10))
def test_each_leaf_is_in_its_place_and_no_proof_is_longer_than_its_tree(count: int) -> None:
    first, ids = 4, [word(n) for n in range(count)]
    tree = batch_tree([batch_leaf(each, first + n) for n, each in enumerate(ids)])
    header = dataclasses.replace(HEADER, first_seq=U64(first), count=U32(count), root=tree.root)
    for seq, (identifier, proof) in enumerate(zip(ids, tree.proofs, strict=True), first):
        assert verify_place(header, identifier, seq, proof) == identifier
        for shorter in (n for n in range(1, count) if len(proof) > ceil(log2(n))):
            # The range still begins at this number; only the proof is too long for so few leaves.
            with pytest.raises(MerkleProofMismatch):
                verify_place(dataclasses.replace(header, first_seq=U64(seq), count=U32(shorter)), identifier, seq, proof)
        for other in ({"first_seq": U64(seq + 1)}, {"first_seq": U64(seq - 1), "count": U32(1)}):
            with pytest.raises(SequenceBroken):
                verify_place(dataclasses.replace(header, **other), identifier, seq, proof)
