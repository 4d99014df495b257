"""Three Merkle trees. Contracts check the trees of batches and of commitments, but no contract computes the tree of a trace.

The batch tree is OpenZeppelin's. Leaves are hashed twice, so that no inner node passes as a leaf. Each pair is sorted before it
is hashed with keccak256, and a last node without a sibling is promoted unchanged. The commitment tree has one place for each
seat, so a member has one commitment under one root (`CommitTree.sol`). The trace tree uses labelled SHA-256 and also promotes a
node without a sibling.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bytewise.protocol.digests import Label, keccak256, labelled
from bytewise.protocol.errors.records import MalformedValue, MerkleProofMismatch
from bytewise.protocol.units import ZERO_DIGEST, Digest, bounded, digest

COMMIT_DEPTH = 8
"""Levels of the commitment tree. It has 256 places, and a round has at most 255 seats."""


class BatchTree(NamedTuple):
    """The root of a batch tree and the proofs of all its leaves."""

    root: Digest
    proofs: tuple[tuple[Digest, ...], ...]
    """Proof of each leaf, in the order of the leaves. A proof lists the siblings from the bottom up."""


def batch_leaf(receipt_id: Digest, seq: int) -> Digest:
    """Returns the leaf of a receipt, or of a skipped number, in its batch: keccak256(keccak256(abi.encode(id, seq)))."""
    return keccak256(keccak256(digest(receipt_id) + bounded(seq, 64).to_bytes(32)))


def batch_root(leaves: Sequence[Digest]) -> Digest:
    """Returns the root of the batch tree. Raises `MalformedValue` for an empty batch."""
    return _levels(leaves)[-1][0]


def batch_proof(leaves: Sequence[Digest], index: int) -> tuple[Digest, ...]:
    """Returns the siblings of leaf `index` from the bottom up.

    For many proofs use `batch_tree`, which hashes the tree only once.
    """
    return _path(_levels(leaves), index)


def batch_tree(leaves: Sequence[Digest]) -> BatchTree:
    """Returns the root and all proofs, with one hash for each inner node. Raises `MalformedValue` for an empty batch."""
    levels = _levels(leaves)
    return BatchTree(levels[-1][0], tuple(_path(levels, index) for index in range(len(leaves))))


def verify_batch_proof(root: Digest, leaf: Digest, proof: Sequence[Digest]) -> Digest:
    """Returns the leaf if the proof leads from it to the root; otherwise raises `MerkleProofMismatch`."""
    node = leaf
    for sibling in proof:
        node = _pair(node, sibling)
    if node != root:
        raise MerkleProofMismatch(leaf.hex(), root.hex())
    return leaf


def commit_root(leaves: Mapping[int, Digest]) -> Digest:
    """Returns the root of a round's commitments.

    `leaves` maps the first seat of each member to its commitment, in the form that `commitments.sealed` returns. Raises
    `MalformedValue` for a seat above 255.
    """
    return _commit_levels(leaves)[-1][0]


def commit_proof(leaves: Mapping[int, Digest], place: int) -> tuple[Digest, ...]:
    """Returns the siblings of the leaf at `place` from the bottom up. The place is the first seat of a member."""
    return tuple(level[(place >> i) ^ 1] for i, level in enumerate(_commit_levels(leaves)[:-1]))


def commit_root_from(leaf: Digest, place: int, proof: Sequence[Digest]) -> Digest:
    """Returns the root to which a proof leads. Raises `MalformedValue` for a proof of another length than `COMMIT_DEPTH`."""
    if len(proof) != COMMIT_DEPTH:
        raise MalformedValue("proof of a commitment", f"{len(proof)} siblings instead of {COMMIT_DEPTH}")
    node = leaf
    for i, sibling in enumerate(proof):
        node = keccak256(sibling + node) if place >> i & 1 else keccak256(node + sibling)
    return node


def trace_tree_root(leaves: Sequence[Digest]) -> Digest:
    """Returns the Merkle root of trace leaves in order. Without leaves it is the hash of the label alone."""
    level = list(leaves)
    if not level:
        return labelled(Label.TRACE_NODE)
    while len(level) > 1:
        paired = [labelled(Label.TRACE_NODE, level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = paired + ([level[-1]] if len(level) % 2 else [])
    return level[0]


def _pair(left: Digest, right: Digest) -> Digest:
    return keccak256(min(left, right) + max(left, right))


def _commit_levels(leaves: Mapping[int, Digest]) -> list[list[Digest]]:
    if not all(0 <= place < 1 << COMMIT_DEPTH for place in leaves):
        raise MalformedValue("seat of a commitment", f"{sorted(leaves)}: not all below {1 << COMMIT_DEPTH}")
    levels = [[leaves.get(place, ZERO_DIGEST) for place in range(1 << COMMIT_DEPTH)]]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append([keccak256(below[i] + below[i + 1]) for i in range(0, len(below), 2)])
    return levels


def _path(levels: Sequence[Sequence[Digest]], index: int) -> tuple[Digest, ...]:
    path: list[Digest] = []
    for level in levels[:-1]:
        if index ^ 1 < len(level):
            path.append(level[index ^ 1])
        index //= 2
    return tuple(path)


def _levels(leaves: Sequence[Digest]) -> list[list[Digest]]:
    if not leaves:
        raise MalformedValue("batch", "no leaves")
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        above = [_pair(below[i], below[i + 1]) for i in range(0, len(below) - 1, 2)]
        levels.append(above + ([below[-1]] if len(below) % 2 else []))
    return levels
