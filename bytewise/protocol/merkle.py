"""Two Merkle trees: the batch tree that contracts check, and the trace tree that only verifiers compute.

The batch tree is OpenZeppelin's: leaves hashed twice (so that no inner node passes as a leaf), each pair sorted before it is
hashed with keccak256, a lone last node promoted unchanged. The trace tree is SHA-256 with labels; a lone node is promoted.
"""

from collections.abc import Sequence

from bytewise.protocol.digests import Label, keccak256, keccak256_abi, labelled
from bytewise.protocol.errors import MalformedValue, MerkleProofMismatch
from bytewise.protocol.units import Digest


def batch_leaf(receipt_id: Digest, seq: int) -> Digest:
    """Leaf of a receipt (or empty leaf) in its batch: keccak256(keccak256(abi.encode(id, seq)))."""
    return keccak256(keccak256_abi(("bytes32", "uint64"), (receipt_id, seq)))


def batch_root(leaves: Sequence[Digest]) -> Digest:
    """Root of the batch tree; `MalformedValue` for an empty batch."""
    return _levels(leaves)[-1][0]


def batch_proof(leaves: Sequence[Digest], index: int) -> tuple[Digest, ...]:
    """Siblings of leaf `index` from the bottom up."""
    path: list[Digest] = []
    for level in _levels(leaves)[:-1]:
        if index ^ 1 < len(level):
            path.append(level[index ^ 1])
        index //= 2
    return tuple(path)


def verify_batch_proof(root: Digest, leaf: Digest, proof: Sequence[Digest]) -> Digest:
    """The leaf, if the proof leads from it to the root; otherwise `MerkleProofMismatch`."""
    node = leaf
    for sibling in proof:
        node = _pair(node, sibling)
    if node != root:
        raise MerkleProofMismatch(leaf.hex(), root.hex())
    return leaf


def trace_tree_root(leaves: Sequence[Digest]) -> Digest:
    """Merkle root of trace leaves in order; of no leaves, the labelled hash of nothing."""
    level = list(leaves)
    if not level:
        return labelled(Label.TRACE_NODE)
    while len(level) > 1:
        paired = [labelled(Label.TRACE_NODE, level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = paired + ([level[-1]] if len(level) % 2 else [])
    return level[0]


def _pair(left: Digest, right: Digest) -> Digest:
    return keccak256(min(left, right) + max(left, right))


def _levels(leaves: Sequence[Digest]) -> list[list[Digest]]:
    if not leaves:
        raise MalformedValue("batch", "no leaves")
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        above = [_pair(below[i], below[i + 1]) for i in range(0, len(below) - 1, 2)]
        levels.append(above + ([below[-1]] if len(below) % 2 else []))
    return levels
