"""The scribe's way to a shard: HTTPS, with the certificate pinned that the plan names."""

from types import TracebackType

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.jobs import ShardRecord
from bytewise.protocol.keys.ceremony import CeremonySeat
from bytewise.protocol.keys.ceremony_log import MAX_EXCHANGE_BYTES, MAX_EXCHANGE_MARKS, Exchange, ExchangeAnswer
from bytewise.protocol.units import Blob
from kms.shard_client import ShardClient


class HttpsLink:
    """One shard of a plan; a context manager."""

    def __init__(self, seat: CeremonySeat) -> None:
        record = ShardRecord(seat.index, seat.address, seat.url, seat.channel, seat.certificate, Blob(b""))
        self._client = ShardClient(record, most=MAX_EXCHANGE_BYTES)

    def __enter__(self) -> "HttpsLink":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._client.__exit__(kind, error, trace)

    def exchange(self, asked: Exchange, timeout_s: float) -> ExchangeAnswer:
        """One exchange; `TryAgain` if the shard cannot be reached or is not done in time, `ShardRefused` with its rule if it
        refuses."""
        answer = self._client.call("POST", "/v1/ceremony", encode(asked), timeout_s)
        return decode(ExchangeAnswer, answer, MAX_EXCHANGE_MARKS)
