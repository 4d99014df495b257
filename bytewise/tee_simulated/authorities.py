"""The simulated root of one run, the platforms that it issues, and their certificates in the form of Intel's (fences 1 and 7,
design section 7).

A platform file contains keys that Intel would keep: the authority of platform keys and the signer of TCB levels. Its owner can
therefore make any statement about simulated hardware, as the owner of a simulated enclave's machine can anyway.
"""

import datetime
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.evidence.claims import SIMULATED_ROOT_NAME
from bytewise.protocol.units import Blob
from bytewise.service.clock import SystemClock
from bytewise.service.secret import read_secret, write_secret
from bytewise.tee.quoters import refuse_in_production

refuse_in_production()
ROOT_CERTIFICATE, ROOT_KEY = "root.pem", "root.key"
LIFETIME = datetime.timedelta(days=2)
"""Lifetime of a root, which is used for one run only."""
_SLACK = datetime.timedelta(minutes=5)


class Authority:
    """A certificate with its private key. It is never printed."""

    __slots__ = ("certificate", "key")

    def __init__(self, issued: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = issued
        self.key = key


def certificate(
    subject: x509.Name, public: ec.EllipticCurvePublicKey, issuer: Authority | None, key: ec.EllipticCurvePrivateKey,
    start: datetime.datetime, end: datetime.datetime, *, path_length: int | None, extra: x509.ExtensionType | None = None,
) -> x509.Certificate:  # fmt: skip
    """Returns a certificate that `key` signed. With `path_length`, it is the certificate of an authority. Without an issuer, it
    is self-signed."""
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
    """Returns the issuer's revocation list of these serial numbers, in DER."""
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
    """Returns a name that has only a common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def der(issued: x509.Certificate) -> Blob:
    """Returns the certificate in DER."""
    return Blob(issued.public_bytes(Encoding.DER))


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority, content_commitment=not authority, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=authority, crl_sign=authority, encipher_only=False, decipher_only=False,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlatformFile:
    """Content of a platform file. Keys are in DER (PKCS #8). Certificates and the revocation list are in DER, too."""

    pck_ca: Blob
    pck_ca_key: Blob
    tcb_signer: Blob
    tcb_signer_key: Blob
    root_crl: Blob


class Platform:
    """A simulated platform: the two authorities above its quotes, and the revocation list of the root. It is never printed."""

    __slots__ = ("pck_ca", "root_crl", "tcb_signer")

    def __init__(self, platform_file: Path) -> None:
        try:
            given = decode(PlatformFile, read_secret(platform_file).reveal())
        except Fault as error:
            raise ConfigurationError(platform_file.name, f"is no simulated platform: {error}") from None
        self.pck_ca = _authority(given.pck_ca, given.pck_ca_key)
        self.tcb_signer = _authority(given.tcb_signer, given.tcb_signer_key)
        self.root_crl = given.root_crl


def make_root(folder: Path) -> x509.Certificate:
    """Draws a root key and writes `root.pem` and `root.key`. Only the owner can read `root.key`. An existing root is never
    overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    start, end = _lifetime()
    made = certificate(common_name(SIMULATED_ROOT_NAME), key.public_key(), None, key, start, end, path_length=1)
    write_secret(folder / ROOT_KEY, _pem(key))
    (folder / ROOT_CERTIFICATE).write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return made


def load_root(folder: Path) -> x509.Certificate:
    """Returns the root certificate of a folder. Raises `ConfigurationError` if the certificate cannot be read."""
    try:
        return x509.load_pem_x509_certificate((folder / ROOT_CERTIFICATE).read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigurationError(ROOT_CERTIFICATE, error) from None


def issue(folder: Path, platform_file: Path) -> None:
    """Writes a platform file that only its owner can read. The file contains fresh keys, and the certificates that the root of
    `folder` issued for them."""
    root = Authority(load_root(folder), _load_key(read_secret(folder / ROOT_KEY).reveal()))
    start, end = _lifetime()
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("simulated platform authority", "simulated TCB signer")}
    (ca_name, ca_key), (signer_name, signer_key) = keys.items()
    pck_ca = certificate(common_name(ca_name), ca_key.public_key(), root, root.key, start, end, path_length=0)
    signer = certificate(common_name(signer_name), signer_key.public_key(), root, root.key, start, end, path_length=None)
    made = PlatformFile(der(pck_ca), _pkcs8(ca_key), der(signer), _pkcs8(signer_key), revocation_list(root, start, end))
    write_secret(platform_file, encode(made))


def _lifetime() -> tuple[datetime.datetime, datetime.datetime]:
    now = datetime.datetime.fromtimestamp(SystemClock().now(), datetime.UTC)
    return now - _SLACK, now + LIFETIME


def _authority(certificate_der: bytes, key_der: bytes) -> Authority:
    try:
        key = serialization.load_der_private_key(key_der, None)
        loaded = x509.load_der_x509_certificate(certificate_der)
    except ValueError:
        raise ConfigurationError("simulated platform", "key or certificate does not parse") from None
    return Authority(loaded, _p256(key))


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    return _p256(serialization.load_pem_private_key(pem, None))


def _p256(key: object) -> ec.EllipticCurvePrivateKey:
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigurationError("simulated platform", "key is not on P-256")
    return key


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _pkcs8(key: ec.EllipticCurvePrivateKey) -> Blob:
    return Blob(key.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
