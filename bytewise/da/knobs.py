"""The store's misbehaviour on demand, as the proxy's memstore has it: `GET` and `PATCH /memstore/config` with Go durations."""

import dataclasses
import re
from typing import Any

from bytewise.da.conventions import MAX_BODY_BYTES, VERSION_V3, VERSION_V4, Refusal
from bytewise.protocol.errors import MalformedValue

_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)")
_VERSIONS = {0: VERSION_V4, 3: VERSION_V3, 4: VERSION_V4}


@dataclasses.dataclass(frozen=True)
class Knobs:
    """One setting of every knob; durations in seconds."""

    expiration_s: float
    put_latency_s: float = 0.0
    get_latency_s: float = 0.0
    put_fails_over: bool = False
    refusal: Refusal | None = None
    certificate_version: int = 0

    @property
    def version_byte(self) -> int:
        """Version byte of new certificates."""
        return _VERSIONS[self.certificate_version]

    def to_json(self) -> dict[str, Any]:
        """As the memstore shows it."""
        refusal = (
            None if self.refusal is None else {"StatusCode": self.refusal.status, "Msg": self.refusal.message, "Reset": False}
        )
        return {
            "MaxBlobSizeBytes": MAX_BODY_BYTES,
            "BlobExpiration": go_duration(self.expiration_s),
            "PutLatency": go_duration(self.put_latency_s),
            "GetLatency": go_duration(self.get_latency_s),
            "PutReturnsFailoverError": self.put_fails_over,
            "OverwritePutWithDerivationError": refusal,
            "CertVersion": self.certificate_version,
        }

    def patched(self, change: object) -> "Knobs":
        """The knobs after a PATCH body; `MalformedValue` for an unknown name or a bad value."""
        if not isinstance(change, dict):
            raise MalformedValue("config", "not an object")
        values = {}
        for name, value in change.items():
            if name not in _READERS:
                raise MalformedValue("config", f"unknown field {name[:40]}")
            field, read = _READERS[name]
            values[field] = read(value)
        return dataclasses.replace(self, **values)


def parse_go_duration(text: object) -> float:
    """Seconds of a Go duration such as `1m30s` or `250ms`; `MalformedValue` otherwise."""
    if text == "0":
        return 0.0
    parts = _PART.findall(text) if isinstance(text, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise MalformedValue("duration", str(text)[:40])
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def go_duration(seconds: float) -> str:
    """The duration as Go prints it."""
    if seconds == 0 or seconds >= 60:
        whole = int(seconds)
        hours, minutes, rest = whole // 3600, whole // 60 % 60, _short(seconds - whole // 60 * 60)
        return (f"{hours}h" if hours else "") + (f"{minutes}m" if whole >= 60 else "") + f"{rest}s"
    return f"{_short(seconds * 1000)}ms" if seconds < 1 else f"{_short(seconds)}s"


def _short(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise MalformedValue("config", "not a boolean")
    return value


def _refusal(value: object) -> Refusal | None:
    if not isinstance(value, dict) or not value.keys() <= {"StatusCode", "Msg", "Reset"}:
        raise MalformedValue("config", "not a derivation error")
    if value.get("Reset", False):
        return None
    status, message = value.get("StatusCode"), value.get("Msg", "")
    if type(status) is not int or not 1 <= status <= 4 or not isinstance(message, str):
        raise MalformedValue("config", "status is 1 to 4")
    return Refusal(status, message)


def _version(value: object) -> int:
    if type(value) is not int or value not in _VERSIONS:
        raise MalformedValue("config", "certificate version is 0, 3 or 4")
    return value


_READERS: dict[str, tuple[str, Any]] = {
    "BlobExpiration": ("expiration_s", parse_go_duration),
    "PutLatency": ("put_latency_s", parse_go_duration),
    "GetLatency": ("get_latency_s", parse_go_duration),
    "PutReturnsFailoverError": ("put_fails_over", _flag),
    "NullableDerivationError": ("refusal", _refusal),
    "CertVersion": ("certificate_version", _version),
}
