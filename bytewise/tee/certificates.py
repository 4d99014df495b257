"""Reads certificates and revocation lists of untrusted peers, and maps every flaw to an error of this project.

The parser reads keys, dates and extensions only on access, and raises several kinds of errors for them.
"""

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from bytewise.protocol.errors.evidence import EvidenceMalformed

UNREADABLE = (
    ValueError, x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, UnsupportedAlgorithm,
)  # fmt: skip
"""Errors that reading any part of a certificate or list can raise."""


def read_certificate(der: bytes) -> x509.Certificate:
    """The certificate, whose key and dates parse too; otherwise `EvidenceMalformed`."""
    try:
        found = x509.load_der_x509_certificate(der)
        found.public_key(), found.not_valid_before_utc, found.not_valid_after_utc
    except UNREADABLE:
        raise EvidenceMalformed("certificate does not parse") from None
    return found


def read_chain(pem: bytes) -> list[x509.Certificate]:
    """The certificates of a PEM text, whose keys and dates parse too; otherwise `EvidenceMalformed`."""
    try:
        found = x509.load_pem_x509_certificates(pem)
        for each in found:
            each.public_key(), each.not_valid_before_utc, each.not_valid_after_utc
    except UNREADABLE:
        raise EvidenceMalformed("chain of certificates does not parse") from None
    return found


def read_list(der: bytes) -> x509.CertificateRevocationList:
    """The revocation list, whose dates and entries parse too; otherwise `EvidenceMalformed`."""
    try:
        found = x509.load_der_x509_crl(der)
        found.last_update_utc, found.next_update_utc, found.get_revoked_certificate_by_serial_number(0)
    except UNREADABLE:
        raise EvidenceMalformed("revocation list is missing or does not parse") from None
    return found
