"""A simulated quoter: a quote in TDX's format which states that this program, as measured from its source, chose this report
data."""

import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from bytewise.ports import Clock
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.evidence.claims import REPORT_DATA_BYTES, Evidence
from bytewise.protocol.units import ZERO_DIGEST, Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.service.installation import SOURCE_ROOT
from bytewise.tee.measurement import ENCLAVE_ENTRY, measure
from bytewise.tee.mode import refuse_in_production
from bytewise.tee_simulated.collateral import SimulatedStatus, collateral
from bytewise.tee_simulated.root import Platform
from bytewise.tee_simulated.td_quote import TdBody, body_of, platform_key, signed_quote

refuse_in_production()

LIFETIME_S = 300
"""Seconds for which evidence of the simulator is valid."""

_BACKDATED_S = 60
"""Seconds by which the platform key's certificate starts earlier, for verifiers whose clock is behind."""


class SimulatedQuoter:
    """Implements `bytewise.ports.Quoter`; evidence is of type `simulated`, marked, and names no platform."""

    def __init__(self, platform: Platform, program: Digest, clock: Clock) -> None:
        self._platform = platform
        self._program = program
        self._clock = clock
        # As on hardware: one platform key and one attestation key for the life of the process.
        self._pck_key, self._attestation = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    @classmethod
    def of_this_program(
        cls, platform_file: Path, entry: str = ENCLAVE_ENTRY, model: Digest = ZERO_DIGEST
    ) -> "SimulatedQuoter":  # fmt: skip
        """A quoter for the program that starts at `entry` and runs that model, measured now from the running source tree."""
        return cls(Platform(platform_file), measure(SOURCE_ROOT, entry, model), SystemClock())

    def quote(self, report_data: bytes) -> Blob:
        """Evidence over 64 bytes of report data."""
        if len(report_data) != REPORT_DATA_BYTES:
            raise MalformedValue("report data", f"{len(report_data)} bytes instead of {REPORT_DATA_BYTES}")
        return Blob(encode(self.evidence(body_of(self._program, report_data))))

    def evidence(
        self, body: TdBody, verdict: SimulatedStatus | None = None, lifetime_s: int = LIFETIME_S, ppid: bytes = bytes(16)
    ) -> Evidence:  # fmt: skip
        """Evidence over any body, with any status of the simulated vendor, for tests of a verifier."""
        start = datetime.datetime.fromtimestamp(self._clock.now(), datetime.UTC)
        end = start + datetime.timedelta(seconds=lifetime_s)
        earlier = start - datetime.timedelta(seconds=_BACKDATED_S)
        pck = platform_key(self._platform.pck_ca, earlier, end, self._pck_key, ppid)
        quote = signed_quote(body, pck, self._platform.pck_ca.certificate, self._attestation)
        said = collateral(self._platform, start, end, verdict)
        return Evidence(EvidenceType.SIMULATED, quote, said, None, Blob(b""))
