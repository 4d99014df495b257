"""Decides when a node renews the record of its stake at EigenLayer (ADR-034), as a pure function of the chain's state.

In a network whose stake is at EigenLayer, the last recorded stake counts, and only for a limited number of blocks.
"""

from dataclasses import dataclass

from bytewise.protocol.decisions.actions import SyncStake
from bytewise.protocol.units import Address

RENEW_PERCENT = 50
"""Share of a record's life, in percent, after which the node renews it. The process may stand still for the other half without
losing weight."""
CHANGED_PERCENT = 10
"""Change of the stake, in percent of the recorded stake, from which the node renews a record of any age."""
LOOKS_PER_LIFE = 8
"""Least number of times that the node reads the stake during a record's life."""


@dataclass(frozen=True, slots=True)
class StakeRecord:
    """The recorded stake of an account, and the stake that a new record would show."""

    block: int
    """Block of the newest record; 0 if there is none."""
    recorded_wei: int
    """Stake in the newest record."""
    recordable_wei: int
    """Stake that a record made now would show."""
    life: int
    """Number of blocks for which a record is valid."""


def decide_sync(number: int, me: Address, record: StakeRecord) -> SyncStake | None:
    """Returns the renewal that is due at block `number`, or None. An account without stake needs no record.

    A smaller stake is recorded too, because seats for stake that was withdrawn would put the remaining stake at risk.
    """
    change = abs(record.recordable_wei - record.recorded_wei)
    changed = change > 0 and change * 100 >= record.recorded_wei * CHANGED_PERCENT
    old = record.recorded_wei > 0 and (number - record.block) * 100 >= record.life * RENEW_PERCENT
    return SyncStake(me, record.block) if changed or old else None


def next_look(number: int, life: int, at_most: int) -> int:
    """Returns the block of the next read of the stake.

    The stake is read `LOOKS_PER_LIFE` times in a record's life, and at least every `at_most` blocks.
    """
    return number + max(1, min(at_most, life // LOOKS_PER_LIFE))
