"""Erases shares that nothing needs any more, and signs a statement about it. These are shares that the chain has replaced, and
shares of an epoch whose key no dispute can need any more.

The shard first erases the seeds of the ceremonies that made the shares, because with a seed and the log it could make its share
again. `judge_statement` and `count_statements` evaluate the statements of several shards. Their caller reads the chain.
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
from kms.ceremony.authority import CeremonyView, is_epoch_over
from kms.storage import files, keyring
from kms.storage.files import replace_whole
from kms.storage.sealing import IN_FOLDER, Sealer, StorageKeySource, open_sealer


@dataclass(frozen=True, slots=True)
class SharesToErase:
    """One version of an epoch's shares that must be erased."""

    contracts: Contracts
    """Contracts of the network."""
    epoch: int
    """The key epoch."""
    on_chain: EpochOnChain
    """State of the epoch on the chain now."""
    version: int
    """Version of these shares."""
    holders: tuple[Address, ...]
    """Accounts of the shards that had these shares, by index from 1."""
    threshold: int
    """Number of these shares that together open an envelope."""
    disputable: bool = False
    """Whether a dispute may still need the epoch's key. Then a shard keeps its share in force, even in a compromised epoch."""

    @property
    def ended(self) -> bool:
        """True if the epoch is retired or compromised. A shard may then keep no share of it, unless `disputable` is set."""
        return self.on_chain.state in (EpochState.RETIRED, EpochState.COMPROMISED)

    @property
    def needed(self) -> int:
        """Number of statements that must count. The shares without a statement are then too few to open an envelope."""
        return len(self.holders) - self.threshold + 1


@dataclass(frozen=True, slots=True)
class JudgedStatement:
    """One statement of erasure with its judgement."""

    signed: SignedErasure
    """The signed statement."""
    invalid: str
    """Reason why the statement is invalid, or an empty text if it is valid."""
    irrelevant: str
    """Reason why a valid statement does not count for these shares, or an empty text if it counts."""


def shares_to_erase(
    contracts: Contracts, epoch: int, on_chain: EpochOnChain, dealt: Sequence[DealtShares], disputable: bool = False
) -> tuple[SharesToErase, ...]:
    """Returns each version of the epoch's shares that must be erased: all versions before the one in force, and in an ended epoch
    also the last one.

    `dealt` has every version as the chain recorded it. `disputable` says whether a dispute may still need the epoch's key. Raises
    `ConfigurationError` if the chain has no such epoch, or if no version of it must be erased. Raises `TryAgain` if `dealt` lacks
    a version.
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
        SharesToErase(
            contracts, epoch, on_chain, each.version, tuple(holder.address for holder in each.holders), each.threshold, disputable
        )
        for each in dealt
        if ended or each.version < on_chain.version
    )


def judge_statement(signed: SignedErasure, wanted: SharesToErase) -> JudgedStatement:
    """Judges whether the shard signed the statement for this network, and whether the statement counts for these shares."""
    said = signed.statement
    try:
        verify_erasure(signed)
    except Fault:
        return JudgedStatement(signed, f"{signed.shard} did not sign it", "")
    if (said.chain_id, said.key_epochs) != (wanted.contracts.chain_id, wanted.contracts.key_epochs):
        return JudgedStatement(signed, f"is about chain {said.chain_id}, KeyEpochs {said.key_epochs}", "")
    return JudgedStatement(signed, "", _why_irrelevant(signed.shard, said, wanted))


def count_statements(counted: Sequence[JudgedStatement], wanted: SharesToErase) -> Mapping[int, Erasure]:
    """Returns the statements that count, one for each shard, by the shard's index."""
    true = {each.signed.shard: each.signed.statement for each in counted if not (each.invalid or each.irrelevant)}
    return {index: true[who] for index, who in enumerate(wanted.holders, start=1) if who in true}


def _why_irrelevant(shard: Address, said: Erasure, wanted: SharesToErase) -> str:
    on_chain = wanted.on_chain
    if shard not in wanted.holders:
        return "held none of these shares"
    # A statement about an earlier version does not count: the shard may have received a share since then.
    if said.version != on_chain.version:
        return f"is about version {said.version}, and the chain has {on_chain.version}"
    may_keep = not wanted.ended or (wanted.disputable and wanted.version < on_chain.version)
    if said.kept == ZERO_DIGEST or (may_keep and said.kept == digests.keccak256(on_chain.commitments)):
        return ""
    return "keeps other shares than the chain means" if may_keep else "keeps its share of the epoch"


_NOT_MEANT = (
    "the chain has other commitments than the epoch file. Put the newest document of this epoch there. Nothing was erased"
)

ENDED_BY_ERASURE = "erased"
"""Recorded outcome of a ceremony whose shares are no longer needed."""


