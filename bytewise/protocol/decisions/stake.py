"""When the record of our own stake at EigenLayer is made anew: a pure function of what the chain shows (ADR-030).

A network whose stake EigenLayer holds counts what was last recorded, and only while that is young.
"""

from dataclasses import dataclass

from bytewise.protocol.decisions.actions import SyncStake
from bytewise.protocol.units import Address

RENEW_PERCENT = 50
"""Share of its life after which a record is made anew: a process that stands still loses no weight for as long again."""
CHANGED_PERCENT = 10
"""Change of the stake, as a share of what is recorded, from which on a record is made anew, young or not."""
LOOKS_PER_LIFE = 8
"""How often in a record's life it is looked at, at least."""


@dataclass(frozen=True, slots=True)
class StakeRecord:
    """What is recorded of an account's stake, and what would be now."""

    block: int
    """Of the newest record; 0 without one."""
    recorded_wei: int
    """What it says."""
    recordable_wei: int
    """What one that is made now would say."""
    life: int
    """Blocks for which a record counts."""


def decide_sync(number: int, me: Address, record: StakeRecord) -> SyncStake | None:
    """The record that is due at a block, if one is. An account without stake needs none.

    A smaller stake is recorded too: seats for what has left would put the rest at risk.
    """
    change = abs(record.recordable_wei - record.recorded_wei)
    changed = change > 0 and change * 100 >= record.recorded_wei * CHANGED_PERCENT
    old = record.recorded_wei > 0 and (number - record.block) * 100 >= record.life * RENEW_PERCENT
    return SyncStake(me, record.block) if changed or old else None


def next_look(number: int, life: int, at_most: int) -> int:
    """Block of the next look: so often in a record's life, and at least every `at_most` blocks."""
    return number + max(1, min(at_most, life // LOOKS_PER_LIFE))
