"""What the curator does with key epochs: announce, show that the shards signed, put in force, deal the key again, end."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError
from bytewise.protocol.keys.epochs import EpochDocument, EpochOnChain, EpochState
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Blob, Digest
from chain.client.access import Chain
from chain.client.artifacts import Reason
from chain.deployment.calls import ContractCall, measured
from chain.reads.epoch_endpoints import ASSURANCE
from chain.reads.share_history import with_share_history
from chain.sending.transactions import send_all

TIMEOUT_S = 60.0
"""For all transactions of one act."""


class CeremonySignatures(NamedTuple):
    """What a ceremony shows to the chain."""

    transcript: Digest
    """Of the ceremony."""
    signatures: Sequence[Blob]
    """One for each shard in order, empty for who did not sign (`kms.ceremony.state.signed_shares`)."""
    consents: Sequence[Blob] = ()
    """Of a key that was dealt again: one for each shard before, in the order of the chain, of the same."""


def open_epoch(
    client: Chain,
    network: Network,
    curator: LocalSigner,
    document: EpochDocument,
    policy: Digest,
    signed: CeremonySignatures,
    found: EpochOnChain,
    timeout_s: float = TIMEOUT_S,
) -> Network:
    """Announces an epoch that a ceremony made, shows the signatures, puts it in force; the address book with it.

    `found` is what the chain has of it: what was done before is not done again. `ConfigurationError` if that is another key,
    `ChainReverted`, and it is not in force, if too few shards signed, whatever its assurance. What the chain would refuse is not
    sent: each step is tried once the one before is done.
    """
    epoch, states = document.record.epoch, (EpochState.NONE, EpochState.PENDING)
    if found.state is not EpochState.NONE and found.commitments != b"".join(document.commitments):
        raise ConfigurationError(f"key epoch {epoch}", "is on the chain with another key or other shares")
    acts = [_announcing(document, policy)] if found.state is EpochState.NONE else []
    acts.append(ContractCall("KeyEpochs", "confirm", (epoch, signed.transcript, list(signed.signatures))))
    acts.append(ContractCall("KeyEpochs", "activate", (epoch,)))
    for act in acts if found.state in states else ():
        _do(client, network, curator, act, timeout_s)
    return _with(network, document)


def reshare_epoch(
    client: Chain,
    network: Network,
    curator: LocalSigner,
    document: EpochDocument,
    signed: CeremonySignatures,
    found: EpochOnChain,
    timeout_s: float = TIMEOUT_S,
) -> Network:
    """Says who has the shares of an epoch's key after it was dealt again; the address book with the new document, and with who
    had them before.

    `found` is what the chain has of it; if that is it already, nothing is sent. An epoch that was only
    announced is put in force, with these shares.
    """
    record = document.record
    holders = [shard.address for shard in record.shards]
    dealt = (record.epoch, b"".join(document.commitments), holders, record.threshold)
    words = (signed.transcript, list(signed.signatures), list(signed.consents))
    if found.commitments != b"".join(document.commitments):
        _do(client, network, curator, ContractCall("KeyEpochs", "reshare", (*dealt, *words)), timeout_s)
    if found.state is EpochState.PENDING:
        # Nothing else could: the ceremony that announced it made other shares.
        _do(client, network, curator, ContractCall("KeyEpochs", "activate", (record.epoch,)), timeout_s)
    return _with(with_share_history(client, network, document), document)


def retire_epoch(
    client: Chain, network: Network, curator: LocalSigner, epoch: int, state: EpochState, timeout_s: float = TIMEOUT_S
) -> int:
    """Ends a draining epoch, unless it is ended; the epoch.

    `TooEarly` while its retention lasts, `ConfigurationError` in any other state.
    """
    if state is EpochState.RETIRED:
        return epoch
    if state is not EpochState.DRAINING:
        raise ConfigurationError(f"key epoch {epoch}", f"is {state.name}; what drains can be retired: rotate to another first")
    _do(client, network, curator, ContractCall("KeyEpochs", "retire", (epoch,)), timeout_s)
    return epoch


def _do(client: Chain, network: Network, curator: LocalSigner, act: ContractCall, timeout_s: float) -> None:
    """Tries an act, and sends it if the chain would take it; `ConfigurationError` for an account that may not."""
    try:
        call = measured(client, network, curator, act)
    except ChainReverted as error:
        if isinstance(error.values[-1], Reason) and error.values[-1].name == "AccessManagedUnauthorized":
            why = f"{curator.address} is not the curator of this network: name the curator's key file (--key). Nothing was sent"
            raise ConfigurationError(str(act), why) from None
        raise
    send_all(client, [call], timeout_s)


def _with(network: Network, document: EpochDocument) -> Network:
    others = tuple(each for each in network.epochs if each.record.epoch != document.record.epoch)
    return replace(network, epochs=(*others, document))


def _announcing(document: EpochDocument, policy: Digest) -> ContractCall:
    record = document.record
    assurance = next(number for number, name in ASSURANCE.items() if name == record.assurance)
    holders = [shard.address for shard in record.shards]
    told = (record.epoch, record.public_key, b"".join(document.commitments), holders, record.threshold, assurance, policy)
    return ContractCall("KeyEpochs", "openEpoch", told)
