"""An enclave's attested channel to one shard: dialled for one job, asked once, closed (design sections 7 and 8).

Whoever dials sees ciphertext, and cannot pass for the shard: that is known by its account and by its program's evidence.
"""

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors import BytewiseError, ShardRefused, TryAgain
from bytewise.protocol.jobs import ShardRecord
from bytewise.protocol.keys.epochs import Refusal, ReleaseAnswer, ReleaseReply, ReleaseRequest
from bytewise.protocol.units import Blob
from bytewise.service.shard_connection import Dial, dial
from bytewise.tee.channel import Channel, End, connect

MAX_REPLY_BYTES = 64 * 1024
"""A release answer has about 2 KB."""

_MAX_REPLY_MARKS = 64
"""Most brackets, commas and backslashes of a reply; it has some 20."""


def open_channel(shard: ShardRecord, end: End, transport_key: Blob, timeout_s: float, dial: Dial = dial) -> Channel:
    """The channel to a shard, for a partial that is sealed to `transport_key`.

    `TryAgain` if nobody is there; else errors as of `connect`.
    """
    try:
        stream = dial(shard, timeout_s)
    except OSError as error:
        raise TryAgain(shard.channel, type(error).__name__) from None
    return connect(stream, end, transport_key, timeout_s)


def ask(channel: Channel, shard: ShardRecord, request: ReleaseRequest, timeout_s: float) -> ReleaseAnswer:
    """The shard's answer, not yet believed; `ShardRefused` with its rule, `TryAgain` if it says so."""
    channel.send(encode(request), timeout_s)
    reply = decode(ReleaseReply, channel.receive(MAX_REPLY_BYTES, timeout_s), _MAX_REPLY_MARKS)
    if reply.answer is None:
        assert reply.refusal is not None
        raise _refused(shard, reply.refusal)
    return reply.answer


def _refused(shard: ShardRecord, refusal: Refusal) -> BytewiseError:
    if refusal.retryable:
        return TryAgain(shard.channel, refusal.error)
    return ShardRefused(shard.channel, f"{refusal.error} {refusal.rule}")
