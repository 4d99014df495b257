"""The simulated root of one run, and platform keys that it issues (fences 1 and 7, design section 7)."""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.evidence import SIMULATED_ROOT_NAME
from bytewise.service.clock import SystemClock
from bytewise.service.secret import read_secret, write_secret
from bytewise.tee.mode import refuse_in_production

refuse_in_production()

ROOT_CERTIFICATE, ROOT_KEY = "root.pem", "root.key"
LIFETIME = datetime.timedelta(days=2)
"""A run's root outlives no run."""
_SLACK = datetime.timedelta(minutes=5)


def make_root(folder: Path) -> x509.Certificate:
    """Draws a root key and writes `root.pem` and `root.key` (owner only); a root is never overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(SIMULATED_ROOT_NAME)
    certificate = _builder(name, name, key.public_key(), ca=True).sign(key, hashes.SHA256())
    write_secret(folder / ROOT_KEY, _pem(key))
    (folder / ROOT_CERTIFICATE).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return certificate


def load_root(folder: Path) -> x509.Certificate:
    """The root certificate of a folder."""
    try:
        return x509.load_pem_x509_certificate((folder / ROOT_CERTIFICATE).read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigurationError(ROOT_CERTIFICATE, error) from None


def issue(folder: Path, platform_file: Path) -> None:
    """Writes a platform key file (owner only): a fresh key in PEM and the certificate that the root issued for it."""
    root = load_root(folder)
    signer = _load_key(read_secret(folder / ROOT_KEY).reveal())
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name("simulated platform"), root.subject, key.public_key(), ca=False)
    certificate = builder.sign(signer, hashes.SHA256())
    write_secret(platform_file, _pem(key) + certificate.public_bytes(serialization.Encoding.PEM))


class Platform:
    """A simulated platform: its key and certificate; never printed."""

    __slots__ = ("certificate", "key")

    def __init__(self, platform_file: Path) -> None:
        raw = read_secret(platform_file).reveal()
        self.key = _load_key(raw)
        self.certificate = x509.load_pem_x509_certificate(raw)


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigurationError("simulated platform", "key is not on P-256")
    return key


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, ca: bool) -> x509.CertificateBuilder:
    now = datetime.datetime.fromtimestamp(SystemClock().now(), datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True)
    )
