"""What an engine says of a request and of a claimed answer to it (design section 6)."""

import enum
from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.records import trace
from bytewise.protocol.records.receipt import Receipt
from bytewise.protocol.records.request import Output
from bytewise.protocol.units import Decimal, Digest


class DivergenceClass(enum.StrEnum):
    """Why a claim is not the answer, by what the verifier can show (`docs/reference/exact-arithmetic.md`, section 9)."""

    TOKEN = "token"
    """Another token than the computation gives: the text was altered after it, or names no token of the vocabulary."""
    SAMPLER = "sampler"
    """Another token, over exactly this model's rows: its numbers are right, and the choice among them is not the request's."""
    MODEL = "model"
    """Another token, and the committed rows are not those of this model for these tokens: another model or another prompt."""
    LENGTH = "length"
    """The answer goes on after its end, or stops before it."""
    STOP = "stop"
    """The tokens are true; what else the output states (finish reason, counts, blind) is not."""
    TRACE = "trace"
    """A true output under a trace root of another computation."""


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
        """What byte equality compares."""
        return digests.out_hash(self.output.tokens_hash, self.trace_root)


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where and how a claim leaves the truth. Plaintext-equivalent: stays where the plaintext is."""

    position: int
    """Index of the first divergent token; the number of tokens where only the trace differs."""
    kind: DivergenceClass
    """Why."""
    expected: int | None
    """The true token, or None past the true end."""
    claimed: int | None
    """The claimed token, or None past the claimed end."""
    gap: Decimal | None = None
    """How far the largest logit was above the second at that position, exactly; None where no two logits compete."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of checking one claim by one teacher-forced pass."""

    truth: Generated
    """The true answer; of a matching claim, the claim itself."""
    divergence: Divergence | None
    """None for a match."""
    verify_passes: int
    """Teacher-forced passes that it took on the primary backend: 1."""


def differing_fields(receipt: Receipt, tokens_hash: Digest, trace_root: Digest) -> tuple[str, ...]:
    """The receipt's fields that an honest re-execution determines and that are not what it gave; empty if it is equal.

    `tokens_hash` and `trace_root` are the re-execution's. Both fields are compared, since an operator signs each by itself: true
    rows under altered tokens keep `outHash`, and false rows under true tokens keep `tokensHash` (design section 9).
    """
    claimed = (("tokensHash", receipt.tokens_hash, tokens_hash),
               ("outHash", receipt.out_hash, digests.out_hash(tokens_hash, trace_root)))  # fmt: skip
    return tuple(name for name, signed, found in claimed if signed != found)
