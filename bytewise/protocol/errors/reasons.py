"""Reasons: fixed words that tell the causes of one rule apart, for logs and for programs that match on them (ADR-056).

A reason is the last value of its error. It depends only on public data: records, envelopes, tickets, evidence, clocks. A word
never changes its meaning; a new cause gets a new word.
"""

import enum


class PointFlaw(enum.StrEnum):
    """Why bytes are no P-256 point (SEC 1, 2.3.4). The first that applies, in this order."""

    EMPTY = "empty"
    """There are no bytes."""
    IDENTITY = "identity"
    """The point at infinity, which no key and no commitment may be: one zero byte, or both coordinates zero."""
    COMPRESSED = "compressed"
    """The bytes start like a compressed point, which would be a second encoding of the same point."""
    OTHER_FORM = "other-form"
    """The first byte is neither that of an uncompressed nor that of a compressed point."""
    SHORT = "short"
    """Fewer than 65 bytes."""
    TRAILING = "trailing-bytes"
    """More than 65 bytes."""
    ABOVE_FIELD = "coordinate-above-field"
    """A coordinate is not below the prime. Reduced, it would be a second encoding."""
    OFF_CURVE = "off-curve"
    """The coordinates do not satisfy the equation."""


class EnvelopeFlaw(enum.StrEnum):
    """Why an envelope is refused before any share is used. For a malformed point in it, the reason is a `PointFlaw`."""

    OTHER_BYTES = "other-bytes"
    """The bytes are not those that the receipt names."""
    TOO_LARGE = "too-large"
    """It has more bytes, or more brackets and commas, than any envelope."""
    NOT_CANONICAL = "not-canonical"
    """It is no canonical JSON."""
    WRONG_FIELDS = "wrong-fields"
    """Members are missing or unknown."""
    MALFORMED = "malformed-value"
    """A member is outside its type, or a scalar is invalid."""
    OTHER_SUITE = "other-suite"
    """Its suite is not that of the receipt's epoch."""
    OTHER_EPOCH = "other-epoch"
    """It names another key epoch than the receipt."""
    OTHER_PARTS = "other-parts"
    """It does not have one part for each shard of its epoch."""
    NO_BUCKET = "no-bucket"
    """The length of its ciphertext is none that padding gives."""
    PROOF = "proof"
    """The proof fails: the envelope was altered, or made for another receipt, contract or chain."""


class TicketFlaw(enum.StrEnum):
    """Why a ticket gives no right to a key."""

    OTHER_RECEIPT = "other-receipt"
    """It is for another receipt than the one that came with it."""
    OTHER_KEY = "other-transport-key"
    """It is for another transport key than the channel's."""
    OTHER_EPOCH = "other-epoch"
    """It is for another key epoch than the receipt's."""
    OTHER_DISPUTE = "other-dispute"
    """It is for a dispute about another receipt."""
    OTHER_BATCH = "other-batch"
    """It came with a batch of another operator, environment, model or key epoch."""
    OTHER_JOB = "other-job"
    """It came with a job about something else than the enclave was asked to judge."""
    UNKNOWN_KIND = "unknown-kind"
    """It is neither for a dispute nor for an audit."""
    EXPIRED = "expired"
    """It has expired by the protocol clock."""
    ROUND_OVER = "round-over"
    """It is for a round whose votes are over."""
    NO_SEAT = "no-seat"
    """Its voter has no seat in the round."""
    NO_AUDIT = "no-audit"
    """It is for an audit, with a subject or round that no audit has."""
    WINDOW_OVER = "window-over"
    """It is for an audit of a batch whose window is over, or whose beacon the chain has lost."""
    NOT_DRAWN = "not-drawn"
    """Its voter was not drawn to audit this receipt."""


class ChannelFlaw(enum.StrEnum):
    """Why a peer's message is refused, if the rule alone does not say it."""

    TOO_LARGE = "too-large"
    """It is longer than any message of its kind."""


class ClockFlaw(enum.StrEnum):
    """Contradictions between the times that a process reads."""

    APART = "apart-from-chain"
    """Our clock and the newest final block are too far apart."""
    WENT_BACK = "before-last-start"
    """It is earlier than the last start of this process."""
