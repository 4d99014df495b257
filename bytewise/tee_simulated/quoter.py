"""A simulated quoter: signs that this program, as measured from its own source, chose this report data (design section 7)."""

from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

import bytewise
from bytewise.ports import Clock
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors import MalformedValue
from bytewise.protocol.evidence import (
    PLATFORM_ID_BYTES,
    Evidence,
    EvidenceBody,
    EvidenceType,
    evidence_digest,
)
from bytewise.protocol.units import U64, Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.tee.measurement import ENCLAVE_ENTRY, measure
from bytewise.tee.mode import refuse_in_production
from bytewise.tee_simulated.root import Platform

refuse_in_production()

LIFETIME_S = 300
"""Evidence of the simulator is old after five minutes."""


def source_root() -> Path:
    """The source tree that this process runs from."""
    return Path(str(bytewise.__file__)).resolve().parent.parent


class SimulatedQuoter:
    """Implements `bytewise.ports.Quoter`; evidence is of type `simulated`, with a zeroed platform id."""

    def __init__(self, platform: Platform, measurement: Digest, clock: Clock) -> None:
        self._platform = platform
        self._measurement = measurement
        self._clock = clock

    @classmethod
    def of_this_program(cls, platform_file: Path, entry: str = ENCLAVE_ENTRY) -> "SimulatedQuoter":
        """A quoter for the program that starts at `entry`, measured now from the running source tree."""
        return cls(Platform(platform_file), measure(source_root(), entry), SystemClock())

    def quote(self, report_data: bytes) -> Blob:
        """Evidence over 64 bytes of report data."""
        if len(report_data) != 64:
            raise MalformedValue("report data", f"{len(report_data)} bytes instead of 64")
        now = self._clock.now()
        body = EvidenceBody(
            type=EvidenceType.SIMULATED, measurement=self._measurement, report_data=Blob(report_data), debug=False,
            platform_id=Blob(bytes(PLATFORM_ID_BYTES)), issued_at=U64(now), expires_at=U64(now + LIFETIME_S),
        )  # fmt: skip
        signature = self._platform.key.sign(evidence_digest(body), ec.ECDSA(hashes.SHA256()))
        leaf = Blob(self._platform.certificate.public_bytes(Encoding.DER))
        return Blob(encode(Evidence(body, (leaf,), Blob(signature))))
