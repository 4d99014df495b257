"""Decides when to renew the record of our own stake at EigenLayer (ADR-030), as a pure function of the chain's state.

A network whose stake EigenLayer holds counts the last recorded stake, and only for a limited number of blocks.
"""

from dataclasses import dataclass

from bytewise.protocol.decisions.actions import SyncStake
from bytewise.protocol.units import Address

RENEW_PERCENT = 50
"""Share of its life after which a record is renewed. The other half is a reserve: a process may stand still for that time without
losing weight."""
CHANGED_PERCENT = 10
"""Change of the stake, as a share of the recorded stake, from which on a record is renewed at any age."""
LOOKS_PER_LIFE = 8
"""Least number of reads of the stake during a record's life."""


@dataclass(frozen=True, slots=True)
class StakeRecord:
    """The recorded stake of an account, and what a new record would show."""

    block: int
    """Block of the newest record; 0 without one."""
    recorded_wei: int
    """Stake in the newest record."""
    recordable_wei: int
    """Stake that a record made now would show."""
    life: int
    """Number of blocks for which a record counts."""


def decide_sync(number: int, me: Address, record: StakeRecord) -> SyncStake | None:
    """The renewal that is due at a block, or None. An account without stake needs no record.

    A smaller stake is recorded too: seats for stake that was withdrawn would put the remaining stake at risk.
    """
    change = abs(record.recordable_wei - record.recorded_wei)
    changed = change > 0 and change * 100 >= record.recorded_wei * CHANGED_PERCENT
    old = record.recorded_wei > 0 and (number - record.block) * 100 >= record.life * RENEW_PERCENT
    return SyncStake(me, record.block) if changed or old else None


def next_look(number: int, life: int, at_most: int) -> int:
    """Block of the next read: `LOOKS_PER_LIFE` times in a record's life, and at least every `at_most` blocks."""
    return number + max(1, min(at_most, life // LOOKS_PER_LIFE))
