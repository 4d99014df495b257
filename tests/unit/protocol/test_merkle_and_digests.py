"""Trees and labelled hashes: nothing but the leaf in its place leads to the root."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bytewise.protocol import digests as hashing
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.errors.records import MalformedValue, MerkleProofMismatch
from bytewise.protocol.merkle import (
    batch_leaf,
    batch_proof,
    batch_root,
    batch_tree,
    commit_proof,
    commit_root,
    commit_root_from,
    trace_tree_root,
    verify_batch_proof,
)
from bytewise.protocol.records.trace import TraceStep, round_digest, trace_leaves, trace_root
from bytewise.protocol.units import ZERO_DIGEST, Digest
from tests.fixtures.builders import word
from tests.fixtures.record_strategies import digests
from tests.fixtures.work_counter import calls

leaf_lists = st.lists(digests, min_size=1, max_size=33, unique=True)


@given(leaf_lists, st.data())
def test_every_leaf_has_a_proof_of_logarithmic_length(leaves: list[Digest], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    proof = batch_proof(leaves, index)
    assert verify_batch_proof(batch_root(leaves), leaves[index], proof) == leaves[index]
    assert len(proof) <= (len(leaves) - 1).bit_length()


@given(leaf_lists)
def test_tree_hashed_once_gives_the_proof_of_each_leaf(leaves: list[Digest]) -> None:
    assert batch_tree(leaves) == (batch_root(leaves), tuple(batch_proof(leaves, i) for i in range(len(leaves))))
    assert calls(lambda: batch_tree(leaves), "keccak") == len(leaves) - 1


@given(digests, st.integers(0, 2**64 - 1))
def test_a_leaf_is_what_solidity_encodes_and_hashes_twice(identifier: Digest, seq: int) -> None:
    once = hashing.keccak256_abi(("bytes32", "uint64"), (identifier, seq))
    assert batch_leaf(identifier, seq) == hashing.keccak256(once)


@pytest.mark.parametrize(("identifier", "seq"), [(bytes(31), 1), (bytes(33), 1), (bytes(32), -1), (bytes(32), 2**64)])
def test_a_leaf_of_a_value_outside_its_type_is_refused(identifier: bytes, seq: int) -> None:
    with pytest.raises(MalformedValue):
        batch_leaf(Digest(identifier), seq)


@given(leaf_lists, digests, st.data())
def test_a_leaf_that_is_not_in_the_tree_has_no_proof(leaves: list[Digest], stranger: Digest, data: st.DataObject) -> None:
    assume(stranger not in leaves)
    proof = batch_proof(leaves, data.draw(st.integers(0, len(leaves) - 1)))
    with pytest.raises(MerkleProofMismatch):
        verify_batch_proof(batch_root(leaves), stranger, proof)


@given(leaf_lists.filter(lambda leaves: len(leaves) > 1), st.data())
def test_a_changed_shortened_or_lengthened_proof_fails(leaves: list[Digest], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    proof = list(batch_proof(leaves, index))
    at = data.draw(st.integers(0, len(proof) - 1))
    changed = [*proof[:at], Digest(bytes(b ^ 1 for b in proof[at])), *proof[at + 1 :]]
    for wrong in (changed, proof[:at] + proof[at + 1 :], [*proof, proof[-1]]):
        with pytest.raises(MerkleProofMismatch):
            verify_batch_proof(batch_root(leaves), leaves[index], wrong)


def test_an_inner_node_does_not_pass_as_a_receipt() -> None:
    """A leaf is hashed twice, so no receipt id and number can be chosen that hash to a node."""
    leaves = [batch_leaf(word(i), i) for i in range(1, 5)]
    node = hashing.keccak256(min(leaves[:2]) + max(leaves[:2]))
    assert verify_batch_proof(batch_root(leaves), node, batch_proof(leaves, 0)[1:]) == node
    assert batch_leaf(Digest(min(leaves[:2])), int.from_bytes(max(leaves[:2])[:8])) != node


def test_an_empty_batch_has_no_root() -> None:
    with pytest.raises(MalformedValue):
        batch_root([])


@given(st.lists(digests, max_size=20), st.data())
def test_the_trace_root_depends_on_number_order_and_every_leaf(leaves: list[Digest], data: st.DataObject) -> None:
    root = trace_root(leaves)
    assert trace_root([*leaves, word("more")]) != root
    if len(set(leaves)) > 1:
        assert trace_root(leaves[::-1]) != root or leaves == leaves[::-1]
    if leaves:
        at = data.draw(st.integers(0, len(leaves) - 1))
        assert trace_root([*leaves[:at], word("else"), *leaves[at + 1 :]]) != root
        assert trace_root(leaves[:-1]) != root


def test_a_subtree_does_not_pass_as_a_shorter_trace() -> None:
    leaves = [word(i) for i in range(4)]
    pair = labelled(Label.TRACE_NODE, leaves[0], leaves[1])
    other = labelled(Label.TRACE_NODE, leaves[2], leaves[3])
    assert trace_tree_root([pair, other]) == trace_tree_root(leaves)
    assert trace_root([pair, other]) != trace_root(leaves)


def test_a_trace_leaf_is_blinded_and_binds_position_row_exponent_and_token() -> None:
    step = TraceStep(b"\x01\x00", 127, 5)
    others = [TraceStep(b"\x02\x00", 127, 5), TraceStep(b"\x01\x00", 128, 5), TraceStep(b"\x01\x00", 127, 6)]
    first = trace_leaves(word("nonce"), [step])[0]
    assert first not in trace_leaves(word("nonce"), others)
    assert trace_leaves(word("nonce"), [others[0], step])[1] != first
    assert trace_leaves(word("another nonce"), [step])[0] != first


def test_the_round_digest_needs_seed_dispute_and_every_leaf() -> None:
    leaves = [word(1), word(2)]
    known = round_digest(word("seed"), word("dispute"), leaves)
    assert round_digest(word("other"), word("dispute"), leaves) != known
    assert round_digest(word("seed"), word("other"), leaves) != known
    assert round_digest(word("seed"), word("dispute"), leaves[:1]) != known


@given(st.lists(st.binary(max_size=9), max_size=4), st.lists(st.binary(max_size=9), max_size=4))
def test_parts_of_a_labelled_hash_cannot_move_across_their_borders(left: list[bytes], right: list[bytes]) -> None:
    assert (labelled(Label.LIST, *left) == labelled(Label.LIST, *right)) == (left == right)
    assert labelled(Label.LIST, *left) != labelled(Label.REQUEST, *left)


def test_derived_secrets_differ_by_purpose() -> None:
    assert hashing.derive(Label.OUTPUT_BLIND, word(1)) != hashing.derive(Label.TRACE_BLIND, word(1))
    assert len(hashing.derive(Label.TRACE_BLIND, word(1), 64)) == 64


# A digest of zeros is an empty place: nothing hashes to it.
seats = st.dictionaries(st.integers(0, 254), digests.filter(lambda each: each != ZERO_DIGEST), min_size=1, max_size=12)


@given(seats, st.integers(0, 255), digests)
def test_commitment_proves_its_own_place_only(leaves: dict[int, Digest], place: int, other: Digest) -> None:
    mine = min(leaves)
    proof, root = commit_proof(leaves, mine), commit_root(leaves)
    assert commit_root_from(leaves[mine], mine, proof) == root
    assume(place != mine and other != leaves[mine])
    assert commit_root_from(leaves[mine], place, proof) != root
    assert commit_root_from(other, mine, proof) != root


@given(seats, st.integers(0, 9).filter(lambda length: length != 8))
def test_place_outside_the_commitment_tree_is_refused(leaves: dict[int, Digest], length: int) -> None:
    with pytest.raises(MalformedValue):
        commit_root_from(leaves[min(leaves)], min(leaves), (*commit_proof(leaves, min(leaves)), leaves[min(leaves)])[:length])
    with pytest.raises(MalformedValue):
        commit_root({**leaves, 256: leaves[min(leaves)]})
