"""Verification of AMD SEV-SNP reports: chain from the vendor's root key, signature, and the fields of AMD's ABI (56860, table
23).

The chip's certificate must be of exactly the chip and TCB version in the report, so that old firmware cannot use the key of new
firmware. AMD's revocation list revokes keys that sign chip certificates. A rule with a maximal age requires the list.
"""

from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.evidence import (
    EvidenceExpired,
    EvidenceFromFuture,
    EvidenceMalformed,
    EvidenceTooLarge,
    TcbRefused,
    UntrustedRoot,
)
from bytewise.protocol.evidence.appraisal_policy import PlatformRule, TcbStatus
from bytewise.protocol.evidence.claims import SNP_REPORT_BYTES, SNP_SIGNED_BYTES, SnpCertificates
from bytewise.protocol.units import Blob
from bytewise.tee.claims import Claims
from bytewise.tee.documents import UNREADABLE, read_certificate, read_list

MAX_CERTIFICATE_BYTES = 4096
MAX_CRL_BYTES = 8192
CLOCK_SKEW_S = 30
"""Number of seconds by which the time of issue of a revocation list may be ahead of this machine's clock."""
_EXTENSION = "1.3.6.1.4.1.3704.1."
_CHIP_ID = x509.ObjectIdentifier(_EXTENSION + "4")
_OCTETS_OF_CHIP_ID = b"\x04\x40"
"""Head of a chip id as a DER octet string, as newer certificates have it. Older certificates have the bare 64 bytes."""
_PRODUCT = x509.ObjectIdentifier(_EXTENSION + "2")
_TCB_BYTES = {0: "3.1", 1: "3.2", 6: "3.3", 7: "3.8"}
"""Maps the position of each byte of a TCB version (boot loader, TEE, SNP, microcode) to the extension of the chip's certificate
that repeats this byte."""
_PRODUCTS = (b"Milan", b"Genoa")
"""Products whose TCB versions have the layout that this program reads. Later products have another layout and are refused."""

POLICY_DEBUG, _POLICY_MIGRATION_AGENT = 1 << 19, 1 << 18
"""Two bits of a guest's policy: the guest can be debugged, and a migration agent may move it."""
_PLATFORM_SMT = 1
_MASKED_CHIP_KEY, _SIGNING_KEY_SHIFT = 1 << 1, 2


@dataclass(frozen=True, slots=True)
class SnpReport:
    """Fields of an SEV-SNP report that the appraisal reads."""

    version: int
    policy: int
    vmpl: int
    algorithm: int
    platform: int
    flags: int
    report_data: bytes
    measurement: bytes
    host_data: bytes
    id_key_digest: bytes
    author_key_digest: bytes
    tcb: bytes
    chip_id: bytes
    signature: bytes


def parse_report(data: bytes) -> SnpReport:
    """Returns the fields of a report of 1,184 bytes. Raises `EvidenceMalformed` if the length differs."""
    if len(data) != SNP_REPORT_BYTES:
        raise EvidenceMalformed(f"report of {len(data)} bytes")

    def number(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], "little")

    return SnpReport(
        version=number(0, 4), policy=number(0x08, 8), vmpl=number(0x30, 4), algorithm=number(0x34, 4), platform=number(0x40, 8),
        flags=number(0x48, 4), report_data=data[0x50:0x90], measurement=data[0x90:0xC0], host_data=data[0xC0:0xE0],
        id_key_digest=data[0xE0:0x110], author_key_digest=data[0x110:0x140], tcb=data[0x180:0x188], chip_id=data[0x1A0:0x1E0],
        signature=data[SNP_SIGNED_BYTES:],
    )  # fmt: skip


def verify_report(rule: PlatformRule, data: bytes, certificates: SnpCertificates, now: int) -> Claims:
    """Verifies a report of a virtual machine at Unix second `now`, and returns its claims. Raises a subclass of
    `EvidenceRefused` that names the flaw."""
    report = parse_report(data)
    ask, vcek = _certificate(certificates.ask), _certificate(certificates.vcek)
    _verify_chain(rule.root, ask, vcek, now)
    listed_at = _verify_list(rule, ask, certificates.crl, now) if rule.max_age_s else 0
    _verify_signature(data, report, vcek)
    _verify_chip(report, vcek)
    _verify_guest(rule, report)
    current = all(have >= least for have, least in zip(report.tcb, rule.min_tcb, strict=True))
    return Claims(
        measurement=digests.labelled(
            Label.SNP_MEASUREMENT, report.measurement, report.host_data, report.id_key_digest, report.author_key_digest,
            report.policy,
        ),
        report_data=report.report_data, platform_id=Blob(report.chip_id),
        status=TcbStatus.UP_TO_DATE if current else TcbStatus.OUT_OF_DATE, advisories=(), evaluation=0,
        issued_at=max(int(vcek.not_valid_before_utc.timestamp()), listed_at),
        expires_at=int(min(vcek.not_valid_after_utc, ask.not_valid_after_utc).timestamp()), simulated=False,
    )  # fmt: skip


def certificate_time(rule: PlatformRule, certificates: SnpCertificates) -> int:
    """Returns the first Unix second at which all certificates are valid. If the rule requires a revocation list, the list is also
    valid then. A published report has no time of its own, so it is judged at this time."""
    found = (_certificate(certificates.ask), _certificate(certificates.vcek))
    starts = [each.not_valid_before_utc for each in found]
    if rule.max_age_s:
        starts.append(_list(certificates.crl).last_update_utc)
    return int(max(starts).timestamp())


