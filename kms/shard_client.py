"""HTTPS to one shard, its certificate pinned: for whoever reads its public log, or brings shards together."""

import ssl

import httpx2

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors import BytewiseError, ConfigurationError, Fault, ShardRefused, TryAgain
from bytewise.protocol.jobs import ShardRecord
from bytewise.protocol.keys import Refusal
from bytewise.protocol.network import Holder

TIMEOUT_S = 5.0
"""Of one HTTP exchange."""
MAX_ANSWER_BYTES = 64 * 1024
"""Most that an answer has where the caller does not say otherwise."""


class ShardClient:
    """HTTPS to one shard, trusting its pinned certificate and nothing else."""

    def __init__(self, shard: ShardRecord | Holder, timeout_s: float = TIMEOUT_S, most: int = MAX_ANSWER_BYTES) -> None:
        try:
            context = ssl.create_default_context(cadata=shard.certificate)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(f"certificate of shard {shard.address}", type(error).__name__) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._url = shard.url
        self._most = most
        self._http = httpx2.Client(base_url=shard.url, verify=context, timeout=timeout_s, trust_env=False)

    def __enter__(self) -> "ShardClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def call(self, method: str, path: str, body: bytes) -> bytes:
        """Body of a 200 answer; `ShardRefused` with the shard's rule, `TryAgain` if it says so or cannot be reached."""
        try:
            with self._http.stream(method, path, content=body) as response:
                data = bytearray()
                for chunk in response.iter_bytes():
                    data += chunk
                    if len(data) > self._most:
                        raise ShardRefused(self._url, "an answer above the cap")
                status = response.status_code
        except httpx2.HTTPError as error:
            raise TryAgain(self._url, type(error).__name__) from None
        if status == httpx2.codes.OK:
            return bytes(data)
        raise self._refusal(status, bytes(data))

    def _refusal(self, status: int, data: bytes) -> BytewiseError:
        try:
            refusal = decode(Refusal, data)
        except Fault:
            return ShardRefused(self._url, f"status {status}")
        if refusal.retryable:
            return TryAgain(self._url, refusal.error)
        return ShardRefused(self._url, f"{refusal.error} {refusal.rule}")
