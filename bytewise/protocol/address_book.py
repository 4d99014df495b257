"""The address book of a network with the contracts: where each is, and what code it must have (`network.json`)."""

import enum
from dataclasses import dataclass, field

from bytewise.protocol.encoding import LATER
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.jobs import Contracts, EpochRecord, ShardRecord
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U64, U256, Address, Digest


class StakeSource(enum.StrEnum):
    """Who holds the stake of a network, for good."""

    NATIVE = "native"
    """`StakeVault`, a vault of the network's own."""
    EIGENLAYER = "eigenlayer"
    """EigenLayer: the contract at `stake_vault` is `EigenLayerStake` (ADR-030)."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where each contract is (design section 13)."""

    charter: Address
    """`Charter`, which gave the roles away; powerless since."""
    access_manager: Address
    """OpenZeppelin's `AccessManager`: who may call what."""
    governance_token: Address
    """Whose holders vote."""
    bytewise_governor: Address
    """Who proposes to the short timelock what was voted."""
    short_timelock: Address
    """OpenZeppelin's `TimelockController` before parameters and prices, proposer of the long one."""
    long_timelock: Address
    """The same before whatever moves stake; administrator of all roles."""
    params: Address
    """`Params`."""
    guardian: Address
    """`Guardian`, the protocol clock."""
    ledger: Address
    """`Ledger`."""
    stake_vault: Address
    """`StakeVault`, or `EigenLayerStake` in its place."""
    registry: Address
    """`Registry`."""
    randao_source: Address
    """`RandaoSource`."""
    bls_keys: Address
    """`BlsKeys`."""
    key_epochs: Address
    """`KeyEpochs`."""
    fee_market: Address
    """`FeeMarket`."""
    receipt_anchor: Address
    """`ReceiptAnchor`."""
    demands: Address
    """`Demands`."""
    settlement: Address
    """`Settlement`."""
    rounds: Address
    """`Rounds`, seats and votes of the court."""
    breaker: Address
    """`Breaker` of the court."""
    disputes: Address
    """`Disputes`."""
    keeper: Address
    """`Keeper`, which makes several calls in one transaction."""
    audits: Address
    """`Audits`."""
    lens: Address
    """`Lens`."""


@dataclass(frozen=True, slots=True)
class PoolTree:
    """Verifiers among whom a dispute draws."""

    digest: Digest
    """The pool's name."""
    tree: Address
    """Its `StakeTree`."""


@dataclass(frozen=True, slots=True)
class CodeHash:
    """What the code of a contract must hash to: immutable values included, so each deployment has its own."""

    contract: Address
    """Where."""
    digest: Digest
    """keccak256 of the code."""


@dataclass(frozen=True, slots=True)
class ShareHolder:
    """Who has or had a share, and where its release log is."""

    address: Address
    """Account that signs its release records."""
    url: str
    """HTTPS base address of its log; empty if no book had it."""
    certificate: str
    """Pinned TLS certificate, PEM; empty if no book had it."""


@dataclass(frozen=True, slots=True)
class DealtShares:
    """Shares of a key as they were dealt once: they open together, and with those of no other version."""

    epoch: U64
    """Key epoch."""
    version: int
    """How often its key had been dealt again."""
    since: U64
    """Unix seconds of the chain's block from which on these shares count."""
    threshold: int
    """Shards that open."""
    holders: tuple[ShareHolder, ...]
    """By index, from 1."""


@dataclass(frozen=True, slots=True)
class Network:
    """One deployment. The chain pins keys and shard accounts; endpoints and certificates are only here."""

    chain_id: U256
    """EIP-155 chain id."""
    deploy_block: U64
    """First block that can hold an event of ours."""
    addresses: Addresses
    """Contracts."""
    pools: tuple[PoolTree, ...]
    """Pools."""
    code: tuple[CodeHash, ...]
    """Of all contracts and trees."""
    epochs: tuple[EpochDocument, ...]
    """Key epochs with their shards' endpoints."""
    dealt: tuple[DealtShares, ...] | None = field(default=None, metadata=LATER)
    """Of each epoch whose key was dealt again since books have this, all versions of its shares, in order."""
    stake: StakeSource | None = field(default=None, metadata=LATER)
    """Who holds the stake; None in a book from before books said it."""

    @property
    def anchor_domain(self) -> Domain:
        """EIP-712 domain of receipts."""
        return Domain(self.chain_id, self.addresses.receipt_anchor)

    @property
    def demands_domain(self) -> Domain:
        """What names subjects of demands; nothing is signed for it."""
        return Domain(self.chain_id, self.addresses.demands)

    @property
    def disputes_domain(self) -> Domain:
        """EIP-712 domain of votes, commits, findings and audit results."""
        return Domain(self.chain_id, self.addresses.disputes)

    @property
    def epochs_domain(self) -> Domain:
        """EIP-712 domain of tickets and releases."""
        return Domain(self.chain_id, self.addresses.key_epochs)

    @property
    def keys_domain(self) -> Domain:
        """EIP-712 domain of proofs of possession."""
        return Domain(self.chain_id, self.addresses.bls_keys)

    @property
    def contracts(self) -> Contracts:
        """What an enclave needs to know of the addresses."""
        where = self.addresses
        return Contracts(
            chain_id=self.chain_id, anchor=where.receipt_anchor, disputes=where.disputes, key_epochs=where.key_epochs
        )

    def epoch(self, number: int) -> EpochRecord:
        """The listed record of a key epoch; `TryAgain` if the book does not have it.

        Governance opens epochs while actors run: whose book is older than that waits for a newer one.
        """
        for document in self.epochs:
            if document.record.epoch == number:
                return document.record
        raise TryAgain("network.json", f"key epoch {number} is not listed")

    def holders(self, number: int) -> dict[Address, ShareHolder]:
        """All who are known to have or have had shares of a key epoch, by account."""
        former = (each for dealt in self.dealt or () if dealt.epoch == number for each in dealt.holders if each.url)
        listed = (shard for document in self.epochs if document.record.epoch == number for shard in document.record.shards)
        return {each.address: each for each in (*former, *map(share_holder, listed))}


def share_holder(shard: ShardRecord) -> ShareHolder:
    """A shard of an epoch document as a holder of its shares."""
    return ShareHolder(shard.address, shard.url, shard.certificate)
