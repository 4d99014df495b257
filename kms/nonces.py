"""Single-use nonces without state per issued nonce: whoever asks for a million fills nothing (design section 8).

A nonce is issue time (8 bytes), randomness (8) and a MAC under a key of this process (16). Only nonces that came back inside
genuine evidence are remembered, until they expire. A restart draws another key, so older nonces are refused.
"""

import hmac
import threading

from bytewise.protocol.digests import Label
from bytewise.protocol.errors import EvidenceReplayed, TryAgain
from bytewise.protocol.units import Digest
from kms.curve import Rng

LIFETIME_S = 30
"""An enclave quotes and asks within a second; thirty cover a busy machine."""

_MAC_BYTES = 16


class NonceBook:
    """Issues nonces and takes each back once. Thread-safe."""

    def __init__(self, rng: Rng, capacity: int = 10_000) -> None:
        self._rng = rng
        self._key = rng(32)
        self._capacity = capacity
        self._used: dict[Digest, int] = {}
        self._lock = threading.Lock()

    def issue(self, now: int) -> Digest:
        """A fresh nonce, valid for `LIFETIME_S` from unix second `now`."""
        head = now.to_bytes(8, "big") + self._rng(8)
        return Digest(head + self._mac(head))

    def verify_fresh(self, nonce: Digest, now: int) -> Digest:
        """The nonce, if this process issued it, it is young and it was not used; else `EvidenceReplayed`."""
        if not hmac.compare_digest(self._mac(nonce[:-_MAC_BYTES]), nonce[-_MAC_BYTES:]):
            raise EvidenceReplayed("nonce is not of this shard")
        if not 0 <= now - int.from_bytes(nonce[:8]) < LIFETIME_S:
            raise EvidenceReplayed("nonce is too old")
        with self._lock:
            if nonce in self._used:
                raise EvidenceReplayed("nonce was used")
        return nonce

    def consume(self, nonce: Digest, now: int) -> Digest:
        """The nonce, now used; `EvidenceReplayed` if it was, `TryAgain` while too many used ones are remembered."""
        with self._lock:
            self._used = {each: until for each, until in self._used.items() if until > now}
            if nonce in self._used:
                raise EvidenceReplayed("nonce was used")
            if len(self._used) >= self._capacity:
                raise TryAgain("nonce book", "full")
            self._used[nonce] = int.from_bytes(nonce[:8]) + LIFETIME_S
        return nonce

    def _mac(self, head: bytes) -> bytes:
        return hmac.digest(self._key, Label.NONCE.value.encode() + head, "sha256")[:_MAC_BYTES]
