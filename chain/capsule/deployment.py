"""Which contracts a capsule reads, and by which storage layouts; the part of an address book that a capsule carries."""

import json
from functools import cache

from bytewise.protocol import digests
from bytewise.protocol.address_book import Network
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Address, Digest
from chain.capsule.schema import CapsuleDeployment, DeployedContract
from chain.client.artifacts import FOLDER

TREE = "StakeTree"

CONTRACTS = {
    "Disputes": "disputes", "Rounds": "rounds", "ReceiptAnchor": "receipt_anchor", "Demands": "demands", "Params": "params",
    "Guardian": "guardian", "Registry": "registry", "KeyEpochs": "key_epochs",
}  # fmt: skip
"""Contracts whose storage or signing domain a capsule needs, and their names in the address book, in the order of a capsule."""


@cache
def layout_digest() -> Digest:
    """Digest of the storage layouts that this program reads by."""
    layouts = {name: json.loads((FOLDER / "layout" / f"{name}.json").read_text()) for name in (*CONTRACTS, TREE)}
    return digests.labelled(Label.CAPSULE_LAYOUT, encode(layouts))


def deployment_of(network: Network) -> CapsuleDeployment:
    """The deployment of an address book; `ConfigurationError` if the book lacks the code hash of one of its contracts."""
    code = {each.contract: each.digest for each in network.code}
    named = [(name, getattr(network.addresses, field)) for name, field in CONTRACTS.items()]
    named += [(TREE, pool.tree) for pool in network.pools]
    missing = next((name for name, where in named if where not in code), None)
    if missing is not None:
        raise ConfigurationError("network.json", f"has no code hash of {missing}: fetch the address book again")
    contracts = tuple(DeployedContract(name, where, code[where]) for name, where in named)
    return CapsuleDeployment(network.chain_id, contracts, layout_digest())


def is_complete(deployment: CapsuleDeployment) -> bool:
    """Whether it has every contract once, in order, and at least one stake tree after them."""
    names = [each.name for each in deployment.contracts]
    addresses = {each.address for each in deployment.contracts}
    wanted = [*CONTRACTS, *[TREE] * (len(names) - len(CONTRACTS))]
    return len(names) > len(CONTRACTS) and names == wanted and len(addresses) == len(names)


def address_in(deployment: CapsuleDeployment, name: str) -> Address:
    """Address of a contract of `CONTRACTS`."""
    return next(each.address for each in deployment.contracts if each.name == name)


def domain_of(deployment: CapsuleDeployment, name: str) -> Domain:
    """EIP-712 domain of a contract of `CONTRACTS`."""
    return Domain(deployment.chain_id, address_in(deployment, name))
