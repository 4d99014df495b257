"""What the chain says about money and endings, for whoever audits the network from outside (design section 9)."""

import enum
from dataclasses import dataclass

from bytewise.protocol.messages import Verdict
from bytewise.protocol.units import Address, Digest


@dataclass(frozen=True, slots=True)
class Money:
    """All wei of the network at one block."""

    vault_balance: int
    """Balance of `StakeVault`."""
    ledger_balance: int
    """Balance of `Ledger`."""
    total_stake: int
    """Staked and not unbonding."""
    total_unbonding: int
    """On its way out, still slashable."""
    total_bonds: int
    """In the pots of open disputes."""
    total_credits: int
    """Due to accounts."""
    total_burned: int
    """Gone for ever."""

    @property
    def sums(self) -> bool:
        """Whether every wei is accounted for."""
        stakes = self.vault_balance == self.total_stake + self.total_unbonding
        return stakes and self.ledger_balance == self.total_bonds + self.total_credits + self.total_burned


class MovementKind(enum.StrEnum):
    """What moved money."""

    DEPOSITED = "deposited"
    UNBONDED = "unbonded"
    BOND_TAKEN = "bond taken"
    SLASH_TAKEN = "slash taken"
    CREDITED = "credited"
    BURNED = "burned"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Movement:
    """One movement of money, as its event says."""

    block: int
    """Block number."""
    kind: MovementKind
    """What happened."""
    account: Address | None
    """Whose; None for a burn."""
    amount_wei: int
    """How much."""
    reason: int
    """Number of the contract's reason; 0 where there is none."""
    ref: Digest | None
    """Dispute (or equivocation) it belongs to; None for deposits and withdrawals."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a dispute ended and where its money went: bond + slashed + penalties = the four outlets."""

    dispute: Digest
    """Dispute id."""
    receipt_id: Digest
    """Disputed receipt."""
    verdict: Verdict
    """The verdict."""
    out_hash: Digest
    """What stands for the receipt now; zero if it is void."""
    bond_wei: int
    """Challenger's bond."""
    slashed_wei: int
    """Taken from the operator."""
    penalties_wei: int
    """Taken from verifiers, burned."""
    to_challenger_wei: int
    """Credited to the challenger, its bond included."""
    to_verifiers_wei: int
    """Credited to seats."""
    to_operator_wei: int
    """Credited to the operator."""
    burned_wei: int
    """Burned, penalties included."""
    block: int
    """Block of the end."""

    @property
    def sums(self) -> bool:
        """Whether what went in came out, to the wei."""
        put_in = self.bond_wei + self.slashed_wei + self.penalties_wei
        return put_in == self.to_challenger_wei + self.to_verifiers_wei + self.to_operator_wei + self.burned_wei


@dataclass(frozen=True, slots=True)
class Charge:
    """A penalty that a committee member paid."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round."""
    voter: Address
    """Who paid."""
    reason: int
    """1 absent, 2 not revealed, 3 wrong, 4 cannot execute."""
    seats: int
    """For how many seats."""
    amount_wei: int
    """What was really taken."""
