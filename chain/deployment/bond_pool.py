"""Bond pools: a bond pool is a contract by which several accounts pay the bond of one challenge.

Anybody can deploy one, and no address book lists it. A pool with other code, or of another court or ledger, could pay anybody.
So a pool is checked before anybody sends it money (docs/reference/contracts.md, section 2).
"""

from typing import NamedTuple

from bytewise.protocol.address_book import Network
from bytewise.protocol.court.commitments import alt_commit, dispute_id
from bytewise.protocol.court.tally import key_of
from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.units import Address, Digest
from chain.client.access import Chain
from chain.client.artifacts import View, interface
from chain.client.rpc import BrokenAnswer

CONTRACT = "BondPool"
_IMMUTABLES = ("DISPUTES", "LEDGER", "RECEIPT", "BOND", "ALT_COMMIT")
"""Names of the contract's immutable values, in the order of their declarations."""


class PoolTerms(NamedTuple):
    """The terms of a bond pool, which are fixed when it is deployed."""

    receipt_id: Digest
    """Receipt that the pool challenges."""
    bond_wei: int
    """Bond that the pool collects: `Params.requiredBond` of the receipt's parameters."""
    alt_commit: Digest
    """Commitment to the answer that the pool expects to win (`commitments.alt_commit`)."""


class BondPoolState(NamedTuple):
    """The state of a bond pool at the newest block."""

    terms: PoolTerms
    """The fixed terms of the pool."""
    dispute: Digest
    """Id of the one dispute that the pool's receipt can have."""
    contributed_wei: int
    """Sum of all contributions that the pool has now."""
    is_challenged: bool
    """Whether the pool has opened that dispute. Before it does, every contributor may take its money back."""

    @property
    def missing_wei(self) -> int:
        """Part of the bond that is not contributed yet."""
        return self.terms.bond_wei - self.contributed_wei


class PoolShare(NamedTuple):
    """One contributor's part of a pool, in wei."""

    contributed_wei: int
    """The contributor's part of the bond."""
    claimable_wei: int
    """Amount that `claim` would pay the contributor now; 0 before the challenge."""


def committed_terms(
    network: Network, pool: Address, receipt: Digest, bond_wei: int, expected: Digest | None, salt: Digest
) -> PoolTerms:
    """Returns the terms of a pool that will be deployed at address `pool`. `expected` is the out_hash to which the pool commits.
    If it is None, the pool commits to no answer, so it cannot win the challenger's share."""
    domain = network.disputes_domain
    key = salt if expected is None else key_of(Outcome.EXECUTED, 0, expected)
    return PoolTerms(receipt, bond_wei, alt_commit(domain, dispute_id(domain, receipt), pool, key, salt))


def creation_code(network: Network, terms: PoolTerms) -> bytes:
    """Returns the creation code of a pool, with its constructor arguments."""
    at = network.addresses
    return interface(CONTRACT).creation(at.disputes, at.ledger, terms.receipt_id, terms.bond_wei, terms.alt_commit)


def verify_bond_pool(client: Chain, network: Network, pool: Address) -> PoolTerms:
    """Reads the terms of a pool. Raises `ConfigurationError` unless its code is that of this release, and its court and ledger
    are those of the address book."""
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
            raise ConfigurationError("pool", what)
    return PoolTerms(Digest(receipt), bond, Digest(commitment))


def _no_pool(pool: Address) -> ConfigurationError:
    return ConfigurationError("pool", f"{pool} has not the code of a {CONTRACT} of this build: send it no money")


def read_bond_pool(client: Chain, network: Network, pool: Address) -> BondPoolState:
    """Checks a pool, and reads its state at the newest block. Raises the errors of `verify_bond_pool`."""
    terms = verify_bond_pool(client, network, pool)
    names = ("disputeId", "contributed", "isChallenged")
    dispute, contributed, is_challenged = client.views([View(CONTRACT, pool, name) for name in names], "latest")
    return BondPoolState(terms, Digest(dispute), contributed, is_challenged)


def read_share(client: Chain, pool: Address, account: Address) -> PoolShare:
    """Reads an account's part of a pool that was checked before."""
    views = [View(CONTRACT, pool, name, (account,)) for name in ("contributionOf", "claimable")]
    contributed, claimable = client.views(views, "latest")
    return PoolShare(contributed, claimable)
