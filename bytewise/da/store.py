"""The store: blobs on disk (`BlobFolder`), and the REST interface of the EigenDA proxy. It serves the proxy's standard mode and
its mode op-generic.

A request uses standard mode only with `commitment_mode=standard`. Without it, the commitment begins with the OP type byte. The
store differs from the proxy in its certificates, which have a format of our own. The store answers 418 if a certificate does
not parse, as a real backend does. `GET` and `PATCH /memstore/config` inject faults as the proxy's memstore does, with Go
durations.
"""

import dataclasses
import json
import os
import re
import secrets
import threading
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bytewise.da.conventions import (
    MAX_BODY_BYTES,
    MAX_PAYLOAD_BYTES,
    NONCE_BYTES,
    STANDARD,
    VERSION_V3,
    VERSION_V4,
    DaCertificate,
    ProxyRefusal,
    certify,
    encode_payload,
    parse_certificate,
)
from bytewise.da.settings import StoreSettings
from bytewise.protocol import digests, encoding
from bytewise.protocol.encoding import verify_depth
from bytewise.protocol.errors.actors import FailOver, StoreCorrupt, TryAgain
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.errors.records import MalformedValue, NotCanonical
from bytewise.service import metrics
from bytewise.service.clock import SystemClock

# Blobs on disk, each named by the keccak256 of its certificate. Writes are atomic, and the total size is bounded.


class StoredBlob(NamedTuple):
    """One blob of the store. A blob can have a refusal, because a fault setting asked for it when the blob was stored. The
    store then answers with the refusal."""

    payload: bytes
    refusal: ProxyRefusal | None


class BlobFolder:
    """Folder of blobs with a bounded total size. Every method may be called from any thread."""

    def __init__(self, folder: Path, max_total_bytes: int) -> None:
        self._folder = folder
        self._limit = max_total_bytes
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob("*.part"):
            unfinished.unlink()
        self._total = sum(path.stat().st_size for path in folder.glob("*.blob"))

    def put(
        self, certificate: DaCertificate, payload: bytes, now: float, expires_at: float, refusal: ProxyRefusal | None
    ) -> None:
        """Stores a payload durably under a fresh certificate. Times are Unix seconds. Raises `FailOver` if the folder is full
        or cannot be written."""
        about = {"expires_at_ms": int(expires_at * 1000), "refusal": list(refusal) if refusal else None}
        head = encoding.encode(about)
        data = len(head).to_bytes(4, "big") + head + payload
        self._reserve(len(data), now)
        target = self._path(certificate)
        try:
            _write_whole(target, data)
        except OSError as error:
            with self._lock:
                self._total -= len(data)
            raise FailOver("store", error.strerror) from None

    def get(self, certificate: DaCertificate, now: float) -> StoredBlob:
        """Returns the blob of a certificate at Unix second `now`. Raises `TryAgain` if the blob was never stored, has expired,
        or no longer fits its certificate. Raises `StoreCorrupt` if the head of its file is damaged."""
        try:
            data = self._path(certificate).read_bytes()
        except FileNotFoundError:
            raise TryAgain("blob", "not found") from None
        expires_at, refusal, payload = _split(data)
        if now >= expires_at:
            self._drop(self._path(certificate))
            raise TryAgain("blob", "not found: expired")
        if digests.keccak256(payload) != certificate.payload_hash or len(payload) != certificate.length:
            raise TryAgain("blob", "damaged on disk")
        return StoredBlob(payload, refusal)

    def prune(self, now: float) -> int:
        """Deletes the blobs that have expired at Unix second `now`, and returns the number of deleted blobs."""
        late = [path for path in self._folder.glob("*.blob") if _expiry(path) <= now]
        for path in late:
            self._drop(path)
        return len(late)

    def _reserve(self, size: int, now: float) -> None:
        if self._total + size > self._limit:
            self.prune(now)
        with self._lock:
            if self._total + size > self._limit:
                raise FailOver("store", "full")
            self._total += size

    def _drop(self, path: Path) -> None:
        with self._lock:
            try:
                size = path.stat().st_size
                path.unlink()
            except FileNotFoundError:
                return  # another thread was first
            self._total -= size

    def _path(self, certificate: DaCertificate) -> Path:
        return self._folder / f"{digests.keccak256(certificate.encode()).hex()}.blob"


def _write_whole(target: Path, data: bytes) -> None:
    unfinished = target.with_suffix(".part")
    with unfinished.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(target)


def _split(data: bytes) -> tuple[float, ProxyRefusal | None, bytes]:
    end = 4 + int.from_bytes(data[:4], "big")
    try:
        about = encoding.parse(data[4:end])
        refusal = ProxyRefusal(*about["refusal"]) if about["refusal"] else None
        return about["expires_at_ms"] / 1000, refusal, data[end:]
    except (Fault, KeyError, TypeError):
        raise StoreCorrupt("blobs", "a file is damaged") from None


