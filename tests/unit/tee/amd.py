"""A synthetic AMD: root key, signing key, one chip, and reports that it signs; any field may be changed."""

import dataclasses
import datetime
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from bytewise.protocol.evidence.claims import SnpCertificates
from bytewise.protocol.units import Blob

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
END = datetime.datetime(2033, 1, 1, tzinfo=datetime.UTC)
NOW = 1_790_000_000
CHIP = bytes(range(64))
TCB = bytes([4, 0, 0, 0, 0, 0, 23, 213])
PSS = padding.PSS(padding.MGF1(hashes.SHA384()), hashes.SHA384.digest_size)
_EXTENSION = "1.3.6.1.4.1.3704.1."


@dataclass(frozen=True)
class Guest:
    """What a report says."""

    version: int = 3
    policy: int = 1 << 17 | 1 << 16
    vmpl: int = 0
    algorithm: int = 1
    platform: int = 0
    flags: int = 0
    report_data: bytes = b"\x42" * 64
    measurement: bytes = b"\x01" * 48
    host_data: bytes = b"\x02" * 32
    tcb: bytes = TCB
    chip_id: bytes = CHIP


class Amd:
    """Root and signing key; `issue` makes certificates of chips."""

    def __init__(self) -> None:
        # 2,048 bits, for speed: which root counts is decided by its fingerprint alone.
        self.root, self.ask_key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
        self.chip_key = ec.generate_private_key(ec.SECP384R1())
        self.ask = self.signed("SEV-Milan", "ARK-Milan", self.ask_key.public_key(), self.root, {})

    def root_der(self) -> Blob:
        """The root key as a policy names it."""
        return Blob(self.root.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))

    def signed(
        self, subject: str, issuer: str, key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey, signer: rsa.RSAPrivateKey,
        extensions: dict[str, bytes],
    ) -> x509.Certificate:  # fmt: skip
        """A certificate in AMD's manner: RSASSA-PSS with SHA-384."""
        names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, issuer)]
        builder = x509.CertificateBuilder().subject_name(names[0]).issuer_name(names[1]).public_key(key).serial_number(1)
        builder = builder.not_valid_before(START).not_valid_after(END)
        for name, value in extensions.items():
            builder = builder.add_extension(x509.UnrecognizedExtension(x509.ObjectIdentifier(_EXTENSION + name), value), False)
        return builder.sign(signer, hashes.SHA384(), rsa_padding=PSS)

    def certificates(
        self, tcb: bytes = TCB, chip: bytes = CHIP, product: bytes = b"\x16\x08Milan-B0", without: str = ""
    ) -> SnpCertificates:  # fmt: skip
        """The chain of a chip at a TCB version."""
        numbers = {"3.1": tcb[0], "3.2": tcb[1], "3.3": tcb[6], "3.8": tcb[7]}
        values = {name: b"\x02\x01" + bytes([n]) if n < 128 else b"\x02\x02\x00" + bytes([n]) for name, n in numbers.items()}
        values |= {"4": chip, "2": product}
        values.pop(without, None)
        vcek = self.signed("SEV-VCEK", "SEV-Milan", self.chip_key.public_key(), self.ask_key, values)
        return SnpCertificates(Blob(self.ask.public_bytes(Encoding.DER)), self.of_serial_0(vcek), Blob(b""))

    def of_serial_0(self, issued: x509.Certificate) -> Blob:
        """The certificate with the serial number that AMD gives to every chip's, and that `cryptography` gives to none."""
        signed, head = issued.tbs_certificate_bytes, bytes.fromhex("a0030201020201")
        assert signed.count(head + b"\1") == 1
        changed = signed.replace(head + b"\1", head + b"\0")
        signature = self.ask_key.sign(changed, PSS, hashes.SHA384())
        return Blob(issued.public_bytes(Encoding.DER).replace(signed, changed).replace(issued.signature, signature))

    def revocation_list(
        self, age_s: int, life_s: int, revoked: tuple[int, ...] = (), signer: rsa.RSAPrivateKey | None = None
    ) -> Blob:
        """A list that was issued `age_s` seconds before NOW."""
        issued = datetime.datetime.fromtimestamp(NOW - age_s, datetime.UTC)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ARK-Milan")])
        builder = x509.CertificateRevocationListBuilder().issuer_name(name).last_update(issued)
        builder = builder.next_update(issued + datetime.timedelta(seconds=life_s))
        for serial in revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(issued).build()
            builder = builder.add_revoked_certificate(entry)
        made = builder.sign(signer or self.root, hashes.SHA384(), rsa_padding=PSS)
        return Blob(made.public_bytes(Encoding.DER))

    def report(self, guest: Guest | None = None) -> bytes:
        """1,184 bytes, signed by the chip."""
        said = guest or Guest()
        data = bytearray(0x2A0)
        places = {
            "version": (0, 4), "policy": (0x08, 8), "vmpl": (0x30, 4), "algorithm": (0x34, 4), "platform": (0x40, 8),
            "flags": (0x48, 4), "report_data": (0x50, 64), "measurement": (0x90, 48), "host_data": (0xC0, 32),
            "tcb": (0x180, 8), "chip_id": (0x1A0, 64),
        }  # fmt: skip
        for field in dataclasses.fields(said):
            (at, size), value = places[field.name], getattr(said, field.name)
            data[at : at + size] = value if isinstance(value, bytes) else value.to_bytes(size, "little")
        r, s = decode_dss_signature(self.chip_key.sign(bytes(data), ec.ECDSA(hashes.SHA384())))
        return bytes(data) + r.to_bytes(72, "little") + s.to_bytes(72, "little") + bytes(0x4A0 - 0x2A0 - 144)
