"""What single shards gave an enclave for one envelope, checked, and what t of them make together, by the suite of the epoch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto import hpke, hybrid, reconstruction
from bytewise.crypto.curve import decode_point
from bytewise.crypto.erasable import erase
from bytewise.crypto.hybrid import Place
from bytewise.crypto.proofs import verify_partial
from bytewise.crypto.reconstruction import TransportKey
from bytewise.crypto.shares import combine
from bytewise.protocol.encoding import decode
from bytewise.protocol.jobs import RunJob, ShardRecord, anchor_domain
from bytewise.protocol.keys.epochs import HybridPartial, Partial, partial_info, share_info
from bytewise.protocol.records.seal import Envelope, HybridEnvelope, seal_context
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import Digest


@dataclass(frozen=True, slots=True)
class Piece:
    """What one shard gave; shows none of it."""

    point: EccPoint | None = field(default=None, repr=False)
    """Its partial; None in an epoch whose key is rebuilt."""
    share: int | None = field(default=None, repr=False)
    """Its share of the PSK, in a hybrid epoch."""
    of_key: bytearray | None = field(default=None, repr=False)
    """Its share of the key, in an epoch whose key is rebuilt."""


def take(job: RunJob, ticket_hash: Digest, envelope: Envelope, shard: ShardRecord, sealed: bytes, to: TransportKey) -> Piece:
    """What a shard sealed to the job's transport key; a `Fault` names what is wrong with it, `ShardLied` above all."""
    receipt, key = job.ticket.receipt_id, decode_point(shard.verification_key)
    names = shard.address, receipt, ticket_hash, job.ticket.key_epoch
    if is_rebuilt(job.ticket.key_epoch):
        return Piece(of_key=reconstruction.take(sealed, to, share_info(*names), shard.index, key))
    opened = hpke.open_from_transport(to.secret, partial_info(*names), sealed)
    given = decode(HybridPartial, opened) if isinstance(envelope, HybridEnvelope) else None
    partial = given.partial if given is not None else decode(Partial, opened)
    point = verify_partial(partial, shard.index, key, decode_point(envelope.enc), receipt)
    if given is None or not isinstance(envelope, HybridEnvelope):
        return Piece(point)
    return Piece(point, hybrid.verify_share(given, shard.index, envelope, place_of(job), job.epoch, receipt))


def shared_point(pieces: Mapping[int, Piece], envelope: Envelope) -> EccPoint:
    """x·R of the epoch's private key x and the envelope's ephemeral point R, from t pieces; shares of x are erased."""
    shares = {index: piece.of_key for index, piece in pieces.items() if piece.of_key is not None}
    if shares:
        return reconstruction.times_key(decode_point(envelope.enc), shares)
    return combine({index: piece.point for index, piece in pieces.items() if piece.point is not None})


def forget(pieces: Iterable[Piece]) -> None:
    """Erases what can be erased of them."""
    erase(*(piece.of_key for piece in pieces if piece.of_key is not None))


def place_of(job: RunJob) -> Place:
    """Which envelope of which epoch a job is about."""
    return Place(seal_context(anchor_domain(job.contracts), job.receipt), job.receipt.key_epoch)
