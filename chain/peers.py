"""Whether contracts are what an address book calls them: each is asked for the others that it was deployed or wired with.

Movers and the registry's court are a vote's, and are not asked: a court that was replaced keeps its book. What a vote can point
elsewhere (`VOTED`) is wrong only if the book has it under another name: an emergency must not find its tools refusing the book.
"""

from dataclasses import asdict

from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors import ChainReverted, ConfigurationError
from bytewise.protocol.network import Addresses, Network, Pool
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
    ("Certifier", "certifier", "KEYS", "bls_keys"),
    ("Guardian", "guardian", "disputes", "disputes"),
    ("Settlement", "settlement", "disputes", "disputes"),
    ("ReceiptAnchor", "receipt_anchor", "disputes", "disputes"),
    ("FeeMarket", "fee_market", "anchor", "receipt_anchor"),
    ("FeeMarket", "fee_market", "audits", "audits"),
    ("StakeVault", "stake_vault", "registry", "registry"),
    ("BytewiseGovernor", "bytewise_governor", "token", "governance_token"),
)
"""Contract, its name in the book, the view, and who it must name: every contract but `Charter` and `Lens` is named by another, in
these or in `VOTED`."""

VOTED = (
    ("Disputes", "disputes", "authority", "access_manager"),
    ("Guardian", "guardian", "authority", "access_manager"),
    ("FeeMarket", "fee_market", "authority", "access_manager"),
    ("BytewiseGovernor", "bytewise_governor", "timelock", "short_timelock"),
)
"""The same, where a vote may have named somebody else since."""

_PROPOSER = keccak256(b"PROPOSER_ROLE")


def verify_peers(client: Chain, network: Network) -> Network:
    """The book, if its contracts name each other as it does; otherwise `ConfigurationError` names two that do not fit."""
    book = network.addresses
    known = set(asdict(book).values())
    for contract, name, function, peer in (*PEERS, *VOTED):
        wanted = getattr(book, peer)
        try:
            found = client.call(contract, getattr(book, name), function, block="latest")
        except ChainReverted:
            raise _wrong(f"{name} is no {contract}: it does not say who its {peer} is") from None
        voted = (contract, name, function, peer) in VOTED and found not in known
        if found != wanted and not voted:
            raise _wrong(f"{name} works with {found} as its {peer}, the book says {wanted}")
    _verify_timelocks(client, book)
    for pool in network.pools:
        _verify_tree(client, network, pool)
    return network


def _verify_timelocks(client: Chain, book: Addresses) -> None:
    """The long one takes proposals of the short one, unless a vote ended that; never the other way round."""
    try:
        client.call("TimelockController", book.long_timelock, "hasRole", _PROPOSER, book.short_timelock, block="latest")
        reverse = client.call("TimelockController", book.short_timelock, "hasRole", _PROPOSER, book.long_timelock, block="latest")
    except ChainReverted:
        raise _wrong("long_timelock or short_timelock is no TimelockController") from None
    if reverse:
        raise _wrong("short_timelock takes proposals of long_timelock: the book has them the other way round")


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
