"""Collateral that Intel would issue for a simulated platform: made for each quote and valid for minutes (fence 7)."""

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from bytewise.protocol.evidence.appraisal_policy import TcbStatus
from bytewise.protocol.evidence.claims import Collateral
from bytewise.protocol.units import Blob
from bytewise.tee.mode import refuse_in_production
from bytewise.tee_simulated.root import Platform
from bytewise.tee_simulated.td_quote import QE_PRODUCT, QE_SIGNER, QE_VERSION, raw_signature
from bytewise.tee_simulated.x509 import der, revocation_list

refuse_in_production()

EVALUATION = 1
"""Number of the simulated TCB evaluation."""
LEVEL_AGE_S = 30 * 86_400
"""Age in seconds of the platforms' TCB level, as the simulated vendor dates it."""
_ZEROS = {"mrsigner": "00" * 48, "attributes": "00" * 8, "attributesMask": "FF" * 8}


@dataclass(frozen=True, slots=True)
class SimulatedStatus:
    """What the simulated vendor says of its platforms; tests may change it."""

    status: TcbStatus = TcbStatus.UP_TO_DATE
    advisories: tuple[str, ...] = ()
    evaluation: int = EVALUATION
    revoked: tuple[int, ...] = ()
    level_age_s: int = LEVEL_AGE_S
    """Age of the platform's level and of its quoting enclave's, seconds."""
    qe_status: TcbStatus = TcbStatus.UP_TO_DATE
    tcb_info: Mapping[str, object] = field(default_factory=dict)
    """Changed members of the TCB info."""
    qe_identity: Mapping[str, object] = field(default_factory=dict)
    """Changed members of the QE identity."""


def collateral(
    platform: Platform, start: datetime.datetime, end: datetime.datetime, simulated: SimulatedStatus | None = None
) -> Collateral:
    """Collateral that was issued at `start` and expires at `end`."""
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
