"""Key epochs: their state on the chain, all versions of their shares, and the facts that a release decision needs.

The address book adds the endpoints of shards, which the chain does not have. Its other values are compared with the chain's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bytewise.protocol.address_book import DealtShares, Network, ShareHolder, share_holder
from bytewise.protocol.assurance import HARDWARE, SIMULATED
from bytewise.protocol.court.commitments import dispute_id
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.records import UnknownKeyEpoch
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import EpochDocument, EpochOnChain, EpochState, ReleaseView
from bytewise.protocol.units import U64, ZERO_DIGEST, Address, Blob, Digest, digest
from chain.client.access import Chain
from chain.client.artifacts import Log, View
from chain.client.rpc import at_hash, at_number, reading_answer
from chain.reads import records
from chain.reads.restaking import RestakingReader

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


_OPENED, _DEALT = "EpochOpened", "SharesDealt"


class _ShareVersion(NamedTuple):
    """One version of the shares, with its commitments, which the address book does not have."""

    shares: DealtShares
    commitments: Blob


def share_history(client: Chain, network: Network, epoch: int, block: int) -> tuple[DealtShares, ...]:
    """Reads all versions of an epoch's shares up to a block, in order. Returns an empty tuple if the chain does not have the
    epoch.

    If the address book never listed a holder, the URL of its release log is empty.
    """
    return tuple(each.shares for each in _share_history(client, network, epoch, block, network.holders(epoch)))


def with_share_history(client: Chain, network: Network, document: EpochDocument) -> Network:
    """Returns the address book with all versions of an epoch's shares. The last version is that of `document`.

    Former holders stay in the book, because their release logs are needed. Raises `TryAgain` if the chain does not show the
    document's shares yet.
    """
    epoch = document.record.epoch
    known = network.holders(epoch) | {each.address: share_holder(each) for each in document.record.shards}
    found = _share_history(client, network, epoch, client.head().number, known)
    if not found or found[-1].commitments != b"".join(document.commitments):
        raise TryAgain("chain", f"the node does not show the new shares of key epoch {epoch} yet: run the same command again")
    others = tuple(each for each in network.dealt or () if each.epoch != epoch)
    return replace(network, dealt=(*others, *(each.shares for each in found)))


def _share_history(
    client: Chain, network: Network, epoch: int, block: int, known: Mapping[Address, ShareHolder]
) -> list[_ShareVersion]:
    where = network.addresses.key_epochs
    logs = client.logs("KeyEpochs", where, [_OPENED, _DEALT], network.deploy_block, block)
    with reading_answer(_DEALT):
        return [_version_of(log, client.block(log.block).timestamp, known) for log in logs if log.values["epoch"] == epoch]


def _version_of(log: Log, since: int, known: Mapping[Address, ShareHolder]) -> _ShareVersion:
    values = log.values
    holders = tuple(known.get(each, ShareHolder(each, "", "")) for each in values["shards"])
    version = int(values["version"]) if log.event == _DEALT else 0
    shares = DealtShares(U64(values["epoch"]), version, U64(since), int(values["threshold"]), holders)
    return _ShareVersion(shares, Blob(values["commitments"]))


class KeyEpochReader(RestakingReader):
    """Reads key epochs, and all facts that a release decision needs."""

    def final(self) -> int | None:
        """Returns the number of the newest final block, at which shards decide.

        Returns None if the contract `KeyEpochs` does not exist yet at that block. This happens early in a deployment, which
        creates its contracts over many blocks from `deploy_block` on.
        """
        number = self.client.head("finalized").number
        (code,) = self.client.codes([self.network.addresses.key_epochs], at_number(number))
        return number if code else None

    def final_policy(self) -> Digest | None:
        """Returns the digest of the appraisal policy in force at the newest final block, at which shards decide. Returns None if
        no final block has one."""
        final = self.final()
        if final is None:
            return None
        raw = self.client.call("Registry", self.network.addresses.registry, "policyDigest", block=at_number(final))
        with reading_answer("policy"):
            return Digest(raw) if any(raw) else None

    def epoch(self, epoch: int, block: int) -> EpochRecord:
        """Returns a key epoch: endpoints from the address book, all other values as the chain has them at this block.

        Raises `UnknownKeyEpoch` if the chain does not have the epoch. Raises `TryAgain` if the book does not list it or lists
        other holders. Raises `ConfigurationError` if another value of the book differs from the chain.
        """
        return pinned_epoch(epoch, self._epoch(epoch, block), self.network.epoch)

    def epoch_on_chain(self, epoch: int, block: int) -> EpochOnChain:
        """Reads a key epoch from the chain, even if the address book does not list it."""
        return epoch_on_chain(self._epoch(epoch, block))

    def epoch_state(self, epoch: int, block: int) -> EpochState:
        """Reads the state of a key epoch at a block; NONE if there is no such epoch."""
        raw = self._epoch(epoch, block)
        with reading_answer("epoch state"):
            return EpochState(raw["state"])

    def is_open_for_audits(self, epoch: int, block: int) -> bool:
        """Returns whether shards and the contract `Audits` accept audits of a key epoch at a block. Returns False if there is no
        such epoch."""
        return bool(
            self.client.call("KeyEpochs", self.network.addresses.key_epochs, "isOpenForAudits", epoch, block=at_number(block))
        )

    def shares_dealt_at(self, epoch: int, block: int) -> int | None:
        """Returns the Unix second of the block that put the newest shares of an ACTIVE key epoch on the chain. The first shares
        are put there by the announcement of the epoch. Returns None in any other state.

        It reads the events of `KeyEpochs` since the deployment. Raises `TryAgain` if the node does not have these events.
        """
        if self.epoch_state(epoch, block) is not EpochState.ACTIVE:
            return None
        history = share_history(self.client, self.network, epoch, block)
        if not history:
            raise TryAgain(
                "chain", f"does not show when the shares of key epoch {epoch} were dealt; use a node that keeps all events"
            )
        return int(history[-1].since)

    def is_open_for_disputes(self, epoch: int, block: int) -> bool:
        """Returns whether a dispute may still need the key of an epoch at a block. Returns False if there is no such epoch."""
        return bool(
            self.client.call("KeyEpochs", self.network.addresses.key_epochs, "isOpenForDisputes", epoch, block=at_number(block))
        )

    def release_view(self, voter: Address, epoch: int, dispute: Digest | None, receipt_id: Digest) -> ReleaseView:
        """Reads all facts from which a shard decides about a ticket, at the newest block of the configured finality.

        It takes two round trips: the block, then all views at its hash. The found dispute has receipt id zero if it is about
        another receipt than `receipt_id`. Raises the errors of `epoch`, but accepts an unknown epoch.
        """
        seen, lens = self.client.head(self._tag), ("Lens", self.network.addresses.lens)
        views = [View(*lens, "snapshot", (voter, [])), View(*self._epoch_info, (epoch,))]
        if dispute is not None:
            views.append(View(*lens, "disputeView", (dispute,)))
        seen_raw, raw, *disputes = self.client.views(views, at_hash(seen.hash))
        key = epoch_on_chain(raw)
        record = None if key.state is EpochState.NONE else pinned_epoch(epoch, raw, self.network.epoch)
        with reading_answer("release view"):
            receipt = ZERO_DIGEST if dispute is None else self._receipt_of(dispute, receipt_id)
            found = next((records.dispute(each, receipt) for each in disputes if each["phase"]), None)
            return ReleaseView(seen.number, records.snapshot(seen_raw, seen.hash), key, record, found)

    def _receipt_of(self, dispute: Digest, receipt_id: Digest) -> Digest:
        """Returns the receipt's id if the dispute is about this receipt, else zero. The dispute's id is a hash of its receipt's
        id."""
        return receipt_id if dispute_id(self.network.disputes_domain, receipt_id) == dispute else ZERO_DIGEST

    def _epoch(self, epoch: int, block: int) -> Mapping[str, Any]:
        raw: Mapping[str, Any] = self.client.call(*self._epoch_info, epoch, block=at_number(block))
        return raw

    @property
    def _epoch_info(self) -> tuple[str, Address, str]:
        return "KeyEpochs", self.network.addresses.key_epochs, "epochInfo"
