"""The address book of a network (`network.json`): where each contract is, and which code it must have."""

import enum
from dataclasses import dataclass, field

from bytewise.protocol.encoding import LATER
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.jobs import Contracts, EpochRecord, ShardRecord
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U64, U256, Address, Digest


class StakeSource(enum.StrEnum):
    """The holder of a network's stake. It never changes."""

    NATIVE = "native"
    """The contract `StakeVault` of the network itself."""
    EIGENLAYER = "eigenlayer"
    """EigenLayer: the contract at `stake_vault` is `EigenLayerStake` (ADR-030)."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Address of each contract (design section 13)."""

    charter: Address
    """`Charter`, which assigned the roles at deployment and has no power since."""
    access_manager: Address
    """OpenZeppelin's `AccessManager`, which says who may call what."""
    governance_token: Address
    """Token whose holders vote."""
    bytewise_governor: Address
    """Governor, which passes accepted proposals to the short timelock."""
    short_timelock: Address
    """OpenZeppelin's `TimelockController` for parameters and prices; proposer of the long one."""
    long_timelock: Address
    """`TimelockController` for all calls that move stake; administrator of all roles."""
    params: Address
    """`Params`."""
    guardian: Address
    """`Guardian`, which keeps the protocol clock."""
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
    """`Rounds`: seats and votes of the court."""
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
    """A pool of verifiers, from which the court draws committees, and its stake tree."""

    digest: Digest
    """Name of the pool."""
    tree: Address
    """Address of its `StakeTree`."""


@dataclass(frozen=True, slots=True)
class CodeHash:
    """Hash of a contract's code. The code includes immutable values, so each deployment has its own hash."""

    contract: Address
    """Address of the contract."""
    digest: Digest
    """keccak256 of the code."""


@dataclass(frozen=True, slots=True)
class ShareHolder:
    """A shard that has or had a share of a key, and where its release log is."""

    address: Address
    """Account that signs its release records."""
    url: str
    """HTTPS base address of its log; empty if no address book has had it."""
    certificate: str
    """Pinned TLS certificate, PEM; empty if no address book has had it."""


@dataclass(frozen=True, slots=True)
class DealtShares:
    """The shares of one dealing of a key. They open envelopes together, and not together with shares of another version."""

    epoch: U64
    """Key epoch."""
    version: int
    """How often the key had been dealt again by then."""
    since: U64
    """Unix seconds of the block from which on these shares count."""
    threshold: int
    """How many shares open an envelope."""
    holders: tuple[ShareHolder, ...]
    """Holders by index, from 1."""


@dataclass(frozen=True, slots=True)
class Network:
    """One deployment. The chain pins keys and shard accounts; endpoints and certificates are only in this book."""

    chain_id: U256
    """EIP-155 chain id."""
    deploy_block: U64
    """First block that can hold an event of the network."""
    addresses: Addresses
    """Addresses of the contracts."""
    pools: tuple[PoolTree, ...]
    """Pools of verifiers."""
    code: tuple[CodeHash, ...]
    """Code hashes of all contracts and trees."""
    epochs: tuple[EpochDocument, ...]
    """Key epochs with their shards' endpoints."""
    dealt: tuple[DealtShares, ...] | None = field(default=None, metadata=LATER)
    """All versions of the shares of each epoch whose key was dealt again, in order; None in older books."""
    stake: StakeSource | None = field(default=None, metadata=LATER)
    """Holder of the stake; None in older books."""

    @property
    def anchor_domain(self) -> Domain:
        """EIP-712 domain of receipts."""
        return Domain(self.chain_id, self.addresses.receipt_anchor)

    @property
    def demands_domain(self) -> Domain:
        """Domain of subjects of demands. Nothing is signed under it."""
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
        """The addresses that an enclave needs."""
        where = self.addresses
        return Contracts(
            chain_id=self.chain_id, anchor=where.receipt_anchor, disputes=where.disputes, key_epochs=where.key_epochs
        )

    def epoch(self, number: int) -> EpochRecord:
        """The listed record of a key epoch. `TryAgain` if the book does not list it.

        Governance opens epochs while actors run, so an actor with an older book waits for a newer one.
        """
        for document in self.epochs:
            if document.record.epoch == number:
                return document.record
        raise TryAgain("network.json", f"key epoch {number} is not listed")

    def holders(self, number: int) -> dict[Address, ShareHolder]:
        """All known present and former holders of shares of a key epoch, by account."""
        former = (each for dealt in self.dealt or () if dealt.epoch == number for each in dealt.holders if each.url)
        listed = (shard for document in self.epochs if document.record.epoch == number for shard in document.record.shards)
        return {each.address: each for each in (*former, *map(share_holder, listed))}


def share_holder(shard: ShardRecord) -> ShareHolder:
    """The entry of an epoch document's shard as the holder of a share."""
    return ShareHolder(shard.address, shard.url, shard.certificate)
