"""The secret schedule of attention tests: which receipts of an operator are false, and how they are made false.

For receipt number `seq` of a range, HMAC-SHA256(key, label, seq) draws whether the receipt is false. Without the key nobody can
tell the draw from chance. A commitment fixes range, rate and key before the range begins. The key is revealed afterwards, so
anyone can draw again.

A false answer is sealed and signed as usual. Only a re-execution shows that it is wrong.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from bytewise.protocol.digests import Label, keyed, labelled
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.request import Request, output_for
from bytewise.protocol.records.trace import Generated
from bytewise.protocol.units import U64, U256, Address, Digest, hex0x

RATE_UNIT = 1_000_000
"""Rates are given as parts of this number: parts per million."""
MOST_RECEIPTS = 1_000_000
"""Most receipts in a range. One draw costs nine microseconds, and the scorer of a reveal makes all draws of the range."""
COMMITMENT_PREFIX = "bytewise/attention-tests/"
"""Start of the stop string that carries a commitment. The digest of the commitment follows as 0x-hex."""

_CHANCE_BITS = 64


class FraudKind(enum.StrEnum):
    """Kinds of false answers. Anybody that opens the envelope and runs the request again refutes each of them."""

    TOKEN = "token"
    """One token is changed. The trace is that of the true computation."""
    TRACE = "trace"
    """The tokens are true, but the trace is forged, as for an answer that was never computed."""
    TEXT = "text"
    """One token is changed, and the receipt states the `out_hash` of the true answer."""


@dataclass(frozen=True, slots=True)
class AttentionTerms:
    """The public part of a schedule. The commitment fixes it, and the reveal publishes it."""

    chain_id: U256
    """EIP-155 chain id."""
    operator: Address
    """Account of the fund's operator."""
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
        """Number of receipts in the range."""
        return self.last - self.first + 1

    @property
    def expected(self) -> float:
        """Mean number of false receipts in the range at this rate."""
        return self.count * self.rate_ppm / RATE_UNIT


@dataclass(frozen=True, slots=True)
class FraudSchedule:
    """The terms and the key of a schedule. Before the reveal the key is a secret of the fund, so `repr` does not show it."""

    terms: AttentionTerms
    """The public part of the schedule."""
    key: Digest = field(repr=False)
    """32 random bytes that are used for this schedule only."""

    @property
    def commitment(self) -> Digest:
        """Labelled hash of terms and key. It fixes both, and hides them as long as the key is secret."""
        return labelled(Label.ATTENTION_COMMITMENT, encode(self.terms), self.key)

    @property
    def stop_string(self) -> str:
        """The commitment as a stop string of a request. The request's `req_hash` then covers the commitment."""
        return COMMITMENT_PREFIX + hex0x(self.commitment)

    def fraud_at(self, seq: int) -> FraudKind | None:
        """Returns the kind of fraud in the receipt of this number. Returns None for a true receipt and outside the range."""
        if not self.terms.first <= seq <= self.terms.last:
            return None
        drawn = keyed(Label.ATTENTION_DRAW, self.key, seq)
        # The first 8 bytes draw whether the receipt is false, the next 8 draw the kind. The two draws are independent.
        chance, how = int.from_bytes(drawn[:8]), int.from_bytes(drawn[8:16])
        kinds = tuple(FraudKind)
        return kinds[how % len(kinds)] if chance * RATE_UNIT < self.terms.rate_ppm << _CHANCE_BITS else None

    def frauds(self) -> Iterator[tuple[int, FraudKind]]:
        """Yields number and kind of every false receipt of the range, in order."""
        for seq in range(self.terms.first, self.terms.last + 1):
            kind = self.fraud_at(seq)
            if kind is not None:
                yield seq, kind


@dataclass(frozen=True, slots=True)
class RelabelledAnswer(Generated):
    """An answer with the `out_hash` of another answer."""

    claimed: Digest
    """The `out_hash` of the other answer."""

    @property
    def out_hash(self) -> Digest:
        """The `out_hash` that the receipt states."""
        return self.claimed


def false_answer(kind: FraudKind, request: Request, true: Generated) -> Generated:
    """Returns a false answer of this kind, made from the true one.

    An answer without tokens gets a false finish reason instead.
    """
    if not true.output.token_ids:
        reason = "length" if true.output.finish_reason == "stop" else "stop"
        return replace(true, output=output_for(request, (), reason, true.output.logprobs))
    if kind is FraudKind.TRACE:
        return forge_trace(true)
    altered = alter_token(request, true)
    return altered if kind is FraudKind.TOKEN else RelabelledAnswer(altered.output, altered.leaves, true.out_hash)


def alter_token(request: Request, true: Generated) -> Generated:
    """Returns the true answer with its middle token replaced by a neighbouring id.

    The trace stays that of the true computation.
    """
    tokens = list(true.output.token_ids)
    middle = len(tokens) // 2
    tokens[middle] = tokens[middle] + 1 if tokens[middle] == 0 else tokens[middle] - 1
    return Generated(output_for(request, tuple(tokens), true.output.finish_reason, true.output.logprobs), true.leaves)


def forge_trace(true: Generated) -> Generated:
    """Returns the true answer with its first trace leaf forged."""
    forged = labelled(Label.TRACE_LEAF, b"forged", true.leaves[0])
    return replace(true, leaves=(forged, *true.leaves[1:]))
