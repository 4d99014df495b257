"""Blobs on disk, each named by the keccak256 of its certificate. Writes are atomic, and the total size is bounded.

A file is a 4-byte length, canonical JSON about the blob, then the payload.
"""

import os
import threading
from pathlib import Path
from typing import NamedTuple

from bytewise.da.certificate import DaCertificate
from bytewise.da.conventions import ProxyRefusal
from bytewise.protocol import digests, encoding
from bytewise.protocol.errors.actors import FailOver, StoreCorrupt, TryAgain
from bytewise.protocol.errors.branches import Fault


class StoredBlob(NamedTuple):
    """A blob, or the refusal that a fault setting put in its place."""

    payload: bytes
    refusal: ProxyRefusal | None


class BlobFolder:
    """A folder of blobs. Every method may be called from any thread."""

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
        """Stores a payload durably under a fresh certificate. `FailOver` if the folder is full."""
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
        """The blob. `TryAgain` if it was never stored, has expired, or no longer fits its certificate."""
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
        """Deletes expired blobs and returns how many."""
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
