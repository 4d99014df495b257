"""Merkle-Patricia proofs: what a trie has and lacks is proven, and nothing else; RLP has one form."""

import random

import pytest
import rlp
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.digests import keccak256
from chain.capsule.trie import (
    EMPTY_ROOT,
    MAX_RLP_DEPTH,
    BrokenProof,
    ProofNodes,
    decode_list,
    decode_rlp,
    index_path,
    to_integer,
    trie_of_list,
)

ITEMS = st.recursive(st.binary(max_size=70), lambda inner: st.lists(inner, max_size=4), max_leaves=12)


def proof(values: list[bytes], index: int) -> tuple[bytes, ...]:
    """The nodes that an index needs."""
    root, nodes = trie_of_list(values)
    path = ProofNodes(nodes.values())
    path.value(root, index_path(index))
    return path.needed


@given(ITEMS)
def test_rlp_of_the_library_is_read_and_no_other_form(item: object) -> None:
    data = bytes(rlp.encode(item))
    assert decode_rlp(data) == item
    with pytest.raises(BrokenProof):
        decode_rlp(data + b"\0")
    with pytest.raises(BrokenProof):
        decode_rlp(data[:-1])


@given(st.binary(max_size=40))
def test_rlp_that_is_read_is_written_back(data: bytes) -> None:
    try:
        item = decode_rlp(data)
    except BrokenProof:
        return
    assert bytes(rlp.encode(item)) == data


@pytest.mark.parametrize(
    "data", [b"", b"\x81\x05", b"\xb8\x01a", b"\xb8\x37" + b"a" * 55, b"\xb9\x00\x38" + b"a" * 56, b"\xc1", b"\xf8\x00", b"\xb8"]
)
def test_rlp_in_another_form_is_refused(data: bytes) -> None:
    with pytest.raises(BrokenProof):
        decode_rlp(data)


def test_deep_rlp_is_refused_before_it_is_followed() -> None:
    item: list[object] = []
    for _ in range(MAX_RLP_DEPTH):
        item = [item]
    with pytest.raises(BrokenProof, match="nested deeper"):
        decode_rlp(bytes(rlp.encode(item)))
    assert decode_rlp(bytes(rlp.encode(item[0]))) == item[0]


def test_values_of_other_types_are_refused() -> None:
    with pytest.raises(BrokenProof):
        to_integer(b"\0")
    with pytest.raises(BrokenProof):
        to_integer([])
    for data in (b"\x80", b"\xc0", bytes(rlp.encode([b"a", [b"b"]]))):
        with pytest.raises(BrokenProof):
            decode_list(data, 2)


@pytest.mark.parametrize("count", [1, 2, 3, 17, 129, 300])
def test_each_value_and_each_absence_is_proven(count: int) -> None:
    values = [random.Random(count * 1000 + i).randbytes(1 + i % 90) for i in range(count)]
    root, _ = trie_of_list(values)
    for index in random.Random(count).sample(range(count), min(count, 40)):
        nodes = ProofNodes(proof(values, index))
        assert nodes.value(root, index_path(index)) == values[index] and nodes.surplus == 0
    assert ProofNodes(proof(values, count)).value(root, index_path(count)) is None
    assert trie_of_list([]) == (EMPTY_ROOT, {}) and ProofNodes(()).value(EMPTY_ROOT, "80") is None


def test_altered_missing_and_foreign_nodes_prove_nothing() -> None:
    values = [random.Random(i).randbytes(60) for i in range(200)]
    root, _ = trie_of_list(values)
    draw = random.Random(1)
    for index in range(0, 200, 7):
        nodes = list(proof(values, index))
        place = draw.randrange(len(nodes))
        byte = draw.randrange(len(nodes[place]))
        altered = [*nodes]
        altered[place] = bytes(b ^ (i == byte) for i, b in enumerate(nodes[place]))
        for broken in (altered, nodes[:place] + nodes[place + 1 :], []):
            with pytest.raises(BrokenProof):
                ProofNodes(broken).value(root, index_path(index))
        more = ProofNodes([*nodes, b"\xc0"])
        assert more.value(root, index_path(index)) == values[index] and more.surplus == 1


def test_nodes_of_another_form_are_refused() -> None:
    for node in ([b"\x00"], [b"\x40", b"value"], [b"", b"value"], [b"\x05", b"value"], [b"\x20\x80", [b"a"]], b"text" * 10):
        data = bytes(rlp.encode(node))
        with pytest.raises(BrokenProof):
            ProofNodes([data]).value(keccak256(data), "80")