def erase_shares(
    folder: Path, document: EpochDocument, contracts: Contracts, records: Ceremonies, view: CeremonyView, clock: Clock,
    sealing: StorageKeySource = IN_FOLDER,
) -> SignedErasure:  # fmt: skip
    """Erases the shares of the document's epoch that nothing needs any more. Ends the ceremonies whose seeds could make an erased
    share again. Writes a signed statement to `statement_file`.

    The share in force stays, with two exceptions: no dispute can need the epoch's key any more, or the key was dealt to other
    shards. In both cases it is erased, too.

    Raises `ConfigurationError` and erases nothing in these cases. The chain has another key or other shares than the document.
    The folder has none of these shares. The shard's account does not open. The shard's earlier statement is malformed or about
    other shares. A process that serves from the folder may have another share in memory, or another process changes the folder.
    """
    epoch = document.record.epoch
    on_chain = view.key_epoch(epoch)
    if on_chain.public_key != document.record.public_key:
        raise ConfigurationError(f"key epoch {epoch}", "the chain has another key than the epoch file: is it of this network?")
    over = is_epoch_over(view, epoch, on_chain)
    # A shard that cannot sign the statement erases nothing.
    sealer = open_sealer(folder, sealing)
    signer = keyring.open_account(folder, sealer)
    moved = on_chain.version > 0 and signer.address not in on_chain.shards
    kept = ZERO_DIGEST if over or moved else digests.keccak256(on_chain.commitments)
    if kept != ZERO_DIGEST and on_chain.commitments != b"".join(document.commitments):
        raise ConfigurationError(f"key epoch {epoch}", _NOT_MEANT)
    with files.lock_for_change(folder) as served:
        _verify_unserved(folder, kept, served)
        statement = Erasure(contracts.chain_id, contracts.key_epochs, epoch, on_chain.version, kept, 0, U64(clock.now()))
        before = _earlier_statement(folder, statement)
        meant = () if over else keyring.split_commitments(on_chain.commitments)
        return write_statement(folder, statement, before, erase_files(folder, statement, meant, records, sealer), signer)


def statement_file(statement: Erasure) -> str:
    """Returns the name of the statement's file in the shard's folder. The name contains the epoch and the version of the shares.
    It ends differently if the shard kept no share."""
    return f"erasure-{statement.epoch}-v{statement.version}{'-none' if statement.kept == ZERO_DIGEST else ''}.json"


def _verify_unserved(folder: Path, kept: Digest, served: Digest | None) -> Path:
    """Returns the folder. Raises `ConfigurationError` if a process that serves from it may still have a share in memory that the
    statement calls erased."""
    if served is not None and (kept == ZERO_DIGEST or served != kept):
        do = "stop it" if kept == ZERO_DIGEST else "stop it, or start it again on the new epoch file"
        why = f"a process serves from it that may have a share in memory which is to be erased: {do}; nothing was erased"
        raise ConfigurationError(str(folder), why)
    return folder


def erase_files(folder: Path, said: Erasure, meant: Sequence[Blob], records: Ceremonies, sealer: Sealer) -> int:
    """Erases the files that the statement covers, and returns their number. `meant` has the commitments of the shares in force,
    if there are any."""
    if said.kept == ZERO_DIGEST:
        end_ceremonies(records, said.epoch, meant)
        return keyring.erase_all(folder, said.epoch)
    keyring.find_share(folder, said.epoch, meant, sealer)
    end_ceremonies(records, said.epoch, meant)
    return keyring.erase_others(folder, said.epoch, meant, sealer)


def end_ceremonies(records: Ceremonies, epoch: U64, meant: Sequence[Blob]) -> None:
    """Ends the running ceremonies of an epoch and erases their seeds, because a seed could make an erased share again. A ceremony
    that deals the shares in force again goes on; `meant` has the commitments of these shares."""
    for plan in records.running():
        goes_on = plan.source is not None and tuple(plan.source.commitments) == tuple(meant)
        if plan.epoch == epoch and not goes_on:
            records.end(plan.digest, ENDED_BY_ERASURE)


def _earlier_statement(folder: Path, said: Erasure) -> SignedErasure | None:
    """Returns the shard's earlier statement about the same epoch and shares, or None. The caller reads it before it erases
    anything."""
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


def write_statement(folder: Path, said: Erasure, before: SignedErasure | None, erased: int, signer: LocalSigner) -> SignedErasure:
    """Signs and writes the statement, with the number of files that were erased. If nothing was erased, an earlier statement with
    the same content stays."""
    if before is not None and not erased:
        return before
    statement = replace(said, erased=erased + (before.statement.erased if before is not None else 0))
    signed = SignedErasure(statement, signer.address, signer.sign(erasure_digest(statement)))
    replace_whole(folder / statement_file(statement), encode(signed))
    return signed
