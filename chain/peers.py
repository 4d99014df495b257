"""Whether contracts are what an address book calls them: each is asked for the others that it was deployed or wired with.

Only what never changes is asked: movers and the registry's court are a vote's, and a court that was replaced keeps its book.
"""

from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors import ChainReverted, ConfigurationError
from bytewise.protocol.network import Network, Pool
from chain.access import Chain

_LENS = {
    "PARAMS": "params", "GUARDIAN": "guardian", "REGISTRY": "registry", "VAULT": "stake_vault", "LEDGER": "ledger",
    "EPOCHS": "key_epochs", "MARKET": "fee_market", "ANCHOR": "receipt_anchor", "DISPUTES": "disputes",
    "SETTLEMENT": "settlement", "SEEDS": "randao_source", "AUDITS": "audits",
}  # fmt: skip

PEERS = (
    *(("Lens", "lens", function, peer) for function, peer in _LENS.items()),
    ("Disputes", "disputes", "PROCEEDINGS", "proceedings"),
    ("Disputes", "disputes", "CERTIFIER", "certifier"),
    ("Disputes", "disputes", "authority", "access_manager"),
    ("Guardian", "guardian", "authority", "access_manager"),
    ("FeeMarket", "fee_market", "authority", "access_manager"),
    ("Certifier", "certifier", "KEYS", "bls_keys"),
    ("Guardian", "guardian", "disputes", "disputes"),
    ("Settlement", "settlement", "disputes", "disputes"),
    ("ReceiptAnchor", "receipt_anchor", "disputes", "disputes"),
    ("FeeMarket", "fee_market", "anchor", "receipt_anchor"),
    ("FeeMarket", "fee_market", "audits", "audits"),
    ("StakeVault", "stake_vault", "registry", "registry"),
    ("BytewiseGovernor", "bytewise_governor", "timelock", "short_timelock"),
    ("BytewiseGovernor", "bytewise_governor", "token", "governance_token"),
)
"""Contract, its name in the book, the view, and who it must name: every contract but `Charter` and `Lens` is named by another."""

_PROPOSER = keccak256(b"PROPOSER_ROLE")


def verify_peers(client: Chain, network: Network) -> Network:
    """The book, if its contracts name each other as it does; otherwise `ConfigurationError` names two that do not fit."""
    book, at = network.addresses, "latest"
    for contract, name, function, peer in PEERS:
        wanted = getattr(book, peer)
        try:
            found = client.call(contract, getattr(book, name), function, block=at)
        except ChainReverted:
            raise _wrong(f"{name} is no {contract}: it does not say who its {peer} is") from None
        if found != wanted:
            raise _wrong(f"{name} works with {found} as its {peer}, the book says {wanted}")
    try:
        proposes = client.call("TimelockController", book.long_timelock, "hasRole", _PROPOSER, book.short_timelock, block=at)
    except ChainReverted:
        raise _wrong("long_timelock is no TimelockController") from None
    if not proposes:
        raise _wrong("long_timelock takes no proposals of short_timelock")
    for pool in network.pools:
        _verify_tree(client, network, pool)
    return network


def _verify_tree(client: Chain, network: Network, pool: Pool) -> None:
    name = f"the tree of pool 0x{pool.digest.hex()[:8]}…"
    registry = network.addresses.registry
    try:
        writer = client.call("StakeTree", pool.tree, "writer", block="latest")
    except ChainReverted:
        raise _wrong(f"{name} is no StakeTree") from None
    if writer != registry:
        raise _wrong(f"{name} is written by {writer}, the registry is {registry}")
    try:
        listed = client.call("Registry", registry, "treeOf", pool.digest, block="latest")
    except ChainReverted:
        return  # The curator has not added it yet.
    if listed != pool.tree:
        raise _wrong(f"{name} is {listed} to the registry, the book says {pool.tree}")


def _wrong(what: str) -> ConfigurationError:
    return ConfigurationError("network.json", f"{what}: it is no book of one deployment; take it from who deployed the network")
