"""The tree of RFC 9162: published vectors, and proofs of every small tree."""

import hashlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.crypto.tree_hash import (
    EMPTY_ROOT,
    consistency_proof,
    is_consistent,
    leaf_hash,
    narrowed_proof,
    node_hash,
    range_proof,
    root_of,
    root_of_range,
    roots_at,
)
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Digest

# The leaves and results that certificate-transparency logs are tested with (github.com/transparency-dev/merkle, `testonly`).
LEAVES = [
    leaf_hash(bytes.fromhex(each))
    for each in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = """
    6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d
    fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125
    aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77
    d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7
    4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4
    76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef
    ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c
    5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328
    """.split()
CONSISTENCY = {
    (1, 8): """96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7
               5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e
               6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4""",
    (6, 8): """0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a
               ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0
               d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7""",
    (2, 5): """5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e
               bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b""",
}  # fmt: skip


def test_published_roots_and_consistency_proofs() -> None:
    assert root_of([]) == EMPTY_ROOT == hashlib.sha256().digest()
    assert [root_of(LEAVES[: size + 1]).hex() for size in range(8)] == ROOTS
    for (earlier, size), expected in CONSISTENCY.items():
        assert [each.hex() for each in consistency_proof(LEAVES[:size], earlier)] == expected.split()


def leaves_of(size: int) -> list[Digest]:
    return [leaf_hash(str(number).encode()) for number in range(size)]


def test_roots_of_all_beginnings_are_those_of_their_trees() -> None:
    leaves = leaves_of(40)
    assert roots_at(leaves, range(50)) == {size: root_of(leaves[:size]) for size in range(41)}
    assert roots_at(leaves, [3, 40]) == {3: root_of(leaves[:3]), 40: root_of(leaves)} and roots_at([], [1]) == {}


def test_every_range_of_every_small_tree_leads_to_its_root() -> None:
    for size in range(1, 18):
        leaves = leaves_of(size)
        for first, end in itertools.combinations(range(size + 1), 2):
            proof = range_proof(leaves, first, end)
            assert root_of_range(leaves[first:end], first, size, proof) == root_of(leaves)
            for wrong in ((*proof, EMPTY_ROOT), proof[:-1] if proof else (EMPTY_ROOT,)):
                with pytest.raises(MalformedValue):
                    root_of_range(leaves[first:end], first, size, wrong)


def test_proof_of_a_range_gives_the_proof_of_each_of_its_leaves() -> None:
    for size in range(1, 12):
        leaves = leaves_of(size)
        for first, end in itertools.combinations(range(size + 1), 2):
            proof = range_proof(leaves, first, end)
            for index in range(first, end):
                narrowed = narrowed_proof(leaves[first:end], first, size, proof, index)
                assert narrowed == range_proof(leaves, index, index + 1)
    with pytest.raises(MalformedValue):
        narrowed_proof(leaves_of(3), 0, 4, (), 1)


def test_every_small_tree_is_consistent_with_its_beginnings_alone() -> None:
    for size in range(18):
        leaves = leaves_of(size)
        for earlier in range(size + 1):
            proof, root = consistency_proof(leaves, earlier), root_of(leaves)
            before = root_of(leaves[:earlier])
            assert is_consistent(earlier, before, size, root, proof)
            assert not is_consistent(earlier, leaf_hash(b"other"), size, root, proof)
            if earlier:
                assert not is_consistent(earlier, before, size, leaf_hash(b"other"), proof)
            assert not is_consistent(earlier, before, size, root, (*proof, before))


def test_ranges_and_sizes_outside_the_tree_are_refused() -> None:
    leaves = leaves_of(3)
    for first, end in ((0, 0), (2, 1), (-1, 2), (0, 4)):
        with pytest.raises(MalformedValue):
            range_proof(leaves, first, end)
    for earlier in (-1, 4):
        with pytest.raises(MalformedValue):
            consistency_proof(leaves, earlier)
        assert not is_consistent(earlier, root_of(leaves), 3, root_of(leaves), ())
    with pytest.raises(MalformedValue):
        root_of_range([], 0, 3, ())


@given(st.integers(1, 300), st.data())
def test_changed_leaf_or_hash_gives_another_root(size: int, data: st.DataObject) -> None:
    leaves = leaves_of(size)
    first = data.draw(st.integers(0, size - 1))
    end = data.draw(st.integers(first + 1, size))
    proof = range_proof(leaves, first, end)
    assert len(proof) <= 2 * size.bit_length()
    parts = [*proof, *leaves[first:end]]
    place = data.draw(st.integers(0, len(parts) - 1))
    parts[place] = node_hash(parts[place], b"")
    changed = parts[: len(proof)], parts[len(proof) :]
    assert root_of_range(changed[1], first, size, changed[0]) != root_of(leaves)


@given(st.integers(2, 300), st.data())
def test_rewritten_history_is_not_consistent(size: int, data: st.DataObject) -> None:
    leaves = leaves_of(size)
    earlier = data.draw(st.integers(1, size))
    kept = root_of(leaves[:earlier])
    leaves[data.draw(st.integers(0, earlier - 1))] = leaf_hash(b"rewritten")
    assert not is_consistent(earlier, kept, size, root_of(leaves), consistency_proof(leaves, earlier))
