"""The curator's transactions about key epochs: announce, confirm shares, activate, change the holders of the shares, retire."""

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
from chain.deployment.calls import ContractCall, estimated_call
from chain.reads.key_epochs import ASSURANCE, with_share_history
from chain.sending.transactions import send_all

TIMEOUT_S = 60.0
"""Time limit in seconds for each transaction of a command. The transactions are sent one after the other."""


class CeremonySignatures(NamedTuple):
    """Signatures of shards over the result of a key ceremony, as the chain takes them."""

    transcript: Digest
    """Digest of the ceremony's transcript."""
    signatures: Sequence[Blob]
    """One signature per shard, in the order of the shards. It is empty for a shard that did not sign
    (`kms.ceremony.state.shares_digest`)."""
    consents: Sequence[Blob] = ()
    """Signatures of the previous shards, in their order on the chain, if a reshare or refresh replaced their shares."""


def open_epoch(
    client: Chain,
    network: Network,
    curator: LocalSigner | None,
    document: EpochDocument,
    policy: Digest,
    signed: CeremonySignatures,
    found: EpochOnChain,
    timeout_s: float = TIMEOUT_S,
) -> Network:
    """Announces an epoch that a ceremony made, confirms its shares and activates it.

    Returns the address book with the epoch's document. `found` is the epoch on the chain: an announced epoch is not announced
    again, and nothing is sent if its state is ACTIVE or later. Each call is tried before it is sent. Raises `ConfigurationError`
    if the chain has another key or other shares, or refuses a call, for example because too few shards signed. Then the epoch is
    not in force.
    """
    _send(client, network, curator, opening_calls(document, policy, signed, found), timeout_s)
    return _with(network, document)


def opening_calls(
    document: EpochDocument, policy: Digest, signed: CeremonySignatures, found: EpochOnChain
) -> tuple[ContractCall, ...]:
    """Returns, in order, the calls that the curator must still make to open an epoch. Raises `ConfigurationError` if the chain
    has another key or other shares."""
    epoch, states = document.record.epoch, (EpochState.NONE, EpochState.PENDING)
    if found.state is not EpochState.NONE and found.commitments != b"".join(document.commitments):
        raise ConfigurationError(f"key epoch {epoch}", "is on the chain with another key or other shares")
    if found.state not in states:
        return ()
    announcing = (_announcing(document, policy),) if found.state is EpochState.NONE else ()
    confirm = ContractCall("KeyEpochs", "confirm", (epoch, signed.transcript, list(signed.signatures)))
    return (*announcing, confirm, ContractCall("KeyEpochs", "activate", (epoch,)))


def reshare_epoch(
    client: Chain,
    network: Network,
    curator: LocalSigner | None,
    document: EpochDocument,
    signed: CeremonySignatures,
    found: EpochOnChain,
    timeout_s: float = TIMEOUT_S,
) -> Network:
    """Replaces the holders of a key's shares on the chain, after a reshare or refresh. Returns the address book with the new
    document and the previous holders.

    `found` is the epoch on the chain. If it has these shares already, they are not sent again. If it was only announced, it is
    activated with these shares.
    """
    _send(client, network, curator, resharing_calls(document, signed, found), timeout_s)
    return _with(with_share_history(client, network, document), document)


def resharing_calls(document: EpochDocument, signed: CeremonySignatures, found: EpochOnChain) -> tuple[ContractCall, ...]:
    """Returns, in order, the calls that the curator must still make to put dealt shares in force."""
    record = document.record
    holders = [shard.address for shard in record.shards]
    dealt = (record.epoch, b"".join(document.commitments), holders, record.threshold)
    words = (signed.transcript, list(signed.signatures), list(signed.consents))
    has_shares = found.commitments == b"".join(document.commitments)
    acts = () if has_shares else (ContractCall("KeyEpochs", "reshare", (*dealt, *words)),)
    if found.state is not EpochState.PENDING:
        return acts
    # `opening_calls` cannot activate this epoch any more: the ceremony that announced it made other shares.
    return (*acts, ContractCall("KeyEpochs", "activate", (record.epoch,)))


def retire_epoch(
    client: Chain, network: Network, curator: LocalSigner | None, epoch: int, state: EpochState, timeout_s: float = TIMEOUT_S
) -> int:
    """Retires a draining epoch, unless it is retired already, and returns its number.

    Raises `TooEarly` during the epoch's retention, and `ConfigurationError` if the epoch is in any other state.
    """
    _send(client, network, curator, retiring_calls(epoch, state), timeout_s)
    return epoch


def retiring_calls(epoch: int, state: EpochState) -> tuple[ContractCall, ...]:
    """Returns the call that retires a draining epoch, or none if it is retired. Raises `ConfigurationError` for any other
    state."""
    if state is EpochState.RETIRED:
        return ()
    if state is not EpochState.DRAINING:
        raise ConfigurationError(f"key epoch {epoch}", f"is {state.name}; what drains can be retired: rotate to another first")
    return (ContractCall("KeyEpochs", "retire", (epoch,)),)


def _send(client: Chain, network: Network, curator: LocalSigner | None, calls: Sequence[ContractCall], timeout_s: float) -> None:
    for act in calls:
        if curator is None:
            raise ConfigurationError(str(act), "is not on the chain yet, and there is no key of the curator to send it")
        _do(client, network, curator, act, timeout_s)


def _do(client: Chain, network: Network, curator: LocalSigner, act: ContractCall, timeout_s: float) -> None:
    """Tries a call, and sends it if the chain would accept it. Raises `ConfigurationError` if the contract refuses the call, or
    `curator` is not the curator of this network, and `TooEarly` if the contract takes the call only later."""
    try:
        call = estimated_call(client, network, curator, act)
    except ChainReverted as error:
        if isinstance(error.values[-1], Reason) and error.values[-1].name == "AccessManagedUnauthorized":
            why = f"{curator.address} is not the curator of this network: name the curator's key file (--key). Nothing was sent"
            raise ConfigurationError(str(act), why) from None
        raise refusal_error(act, error) from None
    send_all(client, [call], timeout_s)


def refusal_error(act: ContractCall, error: ChainReverted) -> ConfigurationError:
    """Returns the error for a call about a key epoch that the contract refused when it was tried."""
    return ConfigurationError(str(act), f"refused by the contract: {error}. This call was not sent")


def _with(network: Network, document: EpochDocument) -> Network:
    others = tuple(each for each in network.epochs if each.record.epoch != document.record.epoch)
    return replace(network, epochs=(*others, document))


def _announcing(document: EpochDocument, policy: Digest) -> ContractCall:
    record = document.record
    assurance = next(number for number, name in ASSURANCE.items() if name == record.assurance)
    holders = [shard.address for shard in record.shards]
    told = (record.epoch, record.public_key, b"".join(document.commitments), holders, record.threshold, assurance, policy)
    return ContractCall("KeyEpochs", "openEpoch", told)
