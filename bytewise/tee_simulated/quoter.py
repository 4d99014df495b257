"""A simulated quoter, and the collateral that Intel would issue for its platform.

A simulated quote has the format of TDX. It states that this program, as measured from its source, chose this report data. The
collateral is made for each quote and is valid for minutes (fence 7).
"""

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from bytewise.ports import Clock
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.appraisal_policy import EvidenceType, TcbStatus
from bytewise.protocol.evidence.claims import REPORT_DATA_BYTES, Collateral, Evidence
from bytewise.protocol.units import ZERO_DIGEST, Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.service.installation import SOURCE_ROOT
from bytewise.tee.measurement import ENCLAVE_ENTRY, measure
from bytewise.tee.quoters import refuse_in_production
from bytewise.tee_simulated.authorities import Platform, der, revocation_list
from bytewise.tee_simulated.td_quote import (
    QE_PRODUCT,
    QE_SIGNER,
    QE_VERSION,
    TdBody,
    body_of,
    platform_key,
    raw_signature,
    signed_quote,
)

refuse_in_production()

EVALUATION = 1
"""Number of the simulated TCB evaluation."""
LEVEL_AGE_S = 30 * 86_400
"""Age in seconds of the platforms' TCB level, as the simulated vendor dates it."""
_ZEROS = {"mrsigner": "00" * 48, "attributes": "00" * 8, "attributesMask": "FF" * 8}
LIFETIME_S = 300
"""Seconds for which evidence of the simulator is valid."""
_BACKDATED_S = 60
"""Seconds by which the platform key's certificate starts earlier, for verifiers whose clock is behind."""


@dataclass(frozen=True, slots=True)
class SimulatedStatus:
    """Statements of the simulated vendor about its platforms. Tests may change them."""

    status: TcbStatus = TcbStatus.UP_TO_DATE
    advisories: tuple[str, ...] = ()
    evaluation: int = EVALUATION
    revoked: tuple[int, ...] = ()
    level_age_s: int = LEVEL_AGE_S
    """Age in seconds of two TCB levels: that of the platform and that of its quoting enclave."""
    qe_status: TcbStatus = TcbStatus.UP_TO_DATE
    tcb_info: Mapping[str, object] = field(default_factory=dict)
    """Members that replace those of the same name in the TCB info."""
    qe_identity: Mapping[str, object] = field(default_factory=dict)
    """Members that replace those of the same name in the QE identity."""


def collateral(
    platform: Platform, start: datetime.datetime, end: datetime.datetime, simulated: SimulatedStatus | None = None
) -> Collateral:
    """Returns the collateral of a platform. It was issued at `start` and expires at `end`."""
    status = simulated or SimulatedStatus()
    dates = {"issueDate": _text(start), "nextUpdate": _text(end), "tcbEvaluationDataNumber": status.evaluation}
    level = {"tcbDate": _text(start - datetime.timedelta(seconds=status.level_age_s))}
    tcb_info = _document(_tcb_info(status, dates, level))
    identity = _document(_qe_identity(status, dates, level))
    key = platform.tcb_signer.key
    return Collateral(
        pck_ca=der(platform.pck_ca.certificate), tcb_signer=der(platform.tcb_signer.certificate), root_crl=platform.root_crl,
        pck_crl=revocation_list(platform.pck_ca, start, end, status.revoked),
        tcb_info=tcb_info, tcb_info_signature=Blob(raw_signature(key, tcb_info)),
        qe_identity=identity, qe_identity_signature=Blob(raw_signature(key, identity)),
    )  # fmt: skip


def _tcb_info(status: SimulatedStatus, dates: dict[str, object], dated: dict[str, str]) -> dict[str, object]:
    zeros = [{"svn": 0}] * 16
    level: dict[str, object] = {
        "tcb": {"sgxtcbcomponents": zeros, "pcesvn": 0, "tdxtcbcomponents": zeros}, **dated, "tcbStatus": status.status.value,
    }  # fmt: skip
    if status.advisories:
        level["advisoryIDs"] = list(status.advisories)
    return {
        "id": "TDX", "version": 3, **dates, "fmspc": "00" * 6, "pceId": "0000", "tcbType": 0, "tdxModule": _ZEROS,
        "tdxModuleIdentities": [], "tcbLevels": [level], **status.tcb_info,
    }  # fmt: skip


def _qe_identity(status: SimulatedStatus, dates: dict[str, object], dated: dict[str, str]) -> dict[str, object]:
    level = {"tcb": {"isvsvn": QE_VERSION}, **dated, "tcbStatus": status.qe_status.value}
    return {
        "id": "TD_QE", "version": 2, **dates, "miscselect": "00000000", "miscselectMask": "FFFFFFFF",
        "attributes": "11" + "00" * 15, "attributesMask": "FBFFFFFFFFFFFFFF" + "00" * 8, "mrsigner": QE_SIGNER.hex().upper(),
        "isvprodid": QE_PRODUCT, "tcbLevels": [level], **status.qe_identity,
    }  # fmt: skip


def _document(value: dict[str, object]) -> Blob:
    return Blob(json.dumps(value, separators=(",", ":")).encode())


def _text(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class SimulatedQuoter:
    """A quoter that implements `bytewise.ports.Quoter`. Its evidence has type `simulated` and the simulator's mark, and names no
    platform."""

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
        """Returns a quoter for the program that starts at module `entry` and runs `model`. This method measures the program now,
        from the running source tree."""
        return cls(Platform(platform_file), measure(SOURCE_ROOT, entry, model), SystemClock())

    def quote(self, report_data: bytes) -> Blob:
        """Returns evidence over 64 bytes of report data."""
        if len(report_data) != REPORT_DATA_BYTES:
            raise MalformedValue("report data", f"{len(report_data)} bytes instead of {REPORT_DATA_BYTES}")
        return Blob(encode(self.evidence(body_of(self._program, report_data))))

    def evidence(
        self, body: TdBody, verdict: SimulatedStatus | None = None, lifetime_s: int = LIFETIME_S, ppid: bytes = bytes(16)
    ) -> Evidence:  # fmt: skip
        """Returns evidence over any body, with any status of the simulated vendor. `quote` and tests of a verifier use it."""
        start = datetime.datetime.fromtimestamp(self._clock.now(), datetime.UTC)
        end = start + datetime.timedelta(seconds=lifetime_s)
        earlier = start - datetime.timedelta(seconds=_BACKDATED_S)
        pck = platform_key(self._platform.pck_ca, earlier, end, self._pck_key, ppid)
        quote = signed_quote(body, pck, self._platform.pck_ca.certificate, self._attestation)
        said = collateral(self._platform, start, end, verdict)
        return Evidence(EvidenceType.SIMULATED, quote, said, None, Blob(b""))