def _verify_chain(root: bytes, ask: x509.Certificate, vcek: x509.Certificate, now: int) -> None:
    for name, issued, key in (("ASK", ask, _root_key(root)), ("VCEK", vcek, ask.public_key())):
        _verify_issued(name, key, issued.signature, issued.tbs_certificate_bytes)
        if now < issued.not_valid_before_utc.timestamp():
            raise EvidenceFromFuture(f"{name} is valid from {issued.not_valid_before_utc:%Y-%m-%d}")
        if now > issued.not_valid_after_utc.timestamp():
            raise EvidenceExpired(f"{name} was valid until {issued.not_valid_after_utc:%Y-%m-%d}")


def _verify_issued(name: str, key: object, signature: bytes, signed: bytes) -> None:
    if not isinstance(key, rsa.RSAPublicKey):
        raise UntrustedRoot(f"{name} is issued by a key that is not RSA")
    try:
        # AMD signs with RSASSA-PSS and SHA-384, with 48 bytes of salt.
        pss = padding.PSS(padding.MGF1(hashes.SHA384()), hashes.SHA384.digest_size)
        key.verify(signature, signed, pss, hashes.SHA384())
    except InvalidSignature:
        raise UntrustedRoot(f"{name} is not issued by the key above it") from None


def _verify_list(rule: PlatformRule, ask: x509.Certificate, data: bytes, now: int) -> int:
    crl = _list(data)
    _verify_issued("revocation list", _root_key(rule.root), crl.signature, crl.tbs_certlist_bytes)
    issued, ends = int(crl.last_update_utc.timestamp()), crl.next_update_utc
    if issued > now + CLOCK_SKEW_S:
        raise EvidenceFromFuture(f"revocation list is of {crl.last_update_utc:%Y-%m-%d}")
    if now - issued > rule.max_age_s or (ends is not None and now >= ends.timestamp()):
        raise EvidenceExpired(f"revocation list is of {crl.last_update_utc:%Y-%m-%d}")
    if crl.get_revoked_certificate_by_serial_number(ask.serial_number) is not None:
        raise TcbRefused("the key that signs certificates of chips was revoked")
    return issued


def _verify_signature(data: bytes, report: SnpReport, vcek: x509.Certificate) -> None:
    key = vcek.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1) or report.algorithm != 1:
        raise EvidenceRefused("report is not signed with ECDSA on P-384")
    r, s = (int.from_bytes(report.signature[at : at + 72], "little") for at in (0, 72))
    try:
        key.verify(encode_dss_signature(r, s), data[:SNP_SIGNED_BYTES], ec.ECDSA(hashes.SHA384()))
    except InvalidSignature:
        raise EvidenceRefused("signature of the report does not verify") from None


def _verify_chip(report: SnpReport, vcek: x509.Certificate) -> None:
    if report.flags & _MASKED_CHIP_KEY or (report.flags >> _SIGNING_KEY_SHIFT) & 0b111:
        raise EvidenceRefused("report is not signed with the key of its own chip")
    if not any(product in _value(vcek, _PRODUCT) for product in _PRODUCTS):
        raise EvidenceRefused("product with an unknown layout of TCB versions")
    if _value(vcek, _CHIP_ID) not in (report.chip_id, _OCTETS_OF_CHIP_ID + report.chip_id):
        raise EvidenceRefused("certificate is of another chip")
    for place, name in _TCB_BYTES.items():
        # A DER INTEGER of one security number: tag, length, value, with a zero in front above 127.
        if int.from_bytes(_value(vcek, x509.ObjectIdentifier(_EXTENSION + name))[2:]) != report.tcb[place]:
            raise TcbRefused("certificate is of another TCB version than the report")


def _verify_guest(rule: PlatformRule, report: SnpReport) -> None:
    if report.version < 2:
        raise EvidenceMalformed(f"report version {report.version}")
    if report.policy & POLICY_DEBUG:
        raise EvidenceRefused("debug is on")
    if report.policy & _POLICY_MIGRATION_AGENT:
        raise EvidenceRefused("a migration agent may move the guest")
    if report.vmpl != 0:
        raise EvidenceRefused(f"asked for at privilege level {report.vmpl}")
    if report.platform & _PLATFORM_SMT and not rule.smt:
        raise TcbRefused("simultaneous multithreading is on")


def _value(certificate: x509.Certificate, name: x509.ObjectIdentifier) -> bytes:
    try:
        found = certificate.extensions.get_extension_for_oid(name).value
    except (x509.ExtensionNotFound, *UNREADABLE):
        raise EvidenceMalformed(f"chip certificate without extension {name.dotted_string}") from None
    return found.value if isinstance(found, x509.UnrecognizedExtension) else b""


def _certificate(der: bytes) -> x509.Certificate:
    if len(der) > MAX_CERTIFICATE_BYTES:
        raise EvidenceTooLarge(f"certificate of {len(der)} bytes, at most {MAX_CERTIFICATE_BYTES}")
    return read_certificate(der)


def _list(der: bytes) -> x509.CertificateRevocationList:
    if len(der) > MAX_CRL_BYTES:
        raise EvidenceTooLarge(f"revocation list of {len(der)} bytes, at most {MAX_CRL_BYTES}")
    return read_list(der)


def _root_key(root: bytes) -> object:
    try:
        return serialization.load_der_public_key(root)
    except UNREADABLE:
        raise UntrustedRoot("root key does not parse") from None
