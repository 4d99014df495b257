"""All money as `Ledger` and a native `StakeVault` keep it: pots, credits, treasury, burned, stakes and what is bound of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, Digest


@dataclass(frozen=True, slots=True)
class Accounting:
    """Every wei of the network. Amounts that are moved and not there are `MalformedValue`: a mistake of the model's caller."""

    stakes: Mapping[Address, int] = field(default_factory=dict)
    """Stake of each account."""
    locked: Mapping[Address, int] = field(default_factory=dict)
    """What open disputes bind of it."""
    pots: Mapping[Digest, int] = field(default_factory=dict)
    """Money of each dispute that nobody has yet."""
    credits: Mapping[Address, int] = field(default_factory=dict)
    """Due to each account."""
    treasury: int = 0
    """For rounds after the first."""
    burned: int = 0
    """Gone for ever."""

    @property
    def total(self) -> int:
        """Every wei."""
        return sum(map(sum, (self.stakes.values(), self.pots.values(), self.credits.values()))) + self.treasury + self.burned

    def pot(self, ref: Digest) -> int:
        """What a pot holds."""
        return self.pots.get(ref, 0)

    def take(self, ref: Digest, amount: int) -> "Accounting":
        """Money from outside into a pot."""
        return replace(self, pots={**self.pots, ref: self.pot(ref) + amount})

    def credit(self, ref: Digest, account: Address, amount: int) -> "Accounting":
        """From a pot to an account; nothing is a no-op."""
        if amount == 0:
            return self
        return replace(self._drawn(ref, amount), credits={**self.credits, account: self.credits.get(account, 0) + amount})

    def burn(self, ref: Digest, amount: int) -> "Accounting":
        """From a pot to nobody."""
        return replace(self._drawn(ref, amount), burned=self.burned + amount)

    def repay(self, ref: Digest, amount: int) -> "Accounting":
        """From a pot to the treasury."""
        return replace(self._drawn(ref, amount), treasury=self.treasury + amount)

    def advance(self, ref: Digest, want: int) -> tuple["Accounting", int]:
        """From the treasury into a pot, as far as it reaches; and how much."""
        amount = min(want, self.treasury)
        return replace(self, treasury=self.treasury - amount).take(ref, amount), amount

    def fund(self, amount: int) -> "Accounting":
        """From outside into the treasury."""
        return replace(self, treasury=self.treasury + amount)

    def bind(self, account: Address, want: int) -> tuple["Accounting", int]:
        """Binds stake, as far as there is any, whatever else binds it; and how much."""
        amount = min(want, self.stakes.get(account, 0))
        return replace(self, locked={**self.locked, account: self.locked.get(account, 0) + amount}), amount

    def free(self, account: Address, amount: int) -> "Accounting":
        """Frees what `bind` bound."""
        bound = self.locked.get(account, 0)
        if not 0 <= amount <= bound:
            raise MalformedValue("unlock", f"{amount} of {bound} wei")
        return replace(self, locked={**self.locked, account: bound - amount})

    def slash(self, ref: Digest, account: Address, bound_before: int, want: int) -> tuple["Accounting", int]:
        """Frees `bound_before`, then brings up to `want` wei to a pot, whatever else binds them; and how much."""
        freed = self.free(account, bound_before)
        stake = self.stakes.get(account, 0)
        taken = min(want, stake)
        return replace(freed, stakes={**self.stakes, account: stake - taken}).take(ref, taken), taken

    def _drawn(self, ref: Digest, amount: int) -> "Accounting":
        have = self.pot(ref)
        if not 0 <= amount <= have:
            raise MalformedValue("pot", f"{amount} of {have} wei")
        return replace(self, pots={**self.pots, ref: have - amount})
