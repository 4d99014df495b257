"""The address book of one network: all that a stranger needs beside an RPC address to read it (`network.json`)."""

from dataclasses import dataclass

from bytewise.protocol.errors import TryAgain
from bytewise.protocol.jobs import Contracts, EpochRecord
from bytewise.protocol.keys import EpochDocument
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U64, U256, Address


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where each contract is (design section 13)."""

    params: Address
    """`Params`."""
    ledger: Address
    """`Ledger`."""
    stake_vault: Address
    """`StakeVault`."""
    registry: Address
    """`Registry`."""
    key_epochs: Address
    """`KeyEpochs`."""
    block_seed_source: Address
    """`BlockSeedSource`."""
    receipt_anchor: Address
    """`ReceiptAnchor`."""
    disputes: Address
    """`Disputes`."""
    lens: Address
    """`Lens`."""


@dataclass(frozen=True, slots=True)
class Network:
    """One deployment. The chain pins keys and shard accounts; endpoints and certificates are only here."""

    chain_id: U256
    """EIP-155 chain id."""
    deploy_block: U64
    """First block that can hold an event of ours."""
    addresses: Addresses
    """Contracts."""
    epochs: tuple[EpochDocument, ...]
    """Key epochs with their shards' endpoints."""

    @property
    def anchor_domain(self) -> Domain:
        """EIP-712 domain of receipts."""
        return Domain(self.chain_id, self.addresses.receipt_anchor)

    @property
    def disputes_domain(self) -> Domain:
        """EIP-712 domain of votes and audit results."""
        return Domain(self.chain_id, self.addresses.disputes)

    @property
    def epochs_domain(self) -> Domain:
        """EIP-712 domain of tickets and releases."""
        return Domain(self.chain_id, self.addresses.key_epochs)

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
