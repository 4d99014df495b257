"""The answer of an engine with its execution trace, and the comparison of a claimed answer with it (design sections 4 and 6).

The trace ties an answer to the computation and not only to its tokens. It has one leaf per generated token: the integer row that
enters the output head (int16, little-endian), its exponent and the token. With the artifact, the row determines the logits. The
nonce blinds the leaves, so that nobody can test a guess against public data.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.merkle import trace_tree_root
from bytewise.protocol.records.receipt import Receipt
from bytewise.protocol.records.request import Output
from bytewise.protocol.units import Decimal, Digest

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


class DivergenceClass(enum.StrEnum):
    """Classes of wrong claims, by what the verifier can show (`docs/reference/exact-arithmetic.md`, section 9)."""

    TOKEN = "token"
    """The computation gives another token: the text was altered after the computation, or the token is outside the vocabulary."""
    SAMPLER = "sampler"
    """The committed rows are this model's, but sampling from them with the request's parameters gives another token."""
    MODEL = "model"
    """A token differs, and the committed rows are not this model's for these tokens. Another model or prompt was used."""
    LENGTH = "length"
    """All common tokens are equal, but the claimed answer is longer or shorter than the true one."""
    STOP = "stop"
    """The tokens are right, but another field of the output is wrong: finish reason, counts or blind."""
    TRACE = "trace"
    """The output is right, but the trace root is that of another computation."""


@dataclass(frozen=True, slots=True)
class Generated:
    """The one true answer to a request, with the trace leaves that prove its computation."""

    output: Output
    """Output record with tokens, finish reason and counts."""
    leaves: tuple[Digest, ...]
    """Blinded trace leaf of each token."""

    @property
    def trace_root(self) -> Digest:
        """Merkle root over the trace leaves, with their count."""
        return trace_root(self.leaves)

    @property
    def out_hash(self) -> Digest:
        """The `outHash` of a receipt for this answer."""
        return digests.out_hash(self.output.tokens_hash, self.trace_root)


@dataclass(frozen=True, slots=True)
class Divergence:
    """Place and class of the difference between a claimed and the true answer.

    It is as sensitive as the plaintext, and must not leave the process that sees the plaintext.
    """

    position: int
    """Index of the first token that differs. If no token differs, the number of tokens of the shorter answer."""
    kind: DivergenceClass
    """Class of the difference."""
    expected: int | None
    """The true token, or None past the end of the true answer."""
    claimed: int | None
    """The claimed token, or None past the end of the claimed answer."""
    gap: Decimal | None = None
    """Exact distance between the two largest adjusted logits at that position; None if there are no two logits to compare."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of checking one claimed answer. The engine feeds the claimed tokens once through the model (teacher-forced pass)."""

    truth: Generated
    """The true answer. It equals the claimed one if they match."""
    divergence: Divergence | None
    """The difference, or None if the claimed answer matches."""
    verify_passes: int
    """Number of teacher-forced passes on the primary backend, which is 1."""


def differing_fields(receipt: Receipt, tokens_hash: Digest, trace_root: Digest) -> tuple[str, ...]:
    """Returns the names of the receipt's fields that differ from an honest re-execution; empty if all are equal.

    `tokens_hash` and `trace_root` are the re-execution's. The operator signs both fields and may falsify only one of them:
    altered tokens beside the true `outHash`, or true tokens beside a false `outHash` (design section 9).
    """
    claimed = (("tokensHash", receipt.tokens_hash, tokens_hash),
               ("outHash", receipt.out_hash, digests.out_hash(tokens_hash, trace_root)))  # fmt: skip
    return tuple(name for name, signed, found in claimed if signed != found)
