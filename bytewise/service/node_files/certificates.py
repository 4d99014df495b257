"""Self-signed TLS certificates for services whose clients pin the certificate: key shards and operators."""

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.clock import SystemClock
from bytewise.service.secret import write_secret

LIFETIME = datetime.timedelta(days=400)
"""Lifetime of a certificate. It is longer than the longest key retention of a devnet. Clients pin the certificate and check only
its key and its expiry."""
_SLACK = datetime.timedelta(minutes=5)


def make_certificate(certificate_file: Path, key_file: Path, host: str, common_name: str, aliases: Sequence[str] = ()) -> None:
    """Writes a new P-256 key and a self-signed certificate for `host` and the other names in `aliases`, both in PEM.

    Only the owner can read the key file. An existing key is never overwritten.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.datetime.fromtimestamp(SystemClock().now(), datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectAlternativeName([_alternative_name(each) for each in (host, *aliases)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    write_secret(key_file, key.private_bytes(serialization.Encoding.PEM, *pem))
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def verify_server_certificate(certificate: Path, key: Path) -> None:
    """Raises `ConfigurationError` unless the files contain a certificate and its key, both in PEM."""
    try:
        # OpenSSL would ask for the password of an encrypted key at the terminal. With an empty password it fails instead.
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, password="")
    except OSError as error:
        why = f"no certificate with its key, both PEM and readable: {error.strerror or error}"
        raise ConfigurationError(f"{certificate.name}, {key.name}", why) from None


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
