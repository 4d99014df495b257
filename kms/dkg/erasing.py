"""The end of shares: erased when they were dealt again and the chain means the new ones, or when their epoch is retired, with a
signed word about it. The seeds of ceremonies that made them go first: from seed and log a shard makes its share again.
"""

from collections.abc import Sequence
from pathlib import Path

from bytewise.ports import Clock
from bytewise.protocol import digests
from bytewise.protocol.ceremony import Erasure, SignedErasure, erasure_digest
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.keys import EpochDocument, EpochState
from bytewise.protocol.units import U64, ZERO_DIGEST, Blob
from bytewise.storage.ceremonies import Ceremonies
from kms import keyring
from kms.dkg.authority import CeremonyView
from kms.sealing import IN_FOLDER, Sealing, open_sealer

ERASED = "erased"
"""How a ceremony ended whose shares nobody wants any more."""


def erase(
    folder: Path, document: EpochDocument, records: Ceremonies, view: CeremonyView, clock: Clock, sealing: Sealing = IN_FOLDER
) -> SignedErasure:
    """Erases every share of the document's epoch but its own, of a retired epoch all, and ends the ceremonies that make others.

    The statement goes to `erasure-<epoch>.json`.
    `ConfigurationError`, and nothing is erased, if the chain does not mean these shares, or the folder has none of them.
    """
    epoch, joined = document.record.epoch, b"".join(document.commitments)
    on_chain = view.key_epoch(epoch)
    if on_chain.state is EpochState.RETIRED:
        _end_ceremonies(records, epoch, ())
        return _say(folder, Erasure(epoch, ZERO_DIGEST, keyring.erase_all(folder, epoch), U64(clock.now())))
    if on_chain.commitments != joined:
        raise ConfigurationError(f"key epoch {epoch}", "the chain has other commitments than the epoch file")
    sealer = open_sealer(folder, sealing)
    keyring.find_share(folder, epoch, document.commitments, sealer)
    _end_ceremonies(records, epoch, document.commitments)
    erased = keyring.erase_others(folder, epoch, document.commitments, sealer)
    return _say(folder, Erasure(epoch, digests.keccak256(joined), erased, U64(clock.now())))


def _end_ceremonies(records: Ceremonies, epoch: U64, kept: Sequence[Blob]) -> None:
    """Empties the seeds of all ceremonies of an epoch but those that go on from the shares that are kept."""
    for plan in records.running():
        goes_on = plan.source is not None and tuple(plan.source.commitments) == tuple(kept)
        if plan.epoch == epoch and not goes_on:
            records.end(plan.digest, ERASED)


def _say(folder: Path, statement: Erasure) -> SignedErasure:
    signer = keyring.signer(folder)
    said = SignedErasure(statement, signer.address, signer.sign(erasure_digest(statement)))
    (folder / f"erasure-{statement.epoch}.json").write_bytes(encode(said))
    return said
