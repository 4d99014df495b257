"""The secret schedule of attention tests: which receipts of an operator are false, and how.

For receipt number `seq` of the range, HMAC-SHA256(key, label, seq) draws whether it is false. Without the key nobody can tell the
draw from chance. A commitment fixes range, rate and key before the range begins; the key, revealed afterwards, lets anyone draw
again.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

from bytewise.protocol.digests import Label, keyed, labelled
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import U64, U256, Address, Digest, hex0x

RATE_UNIT = 1_000_000
"""Rates are counted in parts of this."""
MOST_RECEIPTS = 1_000_000
"""Largest range. A draw costs nine microseconds, and whoever scores a reveal makes all of them."""
COMMITMENT_PREFIX = "bytewise/attention-tests/"
"""Start of the stop string that carries a commitment; its digest follows as 0x-hex."""

_CHANCE_BITS = 64


class FraudKind(enum.StrEnum):
    """Kinds of false answers. Each is a wrong claim that any re-execution refutes, whoever opens the envelope."""

    TOKEN = "token"
    """One token is changed; the trace is that of the true computation."""
    TRACE = "trace"
    """True tokens with a forged trace, as of an answer that was never computed."""
    TEXT = "text"
    """One token is changed, and `out_hash` is that of the true answer."""


@dataclass(frozen=True, slots=True)
class AttentionTerms:
    """The public part of a schedule: what is announced by the commitment, and known to others after the reveal."""

    chain_id: U256
    """EIP-155 chain id."""
    operator: Address
    """The fund's operator."""
    first: U64
    """Number of the first receipt of the range."""
    last: U64
    """Number of the last receipt of the range."""
    rate_ppm: int
    """Chance that a receipt of the range is false, in parts per million."""

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last < self.first + MOST_RECEIPTS:
            raise MalformedValue("range", f"{self.first} to {self.last}: not 1 to {MOST_RECEIPTS} receipts from number 1 on")
        if isinstance(self.rate_ppm, bool) or not 1 <= self.rate_ppm <= RATE_UNIT:
            raise MalformedValue("rate_ppm", f"{self.rate_ppm}: not from 1 to {RATE_UNIT}")

    @property
    def count(self) -> int:
        """Number of receipts of the range."""
        return self.last - self.first + 1

    @property
    def expected(self) -> float:
        """Mean number of false receipts of the range at its rate."""
        return self.count * self.rate_ppm / RATE_UNIT


@dataclass(frozen=True, slots=True)
class FraudSchedule:
    """Terms with the key that draws. Before the reveal it is a secret of the fund: no text form shows the key."""

    terms: AttentionTerms
    """The public part."""
    key: Digest = field(repr=False)
    """32 random bytes, drawn for this schedule only."""

    @property
    def commitment(self) -> Digest:
        """Labelled hash of terms and key. It binds both, and hides them as long as the key is secret."""
        return labelled(Label.ATTENTION_COMMITMENT, encode(self.terms), self.key)

    @property
    def stop_string(self) -> str:
        """The commitment as a stop string of a request, whose `req_hash` then carries it."""
        return COMMITMENT_PREFIX + hex0x(self.commitment)

    def fraud_at(self, seq: int) -> FraudKind | None:
        """How the receipt of this number is false; None for a true one and outside the range."""
        if not self.terms.first <= seq <= self.terms.last:
            return None
        drawn = keyed(Label.ATTENTION_DRAW, self.key, seq)
        # The first 8 bytes draw whether, the next ones draw how: the two draws are independent.
        chance, how = int.from_bytes(drawn[:8]), int.from_bytes(drawn[8:16])
        kinds = tuple(FraudKind)
        return kinds[how % len(kinds)] if chance * RATE_UNIT < self.terms.rate_ppm << _CHANCE_BITS else None

    def frauds(self) -> Iterator[tuple[int, FraudKind]]:
        """All false receipts of the range in order: number and kind."""
        for seq in range(self.terms.first, self.terms.last + 1):
            kind = self.fraud_at(seq)
            if kind is not None:
                yield seq, kind
