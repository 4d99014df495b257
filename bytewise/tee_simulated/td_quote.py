"""Bytes of a simulated DCAP quote of a trust domain, version 4 or 5 (Intel TDX DCAP Quoting Library API, appendix 3)."""

import dataclasses
import datetime
from dataclasses import dataclass
from typing import ClassVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bytewise.protocol import digests
from bytewise.protocol.units import Blob, Digest
from bytewise.tee.dcap import SIMULATED_MARK, td_measurement
from bytewise.tee.quoters import refuse_in_production
from bytewise.tee_simulated.authorities import Authority, certificate, common_name

refuse_in_production()

QE_SIGNER = b"SIMULATED QUOTING ENCLAVE".ljust(32, b"\0")
"""MRSIGNER of the simulated quoting enclave, which `qe_identity` names."""
QE_PRODUCT, QE_VERSION = 2, 1
INTEL_QE_VENDOR = bytes.fromhex("939a7233f79c4ca9940a0db3957f0607")
"""Id of the only vendor of quoting enclaves that verifiers of this format accept. It identifies no platform."""
QE_AUTH_DATA = bytes(32)
"""Data that a quoting enclave hashes together with its key."""
SEPT_VE_DISABLE = (1 << 28).to_bytes(8, "little")
"""The only attribute that a sound trust domain has."""
PCK_EXTENSION = x509.ObjectIdentifier("1.2.840.113741.1.13.1")
_PCK_OID = bytes.fromhex("2a864886f84d010d01")


@dataclass(frozen=True, slots=True)
class TdBody:
    """Content of a trust domain's quote, field by field in the order of its bytes. All other fields are zero."""

    TYPE: ClassVar[int | None] = None
    """Type of the body in a quote of version 5. None stands for a quote of version 4, which has one kind of body and no type."""

    tee_tcb_svn: bytes = bytes(16)
    mr_seam: bytes = bytes(48)
    mr_signer_seam: bytes = bytes(48)
    seam_attributes: bytes = bytes(8)
    td_attributes: bytes = SEPT_VE_DISABLE
    xfam: bytes = bytes.fromhex("e702060000000000")
    mr_td: bytes = bytes(48)
    mr_config_id: bytes = SIMULATED_MARK
    mr_owner: bytes = bytes(48)
    mr_owner_config: bytes = bytes(48)
    rt_mr0: bytes = bytes(48)
    rt_mr1: bytes = bytes(48)
    rt_mr2: bytes = bytes(48)
    rt_mr3: bytes = bytes(48)
    report_data: bytes = bytes(64)

    def encoded(self) -> bytes:
        """Returns the bytes of the body. These are 584 bytes, and more for later kinds of bodies."""
        return b"".join(getattr(self, each.name) for each in dataclasses.fields(self))


@dataclass(frozen=True, slots=True)
class TdBody15(TdBody):
    """The body of a trust domain of TDX 1.5, in a quote of version 5: 648 bytes."""

    TYPE: ClassVar[int | None] = 3

    tee_tcb_svn2: bytes = bytes(16)
    """TCB of the running module. `tee_tcb_svn` is the TCB at the launch of the domain."""
    mr_service_td: bytes = bytes(48)


def body_of(program: Digest, report_data: bytes = bytes(64)) -> TdBody:
    """Returns the body of a trust domain that runs the measured program."""
    return TdBody(mr_td=program.ljust(48, b"\0"), report_data=report_data)


def measurement_of(program: Digest) -> Digest:
    """Returns the measurement that a verifier computes for the trust domain of `body_of`."""
    body = body_of(program)
    measured = ("td_attributes", "xfam", "mr_td", "mr_config_id")
    return td_measurement(**{name: getattr(body, name) for name in measured})


def signed_quote(body: TdBody, pck: Authority, pck_ca: x509.Certificate, attestation: ec.EllipticCurvePrivateKey) -> Blob:
    """Returns a quote over the body. The attestation key signs the quote, and the platform's key vouches for the attestation
    key."""
    signed = _header(4 if body.TYPE is None else 5)
    signed += body.encoded() if body.TYPE is None else _sized(body.TYPE, body.encoded())
    public = attestation.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)[1:]
    report = _qe_report(digests.sha256(public + QE_AUTH_DATA))
    chain = pck.certificate.public_bytes(Encoding.PEM) + pck_ca.public_bytes(Encoding.PEM)
    certified = (
        report + raw_signature(pck.key, report) + len(QE_AUTH_DATA).to_bytes(2, "little") + QE_AUTH_DATA + _sized(5, chain)
    )
    auth = raw_signature(attestation, signed) + public + _sized(6, certified)
    return Blob(signed + len(auth).to_bytes(4, "little") + auth)


def platform_key(
    pck_ca: Authority, start: datetime.datetime, end: datetime.datetime, key: ec.EllipticCurvePrivateKey, ppid: bytes = bytes(16)
) -> Authority:  # fmt: skip
    """Returns the platform's key with a certificate that is valid from `start` to `end`. By default, all identifiers in the
    certificate are zero (fence 7)."""
    extra = x509.UnrecognizedExtension(PCK_EXTENSION, _pck_extension(ppid))
    name = common_name("simulated platform")
    return Authority(certificate(name, key.public_key(), pck_ca, pck_ca.key, start, end, path_length=None, extra=extra), key)


def raw_signature(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    """Returns an ECDSA signature with SHA-256 as 64 bytes: r, then s."""
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32) + s.to_bytes(32)


def _header(version: int) -> bytes:
    numbers = version.to_bytes(2, "little") + (2).to_bytes(2, "little") + (0x81).to_bytes(4, "little")
    return numbers + bytes(4) + INTEL_QE_VENDOR + bytes(20)


def _qe_report(key_hash: bytes) -> bytes:
    attributes = (0x11).to_bytes(8, "little") + bytes.fromhex("e700000000000000")
    head = bytes(16 + 4 + 28) + attributes + bytes(32 + 32) + QE_SIGNER + bytes(96)
    version = QE_PRODUCT.to_bytes(2, "little") + QE_VERSION.to_bytes(2, "little")
    return head + version + bytes(60) + key_hash.ljust(64, b"\0")


def _sized(kind: int, data: bytes) -> bytes:
    return kind.to_bytes(2, "little") + len(data).to_bytes(4, "little") + data


def _pck_extension(ppid: bytes) -> bytes:
    # Intel's extension is a sequence of (object identifier, value), nested once for the TCB.
    integers = [_pair((2, place), _der(0x02, b"\0")) for place in range(1, 18)]
    tcb = _pair((2,), _der(0x30, b"".join([*integers, _pair((2, 18), _der(0x04, bytes(16)))])))
    others = [_pair((3,), _der(0x04, bytes(2))), _pair((4,), _der(0x04, bytes(6))), _pair((5,), _der(0x0A, b"\0"))]
    return _der(0x30, b"".join([_pair((1,), _der(0x04, ppid)), tcb, *others]))


def _pair(arcs: tuple[int, ...], value: bytes) -> bytes:
    return _der(0x30, _der(0x06, _PCK_OID + bytes(arcs)) + value)


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82]) + size.to_bytes(2)
    return bytes([tag]) + length + content
