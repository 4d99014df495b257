"""Judges claims about a GPU strictly. The claims are the result of NVIDIA's local verifier (claims version 3.0 of its attestation
SDK).

The claims are unsigned. They prove something only because of three facts. The verifier runs inside the enclave and is measured
with it. The GPU signed a nonce that names the purpose (`gpu_nonce`). The CPU's quote binds these very bytes
(`quoted_report_data`).
"""

from typing import Any

from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.evidence import EvidenceExpired, EvidenceMalformed, EvidenceReplayed, EvidenceTooLarge
from bytewise.tee.claims import GpuClaims
from bytewise.tee.documents import read_object, unix_second

MAX_GPU_BYTES = 16 * 1024
"""Size in bytes of the largest claims that are parsed. The claims of one H100 have 6 KB."""

_PREFIX = "x-nvidia-gpu-"
_REQUIRED: dict[str, object] = {
    # Every claim must have exactly this value; a missing claim counts as wrong.
    "dbgstat": "disabled",
    "measres": "success",
    "secboot": True,
    "x-nvidia-device-type": "gpu",
    "x-nvidia-gpu-claims-version": "3.0",
    "x-nvidia-mismatch-measurement-records": None,
    **{
        _PREFIX + name: True
        for name in (
            "arch-check", "attestation-report-cert-chain-fwid-match", "attestation-report-nonce-match",
            "attestation-report-parsed", "attestation-report-signature-verified", "driver-rim-fetched",
            "driver-rim-measurements-available", "driver-rim-signature-verified", "driver-rim-version-match",
            "vbios-index-no-conflict", "vbios-rim-fetched", "vbios-rim-measurements-available",
            "vbios-rim-signature-verified", "vbios-rim-version-match",
        )
    },
}  # fmt: skip
_CHAINS = ("attestation-report-cert-chain", "driver-rim-cert-chain", "vbios-rim-cert-chain")
_CHAIN_REQUIRED = {
    "x-nvidia-cert-status": "valid",
    "x-nvidia-cert-ocsp-status": "good",
    "x-nvidia-cert-ocsp-response-valid": True,
    "x-nvidia-cert-revocation-reason": None,
}


def verify_gpu(document: bytes, nonce: bytes, now: int) -> GpuClaims:
    """Checks at Unix second `now` that the claims are about a single GPU without a flaw and have this nonce. Returns the facts
    about the GPU. Raises a subclass of `EvidenceRefused` that names the flaw."""
    claims = _claims(document)
    if claims.get("eat_nonce") != nonce.hex():
        raise EvidenceReplayed("GPU claims are for another nonce")
    for name, wanted in _REQUIRED.items():
        _require(claims, name, wanted)
    for chain in _CHAINS:
        found = claims.get(_PREFIX + chain)
        if not isinstance(found, dict):
            raise EvidenceMalformed(f"GPU claims without {chain}")
        for name, wanted in _CHAIN_REQUIRED.items():
            _require(found, name, wanted)
        _verify_expiry(chain, found, now)
    return GpuClaims(_name(claims, "hwmodel"), _name(claims, _PREFIX + "driver-version"),
                     _name(claims, _PREFIX + "vbios-version"), _name(claims, "ueid"))  # fmt: skip


def _claims(document: bytes) -> dict[str, Any]:
    if len(document) > MAX_GPU_BYTES:
        raise EvidenceTooLarge(f"GPU claims of {len(document)} bytes, at most {MAX_GPU_BYTES}")
    found = read_object(document, "GPU claims").get("claims")
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], dict):
        raise EvidenceMalformed("GPU claims are not about exactly one GPU")
    return found[0]


def _require(claims: dict[str, Any], name: str, wanted: object) -> None:
    # In Python 1 == True, which must not count here.
    if name not in claims or (claims[name] is not wanted and (not isinstance(wanted, str) or claims[name] != wanted)):
        raise EvidenceRefused(f"GPU claim {name} is {str(claims.get(name, 'missing'))[:60]}")


def _verify_expiry(chain: str, found: dict[str, Any], now: int) -> None:
    text = found.get("x-nvidia-cert-expiration-date")
    if not isinstance(text, str):
        raise EvidenceMalformed(f"GPU claims: {chain} does not say when it expires")
    if unix_second(text) <= now:
        raise EvidenceExpired(f"GPU claims: {chain} expired {text[:30]}")


def _name(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= 100:
        raise EvidenceMalformed(f"GPU claims without {name}")
    return value
