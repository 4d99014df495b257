"""What an actor may do next under the second court. `decide_next` returns these values; the shell performs each, idempotently.

Acts that both courts have are those of `bytewise.protocol.actions`.
"""

from dataclasses import dataclass

from bytewise.protocol.actions import CastCommit, CastReveal, Rearm, RunVoteJob, Settle, Withdraw
from bytewise.protocol.units import Address, Digest


@dataclass(frozen=True, slots=True)
class ProveSeed:
    """Show the header of a seed block, while the chain still knows its hash."""

    block: int
    """Seed block."""


@dataclass(frozen=True, slots=True)
class DrawPart:
    """Draw some seats of a committee; all parts together are the draw."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round."""
    first: int
    """First seat that is not drawn."""
    count: int
    """How many to draw."""


@dataclass(frozen=True, slots=True)
class OpenAlt:
    """Show that we knew the answer that won."""

    dispute: Digest
    """Dispute id."""
    challenger: Address
    """Whose commitment it was."""
    salt: Digest
    """Opens it."""


@dataclass(frozen=True, slots=True)
class Finalize:
    """End a dispute whose airgap is over."""

    dispute: Digest
    """Dispute id."""


@dataclass(frozen=True, slots=True)
class PayOut:
    """Pay everybody but the seats once slashed stake has arrived."""

    dispute: Digest
    """Dispute id."""


@dataclass(frozen=True, slots=True)
class SettleSeats:
    """Pay or charge seats of a round."""

    dispute: Digest
    """Dispute id."""
    round: int
    """Round."""
    first: int
    """First seat that is not settled."""
    count: int
    """How many to settle."""


@dataclass(frozen=True, slots=True)
class ReleaseBatch:
    """Free the collateral of a batch whose window is over."""

    batch_id: int
    """Its number."""


@dataclass(frozen=True, slots=True)
class AnswerList:
    """Put the list of a batch on the chain, because somebody demanded it."""

    batch_id: int
    """Its number."""
    deadline: int
    """Last second, protocol clock."""


@dataclass(frozen=True, slots=True)
class ExpireList:
    """End a demand for a list that nobody answered in time."""

    batch_id: int
    """Its number."""


@dataclass(frozen=True, slots=True)
class FinishUnbond:
    """Take stake that has waited long enough."""

    due_wei: int
    """How much."""


Action = (
    ProveSeed | DrawPart | Rearm | RunVoteJob | CastCommit | CastReveal | Settle | OpenAlt | Finalize | PayOut
    | SettleSeats | ReleaseBatch | AnswerList | ExpireList | FinishUnbond | Withdraw
)  # fmt: skip
"""Closed: whoever performs actions matches all of them."""
