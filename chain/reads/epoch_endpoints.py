"""Key epochs: endpoints of the address book, checked against what the chain pins."""

from collections.abc import Callable, Mapping
from typing import Any

from bytewise.protocol.assurance import HARDWARE, SIMULATED
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import UnknownKeyEpoch
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import EpochOnChain, EpochState
from bytewise.protocol.units import Blob, digest
from chain.client.rpc import reading_answer

ASSURANCE = {1: SIMULATED, 2: HARDWARE}
"""`EpochRecord.assurance` by the number in `KeyEpochs.Assurance`."""


def epoch_on_chain(raw: Mapping[str, Any]) -> EpochOnChain:
    """The answer of `KeyEpochs.epochInfo`."""
    with reading_answer("key epoch"):
        return EpochOnChain(
            state=EpochState(raw["state"]),
            public_key=Blob(raw["publicKey"]),
            commitments=Blob(raw["commitments"]),
            shards=tuple(raw["shards"]),
            threshold=raw["threshold"],
            version=raw["version"],
            transcript=digest(raw["transcript"]),
            assurance=ASSURANCE.get(raw["assurance"], ""),
        )


def pinned_epoch(epoch: int, raw: Mapping[str, Any], listed: Callable[[int], EpochRecord]) -> EpochRecord:
    """The listed record of an epoch, if it agrees in all pinned values with `raw`, the answer of `KeyEpochs.epochInfo`.

    `UnknownKeyEpoch` if the chain does not have it, `TryAgain` if the book does not list it yet, `ConfigurationError` if book and
    chain contradict each other.
    """
    if raw["state"] == EpochState.NONE:
        raise UnknownKeyEpoch(epoch)
    record = listed(epoch)
    with reading_answer("assurance"):
        assurance = ASSURANCE[raw["assurance"]]
    for what, ours, pinned in (
        ("public key", record.public_key, raw["publicKey"]),
        ("threshold", record.threshold, raw["threshold"]),
        ("shards", tuple(shard.address for shard in record.shards), raw["shards"]),
        ("assurance", record.assurance, assurance),
        ("hybrid keys", record.hybrid.digest if record.hybrid else raw["transcript"], raw["transcript"]),
    ):
        if ours != pinned:
            raise ConfigurationError("network.json", f"{what} of key epoch {epoch} is not the chain's")
    return record
