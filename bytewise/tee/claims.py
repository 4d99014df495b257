"""The facts of verified evidence, in one form for all platforms, which a policy judges."""

from dataclasses import dataclass

from bytewise.protocol.evidence.appraisal_policy import TcbStatus
from bytewise.protocol.units import Blob, Digest


@dataclass(frozen=True, slots=True)
class Claims:
    """Facts that a vendor's root vouches for."""

    measurement: Digest
    """Digest over every register of the platform that identifies the running program."""
    report_data: bytes
    """64 bytes that the program chose."""
    platform_id: Blob
    """PPID (16 bytes) or chip id (64 bytes)."""
    status: TcbStatus
    """TCB status: how current the platform's trusted parts are."""
    advisories: tuple[str, ...]
    """Security advisories that apply to it."""
    evaluation: int
    """Number of the vendor's TCB evaluation; 0 if there are none."""
    issued_at: int
    """Unix second of the newest part of the collateral, or of the chip's certificate."""
    expires_at: int
    """Unix second at which the first part of the collateral, or a certificate, expires."""
    simulated: bool
    """Whether the evidence carries the simulator's marker."""


@dataclass(frozen=True, slots=True)
class GpuClaims:
    """Findings of the verifier of a GPU."""

    model: str
    """Hardware model."""
    driver: str
    """Driver version."""
    vbios: str
    """Firmware version."""
    device: str
    """Unique id of the device, decimal."""
