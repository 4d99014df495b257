"""Results of an engine: the answer to a request, and the comparison of a claim with it (design section 6)."""

import enum
from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.records import trace
from bytewise.protocol.records.receipt import Receipt
from bytewise.protocol.records.request import Output
from bytewise.protocol.units import Decimal, Digest


class DivergenceClass(enum.StrEnum):
    """Classes of wrong claims, by what the verifier can show (`docs/reference/exact-arithmetic.md`, section 9)."""

    TOKEN = "token"
    """The computation gives another token: the text was altered afterwards, or the token is outside the vocabulary."""
    SAMPLER = "sampler"
    """Another token over exactly this model's rows: the numbers are right, and the sampled token is not the request's."""
    MODEL = "model"
    """Another token, and the committed rows are not this model's for these tokens: another model or another prompt."""
    LENGTH = "length"
    """The answer goes on after its end, or stops before it."""
    STOP = "stop"
    """The tokens are right, and another field of the output is wrong: finish reason, counts or blind."""
    TRACE = "trace"
    """The output is right, and the trace root is of another computation."""


@dataclass(frozen=True, slots=True)
class Generated:
    """The one answer to a request, with the leaves that prove its computation."""

    output: Output
    """Tokens, finish reason, counts."""
    leaves: tuple[Digest, ...]
    """Blinded trace leaf of each token."""

    @property
    def trace_root(self) -> Digest:
        """Root over the leaves."""
        return trace.trace_root(self.leaves)

    @property
    def out_hash(self) -> Digest:
        """The hash that byte equality compares."""
        return digests.out_hash(self.output.tokens_hash, self.trace_root)


@dataclass(frozen=True, slots=True)
class Divergence:
    """Place and class of the difference between a claim and the true answer. It is as sensitive as the plaintext and must not
    leave the process with the plaintext."""

    position: int
    """Index of the first token that differs; the number of tokens if only the trace differs."""
    kind: DivergenceClass
    """Class of the difference."""
    expected: int | None
    """The true token, or None past the true end."""
    claimed: int | None
    """The claimed token, or None past the claimed end."""
    gap: Decimal | None = None
    """Exact gap between the two largest logits at that position; None if there are no two logits to compare."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of checking one claim by one teacher-forced pass."""

    truth: Generated
    """The true answer. For a matching claim it is the claim itself."""
    divergence: Divergence | None
    """The difference, or None for a match."""
    verify_passes: int
    """Teacher-forced passes that it took on the primary backend: 1."""


def differing_fields(receipt: Receipt, tokens_hash: Digest, trace_root: Digest) -> tuple[str, ...]:
    """Names of the receipt's fields that differ from an honest re-execution; empty if all are equal.

    `tokens_hash` and `trace_root` are the re-execution's. Both fields are compared because an operator signs each of them: true
    rows under altered tokens keep `outHash`, and false rows under true tokens keep `tokensHash` (design section 9).
    """
    claimed = (("tokensHash", receipt.tokens_hash, tokens_hash),
               ("outHash", receipt.out_hash, digests.out_hash(tokens_hash, trace_root)))  # fmt: skip
    return tuple(name for name, signed, found in claimed if signed != found)
