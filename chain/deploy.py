"""Deploys a network, puts models and key epochs in force, and lets accounts join: one-shot acts of a starter.

Addresses follow from the deployer's nonces (CREATE), so every constructor argument is known before anything is sent and all
transactions of a step travel in one round trip.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from eth_typing import HexAddress, HexStr
from web3.types import Nonce
from web3.utils.address import get_create_address

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.environment import Environment
from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.keys import EpochDocument
from bytewise.protocol.network import Addresses, Network
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U64, U256, Address, Digest, address
from chain.artifacts import CONTRACTS, FOLDER, interface
from chain.client import ChainClient
from chain.epochs import ASSURANCE
from chain.params import param_set
from chain.transactions import Call, send_all

DEFAULT_TIMEOUT_S = 60.0
"""For a whole step: many blocks of any chain we deploy on."""

ACTIVE = 1
"""`Status.ACTIVE` of an environment or a model."""

_CALL_GAS = 500_000
_DOCUMENT_GAS_PER_BYTE = 60
_CREATION_GAS_PER_BYTE = 240
"""200 for storing code and 16 for calldata, and some more for the constructor."""


class Model(NamedTuple):
    """A model to be put in force."""

    model_id: Digest
    """Artifact digest."""
    manifest: bytes
    """The manifest that the digest names."""


class Policy(NamedTuple):
    """An appraisal policy to be put in force."""

    digest: Digest
    """Its digest."""
    serial: int
    """Above the one in force."""
    document: bytes
    """Its canonical bytes."""


class Joiner(NamedTuple):
    """An account that stakes and registers: as operator with its endpoint, or as verifier."""

    signer: LocalSigner
    """Its key."""
    stake_wei: int
    """Deposit."""
    endpoint: str | None
    """Operators only; None for a verifier."""


def deploy(
    client: ChainClient, deployer: LocalSigner, params: Mapping[str, Any], timeout_s: float = DEFAULT_TIMEOUT_S
) -> Network:
    """Deploys and wires all contracts; `ChainReverted` names a broken parameter or law."""
    order = json.loads((FOLDER / "deploy_order.json").read_text())
    first = client.nonce(deployer.address)
    names = [step["contract"] for step in order["deploy"]]
    if sorted(names) != sorted(CONTRACTS):
        raise ConfigurationError("deploy_order.json", "names other contracts than this client knows")
    known: dict[str, Any] = {name: created_address(deployer.address, first + place) for place, name in enumerate(names)}
    known |= {"params": param_set(params), "owner": deployer.address}
    calls = []
    for step in order["deploy"]:
        data = interface(step["contract"]).creation(*_resolve(step["args"], known))
        calls.append(Call(deployer, None, data, 0, _CALL_GAS + _CREATION_GAS_PER_BYTE * len(data)))
    for step in order["wire"]:
        data = interface(step["contract"]).call("wire", *_resolve(step["args"], known))
        calls.append(Call(deployer, known[step["contract"]], data, 0, _CALL_GAS))
    receipts = send_all(client, calls, timeout_s)
    block = min(receipt.number for receipt in receipts)
    where = {_snake(name): known[name] for name in names}
    return Network(chain_id=U256(client.chain_id), deploy_block=U64(block), addresses=Addresses(**where), epochs=())


def put_in_force(
    client: ChainClient,
    network: Network,
    deployer: LocalSigner,
    environments: Sequence[Environment],
    models: Sequence[Model],
    policy: Policy,
    epochs: Sequence[EpochDocument],
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Network:
    """Sets environments, models and policy ACTIVE, opens and activates key epochs; the address book with the epochs in it."""
    registry, keys = network.addresses.registry, network.addresses.key_epochs
    calls = [_call(deployer, "Registry", registry, "setEnvironment", each.digest, ACTIVE, encode(each)) for each in environments]
    calls += [_call(deployer, "Registry", registry, "setModel", each.model_id, ACTIVE, each.manifest) for each in models]
    calls.append(_call(deployer, "Registry", registry, "setPolicy", policy.digest, policy.serial, policy.document))
    for document in epochs:
        record = document.record
        assurance = next(number for number, name in ASSURANCE.items() if name == record.assurance)
        shards = [shard.address for shard in record.shards]
        opening = (record.epoch, record.public_key, b"".join(document.commitments), shards, record.threshold, assurance)
        calls.append(_call(deployer, "KeyEpochs", keys, "openEpoch", *opening, policy.digest))
        calls.append(_call(deployer, "KeyEpochs", keys, "activate", record.epoch))
    send_all(client, calls, timeout_s)
    return replace(network, epochs=(*network.epochs, *epochs))


def join(client: ChainClient, network: Network, joiners: Sequence[Joiner], timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
    """Deposits every joiner's stake and registers it."""
    calls = []
    for each in joiners:
        data = interface("StakeVault").call("deposit")
        calls.append(Call(each.signer, network.addresses.stake_vault, data, each.stake_wei, _CALL_GAS))
        verb = ("registerVerifier",) if each.endpoint is None else ("registerOperator", each.endpoint)
        calls.append(_call(each.signer, "Registry", network.addresses.registry, *verb))
    send_all(client, calls, timeout_s)


def fund(client: ChainClient, rich: LocalSigner, accounts: Mapping[Address, int], timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
    """Sends plain wei to accounts."""
    send_all(client, [Call(rich, who, b"", amount, 21_000) for who, amount in accounts.items()], timeout_s)


def created_address(deployer: Address, nonce: int) -> Address:
    """Where CREATE puts the contract of a deployer's transaction: the last 20 bytes of keccak256(rlp([deployer, nonce]))."""
    return address(get_create_address(HexAddress(HexStr(deployer)), Nonce(nonce)))


def write_network(path: Path, network: Network) -> None:
    """Writes the address book."""
    path.write_bytes(encode(network))


def read_network(path: Path) -> Network:
    """Reads the address book; `ConfigurationError` if there is none, a fault of encoding if it is not one."""
    try:
        return decode(Network, path.read_bytes())
    except OSError as error:
        raise ConfigurationError(path.name, error.strerror) from None


def _call(signer: LocalSigner, contract: str, to: Address, function: str, *arguments: Any) -> Call:
    data = interface(contract).call(function, *arguments)
    return Call(signer, to, data, 0, _CALL_GAS + _DOCUMENT_GAS_PER_BYTE * len(data))


def _resolve(arguments: Sequence[Any], known: Mapping[str, Any]) -> list[Any]:
    return [tuple(_resolve(each, known)) if isinstance(each, list) else known[each] for each in arguments]


def _snake(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")
