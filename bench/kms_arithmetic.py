"""Runs the elliptic-curve arithmetic of one key release alone in this process: the part that no implementation can avoid.

It includes envelope proofs, partial decapsulations with their proofs, the sealing of partials to the enclave and interpolation.
Both sides run one after the other, with the functions that shards and enclaves call. It excludes signatures, quotes, TLS, HTTP,
the chain and the database.
"""

import os
from collections.abc import Sequence

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto import hpke
from bytewise.crypto.curve import GENERATOR, decode_point, decode_scalar, encode_point
from bytewise.crypto.envelope import verify_receipt_envelope
from bytewise.crypto.shares import combine, prove_partial, verify_partial
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.jobs import RunJob, ShardRecord, anchor_domain, key_domain
from bytewise.protocol.keys.epochs import Partial, partial_info
from bytewise.protocol.records.seal import Envelope
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import Blob
from kms.storage.keyring import OpenedShare


class Arithmetic:
    """Arithmetic of one release, from a job, the enclave's transport secret, and as many shares as the threshold."""

    def __init__(self, job: RunJob, transport_secret: bytes, shares: Sequence[OpenedShare]) -> None:
        self._job, self._secret, self._shares = job, transport_secret, shares
        self._public = encode_point(GENERATOR * decode_scalar(transport_secret))
        self._ticket_hash = typed_digest(key_domain(job.contracts), job.ticket)
        self._records = {record.index: record for record in job.epoch.shards}

    def release(self) -> EccPoint:
        """Computes a whole release. Returns the point that opens the envelope."""
        envelope, points = self._verified(), {}
        for share in self._shares:
            points[share.index] = self._opened(self._records[share.index], envelope, self.answer(share))
        combine({index: decode_point(self._records[index].verification_key) for index in points})
        return combine(points)

    def answer(self, share: OpenedShare) -> Blob:
        """Computes a shard's part of a release. Returns the shard's partial, sealed to the enclave."""
        envelope, ticket = self._verified(), self._job.ticket
        partial = prove_partial(share.index, share.scalar(), decode_point(envelope.enc), ticket.receipt_id, os.urandom)
        return hpke.seal_to_transport(self._public, self._info(self._records[share.index]), encode(partial))

    def _opened(self, shard: ShardRecord, envelope: Envelope, sealed: Blob) -> EccPoint:
        partial = decode(Partial, hpke.open_from_transport(self._secret, self._info(shard), sealed))
        key, base = decode_point(shard.verification_key), decode_point(envelope.enc)
        return verify_partial(partial, shard.index, key, base, self._job.ticket.receipt_id)

    def _verified(self) -> Envelope:
        return verify_receipt_envelope(anchor_domain(self._job.contracts), self._job.receipt, self._job.envelope)

    def _info(self, shard: ShardRecord) -> bytes:
        ticket = self._job.ticket
        return partial_info(shard.address, ticket.receipt_id, self._ticket_hash, ticket.key_epoch)
