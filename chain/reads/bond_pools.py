"""Check that a contract is a bond pool of this network: its code and its constructor arguments."""

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError
from bytewise.protocol.units import Address
from chain.client.access import Chain
from chain.client.artifacts import View, interface
from chain.client.rpc import BrokenAnswer

CONTRACT = "BondPool"
_IMMUTABLES = ("DISPUTES", "LEDGER", "RECEIPT", "BOND", "ALT_COMMIT")
"""Names of immutable values, in the order of their declarations."""


def verify_bond_pool(client: Chain, network: Network, pool: Address) -> None:
    """`ConfigurationError` unless the code is that of this build, and court and ledger are those of the address book."""
    try:
        court, ledger, receipt, bond, commitment = client.views([View(CONTRACT, pool, name) for name in _IMMUTABLES], "latest")
    except (ChainReverted, BrokenAnswer):
        raise _no_pool(pool) from None
    words = (bytes.fromhex(court[2:]), bytes.fromhex(ledger[2:]), receipt, bond.to_bytes(32, "big"), commitment)
    if client.codes([pool]) != [interface(CONTRACT).deployed(*words)]:
        raise _no_pool(pool)
    at = network.addresses
    for name, found, wanted in (("court", court, at.disputes), ("ledger", ledger, at.ledger)):
        if found != wanted:
            what = f"the {name} of pool {pool} is {found}, that of this network is {wanted}: send it no money"
            raise ConfigurationError("--at", what)


def _no_pool(pool: Address) -> ConfigurationError:
    return ConfigurationError("--at", f"{pool} has not the code of a {CONTRACT} of this build: send it no money")
