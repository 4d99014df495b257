"""The execution trace, which ties an answer to the computation and not only to its tokens (design section 4).

It has one leaf per generated token: the integer row that enters the output head (int16, little-endian), its exponent and the
token. With the artifact, the row determines the logits. Leaves are blinded by the nonce, so that a guess cannot be tested against
public data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.merkle import trace_tree_root
from bytewise.protocol.units import Digest

LEAF_VERSION = 1


@dataclass(frozen=True, slots=True)
class TraceStep:
    """The engine's state when it chose one token."""

    row: bytes
    """The quantised input row of the output head: int16 values, little-endian."""
    exponent: int
    """The exponent field E of the row's quantiser (64 to 254)."""
    token: int
    """The token that was chosen."""


def trace_leaves(nonce: Digest, steps: Sequence[TraceStep]) -> tuple[Digest, ...]:
    """Returns the blinded leaf of each step, in order."""
    blind = digests.derive(Label.TRACE_BLIND, nonce)
    return tuple(
        digests.labelled(Label.TRACE_LEAF, LEAF_VERSION, blind, i, step.row, step.exponent, step.token)
        for i, step in enumerate(steps)
    )


def trace_root(leaves: Sequence[Digest]) -> Digest:
    """Returns H(label, T, Merkle root), where T is the number of leaves."""
    return digests.labelled(Label.TRACE_ROOT, len(leaves), trace_tree_root(leaves))


def round_digest(round_seed: Digest, dispute: Digest, leaves: Sequence[Digest]) -> Digest:
    """Returns the round digest, which proves the work of a seat in this round.

    It cannot be computed without every leaf (design section 4).
    """
    return digests.labelled(Label.ROUND, round_seed, dispute, *leaves)
