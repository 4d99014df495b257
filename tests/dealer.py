"""A key epoch for tests in one step: this process draws the key and deals its shares. No program of ours does that."""

from dataclasses import dataclass
from pathlib import Path

from bytewise.crypto import hpke
from bytewise.crypto.curve import Rng, encode_point, random_scalar
from bytewise.crypto.shares import split, verification_key
from bytewise.protocol.encoding import encode
from bytewise.protocol.jobs import EpochRecord, HybridKeys, ShardRecord
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.suites import SUITE_HYBRID, suite_of
from bytewise.protocol.units import U64, Digest
from kms.storage import accounts, keyring


@dataclass(frozen=True, slots=True)
class DealShard:
    """One shard."""

    folder: Path
    """Its own folder: keys that are missing are drawn there."""
    url: str
    """HTTPS base address under which it will serve."""
    channel: str = "127.0.0.1:1"
    """`host:port` of its attested channels."""


@dataclass(frozen=True, slots=True)
class DealSettings:
    """What is dealt, and where to."""

    epoch: U64
    """Number of the key epoch."""
    threshold: int
    """Partials needed to open."""
    assurance: str
    """`simulated` or `hardware`."""
    out_file: Path
    """Where the public epoch document goes."""
    shards: tuple[DealShard, ...]
    """In order of their indices 1 to n."""


def deal(settings: DealSettings, rng: Rng) -> EpochDocument:
    """Deals one epoch: keys and a sealed share in each shard's folder, the public document in `out_file`.

    `ConfigurationError` if a share of that epoch already exists: nothing is ever dealt twice.
    """
    count = len(settings.shards)
    shares, commitments = split(random_scalar(rng), settings.threshold, count, rng)
    records, kem_keys = [], []
    for index, shard in enumerate(settings.shards, start=1):
        keyring.enrol(shard.folder, shard.url, rng)
        keyring.seal_share(shard.folder, settings.epoch, index, shares[index])
        if suite_of(settings.epoch) == SUITE_HYBRID:
            seed = rng(hpke.KEM_SEED_BYTES)
            keyring.seal_kem(shard.folder, settings.epoch, index, seed)
            kem_keys.append(hpke.kem_key(seed))
        records.append(
            ShardRecord(
                index=index,
                address=accounts.signer(shard.folder).address,
                url=shard.url,
                channel=shard.channel,
                certificate=keyring.certificate(shard.folder),
                verification_key=encode_point(verification_key(index, commitments)),
            )
        )
    encoded = tuple(encode_point(commitment) for commitment in commitments)
    hybrid = HybridKeys(Digest(rng(32)), tuple(kem_keys)) if kem_keys else None
    record = EpochRecord(settings.epoch, encoded[0], settings.threshold, tuple(records), settings.assurance, hybrid)
    document = EpochDocument(record, encoded)
    settings.out_file.write_bytes(encode(document))
    return document
