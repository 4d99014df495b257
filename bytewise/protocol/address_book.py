"""The address book of a network (`network.json`): the address of each contract, and the code that it must have."""

import enum
from dataclasses import dataclass, field

from bytewise.protocol.encoding import LATER
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.jobs import Contracts, EpochRecord, ShardRecord
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U64, U256, Address, Digest


class StakeSource(enum.StrEnum):
    """The contracts that keep a network's stake: its own vault, or EigenLayer. A network never changes its source."""

    NATIVE = "native"
    """The contract `StakeVault` of the network itself."""
    EIGENLAYER = "eigenlayer"
    """EigenLayer. The address `stake_vault` is then that of the contract `EigenLayerStake` (ADR-034)."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses of the network's contracts (design section 13)."""

    charter: Address
    """Address of `Charter`, which assigned the roles at deployment and has had no power since then."""
    access_manager: Address
    """Address of OpenZeppelin's `AccessManager`, which decides which account may call which function."""
    governance_token: Address
    """Address of the token whose holders vote."""
    bytewise_governor: Address
    """Address of the governor, which passes accepted proposals to the short timelock."""
    short_timelock: Address
    """Address of OpenZeppelin's `TimelockController` for parameters and prices. It also proposes to the long timelock."""
    long_timelock: Address
    """Address of OpenZeppelin's `TimelockController` for all calls that move stake. It administers all roles."""
    params: Address
    """Address of `Params`, which stores all versions of the parameters."""
    guardian: Address
    """Address of `Guardian`, which keeps the protocol clock."""
    ledger: Address
    """Address of `Ledger`, which keeps and pays the money of the network."""
    stake_vault: Address
    """Address of `StakeVault`, or of `EigenLayerStake` if the stake is at EigenLayer."""
    registry: Address
    """Address of `Registry`, which lists operators, verifiers, environments, models and the appraisal policy."""
    randao_source: Address
    """Address of `RandaoSource`, which proves the random values from which committees are drawn."""
    bls_keys: Address
    """Address of `BlsKeys`, which registers the keys of verdict certificates."""
    key_epochs: Address
    """Address of `KeyEpochs`, which lists the key epochs and their shards."""
    fee_market: Address
    """Address of `FeeMarket`, which sets the price of anchoring."""
    receipt_anchor: Address
    """Address of `ReceiptAnchor`, which anchors batches of receipts."""
    demands: Address
    """Address of `Demands`, which handles availability demands."""
    settlement: Address
    """Address of `Settlement`, which distributes the money of a dispute."""
    rounds: Address
    """Address of `Rounds`, which records seats, votes and certificates of disputes."""
    breaker: Address
    """Address of `Breaker`, which holds the convictions of an environment that looks faulty."""
    disputes: Address
    """Address of `Disputes`, which runs disputes from their opening to their end."""
    keeper: Address
    """Address of `Keeper`, which makes several calls in one transaction."""
    audits: Address
    """Address of `Audits`, which records and pays the results of light audits."""
    lens: Address
    """Address of `Lens`, which joins reads of several contracts."""


@dataclass(frozen=True, slots=True)
class PoolTree:
    """A pool of verifiers, from which the court draws committees, with the address of the pool's stake tree."""

    digest: Digest
    """Digest that names the pool."""
    tree: Address
    """Address of the pool's `StakeTree`."""


@dataclass(frozen=True, slots=True)
class CodeHash:
    """Hash of a contract's code. The code includes immutable values, so each deployment has its own hash."""

    contract: Address
    """Address of the contract."""
    digest: Digest
    """keccak256 of the contract's code."""


@dataclass(frozen=True, slots=True)
class ShareHolder:
    """A shard that has or once had a share of a key, and the place of its release log."""

    address: Address
    """Account that signs the shard's release records."""
    url: str
    """HTTPS base address of the shard's log; empty if no address book has listed it."""
    certificate: str
    """Pinned TLS certificate of the shard, PEM; empty if no address book has listed it."""


