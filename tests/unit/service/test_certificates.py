"""Certificates of services: the names that a client may use."""

import ipaddress
from pathlib import Path

from cryptography import x509

from bytewise.service.node_files.certificates import make_certificate


def test_certificate_names_the_host_and_its_aliases(tmp_path: Path) -> None:
    make_certificate(tmp_path / "tls.pem", tmp_path / "tls.key", "honest", "an operator", ("127.0.0.1",))
    certificate = x509.load_pem_x509_certificate((tmp_path / "tls.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["honest"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]
