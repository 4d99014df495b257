"""Reading of certificates and revocation lists from untrusted peers. Every flaw becomes an error of this project.

The parser reads keys, dates and extensions only when they are used, and raises several kinds of errors then.
"""

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from bytewise.protocol.errors.evidence import EvidenceMalformed

UNREADABLE = (
    ValueError, x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, UnsupportedAlgorithm,
)  # fmt: skip
"""Errors that can be raised when any part of a certificate or list is read."""


def read_certificate(der: bytes) -> x509.Certificate:
    """Returns the certificate after parsing its key and dates too. Raises `EvidenceMalformed` if a part does not parse."""
    try:
        found = x509.load_der_x509_certificate(der)
        found.public_key(), found.not_valid_before_utc, found.not_valid_after_utc
    except UNREADABLE:
        raise EvidenceMalformed("certificate does not parse") from None
    return found


def read_chain(pem: bytes) -> list[x509.Certificate]:
    """Returns the certificates of a PEM text after parsing their keys and dates too. Raises `EvidenceMalformed` if a part does
    not parse."""
    try:
        found = x509.load_pem_x509_certificates(pem)
        for each in found:
            each.public_key(), each.not_valid_before_utc, each.not_valid_after_utc
    except UNREADABLE:
        raise EvidenceMalformed("chain of certificates does not parse") from None
    return found


def read_list(der: bytes) -> x509.CertificateRevocationList:
    """Returns the revocation list after parsing its dates and entries too. Raises `EvidenceMalformed` if a part does not
    parse."""
    try:
        found = x509.load_der_x509_crl(der)
        found.last_update_utc, found.next_update_utc, found.get_revoked_certificate_by_serial_number(0)
    except UNREADABLE:
        raise EvidenceMalformed("revocation list is missing or does not parse") from None
    return found
