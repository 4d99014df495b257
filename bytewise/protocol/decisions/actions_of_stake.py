"""What an actor may do about stake that EigenLayer holds; `actions.Action` has these among all others."""

from dataclasses import dataclass

from bytewise.protocol.units import Address, Digest


@dataclass(frozen=True, slots=True)
class CollectSlash:
    """Have a stake source pay what a slash took and it could not pay at once."""

    slash_id: int
    """Of EigenLayer."""


@dataclass(frozen=True, slots=True)
class SyncStake:
    """Have a stake source record what an account has at EigenLayer."""

    account: Address
    """Whose stake."""
    block: int
    """Of the record that is replaced; 0 without one: each is replaced once."""


@dataclass(frozen=True, slots=True)
class RetrySlash:
    """Take what EigenLayer refused when it was slashed."""

    account: Address
    """Whose stake."""
    ref: Digest
    """What it was slashed for."""
    times: int
    """How often EigenLayer has refused it; each is retried once."""
