"""Rules R-70 and up of `docs/reference/errors.md`: why enclave evidence, or a policy for it, is refused. One class per rule."""

from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.errors.reasons import ChannelFlaw, PointFlaw


class EvidenceMalformed(EvidenceRefused):
    """The bytes are no evidence, or there are too many of them."""

    rule, template = "R-70", "evidence is malformed: {0}"


class EvidenceExpired(EvidenceRefused):
    """Evidence, collateral or one of its certificates has expired."""

    rule, template = "R-71", "evidence has expired: {0}"


class EvidenceFromFuture(EvidenceRefused):
    """Evidence or collateral was issued later than now: one of two clocks is wrong, or the sender lies."""

    rule, template = "R-72", "evidence is from the future: {0}"


class EvidenceReplayed(EvidenceRefused):
    """Evidence is for another purpose than the one asked for: replayed, relayed, or with GPU claims for another nonce."""

    rule, template = "R-73", "evidence is replayed: {0}"


class UntrustedRoot(EvidenceRefused):
    """The certificates of the evidence lead to no root that is trusted for its type."""

    rule, template = "R-74", "evidence has no trusted root: {0}"


class TcbRefused(EvidenceRefused):
    """A genuine platform is in a state that the policy does not accept."""

    rule, template = "R-75", "platform refused: {0}"


class MeasurementRefused(EvidenceRefused):
    """A genuine platform runs a program that the policy does not name."""

    rule, template = "R-76", "program refused: {0}"


class PolicyRefused(Fault):
    """An appraisal policy may not follow the one in force: too few signatures, an old serial, or not yet."""

    rule, template = "R-77", "policy {0} refused: {1}"


class ChannelRefused(Fault):
    """A peer completed the TLS handshake, but then this side of the channel refused its message or its proof."""

    rule, template = "R-78", "attested channel refused: {0}: {1}"
    reasons = (*ChannelFlaw, *PointFlaw)


class ChannelBroken(Unavailable):
    """An attested channel failed to open or ended: closed, silent for too long, or cut on the way."""

    rule, template = "R-79", "attested channel {0}: {1}"


class EvidenceTooLarge(EvidenceMalformed):
    """Evidence, or a part of it, is larger than the limit for parsing."""

    rule, template = "R-7A", "evidence is too large: {0}"
