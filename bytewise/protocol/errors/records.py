"""Rules R-01 to R-28 of `docs/reference/errors.md`: values, receipts, lists, batches, envelopes. One class per rule."""

from typing import ClassVar

from bytewise.protocol.errors.branches import EnvelopeFlaw, Fault, PointFlaw

# --- values and encodings ---


class MalformedValue(Fault):
    """A value is outside its type: its length, range or alphabet is wrong."""

    rule, template = "R-01", "malformed {0}: {1}"


class NotCanonical(Fault):
    """The bytes of a document do not re-encode to themselves (RFC 8785), for example because of a repeated key or a trailing
    byte."""

    rule, template = "R-02", "not canonical JSON: {0}"


class WrongFields(Fault):
    """A record has a missing or unknown field."""

    rule, template = "R-03", "{0}: missing fields {1}, unknown fields {2}"


class MerkleProofMismatch(Fault):
    """A Merkle proof does not lead from its leaf to the root."""

    rule, template = "R-04", "Merkle proof of leaf {0} does not lead to root {1}"


class BadSignature(Fault):
    """A signature does not recover to the expected signer."""

    rule, template = "R-05", "{0}: signature by {2}, expected {1}"


class MalformedPoint(MalformedValue):
    """Bytes are not a valid encoding of a P-256 point. Each point has exactly one valid encoding."""

    rule, template, reasons = "R-06", "malformed {0}: {1}", tuple(PointFlaw)


class TooLarge(NotCanonical):
    """A document exceeds its reader's limit in bytes, in brackets and commas, or in depth. The reader did not parse it."""

    rule, template = "R-07", "document too large: {0}"


# --- receipts, lists and batches ---


class ForeignChain(Fault):
    """A record is made for another chain than this one."""

    rule, template = "R-10", "record for chain {0}, this is chain {1}"


class SequenceBroken(Fault):
    """A sequence number is reused, missing or outside its batch."""

    rule, template = "R-11", "operator {0}: sequence number {1}, expected {2}"


class UnknownKeyEpoch(Fault):
    """A receipt names a key epoch that does not exist or was closed for new receipts."""

    rule, template = "R-12", "key epoch {0} is not open for inclusion"


class UnknownEnvironment(Fault):
    """A receipt names another environment, model, key epoch or GPU architecture than its batch or its environment. Or the chain
    does not know the document that a program asks for."""

    rule, template = "R-13", "receipt names {0} {1}, batch has {2}"


class RootMismatch(Fault):
    """The Merkle root of a list's receipts is not the root in the batch header."""

    rule, template = "R-14", "list has root {0}, batch {1} has {2}"


class ListMismatch(Fault):
    """A list does not fit its batch header: the hash, the operator, the first number or the count differs."""

    rule, template = "R-15", "batch {0}: list differs in {1}"


class AnchoredLate(Fault):
    """A receipt was anchored after the time in its own `anchorBy` field."""

    rule, template = "R-16", "receipt {0} anchored at {1}, after {2}"


# --- envelopes: defects of the record, each a code of an INVALID vote ---


class Defect(Fault):
    """A defect of a receipt or its envelope that every honest seat finds alike (design section 9, case 2).

    The vote contains its `code`.
    """

    code: ClassVar[int] = 0


class EnvelopeProofBad(Defect):
    """The envelope is malformed, or its proof fails under the recomputed seal context (altered or copied envelope)."""

    rule, template, code = "R-20", "envelope of receipt {0}: {1}", 1
    reasons = (*EnvelopeFlaw, *PointFlaw)


class EnvelopeDoesNotOpen(Defect):
    """The envelope does not open under the key that the shards computed (AEAD failure)."""

    rule, template, code = "R-21", "envelope of receipt {0} does not open", 2


class PlaintextNotCanonical(Defect):
    """The plaintext of the envelope is not exactly one canonical payload."""

    rule, template, code = "R-22", "plaintext of receipt {0}: {1}", 3


class RequestHashMismatch(Defect):
    """The request in the envelope does not have the hash that the receipt names."""

    rule, template, code = "R-23", "request hashes to {0}, receipt says {1}", 4


class TokensHashMismatch(Defect):
    """The output in the envelope does not have the hash that the receipt names."""

    rule, template, code = "R-24", "output hashes to {0}, receipt says {1}", 5


class ClientSignatureBad(Defect):
    """The client's signature over the request is invalid."""

    rule, template, code = "R-25", "client {0} did not sign request {1}", 6


class RequestDiffers(Defect):
    """A field of the request or of its environment differs from the receipt."""

    rule, template, code = "R-26", "request {0} is {1}, receipt says {2}", 7


class OutsideLimits(Defect):
    """A request or answer is outside the limits of the registered environment."""

    rule, template, code = "R-27", "{0} is {1}, the environment allows {2}", 8


class RequestExpired(Defect):
    """The request had expired when its batch was anchored."""

    rule, template, code = "R-28", "request expired at {0}, anchored at {1}", 9
