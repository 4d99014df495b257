"""Reasons: the fixed words by which one rule tells its causes apart, for logs and whoever matches on them (ADR-056).

A reason is the last value of its error. It depends on nothing but what is public: records, envelopes, tickets, evidence, clocks.
A word never changes its meaning; a new cause is a new word.
"""

import enum


class PointFlaw(enum.StrEnum):
    """Why bytes are no P-256 point (SEC 1, 2.3.4). The first that applies, in this order."""

    EMPTY = "empty"
    """No bytes."""
    IDENTITY = "identity"
    """The one point that no key and no commitment may be: one zero byte, or both coordinates zero."""
    COMPRESSED = "compressed"
    """Begins as a compressed point does: a second encoding of what must have one."""
    OTHER_FORM = "other-form"
    """Begins with neither a form of SEC 1 that is ours nor a compressed one."""
    SHORT = "short"
    """Less than 65 bytes."""
    TRAILING = "trailing-bytes"
    """More than 65 bytes."""
    ABOVE_FIELD = "coordinate-above-field"
    """A coordinate that is not below the prime: reduced, it would be a second encoding."""
    OFF_CURVE = "off-curve"
    """The coordinates do not satisfy the equation."""


class EnvelopeFlaw(enum.StrEnum):
    """Why an envelope is refused before any share is used; a point in it that is none has the word of its `PointFlaw`."""

    OTHER_BYTES = "other-bytes"
    """Not the bytes that the receipt names."""
    TOO_LARGE = "too-large"
    """More bytes, or more brackets and commas, than any envelope has."""
    NOT_CANONICAL = "not-canonical"
    """No canonical JSON."""
    WRONG_FIELDS = "wrong-fields"
    """Missing or unknown members."""
    MALFORMED = "malformed-value"
    """A member outside its type, or a scalar that is none."""
    OTHER_SUITE = "other-suite"
    """Of another suite than the receipt's epoch."""
    OTHER_EPOCH = "other-epoch"
    """Says another key epoch than the receipt."""
    OTHER_PARTS = "other-parts"
    """Not one part for each shard of its epoch."""
    NO_BUCKET = "no-bucket"
    """A ciphertext of a length that padding never gives."""
    PROOF = "proof"
    """The proof does not hold: the envelope was altered or shifted, or made for another receipt, contract or chain."""


class TicketFlaw(enum.StrEnum):
    """Why a ticket gives no right to a key."""

    OTHER_RECEIPT = "other-receipt"
    """For another receipt than the one that came with it."""
    OTHER_KEY = "other-transport-key"
    """For another transport key than the channel's."""
    OTHER_EPOCH = "other-epoch"
    """For another key epoch than the receipt's."""
    OTHER_DISPUTE = "other-dispute"
    """For a dispute about another receipt."""
    OTHER_BATCH = "other-batch"
    """With a batch of another operator or epoch."""
    OTHER_JOB = "other-job"
    """Beside something else than this enclave was asked to judge."""
    UNKNOWN_KIND = "unknown-kind"
    """Neither for a dispute nor for an audit."""
    EXPIRED = "expired"
    """By the protocol's time."""
    ROUND_OVER = "round-over"
    """For a round that can no longer be voted in."""
    NO_SEAT = "no-seat"
    """By who has no seat in the round."""
    NO_AUDIT = "no-audit"
    """For an audit, with a subject or round that none has."""
    WINDOW_OVER = "window-over"
    """For an audit of a batch whose window is over."""
    NOT_DRAWN = "not-drawn"
    """By who was not drawn to audit this receipt."""


class ChannelFlaw(enum.StrEnum):
    """Why a peer's words are refused, where its rule alone does not say it."""

    TOO_LARGE = "too-large"
    """Longer than any message of its kind."""


class ClockFlaw(enum.StrEnum):
    """What is wrong between the times that a process has."""

    APART = "apart-from-chain"
    """Our clock and the newest final block are too far from each other."""
    WENT_BACK = "before-last-start"
    """It is earlier than this process last started."""
