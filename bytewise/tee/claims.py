"""Facts that verified evidence proves (claims), in one form for all platforms. The appraisal policy judges them."""

from dataclasses import dataclass

from bytewise.protocol.evidence.appraisal_policy import TcbStatus
from bytewise.protocol.units import Blob, Digest


@dataclass(frozen=True, slots=True)
class Claims:
    """Facts about a platform and its program. A root of the vendor vouches for them."""

    measurement: Digest
    """Digest over every register of the platform that identifies the running program."""
    report_data: bytes
    """The 64 bytes that the program chose."""
    platform_id: Blob
    """Id of the processor: a PPID (16 bytes) or a chip id (64 bytes)."""
    status: TcbStatus
    """TCB status: how current the platform's trusted parts are."""
    advisories: tuple[str, ...]
    """Security advisories that apply to the platform."""
    evaluation: int
    """Number of the vendor's TCB evaluation; 0 if the vendor has no such numbers."""
    issued_at: int
    """Unix second at which the newest part of the collateral was issued. For SNP: the newer of the chip's certificate and, if
    the rule requires it, the revocation list."""
    expires_at: int
    """Unix second at which the evidence expires. It is the earliest expiry of a part of the collateral or of a certificate."""
    simulated: bool
    """Whether the evidence has the simulator's mark."""


@dataclass(frozen=True, slots=True)
class GpuClaims:
    """Facts about a GPU, which NVIDIA's verifier found."""

    model: str
    """Hardware model of the GPU."""
    driver: str
    """Version of the driver."""
    vbios: str
    """Version of the GPU's firmware."""
    device: str
    """Unique id of the GPU, as a decimal number."""