@dataclass(frozen=True, slots=True)
class DealtShares:
    """All shares of one key that were dealt in one ceremony.

    These shares open envelopes only together with each other, not with shares of the same key from another ceremony.
    """

    epoch: U64
    """Number of the key epoch."""
    version: int
    """Number of times that the key was dealt again, up to this dealing and including it; 0 for the first dealing."""
    since: U64
    """Unix second of the block from which on these shares are in force."""
    threshold: int
    """Number of shares that open an envelope."""
    holders: tuple[ShareHolder, ...]
    """Shards that have the shares, in order of their indices from 1."""


@dataclass(frozen=True, slots=True)
class Network:
    """The address book of one deployment.

    Shard accounts and keys are also on the chain; endpoints and certificates are only here.
    """

    chain_id: U256
    """EIP-155 chain id."""
    deploy_block: U64
    """First block that can contain an event of the network."""
    addresses: Addresses
    """Addresses of the contracts."""
    pools: tuple[PoolTree, ...]
    """Pools of verifiers."""
    code: tuple[CodeHash, ...]
    """Code hashes of all contracts and stake trees."""
    epochs: tuple[EpochDocument, ...]
    """Key epochs, with the endpoints of their shards."""
    dealt: tuple[DealtShares, ...] | None = field(default=None, metadata=LATER)
    """All versions of the shares of each epoch that was refreshed or reshared, in order. None in older address books."""
    stake: StakeSource | None = field(default=None, metadata=LATER)
    """Contract system that keeps the stake. None in older address books."""

    @property
    def anchor_domain(self) -> Domain:
        """EIP-712 domain of receipts."""
        return Domain(self.chain_id, self.addresses.receipt_anchor)

    @property
    def demands_domain(self) -> Domain:
        """EIP-712 domain under which the subjects of availability demands are hashed. Nothing is signed under it."""
        return Domain(self.chain_id, self.addresses.demands)

    @property
    def disputes_domain(self) -> Domain:
        """EIP-712 domain of votes, commitments, certificates, audit results, and members' messages to each other."""
        return Domain(self.chain_id, self.addresses.disputes)

    @property
    def epochs_domain(self) -> Domain:
        """EIP-712 domain of tickets and release records."""
        return Domain(self.chain_id, self.addresses.key_epochs)

    @property
    def keys_domain(self) -> Domain:
        """EIP-712 domain of proofs of possession of BLS keys."""
        return Domain(self.chain_id, self.addresses.bls_keys)

    @property
    def contracts(self) -> Contracts:
        """The contract addresses that an enclave needs."""
        where = self.addresses
        return Contracts(
            chain_id=self.chain_id, anchor=where.receipt_anchor, disputes=where.disputes, key_epochs=where.key_epochs
        )

    def epoch(self, number: int) -> EpochRecord:
        """Returns the record of a key epoch. Raises `TryAgain` if this address book does not list the epoch.

        Governance opens epochs while actors run, so an actor with an older address book waits for a newer one.
        """
        for document in self.epochs:
            if document.record.epoch == number:
                return document.record
        raise TryAgain("network.json", f"key epoch {number} is not listed: take the newest address book, and restart")

    def holders(self, number: int) -> dict[Address, ShareHolder]:
        """Returns all known present and former holders of shares of a key epoch, by account."""
        former = (each for dealt in self.dealt or () if dealt.epoch == number for each in dealt.holders if each.url)
        listed = (shard for document in self.epochs if document.record.epoch == number for shard in document.record.shards)
        return {each.address: each for each in (*former, *map(share_holder, listed))}


def share_holder(shard: ShardRecord) -> ShareHolder:
    """Returns account, base address and TLS certificate of a shard, as a `ShareHolder`."""
    return ShareHolder(shard.address, shard.url, shard.certificate)
