"""All versions of a key's shares, with holders, threshold and start, from events of `KeyEpochs`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from bytewise.protocol.address_book import DealtShares, Network, ShareHolder, share_holder
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.units import U64, Address, Blob
from chain.client.access import Chain
from chain.client.artifacts import Log
from chain.client.rpc import reading_answer

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
