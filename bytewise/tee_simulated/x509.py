"""Certificates and revocation lists of the simulated authorities, in the form of Intel's."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from bytewise.protocol.units import Blob
from bytewise.tee.mode import refuse_in_production

refuse_in_production()


class Authority:
    """A certificate with its key; never printed."""

    __slots__ = ("certificate", "key")

    def __init__(self, issued: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = issued
        self.key = key


def certificate(
    subject: x509.Name, public: ec.EllipticCurvePublicKey, issuer: Authority | None, key: ec.EllipticCurvePrivateKey,
    start: datetime.datetime, end: datetime.datetime, *, path_length: int | None, extra: x509.ExtensionType | None = None,
) -> x509.Certificate:  # fmt: skip
    """A certificate signed with `key`. With `path_length` it is the certificate of an authority. Without an issuer it is
    self-signed."""
    above = public if issuer is None else issuer.key.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=path_length is not None, path_length=path_length), critical=True)
        .add_extension(_usage(authority=path_length is not None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(above), critical=False)
    )
    if extra is not None:
        builder = builder.add_extension(extra, critical=False)
    return builder.sign(key, hashes.SHA256())


def revocation_list(
    issuer: Authority, start: datetime.datetime, end: datetime.datetime, revoked: tuple[int, ...] = ()
) -> Blob:  # fmt: skip
    """A revocation list of these serial numbers, DER."""
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.certificate.subject)
        .last_update(start)
        .next_update(end)
        .add_extension(x509.CRLNumber(1), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()), critical=False)
    )
    for serial in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(start).build()
        builder = builder.add_revoked_certificate(entry)
    return Blob(builder.sign(issuer.key, hashes.SHA256()).public_bytes(Encoding.DER))


def common_name(text: str) -> x509.Name:
    """A name that has only a common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def der(issued: x509.Certificate) -> Blob:
    """The certificate's bytes."""
    return Blob(issued.public_bytes(Encoding.DER))


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority, content_commitment=not authority, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=authority, crl_sign=authority, encipher_only=False, decipher_only=False,
    )  # fmt: skip
