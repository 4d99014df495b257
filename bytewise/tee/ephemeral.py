"""The key of one end of one attested channel, in a certificate of its own that says nothing but the key and ten minutes."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bytewise.protocol import digests
from bytewise.protocol.errors import ChannelRefused
from bytewise.protocol.units import Digest
from bytewise.tee.certificates import UNREADABLE

LIFETIME_S = 600
"""From the first to the last second of a certificate, and the longest life of a channel."""

SKEW_S = 60
"""The certificate starts this much earlier, for peers whose clock is behind; one whose clock is ahead has as much less of it."""


class EphemeralKey:
    """A fresh P-256 key with its certificate; never printed, never stored."""

    __slots__ = ("certificate", "key")

    def __init__(self, now: int) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        start = datetime.datetime.fromtimestamp(now - SKEW_S, datetime.UTC)
        # Who has the key is told by evidence: a name here would be the sender's word.
        nobody = x509.Name([])
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(nobody)
            .issuer_name(nobody)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + datetime.timedelta(seconds=LIFETIME_S))
            .sign(self.key, hashes.SHA256())
        )


def key_name(certificate: x509.Certificate) -> Digest:
    """SHA-256 of the certificate's SubjectPublicKeyInfo: how evidence names a TLS key."""
    return digests.sha256(certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def verify_certificate(certificate: x509.Certificate, now: int) -> Digest:
    """Name of the certificate's key, if it is on P-256 and the certificate is short-lived and valid at unix second `now`.

    `ChannelRefused` otherwise. That the sender has the key is TLS's to verify, whose key it is evidence's.
    """
    try:
        key = certificate.public_key()
        start = int(certificate.not_valid_before_utc.timestamp())
        end = int(certificate.not_valid_after_utc.timestamp())
    except UNREADABLE as error:
        raise ChannelRefused("certificate", f"does not parse: {type(error).__name__}") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ChannelRefused("certificate", "its key is not on P-256")
    if end - start > LIFETIME_S:
        raise ChannelRefused("certificate", f"valid for {end - start} s, at most {LIFETIME_S}")
    if not start <= now < end:
        raise ChannelRefused("certificate", f"valid from {start} to {end}, now {now}")
    return key_name(certificate)
