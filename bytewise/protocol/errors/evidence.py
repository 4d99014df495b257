"""Rules R-70 and up of `docs/reference/errors.md`: evidence of enclaves, appraisal policies and attested channels.

One class per rule.
"""

from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.branches import ChannelFlaw, Fault, PointFlaw, Unavailable


class EvidenceMalformed(EvidenceRefused):
    """The bytes are not valid evidence."""

    rule, template = "R-70", "evidence is malformed: {0}"


class EvidenceExpired(EvidenceRefused):
    """Evidence, its collateral or one of its certificates has expired."""

    rule, template = "R-71", "evidence has expired: {0}"


class EvidenceFromFuture(EvidenceRefused):
    """Evidence or collateral was issued later than now. Either one of two clocks is wrong, or the sender lies."""

    rule, template = "R-72", "evidence is from the future: {0}"


class EvidenceReplayed(EvidenceRefused):
    """Evidence is bound to other data, or to another GPU nonce, than this side asked for. It was replayed or relayed."""

    rule, template = "R-73", "evidence is replayed: {0}"


class UntrustedRoot(EvidenceRefused):
    """The certificates of the evidence do not lead to a root that is trusted for this type of evidence."""

    rule, template = "R-74", "evidence has no trusted root: {0}"


class TcbRefused(EvidenceRefused):
    """The platform is genuine, but in a state that the appraisal policy does not accept."""

    rule, template = "R-75", "platform refused: {0}"


class MeasurementRefused(EvidenceRefused):
    """The platform is genuine, but runs a program that the appraisal policy does not list."""

    rule, template = "R-76", "program refused: {0}"


class PolicyRefused(Fault):
    """An appraisal policy may not replace the one in force: it has too few signatures, an old serial, or must still wait."""

    rule, template = "R-77", "policy {0} refused: {1}"


class ChannelRefused(Fault):
    """This side of an attested channel refused the peer's certificate, message or proof."""

    rule, template = "R-78", "attested channel refused: {0}: {1}"
    reasons = (*ChannelFlaw, *PointFlaw)


class ChannelBroken(Unavailable):
    """An attested channel failed to open or ended: it was closed, was silent for too long, or was cut on the way."""

    rule, template = "R-79", "attested channel {0}: {1}"


class EvidenceTooLarge(EvidenceMalformed):
    """Evidence, or a part of it, is larger than the limit up to which it is parsed."""

    rule, template = "R-7A", "evidence is too large: {0}"
