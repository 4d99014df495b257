"""Key epochs with the endpoints of the address book, checked against the values that the chain fixes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bytewise.protocol.assurance import HARDWARE, SIMULATED
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.records import UnknownKeyEpoch
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import EpochOnChain, EpochState
from bytewise.protocol.units import Address, Blob, digest
from chain.client.rpc import reading_answer

ASSURANCE = {1: SIMULATED, 2: HARDWARE}
"""Text of `EpochRecord.assurance` for each number of `KeyEpochs.Assurance`."""


def epoch_on_chain(raw: Mapping[str, Any]) -> EpochOnChain:
    """Converts an answer of `KeyEpochs.epochInfo` to a record."""
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
    """Returns the record of an epoch from the address book if it agrees with `raw`, the answer of `KeyEpochs.epochInfo`.

    Raises `UnknownKeyEpoch` if the chain does not have the epoch. Raises `TryAgain` if the book does not list it or lists other
    holders, because a reshare can change holders while actors run. Raises `ConfigurationError` if another value differs.
    """
    if raw["state"] == EpochState.NONE:
        raise UnknownKeyEpoch(epoch)
    record = listed(epoch)
    with reading_answer("assurance"):
        assurance = ASSURANCE[raw["assurance"]]
    for what, ours, pinned in (
        ("public key", record.public_key, raw["publicKey"]),
        ("assurance", record.assurance, assurance),
        ("hybrid keys", record.hybrid.digest if record.hybrid else raw["transcript"], raw["transcript"]),
    ):
        if ours != pinned:
            raise ConfigurationError("network.json", f"{what} of key epoch {epoch} is not the chain's")
    if not names_holders(record, raw["shards"], raw["threshold"]):
        why = f"lists other holders of key epoch {epoch} than the chain: fetch the address book again, then restart"
        raise TryAgain("network.json", why)
    return record


def names_holders(record: EpochRecord, shards: Sequence[Address], threshold: int) -> bool:
    """Returns whether the record has these shards and this threshold. A reshare changes them on the chain."""
    return (tuple(shard.address for shard in record.shards), record.threshold) == (tuple(shards), threshold)
