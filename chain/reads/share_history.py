"""Who had the shares of a key, under which threshold and from when on, as `KeyEpochs` told it when they were dealt."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from bytewise.protocol.address_book import DealtShares, Holder, Network, holder
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.units import U64, Address, Blob
from chain.client.access import Chain
from chain.client.artifacts import Log
from chain.client.rpc import reading_answer

_OPENED, _DEALT = "EpochOpened", "SharesDealt"


class _Dealing(NamedTuple):
    """One event, with what only the chain asks of it."""

    shares: DealtShares
    commitments: Blob


def dealings(client: Chain, network: Network, epoch: int, block: int) -> tuple[DealtShares, ...]:
    """All versions of an epoch's shares up to a block, in order; none if the chain does not have it.

    A holder has an empty address of its log if the book never had one.
    """
    return tuple(each.shares for each in _dealings(client, network, epoch, block, network.holders(epoch)))


def with_dealings(client: Chain, network: Network, document: EpochDocument) -> Network:
    """The address book with all versions of the shares of an epoch, the last of which are the document's.

    Who had them before stays in it: the logs of those tell what they released. `TryAgain` if the chain does not show the
    document's shares yet.
    """
    epoch = document.record.epoch
    known = network.holders(epoch) | {each.address: holder(each) for each in document.record.shards}
    found = _dealings(client, network, epoch, client.head().number, known)
    if not found or found[-1].commitments != b"".join(document.commitments):
        raise TryAgain("chain", f"the node does not show the new shares of key epoch {epoch} yet: run the same command again")
    others = tuple(each for each in network.dealt or () if each.epoch != epoch)
    return replace(network, dealt=(*others, *(each.shares for each in found)))


def _dealings(client: Chain, network: Network, epoch: int, block: int, known: Mapping[Address, Holder]) -> list[_Dealing]:
    where = network.addresses.key_epochs
    logs = client.logs("KeyEpochs", where, [_OPENED, _DEALT], network.deploy_block, block)
    with reading_answer(_DEALT):
        return [_dealing(log, client.block(log.block).timestamp, known) for log in logs if log.values["epoch"] == epoch]


def _dealing(log: Log, since: int, known: Mapping[Address, Holder]) -> _Dealing:
    values = log.values
    holders = tuple(known.get(each, Holder(each, "", "")) for each in values["shards"])
    version = int(values["version"]) if log.event == _DEALT else 0
    shares = DealtShares(U64(values["epoch"]), version, U64(since), int(values["threshold"]), holders)
    return _Dealing(shares, Blob(values["commitments"]))
