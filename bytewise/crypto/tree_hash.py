"""The Merkle tree of RFC 9162 (section 2.1) over SHA-256: roots, proofs of a range of leaves, and consistency proofs.

The range proof of a single leaf has the same hashes as its RFC inclusion proof, but ordered from left to right.
"""

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence

from bytewise.protocol.digests import sha256
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Digest

EMPTY_ROOT = sha256(b"")
"""Root of the tree without leaves."""


def leaf_hash(data: bytes) -> Digest:
    """Returns the hash of a leaf with this data."""
    return sha256(b"\x00" + data)


def node_hash(left: bytes, right: bytes) -> Digest:
    """Returns the hash of a node with two children."""
    return sha256(b"\x01" + left + right)


def root_of(leaves: Sequence[Digest]) -> Digest:
    """Returns the root of the tree with these leaf hashes."""
    return _subtree(leaves, 0, len(leaves)) if leaves else EMPTY_ROOT


def roots_at(leaves: Iterable[Digest], sizes: Collection[int]) -> dict[int, Digest]:
    """Returns the root of the tree of the first n leaves, for each n in `sizes`. Leaves out sizes above the number of leaves.

    Every leaf is read once.
    """
    wanted, found = set(sizes), {0: EMPTY_ROOT}
    parts: list[Digest] = []
    for size, leaf in enumerate(leaves, 1):
        parts.append(leaf)
        # The parts are the full subtrees of the leaves so far: one for each bit of their number.
        for _ in range((size & -size).bit_length() - 1):
            right = parts.pop()
            parts.append(node_hash(parts.pop(), right))
        if size in wanted:
            found[size] = functools.reduce(lambda right, left: node_hash(left, right), reversed(parts))
    return {size: root for size, root in found.items() if size in wanted}


def range_proof(leaves: Sequence[Digest], first: int, end: int) -> tuple[Digest, ...]:
    """Returns the proof of a range: the hashes that, with the leaves `first` to `end - 1`, determine the root.

    Raises `MalformedValue` if the range is empty or outside the tree.
    """
    _verify_range(first, end, len(leaves))
    return tuple(_subtree(leaves, low, high) for low, high in _outside(0, len(leaves), first, end))


def root_of_range(leaves: Sequence[Digest], first: int, size: int, proof: Sequence[Digest]) -> Digest:
    """Returns the root of a tree of `size` leaves, computed from the leaves of a range and the range's proof.

    `leaves` are the leaf hashes from number `first` on. Raises `MalformedValue` if range or proof are impossible.
    """
    end = first + len(leaves)
    _verify_range(first, end, size)
    if len(proof) != sum(1 for _ in _outside(0, size, first, end)):
        raise MalformedValue("proof", f"{len(proof)} hashes, which is not the number for this range")
    rest = iter(proof)

    def root(low: int, high: int) -> Digest:
        if end <= low or high <= first:
            return next(rest)
        if high - low == 1:
            return leaves[low - first]
        middle = low + _split(high - low)
        return node_hash(root(low, middle), root(middle, high))

    return root(0, size)


def narrowed_proof(
    leaves: Sequence[Digest], first: int, size: int, proof: Sequence[Digest], index: int
) -> tuple[Digest, ...]:  # fmt: skip
    """Returns the range proof of the single leaf `index`, derived from the proof of a range that contains it.

    Raises `MalformedValue` as `root_of_range` does.
    """
    root_of_range(leaves, first, size, proof)
    _verify_range(index, index + 1, size)
    known = dict(zip(_outside(0, size, first, first + len(leaves)), proof, strict=True))
    known |= {(number, number + 1): leaf for number, leaf in enumerate(leaves, first)}
    return tuple(_joined(known, low, high) for low, high in _outside(0, size, index, index + 1))


def consistency_proof(leaves: Sequence[Digest], earlier: int) -> tuple[Digest, ...]:
    """Returns the hashes that show that the tree of the first `earlier` leaves is the beginning of this tree (RFC 9162, 2.1.4.1).

    The proof is empty if `earlier` is 0 or the number of leaves. Raises `MalformedValue` if the tree has fewer leaves.
    """
    if not 0 <= earlier <= len(leaves):
        raise MalformedValue("earlier size", f"{earlier} of {len(leaves)} leaves")
    return tuple(_subtree(leaves, low, high) for low, high in _consistency(earlier, len(leaves)))


def is_consistent(earlier: int, earlier_root: Digest, size: int, root: Digest, proof: Sequence[Digest]) -> bool:
    """Returns whether the proof shows that the tree with `earlier_root` is the beginning of the tree with `root`.

    `earlier` and `size` are the numbers of leaves of the two trees.
    """
    if not 0 <= earlier <= size:
        return False
    parts = list(_consistency(earlier, size))
    if len(proof) != len(parts):
        return False
    if earlier in (0, size):
        return earlier_root == (root if earlier == size else EMPTY_ROOT)
    known = dict(zip(parts, proof, strict=True))
    if earlier & (earlier - 1) == 0:
        known[0, earlier] = earlier_root
    return _joined(known, 0, earlier) == earlier_root and _joined(known, 0, size) == root


def _joined(known: dict[tuple[int, int], Digest], low: int, high: int) -> Digest:
    """Returns the hash of the subtree [low, high), computed from the known hashes of its parts."""
    if (low, high) in known:
        return known[low, high]
    middle = low + _split(high - low)
    return node_hash(_joined(known, low, middle), _joined(known, middle, high))


def _consistency(earlier: int, size: int) -> Iterator[tuple[int, int]]:
    """Yields the subtrees of a consistency proof in the order of the proof: from the deepest up."""
    if earlier in (0, size):
        return
    path: list[tuple[int, int]] = []
    low, high = 0, size
    while high != earlier:
        middle = low + _split(high - low)
        if earlier <= middle:
            path.append((middle, high))
            high = middle
        else:
            path.append((low, middle))
            low = middle
    if low:
        yield low, high
    yield from reversed(path)


def _outside(low: int, high: int, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields the largest subtrees of [low, high) without a leaf of [first, end), from left to right."""
    if end <= low or high <= first:
        yield low, high
    elif not (first <= low and high <= end):
        middle = low + _split(high - low)
        yield from _outside(low, middle, first, end)
        yield from _outside(middle, high, first, end)


def _subtree(leaves: Sequence[Digest], low: int, high: int) -> Digest:
    if high - low == 1:
        return leaves[low]
    middle = low + _split(high - low)
    return node_hash(_subtree(leaves, low, middle), _subtree(leaves, middle, high))


def _split(width: int) -> int:
    """Returns the largest power of two below `width`."""
    return 1 << (width - 1).bit_length() - 1


def _verify_range(first: int, end: int, size: int) -> None:
    if not 0 <= first < end <= size:
        raise MalformedValue("range", f"leaves {first} to {end - 1} of {size}")
