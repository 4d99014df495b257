"""What an engine says of a request and of a claimed answer to it (design section 6)."""

import enum
from dataclasses import dataclass

from bytewise.protocol import digests, trace
from bytewise.protocol.request import Output
from bytewise.protocol.units import Digest


class DivergenceClass(enum.StrEnum):
    """Why a claim is not the answer."""

    TOKEN = "token"
    """A token that the computation does not give."""
    LENGTH = "length"
    """The answer goes on after its end, or stops before it."""
    STOP = "stop"
    """The finish reason or the counts are not the true ones."""
    TRACE = "trace"
    """True tokens under a trace root of another computation."""


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


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of checking one claim by one teacher-forced pass."""

    truth: Generated
    """The true answer; of a matching claim, the claim itself."""
    divergence: Divergence | None
    """None for a match."""
    verify_passes: int
    """Teacher-forced passes that it took on the primary backend: 1."""
