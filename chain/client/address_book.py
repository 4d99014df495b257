"""The address book file, and the check of the chain against it at the start of every actor (`verify_code`).

The check compares the code of every contract, and asks each contract to which other contracts it refers.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bytewise.protocol.address_book import Addresses, CodeHash, Network, PoolTree, StakeSource
from bytewise.protocol.digests import keccak256
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.units import Address, Digest
from bytewise.service.files import replace_file, shown_name
from chain.client.access import Chain
from chain.client.artifacts import CONTRACTS, View, interface

# Check that contracts refer to each other as the address book says.

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
"""Links from one contract to another. Each row has the name of the first contract, its field in the book, a view of it, and the
field of the second contract. The view must return the second contract's address.

Every contract is the target of a link here or in `VOTED_WIRING`, except `Charter`, `Keeper`, `Lens`, the governor and the long
timelock. `_proposers` covers the long timelock.
"""

VOTED_WIRING = (
    ("Breaker", "breaker", "authority", "access_manager"),
    ("Guardian", "guardian", "authority", "access_manager"),
    ("FeeMarket", "fee_market", "authority", "access_manager"),
    ("BytewiseGovernor", "bytewise_governor", "timelock", "short_timelock"),
)
"""Links between contracts, as in `WIRING`, that a vote may have changed since the book was written."""

_ONLY = {StakeSource.NATIVE: ("StakeVault", "MAX_REQUESTS"), StakeSource.EIGENLAYER: ("EigenLayerStake", "MAX_AGE")}
"""For each source of stake, a view that the other source lacks."""

_PROPOSER = keccak256(b"PROPOSER_ROLE")


def verify_wiring(client: Chain, network: Network) -> Network:
    """Returns the address book if its contracts refer to each other as the book says. Raises `ConfigurationError`, which names a
    wrong link, if they do not."""
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
    next(answers)  # A vote may have removed the right of the short timelock to propose to the long one.
    if next(answers):
        raise _wrong("short_timelock takes proposals of long_timelock: the book has them the other way round")
    next(answers)  # It is enough that the charter answers.
    for pool in network.pools:
        _verify_tree(client, network, pool, next(answers))
    next(answers, None)  # It is enough that the stake source answers.
    return network


def _stake_views(network: Network) -> Iterator[tuple[View, str]]:
    if network.stake is not None:
        contract, function = _ONLY[network.stake]
        view = View(contract, network.addresses.stake_vault, function)
        yield view, f"stake is {network.stake}, and stake_vault is no {contract}"


def _answers(client: Chain, asked: Sequence[tuple[View, str]]) -> Iterator[Any]:
    """Yields the answers of the views, read in one round trip. Raises `ConfigurationError` with the text beside a view if that
    view reverts."""
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
    """Returns two views. The first tells whether the long timelock accepts proposals of the short one, the second whether the
    short one accepts proposals of the long one. The second must be false."""
    pairs = ((book.long_timelock, book.short_timelock), (book.short_timelock, book.long_timelock))
    first, second = (View("TimelockController", at, "hasRole", (_PROPOSER, other)) for at, other in pairs)
    return first, second


def _verify_tree(client: Chain, network: Network, pool: PoolTree, writer: Address) -> None:
    """Raises `ConfigurationError` unless the registry is the writer of the tree and, once the curator has added the pool, names
    the tree for the pool."""
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


IN_PLACE_OF = {"EigenLayerStake": "StakeVault"}
"""Contracts that a deployment may have under another contract's name (`chain.client.artifacts.ADAPTERS`)."""


def write_network(path: Path, network: Network) -> None:
    """Writes the address book. A process that reads during the write, or after a crash, gets either the previous book or this
    one."""
    replace_file(path, encode(network))


def read_network(path: Path) -> Network:
    """Reads the address book. Raises `ConfigurationError` if the file is missing or is no address book."""
    try:
        return decode(Network, path.read_bytes())
    except OSError as error:
        raise ConfigurationError(shown_name(path), error.strerror) from None
    except Fault as error:
        raise ConfigurationError(shown_name(path), f"is no address book: {error}") from None


def address_of(network: Network, contract: str) -> Address:
    """Returns the address of the contract with this name."""
    where: Address = getattr(network.addresses, field_of(contract))
    return where


def field_of(contract: str) -> str:
    """Returns the field of `Addresses` for a contract's name, for example `stake_vault` for `StakeVault`."""
    name = IN_PLACE_OF.get(contract, contract)
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")


def contracts(network: Network) -> dict[str, Address]:
    """Returns the address of every contract of the book by name, including stake trees."""
    named = {name: getattr(network.addresses, name) for name in Addresses.__dataclass_fields__}
    return named | {f"stake_tree {pool.digest.hex()[:8]}": pool.tree for pool in network.pools}


def code_hashes(client: Chain, where: Sequence[Address]) -> tuple[CodeHash, ...]:
    """Reads the hashes of the code at these addresses in the newest block. Raises `ConfigurationError` if an address has no
    code."""
    found = []
    for at, code in zip(where, client.codes(where), strict=True):
        if not code:
            raise ConfigurationError(
                "network.json",
                f"nothing is deployed at {at}: the node is on another chain or behind, or the book is of another network",
            )
        found.append(CodeHash(at, Digest(keccak256(code))))
    return tuple(found)


def contracts_of_other_releases(client: Chain, network: Network) -> list[str]:
    """Returns the names, as `contracts` gives them, of the contracts whose code on the chain is not the compiled code of this
    release (`chain.client.artifacts`)."""
    compiled = {field_of(name): interface(name) for name in CONTRACTS}
    if network.stake is StakeSource.EIGENLAYER:
        compiled["stake_vault"] = interface("EigenLayerStake")
    compiled |= dict.fromkeys(("short_timelock", "long_timelock"), interface("TimelockController"))
    named = contracts(network)
    codes = client.codes(list(named.values()))
    return [name for name, code in zip(named, codes, strict=True) if not compiled[name.partition(" ")[0]].creates(code)]


def verify_code(client: Chain, network: Network) -> Network:
    """Returns the book if every contract has the code that the book names, and the contracts refer to each other as the book
    says.

    Raises `ConfigurationError`, which names the contract, if the book lacks a code hash, or if a contract has no code, has other
    code, or refers to another contract.
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
