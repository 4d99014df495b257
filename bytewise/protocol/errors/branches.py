"""The root of all errors, its three branches, and the reasons of errors. The branch decides behaviour.

`Fault`: the other side is provably wrong and may be challenged. `Unavailable`: this program cannot tell which side is wrong, so
it retries and accuses nobody. `Bug`: this program is wrong, so it stops. To choose a branch, ask whether an honest counterpart
behind a bad network could cause the error. If so, the branch is `Unavailable`.

A reason is a fixed word that distinguishes the causes of one rule, for logs and for programs that match on it (ADR-056). A reason
is the last value of its error. It depends only on public data: records, envelopes, tickets, evidence, clocks. A word never
changes its meaning; a new cause gets a new word.
"""

import enum
from typing import ClassVar


class BytewiseError(Exception):
    """Root of all errors. `rule` is the number in `docs/reference/errors.md`; `values` are the offending values.

    A rule with several causes lists their fixed words in `reasons`. If an error has a reason, its last value is one of these
    words.
    """

    rule: ClassVar[str] = ""
    template: ClassVar[str] = "{0}"
    reasons: ClassVar[tuple[enum.StrEnum, ...]] = ()

    def __init__(self, *values: object) -> None:
        self.values = values
        super().__init__(f"[{self.rule}] " + self.template.format(*values, *[""] * 4))

    @property
    def reason(self) -> str:
        """The fixed word for the cause; empty if the error has none."""
        return str(self.values[-1]) if self.values and self.values[-1] in self.reasons else ""


class Fault(BytewiseError):
    """The other side is provably wrong and may be challenged."""


class Unavailable(BytewiseError):
    """This program cannot tell which side is wrong. It retries within a bound and accuses nobody."""


class Bug(BytewiseError):
    """This program is wrong and stops."""


class PointFlaw(enum.StrEnum):
    """Reasons why bytes are not a P-256 point (SEC 1, 2.3.4). The first reason that applies, in this order, is reported."""

    EMPTY = "empty"
    """There are no bytes."""
    IDENTITY = "identity"
    """The bytes are the point at infinity: one zero byte, or both coordinates zero. It is forbidden for keys and commitments."""
    COMPRESSED = "compressed"
    """The bytes start like a compressed point, which would be a second encoding of the same point."""
    OTHER_FORM = "other-form"
    """The first byte is neither that of an uncompressed nor that of a compressed point."""
    SHORT = "short"
    """There are fewer than 65 bytes."""
    TRAILING = "trailing-bytes"
    """There are more than 65 bytes."""
    ABOVE_FIELD = "coordinate-above-field"
    """A coordinate is not below the prime. If it were reduced, it would be a second encoding of the same point."""
    OFF_CURVE = "off-curve"
    """The coordinates do not satisfy the curve equation."""


class EnvelopeFlaw(enum.StrEnum):
    """Reasons why an envelope is refused before any share is used.

    For a malformed point in the envelope, the reason is a `PointFlaw`.
    """

    OTHER_BYTES = "other-bytes"
    """The bytes are not those that the receipt names."""
    TOO_LARGE = "too-large"
    """The envelope has more bytes, or more brackets and commas, than a valid envelope can have."""
    NOT_CANONICAL = "not-canonical"
    """The envelope is not canonical JSON."""
    WRONG_FIELDS = "wrong-fields"
    """Members of the envelope are missing or unknown."""
    MALFORMED = "malformed-value"
    """A member of the envelope is outside its type, or a scalar is invalid."""
    OTHER_SUITE = "other-suite"
    """The envelope's suite is not that of the receipt's key epoch."""
    OTHER_EPOCH = "other-epoch"
    """The envelope names another key epoch than the receipt."""
    OTHER_PARTS = "other-parts"
    """The envelope does not have one part for each shard of its key epoch."""
    NO_BUCKET = "no-bucket"
    """The ciphertext has a length that padding never gives."""
    PROOF = "proof"
    """The proof fails: the envelope was altered, or made for another receipt, contract or chain."""


class TicketFlaw(enum.StrEnum):
    """Reasons why a ticket gives no right to a partial."""

    OTHER_RECEIPT = "other-receipt"
    """The ticket is for another receipt than the one that came with it."""
    OTHER_KEY = "other-transport-key"
    """The ticket is for another transport key than that of the attested channel."""
    OTHER_EPOCH = "other-epoch"
    """The ticket is for another key epoch than the receipt's."""
    OTHER_DISPUTE = "other-dispute"
    """The ticket is for a dispute about another receipt."""
    OTHER_BATCH = "other-batch"
    """The ticket came with a batch of another operator, environment, model or key epoch."""
    OTHER_JOB = "other-job"
    """The ticket came with a job about another subject than the enclave was asked to judge."""
    UNKNOWN_KIND = "unknown-kind"
    """The ticket is neither for a dispute nor for a light audit."""
    EXPIRED = "expired"
    """The ticket has expired by the protocol clock."""
    ROUND_OVER = "round-over"
    """The ticket is for a round in which votes are no longer accepted."""
    NO_SEAT = "no-seat"
    """The ticket's voter has no seat in the round."""
    NO_AUDIT = "no-audit"
    """The ticket is for a light audit, but its subject or round is impossible for one."""
    WINDOW_OVER = "window-over"
    """The ticket is for a light audit of a batch whose challenge window is over, or whose beacon the chain no longer has."""
    NOT_DRAWN = "not-drawn"
    """The ticket's voter was not drawn to audit this receipt."""


class ChannelFlaw(enum.StrEnum):
    """Reasons why a peer's message on an attested channel is refused.

    Only a refusal whose cause is not clear from the rule has such a reason.
    """

    TOO_LARGE = "too-large"
    """The message is longer than any valid message of its kind."""


class ClockFlaw(enum.StrEnum):
    """Contradictions between the times that a process reads."""

    APART = "apart-from-chain"
    """The clock of this machine and the newest final block are too far apart."""
    WENT_BACK = "before-last-start"
    """The clock is earlier than the last start of this process."""
