"""The end of shares that were dealt again: erased when the chain means the new ones, with a signed word about it."""

from pathlib import Path

from bytewise.ports import Clock
from bytewise.protocol import digests
from bytewise.protocol.ceremony import Erasure, SignedErasure, erasure_digest
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.keys import EpochDocument
from bytewise.protocol.units import U64
from kms import keyring
from kms.dkg.authority import CeremonyView


def erase(folder: Path, document: EpochDocument, view: CeremonyView, clock: Clock) -> SignedErasure:
    """Erases every share of the document's epoch but its own, and leaves the statement in `erasure-<epoch>.json`.

    `ConfigurationError`, and nothing is erased, if the chain does not mean these shares, or the folder has none of them.
    """
    epoch, joined = document.record.epoch, b"".join(document.commitments)
    if view.key_epoch(epoch).commitments != joined:
        raise ConfigurationError(f"key epoch {epoch}", "the chain has other commitments than the epoch file")
    erased = keyring.erase_others(folder, epoch, document.commitments)
    statement = Erasure(epoch, digests.keccak256(joined), erased, U64(clock.now()))
    signer = keyring.signer(folder)
    said = SignedErasure(statement, signer.address, signer.sign(erasure_digest(statement)))
    (folder / f"erasure-{epoch}.json").write_bytes(encode(said))
    return said
