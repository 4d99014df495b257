"""The address book file, and the check at every actor's start that the chain has what it says (`verify_code`)."""

from collections.abc import Sequence
from pathlib import Path

from bytewise.protocol.address_book import Addresses, CodeHash, Network
from bytewise.protocol.digests import keccak256
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import Address, Digest
from bytewise.service.files import replace_file, shown_name
from chain.client.access import Chain
from chain.client.wiring_check import verify_wiring

IN_PLACE_OF = {"EigenLayerStake": "StakeVault"}
"""Contracts that a deployment may have under another contract's name (`chain.client.artifacts.ADAPTERS`)."""


def write_network(path: Path, network: Network) -> None:
    """Writes the address book. A reader meanwhile, or after a crash, gets the previous book or this one."""
    replace_file(path, encode(network))


def read_network(path: Path) -> Network:
    """Reads the address book. `ConfigurationError` if there is none, a fault of encoding if the file is no address book."""
    try:
        return decode(Network, path.read_bytes())
    except OSError as error:
        raise ConfigurationError(shown_name(path), error.strerror) from None


def address_of(network: Network, contract: str) -> Address:
    """Address of the contract with that name."""
    where: Address = getattr(network.addresses, field_of(contract))
    return where


def field_of(contract: str) -> str:
    """The field of `Addresses` for a contract's name: `StakeVault`, `stake_vault`."""
    name = IN_PLACE_OF.get(contract, contract)
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")


def contracts(network: Network) -> dict[str, Address]:
    """Every contract of the book by name, including stake trees."""
    named = {name: getattr(network.addresses, name) for name in Addresses.__dataclass_fields__}
    return named | {f"stake_tree {pool.digest.hex()[:8]}": pool.tree for pool in network.pools}


def code_hashes(client: Chain, where: Sequence[Address]) -> tuple[CodeHash, ...]:
    """Code hashes at these addresses in the newest block. `ConfigurationError` if an address has no code."""
    found = []
    for at, code in zip(where, client.codes(where), strict=True):
        if not code:
            raise ConfigurationError(
                "network.json",
                f"nothing is deployed at {at}: the node is on another chain or behind, or the book is of another network",
            )
        found.append(CodeHash(at, Digest(keccak256(code))))
    return tuple(found)


def verify_code(client: Chain, network: Network) -> Network:
    """The book, if the chain has the named code at every contract and the contracts refer to each other as the book says.

    Otherwise `ConfigurationError` names the contract (`chain.client.wiring_check`).
    """
    listed = {each.contract: each.digest for each in network.code}
    named = contracts(network)
    missing = [name for name, at in named.items() if at not in listed]
    if missing:
        raise ConfigurationError(
            "network.json", f"has no code hash of {', '.join(missing)}: take the book from the deployer of the network"
        )
    found = {each.contract: each.digest for each in code_hashes(client, list(named.values()))}
    for name, at in named.items():
        if found[at] != listed[at]:
            raise ConfigurationError(
                "network.json",
                f"{name} at {at} has other code than the book says: check the node's chain, and where the book comes from",
            )
    return verify_wiring(client, network)
