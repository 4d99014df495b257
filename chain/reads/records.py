"""What `Lens` and `Registry` say beside disputes, with the fields' names of `ILens` and `IRegistry` in snake case."""

import enum
from dataclasses import dataclass

from bytewise.protocol.units import Address, Digest


class Status(enum.IntEnum):
    """Of an environment or a model."""

    NONE = 0
    PROPOSED = 1
    ACTIVE = 2
    CLOSED = 3


@dataclass(frozen=True, slots=True)
class Item:
    """An environment or a model in the registry."""

    status: Status
    pool: Digest
    vectors: Digest
    certified: int
    certify_until: int
    anchor_until: int


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool and its stake epoch, in blocks."""

    pool: Digest
    tree: Address
    epoch: int
    epoch_start: int
    epoch_end: int
    units: int
    weighing: int
    seatable: bool
    stopped: int


@dataclass(frozen=True, slots=True)
class Membership:
    """In which pool, on which machine."""

    pool: Digest
    platform_id: Digest
    measurement: Digest
    joined_at: int


@dataclass(frozen=True, slots=True)
class PoolMember:
    """A verifier at its place; `units` of the running stake epoch."""

    account: Address
    place: int
    units: int
    stake: int
    verifier: Membership


@dataclass(frozen=True, slots=True)
class MoneyTotals:
    """All wei of the network at one block."""

    vault_balance: int
    ledger_balance: int
    total_stake: int
    total_unbonding: int
    total_pots: int
    total_credits: int
    treasury: int
    total_burned: int
    audit_pool: int

    @property
    def sums(self) -> bool:
        """Whether every wei is accounted for."""
        held = self.total_pots + self.total_credits + self.treasury + self.total_burned
        return self.vault_balance == self._staked and self.ledger_balance == held

    @property
    def _staked(self) -> int:
        return self.total_stake + self.total_unbonding


class RestakedTotals(MoneyTotals):
    """The same where EigenLayer holds the stake: `total_stake` is what was recorded of it, and no wei of that are here."""

    @property
    def _staked(self) -> int:
        return 0
