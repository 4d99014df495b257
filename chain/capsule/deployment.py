"""The contracts that a capsule reads and the digest of their storage layouts. Together they are the part of an address book that
a capsule carries."""

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
"""Contracts whose storage or signing domain a capsule needs, in the order of a capsule, each with its field in the address
book."""


@cache
def layout_digest() -> Digest:
    """Returns the digest of the storage layouts by which this program reads the contracts."""
    layouts = {name: json.loads((FOLDER / "layout" / f"{name}.json").read_text()) for name in (*CONTRACTS, TREE)}
    return digests.labelled(Label.CAPSULE_LAYOUT, encode(layouts))


def deployment_of(network: Network) -> CapsuleDeployment:
    """Returns the deployment that an address book describes. Raises `ConfigurationError` if the book lacks the code hash of a
    contract."""
    code = {each.contract: each.digest for each in network.code}
    named = [(name, getattr(network.addresses, field)) for name, field in CONTRACTS.items()]
    named += [(TREE, pool.tree) for pool in network.pools]
    missing = next((name for name, where in named if where not in code), None)
    if missing is not None:
        raise ConfigurationError("network.json", f"has no code hash of {missing}: fetch the address book again")
    contracts = tuple(DeployedContract(name, where, code[where]) for name, where in named)
    return CapsuleDeployment(network.chain_id, contracts, layout_digest())


def is_complete(deployment: CapsuleDeployment) -> bool:
    """Returns whether a deployment has every contract once, in order, and at least one stake tree after them."""
    names = [each.name for each in deployment.contracts]
    addresses = {each.address for each in deployment.contracts}
    wanted = [*CONTRACTS, *[TREE] * (len(names) - len(CONTRACTS))]
    return len(names) > len(CONTRACTS) and names == wanted and len(addresses) == len(names)


def address_in(deployment: CapsuleDeployment, name: str) -> Address:
    """Returns the address of a contract of `CONTRACTS`."""
    return next(each.address for each in deployment.contracts if each.name == name)


def domain_of(deployment: CapsuleDeployment, name: str) -> Domain:
    """Returns the EIP-712 domain of a contract of `CONTRACTS`."""
    return Domain(deployment.chain_id, address_in(deployment, name))
