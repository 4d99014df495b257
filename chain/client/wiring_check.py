"""Check that contracts refer to each other as the address book says.

Movers and the registry's court are set by votes and not checked, because a replaced court keeps its book. A link that a vote
can change (`VOTED_WIRING`) is wrong only if the book has its target under another name: in an emergency the tools must not
refuse the book.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from bytewise.protocol.address_book import Addresses, Network, PoolTree, StakeSource
from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError
from bytewise.protocol.units import Address
from chain.client.access import Chain
from chain.client.artifacts import View

_LENS = {
    "PARAMS": "params", "GUARDIAN": "guardian", "REGISTRY": "registry", "VAULT": "stake_vault", "LEDGER": "ledger",
    "EPOCHS": "key_epochs", "MARKET": "fee_market", "ANCHOR": "receipt_anchor", "DEMANDS": "demands", "DISPUTES": "disputes",
    "ROUNDS": "rounds", "BREAKER": "breaker", "SETTLEMENT": "settlement", "SEEDS": "randao_source", "AUDITS": "audits",
}  # fmt: skip

WIRING = (
    *(("Lens", "lens", function, peer) for function, peer in _LENS.items()),
    ("Disputes", "disputes", "ROUNDS", "rounds"),
    ("Disputes", "disputes", "BREAKER", "breaker"),
    ("Disputes", "disputes", "GUARDIAN", "guardian"),
    ("Rounds", "rounds", "KEYS", "bls_keys"),
    ("Rounds", "rounds", "disputes", "disputes"),
    ("Breaker", "breaker", "disputes", "disputes"),
    ("BlsKeys", "bls_keys", "REGISTRY", "registry"),
    ("Settlement", "settlement", "disputes", "disputes"),
    ("ReceiptAnchor", "receipt_anchor", "disputes", "disputes"),
    ("ReceiptAnchor", "receipt_anchor", "demands", "demands"),
    ("Demands", "demands", "ANCHOR", "receipt_anchor"),
    ("FeeMarket", "fee_market", "anchor", "receipt_anchor"),
    ("FeeMarket", "fee_market", "audits", "audits"),
    ("StakeVault", "stake_vault", "registry", "registry"),
    ("BytewiseGovernor", "bytewise_governor", "token", "governance_token"),
)
"""Contract, its name in the book, the view, and the contract that the view must return. Every contract except `Charter`,
`Keeper` and `Lens` is named by another one, in these links or in `VOTED_WIRING`."""

VOTED_WIRING = (
    ("Breaker", "breaker", "authority", "access_manager"),
    ("Guardian", "guardian", "authority", "access_manager"),
    ("FeeMarket", "fee_market", "authority", "access_manager"),
    ("BytewiseGovernor", "bytewise_governor", "timelock", "short_timelock"),
)
"""Links that a vote may have changed since."""

_ONLY = {StakeSource.NATIVE: ("StakeVault", "MAX_REQUESTS"), StakeSource.EIGENLAYER: ("EigenLayerStake", "MAX_AGE")}
"""For each source of stake, a view that the other source lacks."""

_PROPOSER = keccak256(b"PROPOSER_ROLE")


def verify_wiring(client: Chain, network: Network) -> Network:
    """The book, if its contracts name each other as it says; otherwise `ConfigurationError` names two that do not fit."""
    book = network.addresses
    links = (*WIRING, *VOTED_WIRING)
    asked = [
        *(
            (View(contract, getattr(book, name), function), _mute(contract, name, peer))
            for contract, name, function, peer in links
        ),
        *((view, "long_timelock or short_timelock is no TimelockController") for view in _proposers(book)),
        (View("Charter", book.charter, "LONG_DELAY"), "charter is no Charter: it does not say how long the long delay is"),
        *((View("StakeTree", pool.tree, "writer"), f"{_tree(pool)} is no StakeTree") for pool in network.pools),
        *_stake_views(network),
    ]
    answers = _answers(client, asked)
    known = set(asdict(book).values())
    for link in links:
        _verify_link(book, known, link, next(answers))
    next(answers)  # A vote may have ended that the long timelock takes proposals of the short one.
    if next(answers):
        raise _wrong("short_timelock takes proposals of long_timelock: the book has them the other way round")
    next(answers)  # That the charter answers is enough.
    for pool in network.pools:
        _verify_tree(client, network, pool, next(answers))
    next(answers, None)  # That the stake source answers is enough.
    return network


def _stake_views(network: Network) -> Iterator[tuple[View, str]]:
    if network.stake is not None:
        contract, function = _ONLY[network.stake]
        view = View(contract, network.addresses.stake_vault, function)
        yield view, f"stake is {network.stake}, and stake_vault is no {contract}"


def _answers(client: Chain, asked: Sequence[tuple[View, str]]) -> Iterator[Any]:
    """Answers of the views in one round trip. A view that reverts becomes `ConfigurationError` with the text beside it."""
    try:
        yield from client.views([view for view, _ in asked], "latest")
    except ChainReverted:
        # The batch does not say which view reverted.
        for view, mute in asked:
            try:
                yield client.call(view.contract, view.at, view.function, *view.arguments, block="latest")
            except ChainReverted:
                raise _wrong(mute) from None


def _verify_link(book: Addresses, known: Collection[Address], link: tuple[str, str, str, str], found: Address) -> None:
    _, name, _, peer = link
    wanted = getattr(book, peer)
    if found != wanted and not (link in VOTED_WIRING and found not in known):
        raise _wrong(f"{name} works with {found} as its {peer}, the book says {wanted}")


def _proposers(book: Addresses) -> tuple[View, View]:
    """Whether the long timelock accepts proposals of the short one, and the short one of the long one, which must never be so."""
    pairs = ((book.long_timelock, book.short_timelock), (book.short_timelock, book.long_timelock))
    first, second = (View("TimelockController", at, "hasRole", (_PROPOSER, other)) for at, other in pairs)
    return first, second


def _verify_tree(client: Chain, network: Network, pool: PoolTree, writer: Address) -> None:
    name = _tree(pool)
    registry = network.addresses.registry
    if writer != registry:
        raise _wrong(f"{name} is written by {writer}, the registry is {registry}")
    try:
        listed = client.call("Registry", registry, "treeOf", pool.digest, block="latest")
    except ChainReverted:
        return  # The curator has not added it yet.
    if listed != pool.tree:
        raise _wrong(f"{name} is {listed} to the registry, the book says {pool.tree}")


def _tree(pool: PoolTree) -> str:
    return f"the tree of pool 0x{pool.digest.hex()[:8]}…"


def _mute(contract: str, name: str, peer: str) -> str:
    return f"{name} is no {contract}: it does not say who its {peer} is"


def _wrong(what: str) -> ConfigurationError:
    return ConfigurationError("network.json", f"{what}: it is no book of one deployment; take it from who deployed the network")
