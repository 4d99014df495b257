"""The paper's mode: shards release shares, and the enclave rebuilds the private key, uses it once and erases it.

Only rebuilt epochs use this mode; an epoch's number says whether it is one (ADR-040). A share opens every envelope of its epoch,
so the key of such an epoch has no other use. Shares and key are in buffers that are overwritten (`bytewise.crypto.erasable`), in
a process that ends after one envelope (`enclave.key_rebuilder`). Everything else in the memory of this process, including the
secret that opens the shards' answers, is gone when the process ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto import hpke
from bytewise.crypto.curve import GENERATOR
from bytewise.crypto.erasable import SCALAR_BYTES, erase, interpolate, is_canonical, multiply_point
from bytewise.protocol.errors.actors import ShardLied
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Blob, Digest


@dataclass(frozen=True, slots=True)
class TransportKey:
    """The key pair of one job. Shards seal their answers to its public key."""

    secret: bytes = field(repr=False)
    """Secret scalar, 32 bytes."""
    public: Blob
    """Public key, a 65-byte point."""


def open_key_share(sealed: bytes, to: TransportKey, info: Digest, index: int, verification_key: EccPoint) -> bytearray:
    """Opens the share that shard `index` sealed under `info` (`keys.epochs.share_info`). The caller must erase the returned
    buffer.

    Raises `MalformedValue` if the share was not sealed to this key under this info, and `ShardLied` if the share does not fit the
    epoch's public commitments.
    """
    share = bytearray(SCALAR_BYTES)
    try:
        hpke.open_from_transport_into(to.secret, to.public, info, sealed, share)
        if not is_canonical(share) or multiply_point(GENERATOR, share) != verification_key:
            raise ShardLied(index, "its share does not fit the epoch's commitments")
    except (MalformedValue, ShardLied):
        erase(share)
        raise
    return share


def multiply_by_key(point: EccPoint, shares: Mapping[int, bytearray]) -> EccPoint:
    """Returns x · `point`, where x is the private key, which it rebuilds from t verified shares. Erases key and shares before it
    returns."""
    key = interpolate(shares)
    try:
        return multiply_point(point, key)
    finally:
        erase(key, *shares.values())
