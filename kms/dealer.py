"""The devnet's dealer ceremony: one process draws the key, deals the shares, publishes the epoch, and ends (design section 8).

While it runs, this process knows the key; when it has ended, no process does. A distributed key generation replaces it.
"""

from bytewise.protocol.encoding import encode
from bytewise.protocol.jobs import EpochRecord, HybridKeys, ShardRecord
from bytewise.protocol.keys import EpochDocument
from bytewise.protocol.suites import SUITE_HYBRID, suite_of
from bytewise.protocol.units import Digest
from kms import hpke, keyring
from kms.curve import Rng, encode_point, random_scalar
from kms.settings import DealSettings
from kms.shares import split, verification_key


def deal(settings: DealSettings, rng: Rng) -> EpochDocument:
    """Deals one epoch: keys and a sealed share in each shard's folder, the public document in `out_file`.

    `ConfigurationError` if a share of that epoch already exists: nothing is ever dealt twice.
    """
    count = len(settings.shards)
    shares, commitments = split(random_scalar(rng), settings.threshold, count, rng)
    records, kem_keys = [], []
    for index, shard in enumerate(settings.shards, start=1):
        keyring.enrol(shard.folder, shard.url, rng)
        keyring.seal_share(shard.folder, settings.epoch, index, shares[index], rng)
        if suite_of(settings.epoch) == SUITE_HYBRID:
            seed = rng(hpke.KEM_SEED_BYTES)
            keyring.seal_kem(shard.folder, settings.epoch, index, seed, rng)
            kem_keys.append(hpke.kem_key(seed))
        records.append(
            ShardRecord(
                index=index,
                address=keyring.signer(shard.folder).address,
                url=shard.url,
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
