"""The end of shares: erased when they were dealt again and the chain means the new ones, or when nobody can need their epoch any
more, with a signed word about it. The seeds of ceremonies that made them go first: from seed and log a shard makes its share
again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bytewise.ports import Clock
from bytewise.protocol import digests
from bytewise.protocol.address_book import DealtShares
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.jobs import Contracts
from bytewise.protocol.keys.ceremony import Erasure, SignedErasure, erasure_digest, verify_erasure
from bytewise.protocol.keys.epochs import EpochDocument, EpochOnChain, EpochState
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U64, ZERO_DIGEST, Address, Blob, Digest
from bytewise.storage.ceremonies import Ceremonies
from kms.ceremony.authority import CeremonyView, is_over
from kms.storage import accounts, folder_lock, keyring
from kms.storage.files import replace_whole
from kms.storage.sealing import IN_FOLDER, Sealer, Sealing, open_sealer

# What erasure statements of several shards add up to. Pure; who collects them asks the chain first.


@dataclass(frozen=True, slots=True)
class Wanted:
    """The shares that are to be gone."""

    contracts: Contracts
    """Of which network."""
    epoch: int
    """Of which key epoch."""
    on_chain: EpochOnChain
    """The epoch now."""
    version: int
    """Of these shares."""
    holders: tuple[Address, ...]
    """Who had these shares, by index from 1."""
    threshold: int
    """How many of them open."""

    @property
    def ended(self) -> bool:
        """Whether the epoch has come to its end, so that no share of it may be kept."""
        return self.on_chain.state in (EpochState.RETIRED, EpochState.COMPROMISED)

    @property
    def needed(self) -> int:
        """Statements without which nobody can say that the shares are out of reach."""
        return len(self.holders) - self.threshold + 1


@dataclass(frozen=True, slots=True)
class Counted:
    """One statement, judged."""

    signed: SignedErasure
    """What was said."""
    false: str
    """Why it is not what it says it is; empty if it is."""
    besides: str
    """Why it says nothing about the wanted shares; empty if it does."""


def wanted_shares(contracts: Contracts, epoch: int, on_chain: EpochOnChain, dealt: Sequence[DealtShares]) -> tuple[Wanted, ...]:
    """Each version of the shares that is to be gone: all before those in force, and of an ended epoch these, too.

    `dealt`: every version, as the chain told it when it was dealt. `ConfigurationError` if the chain has no such epoch, or if
    nothing of it was to be erased; `TryAgain` if a version is missing.
    """
    name = f"key epoch {epoch}"
    if on_chain.state is EpochState.NONE:
        raise ConfigurationError(name, "the chain has none: are the statements of this network?")
    ended = on_chain.state in (EpochState.RETIRED, EpochState.COMPROMISED)
    if not ended and on_chain.version == 0:
        raise ConfigurationError(name, "is in force with the shares that it was made with: none was to be erased")
    if [each.version for each in dealt] != list(range(on_chain.version + 1)):
        shown = ", ".join(str(each.version) for each in dealt) or "none"
        raise TryAgain("chain", f"of {on_chain.version + 1} versions of the shares of {name} the node shows {shown}")
    return tuple(
        Wanted(contracts, epoch, on_chain, each.version, tuple(holder.address for holder in each.holders), each.threshold)
        for each in dealt
        if ended or each.version < on_chain.version
    )


def judge(signed: SignedErasure, wanted: Wanted) -> Counted:
    """Whether the statement is its shard's word, about this network, and counts for the wanted shares."""
    said = signed.statement
    try:
        verify_erasure(signed)
    except Fault:
        return Counted(signed, f"{signed.shard} did not sign it", "")
    if (said.chain_id, said.key_epochs) != (wanted.contracts.chain_id, wanted.contracts.key_epochs):
        return Counted(signed, f"is about chain {said.chain_id}, KeyEpochs {said.key_epochs}", "")
    return Counted(signed, "", _besides(signed.shard, said, wanted))


def count(counted: Sequence[Counted], wanted: Wanted) -> Mapping[int, Erasure]:
    """What counts, by index of the shard: one statement of each."""
    true = {each.signed.shard: each.signed.statement for each in counted if not (each.false or each.besides)}
    return {index: true[who] for index, who in enumerate(wanted.holders, start=1) if who in true}


def _besides(shard: Address, said: Erasure, wanted: Wanted) -> str:
    on_chain = wanted.on_chain
    if shard not in wanted.holders:
        return "had none of these shares"
    # Of an earlier version it says nothing about now: the shard may have got a share again.
    if said.version != on_chain.version:
        return f"is about version {said.version}, and the chain has {on_chain.version}"
    if said.kept == ZERO_DIGEST or (not wanted.ended and said.kept == digests.keccak256(on_chain.commitments)):
        return ""
    return "keeps its share of the epoch" if wanted.ended else "keeps other shares than the chain means"


