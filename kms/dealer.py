"""The devnet's dealer ceremony: one process draws the key, deals the shares, publishes the epoch, and ends (design section 8).

While it runs, this process knows the key; when it has ended, no process does. A distributed key generation replaces it.
"""

from bytewise.protocol.encoding import encode
from bytewise.protocol.jobs import EpochRecord, ShardRecord
from bytewise.protocol.keys import EpochDocument
from kms import keyring
from kms.curve import Rng, encode_point, random_scalar
from kms.settings import DealSettings
from kms.shares import split, verification_key


def deal(settings: DealSettings, rng: Rng) -> EpochDocument:
    """Deals one epoch: keys and a sealed share in each shard's folder, the public document in `out_file`.

    `ConfigurationError` if a share of that epoch already exists: nothing is ever dealt twice.
    """
    count = len(settings.shards)
    shares, commitments = split(random_scalar(rng), settings.threshold, count, rng)
    records = []
    for index, shard in enumerate(settings.shards, start=1):
        keyring.enrol(shard.folder, shard.url, rng)
        keyring.seal_share(shard.folder, settings.epoch, index, shares[index], rng)
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
    record = EpochRecord(settings.epoch, encoded[0], settings.threshold, tuple(records), settings.assurance)
    document = EpochDocument(record, encoded)
    settings.out_file.write_bytes(encode(document))
    return document