def _expiry(path: Path) -> float:
    try:
        with path.open("rb") as file:
            return _split(file.read(4096))[0]
    except (FileNotFoundError, StoreCorrupt):
        return float("inf")


_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)")
_VERSIONS = {0: VERSION_V4, 3: VERSION_V3, 4: VERSION_V4}


@dataclasses.dataclass(frozen=True)
class FaultSettings:
    """Faults that the store injects for tests, as the proxy's memstore does: delays, refusals and early expiry. Durations are in
    seconds."""

    expiration_s: float
    put_latency_s: float = 0.0
    get_latency_s: float = 0.0
    put_fails_over: bool = False
    refusal: ProxyRefusal | None = None
    certificate_version: int = 0

    @property
    def version_byte(self) -> int:
        """Version byte in the DA certificate that the store gives for each new blob: that of `certificate_version`."""
        return _VERSIONS[self.certificate_version]

    def to_json(self) -> dict[str, Any]:
        """Returns the settings in the form of the proxy's memstore."""
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

    def patched(self, change: object) -> "FaultSettings":
        """Returns the settings after the change that a PATCH body describes. Raises `MalformedValue` for an unknown name or a
        bad value."""
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
    """Returns the seconds of a Go duration such as `1m30s` or `250ms`. Raises `MalformedValue` for anything else."""
    if text == "0":
        return 0.0
    parts = _PART.findall(text) if isinstance(text, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise MalformedValue("duration", str(text)[:40])
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def go_duration(seconds: float) -> str:
    """Returns a number of seconds as Go prints a duration."""
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


def _refusal(value: object) -> ProxyRefusal | None:
    if not isinstance(value, dict) or not value.keys() <= {"StatusCode", "Msg", "Reset"}:
        raise MalformedValue("config", "not a derivation error")
    if value.get("Reset", False):
        return None
    status, message = value.get("StatusCode"), value.get("Msg", "")
    if type(status) is not int or not 1 <= status <= 4 or not isinstance(message, str):
        raise MalformedValue("config", "status is 1 to 4")
    return ProxyRefusal(status, message)


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


_COMMITMENT = re.compile(r"(?:0[xX])?([0-9a-fA-F]{2})(.+)")
_OP_GENERIC = b"\x01\x00"
"""Bytes in front of an op-generic commitment: OP commitment type 1, DA layer 0 (EigenDA)."""
_MAX_CONFIG_BYTES = 64 * 1024


class _ErrorReply(Exception):
    """Exception that ends a request. The store then answers with a status and a text, in the form of Go's http.Error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.response = PlainTextResponse(text + "\n", code)


class StoreServer:
    """HTTP handlers of the store, over one folder of blobs."""

    def __init__(self, settings: StoreSettings, clock: SystemClock) -> None:
        self._blobs = BlobFolder(settings.directory, settings.max_total_bytes)
        self._clock = clock
        self._faults = FaultSettings(float(settings.retention_s))
        self._lock = threading.Lock()

    async def put(self, request: Request) -> Response:
        """Handles POST /put: stores the body, and answers with the raw commitment."""
        faults = self._faults
        payload = await _body(request, MAX_BODY_BYTES)
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise _ErrorReply(400, "blob is larger than max blob size")
        await anyio.sleep(faults.put_latency_s)
        if faults.put_fails_over:
            raise _ErrorReply(503, "failover requested")
        certificate = certify(payload, faults.version_byte, secrets.token_bytes(NONCE_BYTES))
        now = self._clock.now()
        try:
            await anyio.to_thread.run_sync(self._blobs.put, certificate, payload, now, now + faults.expiration_s, faults.refusal)
        except FailOver as error:
            metrics.STORE_FULL.inc()
            raise _ErrorReply(503, str(error)) from None
        metrics.STORE_REQUESTS.labels(op="put").inc()
        prefix = b"" if _is_standard(request.query_params) else _OP_GENERIC
        return Response(prefix + certificate.encode(), media_type="application/octet-stream")

    async def get(self, request: Request) -> Response:
        """Handles GET /get/…: answers with the payload of a commitment."""
        commitment = _commitment(request.path_params["commitment"], _is_standard(request.query_params))
        _check_block_number(request.query_params)
        await anyio.sleep(self._faults.get_latency_s)
        try:
            certificate = parse_certificate(commitment)
            stored = await anyio.to_thread.run_sync(self._blobs.get, certificate, self._clock.now())
        except MalformedValue as error:
            return _teapot(ProxyRefusal(1, str(error)))
        except Unavailable as error:
            raise _ErrorReply(500, str(error)) from None
        if stored.refusal is not None:
            return _teapot(stored.refusal)
        metrics.STORE_REQUESTS.labels(op="get").inc()
        encoded = request.query_params.get("return_encoded_payload")
        payload = (
            encode_payload(stored.payload) if encoded is not None and encoded.lower() in ("", "true", "1") else stored.payload
        )
        return Response(payload, media_type="application/octet-stream")

    async def keccak(self, _request: Request) -> Response:
        """Handles POST /put/00…: answers with 403, because the store does not offer op-keccak."""
        raise _ErrorReply(403, "op-keccak is not enabled")

    async def health(self, _request: Request) -> Response:
        """Handles GET /health: answers with 200."""
        return Response()

    async def config(self, _request: Request) -> Response:
        """Handles GET /config: answers with the proxy's public settings. Their chain members are empty, because this store uses
        no chain."""
        return JSONResponse(
            {
                "version": "bytewise", "chain_id": "", "directory_address": "", "cert_verifier_address": "",
                "max_payload_size_bytes": MAX_PAYLOAD_BYTES, "apis_enabled": [STANDARD, "op-generic"], "read_only_mode": False,
            }
        )  # fmt: skip

    async def show_faults(self, _request: Request) -> Response:
        """Handles GET /memstore/config: answers with the fault settings."""
        return JSONResponse(self._faults.to_json())

    async def change_faults(self, request: Request) -> Response:
        """Handles PATCH /memstore/config: changes fault settings, and answers with all of them."""
        try:
            change = json.loads(verify_depth(await _body(request, _MAX_CONFIG_BYTES)))
            with self._lock:
                self._faults = self._faults.patched(change)
        except (ValueError, NotCanonical, MalformedValue) as error:
            raise _ErrorReply(400, str(error)[:200]) from None
        return await self.show_faults(request)


def build_app(settings: StoreSettings, clock: SystemClock) -> Starlette:
    """Returns the ASGI application of a store."""
    store = StoreServer(settings, clock)
    routes = [
        Route("/put", store.put, methods=["POST"]),
        Route("/put/", store.put, methods=["POST"]),
        Route("/put/{key}", store.keccak, methods=["POST"]),
        Route("/get/{commitment}", store.get, methods=["GET"]),
        Route("/health", store.health, methods=["GET"]),
        Route("/config", store.config, methods=["GET"]),
    ]
    if settings.memstore:
        routes.append(Route("/memstore/config", store.show_faults, methods=["GET"]))
        routes.append(Route("/memstore/config", store.change_faults, methods=["PATCH"]))
    handlers = {_ErrorReply: _answered, 404: _not_found, 405: _not_allowed}
    app = Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type]
    app.router.redirect_slashes = False
    return app


def _is_standard(query: QueryParams) -> bool:
    return query.get("commitment_mode") == STANDARD


def _commitment(text: str, standard: bool) -> bytes:
    """Returns the certificate, version byte first, from the commitment in a path. The error codes are those of the proxy."""
    found = _COMMITMENT.fullmatch(text)
    if found is None:
        raise _ErrorReply(404, "404 page not found")
    try:
        raw = bytes.fromhex(found.group(1)) + _unhex(found.group(2))
    except ValueError as error:
        raise _ErrorReply(400, f"failed to decode hex: {error}") from None
    if not standard:
        raw = _without_op_header(raw)
    if not raw or raw[0] > VERSION_V4:
        raise _ErrorReply(400, f"unsupported version byte {raw[:1].hex()}")
    if raw[0] == 0:
        raise _ErrorReply(500, "V1 backend has been removed")
    return raw


def _unhex(text: str) -> bytes:
    if not re.fullmatch(r"[0-9a-fA-F]*", text):  # bytes.fromhex would skip blanks
        raise ValueError("not hex")
    return bytes.fromhex(text)


def _without_op_header(raw: bytes) -> bytes:
    if raw[:1] == b"\x00":
        raise _ErrorReply(403, "op-keccak is not enabled")
    if raw[:2] != _OP_GENERIC:
        raise _ErrorReply(400, f"unsupported commitment type {raw[:2].hex()}")
    return raw[2:]


def _check_block_number(query: QueryParams) -> None:
    text = query.get("l1_inclusion_block_number", "0")
    if not re.fullmatch(r"[0-9]{1,20}", text) or int(text) >= 1 << 64:
        raise _ErrorReply(400, "l1_inclusion_block_number is not a uint64")


def _teapot(refusal: ProxyRefusal) -> Response:
    return JSONResponse({"StatusCode": refusal.status, "Msg": refusal.message}, 418)


async def _body(request: Request, limit: int) -> bytes:
    received = bytearray()
    async for chunk in request.stream():
        received += chunk
        if len(received) > limit:
            raise _ErrorReply(400, "http: request body too large")
    return bytes(received)


async def _answered(_request: Request, answer: _ErrorReply) -> Response:
    return answer.response


async def _not_found(_request: Request, _error: Exception) -> Response:
    return PlainTextResponse("404 page not found\n", 404)


async def _not_allowed(_request: Request, _error: Exception) -> Response:
    return Response(status_code=405)