_NOT_MEANT = (
    "the chain has other commitments than the epoch file: put the newest document of this epoch there; nothing was erased"
)

ERASED = "erased"
"""How a ceremony ended whose shares nobody wants any more."""


def erase(
    folder: Path, document: EpochDocument, contracts: Contracts, records: Ceremonies, view: CeremonyView, clock: Clock,
    sealing: Sealing = IN_FOLDER,
) -> SignedErasure:  # fmt: skip
    """Erases every share of the document's epoch but its own, and ends the ceremonies that make others.

    It erases all of them if nobody can need the epoch's key any more, or the key was dealt to other shards. The statement goes to
    `statement_file`. `ConfigurationError`, and nothing is erased, if the chain does not mean these shares, the folder has none of
    them, its account does not open, or a process serves from it that may have others in memory.
    """
    epoch = document.record.epoch
    on_chain = view.key_epoch(epoch)
    if on_chain.public_key != document.record.public_key:
        raise ConfigurationError(f"key epoch {epoch}", "the chain has another key than the epoch file: is it of this network?")
    over = is_over(view, epoch, on_chain)
    # Who cannot sign the statement erases nothing.
    sealer = open_sealer(folder, sealing)
    signer = accounts.signer(folder, sealer)
    moved = on_chain.version > 0 and signer.address not in on_chain.shards
    kept = ZERO_DIGEST if over or moved else digests.keccak256(on_chain.commitments)
    if kept != ZERO_DIGEST and on_chain.commitments != b"".join(document.commitments):
        raise ConfigurationError(f"key epoch {epoch}", _NOT_MEANT)
    with folder_lock.alone(folder) as served:
        _verify_unserved(folder, kept, served)
        said = Erasure(contracts.chain_id, contracts.key_epochs, epoch, on_chain.version, kept, 0, U64(clock.now()))
        before = _said_before(folder, said)
        meant = () if over else keyring.points_of(on_chain.commitments)
        return _say(folder, said, before, _erased(folder, said, meant, records, sealer), signer)


def statement_file(statement: Erasure) -> str:
    """Name of the file in the shard's folder: one for each version of which a share was kept, or none."""
    return f"erasure-{statement.epoch}-v{statement.version}{'-none' if statement.kept == ZERO_DIGEST else ''}.json"


def _verify_unserved(folder: Path, kept: Digest, served: Digest | None) -> Path:
    """The folder, unless a process that serves from it would go on having what the shard says that it has not."""
    if served is not None and (kept == ZERO_DIGEST or served != kept):
        do = "stop it" if kept == ZERO_DIGEST else "stop it, or start it again on the new epoch file"
        why = f"a process serves from it that may have a share in memory which is to be erased: {do}; nothing was erased"
        raise ConfigurationError(str(folder), why)
    return folder


def _erased(folder: Path, said: Erasure, meant: Sequence[Blob], records: Ceremonies, sealer: Sealer) -> int:
    """Erases what the statement says; how many files. `meant`: commitments of the shares that the chain means, if any."""
    if said.kept == ZERO_DIGEST:
        _end_ceremonies(records, said.epoch, meant)
        return keyring.erase_all(folder, said.epoch)
    keyring.find_share(folder, said.epoch, meant, sealer)
    _end_ceremonies(records, said.epoch, meant)
    return keyring.erase_others(folder, said.epoch, meant, sealer)


def _end_ceremonies(records: Ceremonies, epoch: U64, meant: Sequence[Blob]) -> None:
    """Empties the seeds of all ceremonies of an epoch but those that go on from the shares that the chain means."""
    for plan in records.running():
        goes_on = plan.source is not None and tuple(plan.source.commitments) == tuple(meant)
        if plan.epoch == epoch and not goes_on:
            records.end(plan.digest, ERASED)


def _said_before(folder: Path, said: Erasure) -> SignedErasure | None:
    """What the shard said of the same epoch and shares before, which is read before anything is erased."""
    path = folder / statement_file(said)
    if not path.exists():
        return None
    try:
        before = decode(SignedErasure, path.read_bytes())
    except (OSError, Fault) as error:
        raise ConfigurationError(path.name, f"{type(error).__name__}: move it away, nothing was erased") from None
    if replace(before.statement, erased=0, at=said.at) != said:
        raise ConfigurationError(path.name, "is a statement about other shares: move it away, nothing was erased")
    return before


def _say(folder: Path, said: Erasure, before: SignedErasure | None, erased: int, signer: LocalSigner) -> SignedErasure:
    if before is not None and not erased:
        return before
    statement = replace(said, erased=erased + (before.statement.erased if before is not None else 0))
    signed = SignedErasure(statement, signer.address, signer.sign(erasure_digest(statement)))
    replace_whole(folder / statement_file(statement), encode(signed))
    return signed
